"""The gate that keeps evaluation text out of training; nothing else here reads it.

    python -m training.contamination --data DIR --items 20000 [--write-excluded]

A training text hits when it shares a run of 13 words with a GSM8K test or SVAMP question, or when
it defines a function named like a HumanEval entry point or an MBPP test function and also shares 8
words in a row with that task. Real training items that hit are listed by hash in `excluded.json`
(`--write-excluded`), so that the loaders in `sources.py` can drop them without reading an
evaluation file. Exit code 1 when anything hits.

Source     n-gram overlap of 13 words as in GPT-3 (Brown et al. 2020, appendix C).
"""

from __future__ import annotations

import argparse
import gzip
import json
import lzma
import random
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from training import sources
from training.generators import DOMAINS
from training.mixture import training_item

QUESTION_RUN = 13
FUNCTION_RUN = 8
SEED = 1

_WORD = re.compile(r"[a-z0-9]+")
_DEFINITION = re.compile(r"\bdef\s+(\w+)\s*\(")


@dataclass(frozen=True)
class TrainingText:
    """A training text with its source and the hash that `sources.py` drops it by."""

    source: str
    text: str
    key: str


@dataclass(frozen=True)
class Hit:
    """A training text that is too close to an evaluation item."""

    source: str
    key: str
    reason: str
    shared: str


@dataclass(frozen=True)
class EvaluationTask:
    """A code task of an evaluation set: its functions' names and its whole text."""

    names: frozenset[str]
    text: str


def word_runs(text: str, length: int) -> Iterator[str]:
    """Every run of `length` words, lower case, without punctuation.

    >>> list(word_runs("Tom has 3, no: 4 eggs", 4))
    ['tom has 3 no', 'has 3 no 4', '3 no 4 eggs']
    """
    words = _WORD.findall(text.lower())
    for start in range(len(words) - length + 1):
        yield " ".join(words[start : start + length])


class Gate:
    """Evaluation questions and code tasks, indexed for the two rules."""

    def __init__(self, questions: Iterable[str], tasks: Iterable[EvaluationTask]) -> None:
        self.question_runs = frozenset(
            run for question in questions for run in word_runs(question, QUESTION_RUN)
        )
        self.task_runs: dict[str, set[str]] = {}
        for task in tasks:
            runs = set(word_runs(task.text, FUNCTION_RUN))
            for name in task.names:
                self.task_runs.setdefault(name, set()).update(runs)

    def check(self, training: TrainingText) -> Hit | None:
        """The first rule that the text breaks, or None."""
        for run in word_runs(training.text, QUESTION_RUN):
            if run in self.question_runs:
                return Hit(
                    training.source, training.key, f"{QUESTION_RUN} words of a question", run
                )
        for name in set(_DEFINITION.findall(training.text)) & self.task_runs.keys():
            for run in word_runs(training.text, FUNCTION_RUN):
                if run in self.task_runs[name]:
                    reason = f"function {name} and {FUNCTION_RUN} words of its task"
                    return Hit(training.source, training.key, reason, run)
        return None


def find_hits(
    training: Iterable[TrainingText], questions: Iterable[str], tasks: Iterable[EvaluationTask]
) -> list[Hit]:
    """All training texts that share too much with an evaluation question or code task."""
    gate = Gate(questions, tasks)
    return [hit for text in training if (hit := gate.check(text)) is not None]


def evaluation_questions(data: Path) -> list[str]:
    """Questions of GSM8K test and SVAMP (body and question)."""
    questions = [row["question"] for row in _rows(data / "gsm8k" / "EVAL_ONLY_test.jsonl.xz")]
    with lzma.open(data / "svamp" / "SVAMP.json.xz", "rt", encoding="utf-8") as file:
        questions += [f"{row['Body']} {row['Question']}" for row in json.load(file)]
    return questions


def evaluation_tasks(data: Path) -> list[EvaluationTask]:
    """Code tasks of HumanEval and MBPP test."""
    tasks = []
    with gzip.open(data / "humaneval" / "EVAL_ONLY_HumanEval.jsonl.gz", "rt") as lines:
        for row in map(json.loads, lines):
            text = row["prompt"] + row["canonical_solution"]
            tasks.append(EvaluationTask(frozenset({row["entry_point"]}), text))
    for row in _rows(data / "mbpp" / "EVAL_ONLY_test.jsonl.xz"):
        called = set(re.findall(r"(\w+)\s*\(", " ".join(row["test_list"])))
        names = called & set(_DEFINITION.findall(row["code"]))
        tasks.append(EvaluationTask(frozenset(names), f"{row['text']}\n{row['code']}"))
    return tasks


def real_texts(data: Path) -> Iterator[TrainingText]:
    """The real training texts, with what `excluded.json` already drops left out."""
    for source, items in (("gsm8k", sources.gsm8k_items(data)), ("mbpp", sources.mbpp_items(data))):
        for item in items:
            text = f"{item.prompt}\n{item.answer}"
            yield TrainingText(source, text, sources.text_hash(item.prompt))
    documents = {
        "storybooks": sources.storybooks(data),
        "standard library": sources.standard_library_functions(),
    }
    for source, texts in documents.items():
        for text in texts:
            yield TrainingText(source, text, sources.text_hash(text))


def generated_texts(items_per_domain: int, seed: int = SEED) -> Iterator[TrainingText]:
    """Samples of every generator, training split only."""
    for domain in DOMAINS:
        rng = random.Random(f"contamination/{domain}/{seed}")
        for _ in range(items_per_domain):
            item = training_item(domain, rng)
            yield TrainingText(domain, f"{item.prompt}\n{item.answer}", item.specification)


def write_excluded(hits: Iterable[Hit]) -> int:
    """Add the hits to `excluded.json`; returns how many hashes it holds now."""
    hashes = sorted(sources.excluded_hashes() | {hit.key for hit in hits})
    content = {
        "about": "real training items that the contamination gate threw out (sha256, 16 digits)",
        "hashes": hashes,
    }
    sources.EXCLUDED_PATH.write_text(json.dumps(content, indent=2) + "\n")
    return len(hashes)


def _rows(path: Path) -> list[dict]:
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def _count(texts: Iterable[TrainingText], seen: Counter) -> Iterator[TrainingText]:
    for text in texts:
        seen[text.source] += 1
        yield text


def main() -> int:
    """Run the gate over generators and real texts, print counts, return the exit code."""
    parser = argparse.ArgumentParser(description="compare training texts with evaluation sets")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--items", type=int, default=20_000, help="generated items per domain")
    parser.add_argument(
        "--write-excluded",
        action="store_true",
        help="drop hitting real items from training for good",
    )
    arguments = parser.parse_args()
    questions, tasks = evaluation_questions(arguments.data), evaluation_tasks(arguments.data)
    seen: Counter = Counter()
    hits = find_hits(_count(real_texts(arguments.data), seen), questions, tasks)
    if arguments.write_excluded:
        print(f"{sources.EXCLUDED_PATH}: {write_excluded(hits)} hashes, {len(hits)} of them new")
        hits = []
    hits += find_hits(_count(generated_texts(arguments.items), seen), questions, tasks)
    found = Counter(hit.source for hit in hits)
    for source, count in seen.items():
        print(f"{source:17} {count:7} texts, {found[source]} hits")
    for hit in hits[:20]:
        print(f"  {hit.source} {hit.key}: {hit.reason}: {hit.shared!r}")
    return 1 if hits else 0


if __name__ == "__main__":
    sys.exit(main())

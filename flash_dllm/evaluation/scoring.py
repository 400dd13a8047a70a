"""Whether an answer is right, by domain: exact values, or running a function against its asserts.

Code runs in `sandbox.py`: fenced in by bubblewrap, or not at all unless that is allowed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from flash_dllm.evaluation.item import Item
from flash_dllm.evaluation.sandbox import WORKERS, Sandbox

CODE_DOMAINS = ("code", "humaneval", "mbpp")

_INTEGER = re.compile(r"[-+]?\d[\d,]*(?:\.0+)?(?!\.?\d|\s*[-+*/]\s*\d)")
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")
_FENCE = re.compile(r"```(?:python)?[ ]*\n(.*?)(?:```|\Z)", re.DOTALL)


@dataclass(frozen=True)
class Score:
    """What became of one answer.

    extracted   the part that was judged: a number, a word, a formula, a program; None if there
                is none
    is_correct  the verdict
    reason      code only: "passed", or the first failure
    """

    extracted: str | None
    is_correct: bool
    reason: str = ""


def score_answers(
    items: Sequence[Item],
    texts: Sequence[str],
    workers: int = WORKERS,
    allow_unsandboxed: bool = False,
) -> list[Score]:
    """Score a model's answers; anything unreadable is wrong.

    workers            code answers that are run at a time
    allow_unsandboxed  run code with limits only where bubblewrap is missing
    Raises ValueError for a domain that has no rule, SandboxError if code can't be run.
    """
    if len(items) != len(texts):
        raise ValueError(f"as many texts as items are needed, got {len(texts)} and {len(items)}")
    pairs = list(zip(items, texts, strict=True))
    for item in items:
        if item.domain not in RULES and item.domain not in CODE_DOMAINS:
            known = ", ".join([*RULES, *CODE_DOMAINS])
            raise ValueError(f"domain must be one of {known}, got {item.domain!r}")
        if item.domain in CODE_DOMAINS and not item.tests:
            raise ValueError(f"a code item needs tests, {item.specification!r} has none")
    programs = [
        (program_of(item, text), item.tests, _functions(item.answer))
        for item, text in pairs
        if item.domain in CODE_DOMAINS
    ]
    verdicts = iter(
        Sandbox.find(allow_unsandboxed).run_all(programs, workers) if programs else ()
    )
    answered = iter(programs)
    scores = []
    for item, text in pairs:
        if item.domain in CODE_DOMAINS:
            verdict = next(verdicts)
            scores.append(Score(next(answered)[0], verdict.is_passed, verdict.reason))
        else:
            extract, is_right = RULES[item.domain]
            extracted = extract(text)
            scores.append(
                Score(extracted, extracted is not None and is_right(item.gold, extracted))
            )
    return scores


def are_correct(
    items: Sequence[Item],
    texts: Sequence[str],
    workers: int = WORKERS,
    allow_unsandboxed: bool = False,
) -> list[bool]:
    """The verdicts of `score_answers`."""
    scores = score_answers(items, texts, workers, allow_unsandboxed)
    return [score.is_correct for score in scores]


def is_correct(item: Item, text: str, allow_unsandboxed: bool = False) -> bool:
    """The verdict on one answer."""
    return are_correct([item], [text], 1, allow_unsandboxed)[0]


def program_of(item: Item, text: str) -> str:
    """The program that is run: the fenced part of the answer, or all of it; HumanEval's stub in
    front, whole if the answer goes on from it, else the lines before its function (imports).

    >>> item = Item("humaneval", "", "", "", "", stub="import math\\ndef f(x):\\n")
    >>> program_of(item, "    return x")
    'import math\\ndef f(x):\\n    return x'
    >>> program_of(item, "```python\\ndef f(x): return 1\\n```")
    'import math\\n\\ndef f(x): return 1\\n'
    """
    fenced = _FENCE.search(text)
    program = fenced.group(1) if fenced else text
    if not item.stub:
        return program
    names = _functions(item.stub)
    if not names or not re.search(rf"^def {names[-1]}\b", program, re.MULTILINE):
        return item.stub + program
    before = item.stub[: item.stub.rindex(f"def {names[-1]}")]
    return f"{before}\n{program}"


def boxed_content(text: str) -> str | None:
    r"""Content of the last `\boxed{…}` with balanced braces, without spaces; None if there is none.

    >>> boxed_content(r"so $\boxed{ \frac{1}{2} }$")
    '\\frac{1}{2}'
    """
    start = text.rfind(r"\boxed{")
    if start < 0:
        return None
    start += len(r"\boxed{")
    depth = 1
    for end in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        if depth == 0:
            return "".join(text[start:end].split())
    return None


def last_integer(text: str) -> int | None:
    """The integer right after the last `####`; None if there is none.

    >>> last_integer("48 / 2 = 24\\n#### 1,024")
    1024
    """
    if "####" not in text:
        return None
    match = _INTEGER.match(text.rsplit("####", 1)[1].strip().lstrip("$ "))
    return int(match.group().replace(",", "").split(".")[0]) if match else None


def last_word(text: str) -> str | None:
    """The word after the last `Answer:`, lower case, without punctuation; None if there is none.

    >>> last_word("Noah ran.\\nAnswer: River.")
    'river'
    """
    if "answer:" not in text.lower():
        return None
    words = re.findall(r"[\w'-]+", text.lower().rsplit("answer:", 1)[1].strip().split("\n")[0])
    return words[0].strip("'-_") if len(words) == 1 else None


def _functions(program: str) -> list[str]:
    """Names of its top-level functions."""
    return re.findall(r"^def (\w+)", program, re.MULTILINE)


def last_number(text: str) -> int | None:
    """The integer after the last `####`, else the last whole number of the text; None if there is
    none. (lm-evaluation-harness calls the second part flexible-extract.)

    >>> last_number("So 48 / 2 = 24 apples.")
    24
    """
    if (marked := last_integer(text)) is not None:
        return marked
    numbers = _NUMBER.findall(text)
    if not numbers:
        return None
    last = float(numbers[-1].replace(",", ""))
    return int(last) if last.is_integer() else None


def _as_text(extract: Callable[[str], int | None]) -> Callable[[str], str | None]:
    def extracted(text: str) -> str | None:
        number = extract(text)
        return None if number is None else str(number)

    return extracted


def _same_number(gold: str, extracted: str) -> bool:
    return int(gold) == int(extracted)


def _same_formula(gold: str, extracted: str) -> bool:
    return "".join(gold.split()) == extracted


def _same_word(gold: str, extracted: str) -> bool:
    return gold.lower() == extracted


Rule = tuple[Callable[[str], str | None], Callable[[str, str], bool]]
# domain → (what of an answer is judged, whether it is the gold answer)
RULES: dict[str, Rule] = {
    "word": (_as_text(last_integer), _same_number),
    "algebra": (boxed_content, _same_formula),
    "story": (last_word, _same_word),
    "gsm8k": (_as_text(last_number), _same_number),
    "svamp": (_as_text(last_number), _same_number),
}

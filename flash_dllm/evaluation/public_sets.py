"""GSM8K, SVAMP, HumanEval and MBPP as items: from a file, a folder, or `datasets`.

They are for evaluation only: no training module may import this file.
"""

from __future__ import annotations

import bz2
import gzip
import json
import logging
import lzma
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flash_dllm.evaluation.item import Item
from flash_dllm.evaluation.wording import plain_text

Row = dict[str, Any]

_OPENERS: dict[str, Callable[..., Any]] = {
    ".xz": lzma.open,
    ".gz": gzip.open,
    ".bz2": bz2.open,
}
_GIVE = "give the file of {}, or its folder, with --data PATH (in a sweep, data: PATH)"
# who say of every attempt without a network that it failed
_TALKATIVE = ("huggingface_hub", "datasets")
# MBPP's own split of its 974 tasks: these ids are the test set
_MBPP_TEST = range(11, 511)


@dataclass(frozen=True)
class PublicSet:
    """Where a set's rows come from and how a row becomes an item.

    files  names under which the set is looked for in a folder, the first that exists is read;
           a compressed form (.xz, .gz, .bz2) counts as well
    hub    (name, configuration, splits) for `datasets.load_dataset`
    item   row → item; None for rows that do not belong to the test set
    """

    files: tuple[str, ...]
    hub: tuple[str, str | None, tuple[str, ...]]
    item: Callable[[int, Row], Item | None]


def read_public_set(name: str, data: Path | None = None) -> list[Item]:
    """All items of a public set.

    data    a file (.json, .jsonl, also compressed), or a folder that holds it or a folder `name`;
            None: through the package `datasets` and the network
    Raises  ValueError, FileNotFoundError, ImportError or OSError in one sentence.
    """
    if name not in PUBLIC_SETS:
        raise ValueError(f"the public set must be one of {', '.join(PUBLIC_SETS)}, got {name!r}")
    described = PUBLIC_SETS[name]
    path = None if data is None else _find(described, name, data)
    rows = _from_hub(name, described) if path is None else _read(path)
    try:
        items = [described.item(number, row) for number, row in enumerate(rows)]
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise ValueError(f"{path or 'the hub'} holds no rows of {name} ({error!r})") from None
    return [item for item in items if item is not None]


def _find(described: PublicSet, name: str, data: Path) -> Path:
    if data.is_file():
        return data
    for folder in (data / name, data):
        for file in described.files:
            for ending in ("", *_OPENERS):
                if (path := folder / f"{file}{ending}").is_file():
                    return path
    raise FileNotFoundError(
        f"no {' or '.join(described.files)} (also .xz, .gz) in {data / name} or {data}; "
        f"{_GIVE.format(name)}"
    )


def _read(path: Path) -> list[Row]:
    opener = _OPENERS.get(path.suffix, open)
    try:
        with opener(path, "rt", encoding="utf-8") as file:
            text = file.read()
    except (lzma.LZMAError, EOFError, gzip.BadGzipFile, UnicodeDecodeError) as error:
        raise ValueError(f"{path} could not be read ({error})") from None
    try:
        if text.lstrip().startswith("["):
            return json.loads(text)
        # not splitlines: a text may hold U+2028 and the like as they are
        return [json.loads(line) for line in text.split("\n") if line.strip()]
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is neither JSON nor JSON lines ({error})") from None


def _from_hub(name: str, described: PublicSet) -> Iterable[Row]:
    try:
        from datasets import load_dataset
    except ImportError:
        raise ImportError(
            f"{name} needs its file, or the package that downloads it (pip install datasets); "
            f"{_GIVE.format(name)}"
        ) from None
    repository, configuration, splits = described.hub
    try:
        with _silent(*_TALKATIVE):
            return [
                row
                for split in splits
                for row in load_dataset(repository, configuration, split=split)
            ]
    except Exception as error:
        # whatever the network and the hub's client raise: the reader needs one sentence
        reason = " ".join(str(error).split())[:200]
        raise OSError(f"{name} could not be downloaded ({reason}); {_GIVE.format(name)}") from error


@contextmanager
def _silent(*loggers: str) -> Iterator[None]:
    """Without the warnings of these packages; what goes wrong comes as an error in any case."""
    before = {name: logging.getLogger(name).level for name in loggers}
    for name in loggers:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)


def _gsm8k(number: int, row: Row) -> Item:
    gold = row["answer"].rsplit("####", 1)[1]
    return _number_item("gsm8k", str(number), row["question"], gold)


def _svamp(number: int, row: Row) -> Item:
    body = row["Body"].strip()
    # some bodies end without a mark, and the question would run on
    joined = body if body.endswith((".", ",", "?", "!")) else f"{body}."
    prompt = f"{joined} {row['Question']}"
    return _number_item("svamp", str(number), prompt, str(round(float(row["Answer"]))))


def _number_item(name: str, number: str, question: str, gold: str) -> Item:
    gold = gold.strip().replace(",", "")
    return Item(name, name, f"{name}/{number}", plain_text(question), "", gold)


def _humaneval(number: int, row: Row) -> Item:
    stub, test, name = row["prompt"], row["test"], row["entry_point"]
    return Item(
        "humaneval",
        "humaneval",
        row["task_id"],
        f"Complete this Python function:\n{stub.strip()}",
        stub + row["canonical_solution"],
        tests=(test, f"check({name})"),
        stub=stub,
    )


def _mbpp(number: int, row: Row) -> Item | None:
    if int(row["task_id"]) not in _MBPP_TEST:
        return None
    tests = list(row["test_list"])
    # the first assert gives the function's name away, as in the embedded model's training text
    prompt = f"{plain_text(row['text'])}\n{tests[0]}"
    setup = [row["test_setup_code"]] if row.get("test_setup_code") else []
    answer = row["code"].replace("\r", "")
    name = f"mbpp/{row['task_id']}"
    return Item("mbpp", "mbpp", name, prompt, answer, tests=tuple(setup + tests))


PUBLIC_SETS: dict[str, PublicSet] = {
    "gsm8k": PublicSet(
        ("EVAL_ONLY_test.jsonl", "test.jsonl"), ("openai/gsm8k", "main", ("test",)), _gsm8k
    ),
    "svamp": PublicSet(("SVAMP.json",), ("ChilleD/SVAMP", None, ("train", "test")), _svamp),
    "humaneval": PublicSet(
        ("EVAL_ONLY_HumanEval.jsonl", "HumanEval.jsonl"),
        ("openai/openai_humaneval", None, ("test",)),
        _humaneval,
    ),
    "mbpp": PublicSet(
        ("EVAL_ONLY_test.jsonl", "mbpp.jsonl"),
        ("google-research-datasets/mbpp", "full", ("test",)),
        _mbpp,
    ),
}

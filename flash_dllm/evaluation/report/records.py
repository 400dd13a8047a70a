"""All that was measured for a report, as one JSON file: pages are made from it without a model."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from flash_dllm.evaluation.report.cell import (
    Attention,
    Cell,
    Measured,
    Unmeasurable,
    described,
    read_cell,
)
from flash_dllm.evaluation.report.part_times import PartTimes
from flash_dllm.evaluation.report.section import Scope
from flash_dllm.files import read_json, write_text

VERSION = 2
# version 1 held speeds that were not measured in turn: its counts are read, its speeds are not
READ = (1, VERSION)
FILE = "measured.json"


@dataclass
class Records:
    """A source of numbers that were measured before.

    facts     model, versions, device, commit: what a page says of them
    scope     tasks, batch sizes, seeds
    parts     which parts of a report they are for
    cells     what each cell gave, or why it could not be measured
    times     by part, the speeds of its decoders
    """

    facts: dict[str, Any]
    scope: Scope
    parts: list[str]
    limit: int
    cells: dict[Cell, Measured | str] = field(default_factory=dict)
    times: dict[str, PartTimes] = field(default_factory=dict)
    seen: Attention | None = None

    def part(self, name: str) -> Records:
        """The same with the speeds of one part only."""
        mine = {name: self.times[name]} if name in self.times else {}
        return replace(self, times=mine)

    def measure(self, cell: Cell, timed: bool = True) -> Measured:
        found = self.cells.get(cell, "these records hold no such run")
        if isinstance(found, str):
            raise Unmeasurable(found)
        for times in self.times.values():
            if (timing := times.timing(cell)) is not None:
                return replace(found, timing=timing)
            if cell in times.problems:
                found = replace(found, problem=times.problems[cell])
        return found

    def attention(self) -> Attention:
        if self.seen is None:
            raise Unmeasurable(
                "measuring was stopped before its turn came, and the same command goes on with it"
            )
        return self.seen

    @property
    def noise(self) -> float:
        return max((times.noise for times in self.times.values()), default=1.0)

    @property
    def speeds_note(self) -> str:
        return " ".join(words for times in self.times.values() if (words := times.words))

    def save(self, path: Path) -> None:
        """Write everything; what stood there stays until the new file is whole."""
        samples: dict[str, list[str]] = {}
        content = {
            "version": VERSION,
            "facts": self.facts,
            "scope": asdict(self.scope),
            "parts": self.parts,
            "limit": self.limit,
            "attention": None if self.seen is None else asdict(self.seen),
            "cells": [_written(cell, found, samples) for cell, found in self.cells.items()],
            "samples": samples,
            "times": {name: times.written() for name, times in self.times.items()},
        }
        write_text(path, json.dumps(content, ensure_ascii=False) + "\n")


def load_records(path: Path) -> Records:
    """What `Records.save` wrote. Raises OSError or ValueError in one sentence."""
    if not path.is_file():
        raise FileNotFoundError(
            f"there is no {path}; measure first: python -m flash_dllm.report --measure-only"
        )
    content = read_json(path)
    try:
        if content["version"] not in READ:
            raise ValueError(f"{path} has version {content['version']}, {VERSION} is read here")
        samples, seen = content["samples"], content["attention"]
        return Records(
            content["facts"],
            _scope(content["scope"]),
            content["parts"],
            content["limit"],
            dict(_read(record, samples) for record in content["cells"]),
            {name: PartTimes.read(times) for name, times in content.get("times", {}).items()},
            seen
            and Attention(
                {int(size): share for size, share in seen["shares"].items()},
                [(confidence, count) for confidence, count in seen["steps"]],
                seen["traces"],
            ),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} holds no records of a report ({error!r})") from None


def _scope(content: dict[str, Any]) -> Scope:
    lists = {key: tuple(value) for key, value in content.items() if isinstance(value, list)}
    return Scope(**{**content, **lists})


def _written(
    cell: Cell, found: Measured | str, samples: dict[str, list[str]]
) -> dict[str, Any]:
    if isinstance(found, str):
        return {"cell": described(cell), "problem": found}
    ids = list(found.verdicts)
    # many cells share a sample of items
    sample = hashlib.sha256(json.dumps(ids).encode()).hexdigest()[:12]
    samples[sample] = ids
    return {
        "cell": described(cell),
        "summary": found.summary,
        "details": found.details,
        "sample": sample,
        "correct": "".join("01"[right] for right in found.verdicts.values()),
    }


def _read(record: dict[str, Any], samples: dict[str, list[str]]) -> tuple[Cell, Measured | str]:
    cell = read_cell(record["cell"])
    if "problem" in record:
        return cell, record["problem"]
    marks = zip(samples[record["sample"]], record["correct"], strict=True)
    verdicts = {name: mark == "1" for name, mark in marks}
    return cell, Measured(record["summary"], record["details"], verdicts)

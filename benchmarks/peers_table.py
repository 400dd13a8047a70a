"""The table of every decoder, put together from measurings on several devices.

`results/peers.csv` keeps every line with the device, data type and items that it was measured with.
A new measuring replaces a decoder's lines unless those come from more items; the reference, one
token a step, stays beside every measuring that something else is left of, because a difference is
only ever one on the same device and items.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from benchmarks import result_rows
from flash_dllm.evaluation.report.decoders import GREEDY, decoders
from flash_dllm.evaluation.report.every_decoder import ALL, Line, lines, section_of
from flash_dllm.evaluation.report.records import Records
from flash_dllm.evaluation.report.section import Section
from flash_dllm.evaluation.report.shown import not_measured
from flash_dllm.evaluation.statistics import PairedDifference

FACTS = ("model", "fingerprint", "device", "dtype", "impl", "batch", "commit", "torch", "triton")
DIFFERENCE = [item.name for item in fields(PairedDifference)]
# what sets a table apart from the first one → its name
APART = {"model": "model", "device": "device", "dtype": "data type", "impl": "implementation"}
RATIOS = ("tokens_per_step", "tokens_per_pass", "row_layers_per_token")
# items from which on accuracies that differ by some points can be told apart
ENOUGH = 512
HEAD = ["decoder", "task", "items", "accuracy", "low", "high", *RATIOS,
        *(f"difference_{name}" for name in DIFFERENCE), *FACTS]  # fmt: skip


@dataclass(frozen=True)
class Measuring:
    """facts: `FACTS` → words; found: the lines of one command, a decoder's last one over all
    tasks."""

    facts: tuple[str, ...]
    found: tuple[Line, ...]

    @classmethod
    def of(cls, records: Records) -> Measuring:
        """The lines of a report's part `decoders`."""
        known = {**records.facts, **records.facts["versions"], "batch": records.scope.batch}
        facts = tuple(str(known.get(name, "")) for name in FACTS)
        return cls(facts, tuple(lines(records, records.scope)))

    @property
    def items(self) -> dict[str, int]:
        """Decoder → items over all its tasks."""
        return {line.decoder.name: line.items for line in self.found}

    def only(self, names: set[str]) -> Measuring:
        """Without all other decoders."""
        kept = (line for line in self.found if line.decoder.name in names)
        return Measuring(self.facts, tuple(kept))


def merged(before: Sequence[Measuring], new: Measuring) -> list[Measuring]:
    """All measurings that a decoder's lines are taken from, most decoders first.

    Each decoder's lines come from the measuring with most items, the newest of equals.
    """
    everything = [*before, new]
    best: dict[str, int] = {}
    for number, measuring in enumerate(everything):
        for name, items in measuring.items.items():
            if name not in best or items >= everything[best[name]].items[name]:
                best[name] = number
    kept = []
    for number, measuring in enumerate(everything):
        names = {name for name in measuring.items if best[name] == number}
        # a reference alone is kept only where nothing else has been measured at all
        if names - {GREEDY.name} or (names and len(everything) == 1):
            kept.append(measuring.only(names | {GREEDY.name}))
    return sorted(kept, key=lambda measuring: -len(measuring.items))


def read(path: Path) -> list[Measuring]:
    """What `write` wrote; nothing where there is no file. Raises ValueError for another table."""
    if not path.exists():
        return []
    rows = result_rows.read(path)
    known = {decoder.name: decoder for decoder in decoders()}
    found: dict[tuple[str, ...], list[Line]] = {}
    try:
        for row in rows:
            # a decoder that the library has no more
            if row["decoder"] not in known:
                continue
            difference = None
            if row["difference_p"]:
                values = [row[f"difference_{name}"] for name in DIFFERENCE]
                counts = DIFFERENCE.index("only_first")
                difference = PairedDifference(
                    *map(float, values[:counts]), *map(int, values[counts:])
                )
            line = Line(
                known[row["decoder"]], row["task"], int(row["items"]), float(row["accuracy"]),
                (float(row["low"]), float(row["high"])), *(float(row[name]) for name in RATIOS),
                difference,
            )  # fmt: skip
            found.setdefault(tuple(row[name] for name in FACTS), []).append(line)
    except (KeyError, ValueError) as error:
        raise ValueError(f"{path} is no table of decoders ({error!r})") from None
    return [Measuring(facts, tuple(lines)) for facts, lines in found.items()]


def write(path: Path, measurings: Sequence[Measuring]) -> None:
    """One line a decoder and task, `all` for all of them; shares, not per cent."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, HEAD, lineterminator="\n")
        writer.writeheader()
        for measuring in measurings:
            facts = dict(zip(FACTS, measuring.facts, strict=True))
            writer.writerows(_row(line) | facts for line in measuring.found)


def _row(line: Line) -> dict[str, object]:
    row: dict[str, object] = {"decoder": line.decoder.name, "task": line.task, "items": line.items}
    measured = {
        "accuracy": line.accuracy, "low": line.interval[0], "high": line.interval[1],
        **{name: getattr(line, name) for name in RATIOS},
    }  # fmt: skip
    row |= {key: f"{value:.5g}" for key, value in measured.items()}
    if line.difference is not None:
        row |= {f"difference_{key}": f"{getattr(line.difference, key):.4g}" for key in DIFFERENCE}
    return row


def tables(measurings: Sequence[Measuring]) -> list[tuple[Section, str]]:
    """Each measuring as a table, and a sentence on what it was measured with."""
    every = {decoder.name: decoder.title for decoder in decoders()}
    missing = set(every).difference(*(measuring.items for measuring in measurings))
    made = []
    for number, measuring in enumerate(measurings):
        facts = dict(zip(FACTS, measuring.facts, strict=True))
        tasks = dict.fromkeys(line.task for line in measuring.found if line.task != ALL)
        section = section_of(measuring.found, list(tasks), int(facts["batch"]), {})
        title, text = "Every decoder", section.text
        if number:
            main = dict(zip(FACTS, measurings[0].facts, strict=True))
            other = [word for name, word in APART.items() if facts[name] != main[name]]
            *most, last = other or ["commit"]
            differing = f"{', '.join(most)} and {last}" if most else last
            title = (
                f"Measured apart: {facts['device']}, {facts['dtype']}, "
                f"implementation {facts['impl']}"
            )
            text = (
                f"The first {measuring.found[0].items} items of each task, with another "
                f"{differing}; each decoder beside the reference of this table, not of the one "
                f"above. {text}"
            )
            if max(measuring.items.values()) < ENOUGH:
                text += " So few items show what a decoder costs, not how accurate it is."
        triton = f", triton {facts['triton']}" if facts["triton"] else ""
        commit = f", commit {facts['commit']}" if facts["commit"] else ""
        words = (
            f"Model {facts['model']} ({facts['fingerprint']}), {facts['device']}, "
            f"{facts['dtype']}, implementation {facts['impl']}; torch {facts['torch']}{triton}"
            f"{commit}. What is not named comes from the model's preset."
        )
        if number == 0 and missing:
            names = (every[name] for name in every if name in missing)
            text += f" {not_measured(dict.fromkeys(names, 'no run holds it'))}"
        made.append((Section(title, text, section.head, section.rows), words))
    return made

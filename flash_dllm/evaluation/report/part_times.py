"""The speeds of one part of a report: all its decoders, round by round, at one place."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from flash_dllm.evaluation.report.cell import Cell, described, read_cell
from flash_dllm.evaluation.report.timing import ROUNDS, Timing, fifths, is_enough


@dataclass
class PartTimes:
    """What was timed together.

    place    as `place.place`: rounds of two places are never in one table
    items    items of a decode
    cells    the decoders, and tokens of one decode of each
    control  which of the cells was entered twice
    rounds   seconds of one decode of each cell; the control's second entry is last
    problems why a decoder has no speed
    """

    place: dict[str, str]
    items: int
    cells: list[Cell] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    control: int = 0
    rounds: list[list[float]] = field(default_factory=list)
    problems: dict[Cell, str] = field(default_factory=dict)

    @property
    def is_measured(self) -> bool:
        """Whether there are rounds enough to show a speed."""
        return len(self.rounds) >= ROUNDS

    @property
    def is_done(self) -> bool:
        """Whether more rounds would be of no use."""
        return is_enough(self.rounds)

    def covers(self, cells: Sequence[Cell], items: int) -> bool:
        """Whether these are the times of the same decoders on as many items."""
        return {*self.cells, *self.problems} == set(cells) and self.items == items

    def timing(self, cell: Cell) -> Timing | None:
        """A cell's speed; None where it was not measured, or not often enough."""
        if cell not in self.cells or not self.is_measured:
            return None
        return self._entry(self.cells.index(cell))

    def _entry(self, number: int) -> Timing:
        tokens = [*self.tokens, self.tokens[self.control]]
        return Timing(self.items, tokens[number], tuple(found[number] for found in self.rounds))

    @property
    def noise(self) -> float:
        """How far the 20 and 80 percentiles of the control's ratio to itself, round by round, are
        from 1, as a factor; 1.0 at least. Three rounds of five lie between them, not four."""
        if not self.is_measured:
            return 1.0
        low, high = fifths([found[-1] / found[self.control] for found in self.rounds])
        return max(high, 1 / low, 1.0)

    @property
    def words(self) -> str:
        """What stands under a table: rounds, spread, control, place."""
        if not self.is_measured:
            return ""
        spreads = [self._entry(number).spread for number in range(len(self.cells))]
        known = [self.place[key] for key in ("device", "machine", "torch")]
        where = f"{known[0]}, machine {known[1]}, torch {known[2]}"
        code = f"commit {self.place['commit']}, " if self.place["commit"] else ""
        return (
            f"Speeds: {len(self.rounds)} rounds over the {len(self.cells)} decoders, "
            f"{self.items} items; 80 by 20 percentile {statistics.median(spreads):.2f} in the "
            f"median, {max(spreads):.2f} at most; one decoder entered twice: 20 and 80 percentiles "
            f"of its ratio to itself within {self.noise:.2f} times ({code}{where})."
        )

    def written(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {
            "place": self.place,
            "items": self.items,
            "cells": [described(cell) for cell in self.cells],
            "tokens": self.tokens,
            "control": self.control,
            "rounds": [[round(seconds, 9) for seconds in found] for found in self.rounds],
            "problems": [[described(cell), why] for cell, why in self.problems.items()],
        }

    @classmethod
    def read(cls, content: dict[str, Any]) -> PartTimes:
        """From `written`. Raises KeyError or TypeError for anything else."""
        return cls(
            content["place"], content["items"], [read_cell(cell) for cell in content["cells"]],
            content["tokens"], content["control"], content["rounds"],
            {read_cell(cell): why for cell, why in content["problems"]},
        )  # fmt: skip

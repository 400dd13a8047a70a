"""What a report will ask for, found by making it once on made-up numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from flash_dllm.evaluation.report.cell import Attention, Cell, Measured
from flash_dllm.evaluation.report.parts import sections
from flash_dllm.evaluation.report.section import Scope
from flash_dllm.evaluation.report.timing import Timing


@dataclass
class Wanted:
    """A source that only takes notes.

    cells            each cell that was asked for, once
    timed            by part, the cells whose speed is shown there
    wants_attention  whether Figure 1 is among the parts
    """

    limit: int
    cells: dict[Cell, None] = field(default_factory=dict)
    timed: dict[str, dict[Cell, None]] = field(default_factory=dict)
    wants_attention: bool = False
    noise = 1.0
    speeds_note = ""
    _part: str = ""

    def part(self, name: str) -> Wanted:
        self._part = name
        return self

    def measure(self, cell: Cell, timed: bool = True) -> Measured:
        self.cells.setdefault(cell)
        if timed:
            self.timed.setdefault(self._part, {}).setdefault(cell)
        return _made_up(cell.batch)

    def attention(self) -> Attention:
        self.wants_attention = True
        return Attention({}, [], 0)


def wanted(scope: Scope, parts: Sequence[str], limit: int) -> Wanted:
    """Every cell of these parts, once, in the order in which the parts are named."""
    notes = Wanted(limit)
    for part in parts:
        sections(notes, scope, [part])
    return notes


def _made_up(batch: int) -> Measured:
    """Numbers that any table can be made of; none of them is shown."""
    summary = {
        "accuracy": 1.0, "accuracy_ci95": [0.0, 1.0], "tokens_per_step": 1.0,
        "tokens_per_pass": 1.0,
    }  # fmt: skip
    details = dict.fromkeys(
        ("correct", "tokens", "steps", "passes", "row_layers", "row_layers_per_token"), 1
    )
    return Measured(summary, {**details, "batch_size": batch}, {"": True}, Timing(1, 1, (1.0,)))

"""Made-up runs of a report: numbers from a rule, and records that hold them."""

from __future__ import annotations

from dataclasses import replace

from flash_dllm.evaluation.report.cell import Attention, Cell, Measured
from flash_dllm.evaluation.report.part_times import PartTimes
from flash_dllm.evaluation.report.plan import wanted
from flash_dllm.evaluation.report.records import Records
from flash_dllm.evaluation.report.section import Scope
from flash_dllm.evaluation.report.timing import ROUNDS, Timing

PLACE = {"commit": "abc", "device": "cpu", "machine": "m1", "torch": "2"}
FACTS = {
    "model": "m", "fingerprint": "f", "device": "cpu", "dtype": "float32", "impl": "torch",
    "items": 100, "timed_items": 8, "commit": "", "versions": {"torch": "2", "python": "3"},
}  # fmt: skip


def run_of(
    accuracy: float, speed: float | None, batch: int = 32, per_step: float = 2.0
) -> Measured:
    """100 items, of which the first are right; the same speed in every round."""
    count = 100
    verdicts = {str(n): n < accuracy * count for n in range(count)}
    summary = {
        "accuracy": accuracy, "accuracy_ci95": [accuracy, accuracy],
        "tokens_per_step": per_step, "tokens_per_pass": per_step / 2,
    }  # fmt: skip
    details = {
        "batch_size": batch, "row_layers_per_token": 9.0, "correct": sum(verdicts.values()),
        "tokens": 1000, "steps": 500, "passes": 1000, "row_layers": 9000,
    }  # fmt: skip
    timing = None if speed is None else Timing(8, 1000, (1000 / speed,) * ROUNDS)
    return Measured(summary, details, verdicts, timing)


class Lab:
    """Answers cells from a rule."""

    limit = 100
    speeds_note = ""

    def __init__(self, rule, noise=1.0):
        self.rule, self.asked, self.noise = rule, [], noise

    def part(self, name: str) -> Lab:
        return self

    def measure(self, cell: Cell, timed: bool = True) -> Measured:
        self.asked.append(cell)
        return self.rule(cell)

    def attention(self) -> Attention:
        return Attention({1: 0.1, 32: 0.5}, [(0.2, 1), (0.4, 3), (0.9, 8)], 2)


def records_of(scope: Scope, parts: list[str], rule) -> Records:
    """Records of a finished measuring by a rule."""
    records = Records(FACTS, scope, parts, 100)
    records.cells = {cell: rule(cell) for cell in wanted(scope, parts, 100).cells}
    put_speeds(records)
    return records


def put_speeds(records: Records) -> None:
    """Move the speeds of the cells to where records have them: by part."""
    for part, cells in wanted(records.scope, records.parts, records.limit).timed.items():
        found = {cell: records.cells[cell].timing for cell in cells}
        known = {cell: timing for cell, timing in found.items() if timing is not None}
        if not known:
            continue
        times = PartTimes(PLACE, 8, list(known), [timing.tokens for timing in known.values()])
        seconds = [timing.seconds for timing in known.values()]
        times.rounds = [list(one) for one in zip(*seconds, seconds[0], strict=True)]
        records.times[part] = times
    records.cells = {cell: replace(run, timing=None) for cell, run in records.cells.items()}

"""Table 6: tokens a second by batch size; ratios only inside a row."""

from __future__ import annotations

from flash_dllm.evaluation.report import paper_values as paper
from flash_dllm.evaluation.report.cell import Measured, Source, decoder
from flash_dllm.evaluation.report.judging import counted, every, is_faster
from flash_dllm.evaluation.report.section import (
    LENGTHS,
    Claim,
    Curve,
    Picture,
    Scope,
    Section,
)
from flash_dllm.evaluation.report.shown import speed_cell, without_speed

STRATEGIES = ("greedy", "confidence", "flash_verify")


def table_6(lab: Source, scope: Scope) -> Section:
    """One row a batch size."""
    task, length = scope.tasks[0], LENGTHS[-1]
    rows, wins = [], []
    runs: list[Measured] = []
    curves: dict[str, list[tuple[float, float, str]]] = {}
    for batch in scope.batches:
        found = {
            name: lab.measure(decoder(task, name, "flash", length, batch)) for name in STRATEGIES
        }
        greedy = found["greedy"]
        rows.append([str(batch), *(speed_cell(run, greedy) for run in found.values())])
        runs += found.values()
        wins.append(is_faster(found["flash_verify"], found["confidence"], lab.noise))
        for name, run in found.items():
            if run.speed is None:
                continue
            curves.setdefault(name, []).append((batch, run.speed, f"{run.speed:.1f} tokens/s"))
    claim = Claim(
        "On Flash-Cache, Flash-Verify is faster than confidence decoding at every batch size",
        every(wins),
        f"at {counted(wins, 'batch sizes')}",
    )
    known = [
        f"{name}: {one} tokens/s at batch 1, {many} at batch 32"
        for name, (one, many) in paper.TABLE_6.items()
    ]
    picture = Picture(
        "Tokens a second by batch size", "batch size", "tokens/s",
        [Curve(name, points) for name, points in curves.items()],
    )  # fmt: skip
    text = (
        f"Task {task}, length {length}, Flash-Cache; × greedy on Flash-Cache in the same row (the "
        "median of that ratio by round)."
    )
    head = ("batch", "greedy", "confidence", "Flash-Verify")
    return Section("Table 6: batch sizes", text, head, rows, (picture,), (claim,), known,
                   without_speed(runs))  # fmt: skip

"""Figure 7: the window size."""

from __future__ import annotations

import math
from typing import Any

from flash_dllm.evaluation.report import paper_values as paper
from flash_dllm.evaluation.report.cell import Cell, Source
from flash_dllm.evaluation.report.section import LENGTHS, Claim, Curve, Picture, Scope, Section
from flash_dllm.evaluation.report.shown import percent, speed

WINDOWS = (8, 16, 32, 64)


def figure_7(lab: Source, scope: Scope) -> Section:
    """One row a window; in one block, so that the window is what limits a step."""
    task, length, batch = scope.tasks[0], LENGTHS[-1], scope.batch
    rows, leads = [], []
    curves: dict[str, list[tuple[float, float, str]]] = {"confidence": [], "Flash-Verify": []}
    for window in WINDOWS:
        shared: dict[str, Any] = {
            "gen_length": length, "block_length": length, "window_size": window,
        }  # fmt: skip
        plain = lab.measure(Cell.of(task, batch, strategy="confidence", cache="flash", **shared))
        ours = lab.measure(Cell.of(task, batch, strategy="flash_verify", cache="flash", **shared))
        leads.append(ours.speed / plain.speed if plain.speed else math.nan)
        rows.append([str(window), percent(plain), speed(plain), percent(ours), speed(ours),
                     f"{leads[-1]:.2f}"])  # fmt: skip
        curves["confidence"].append((window, plain.speed, percent(plain)))
        curves["Flash-Verify"].append((window, ours.speed, percent(ours)))
    claim = Claim(
        "Flash-Verify stays ahead of confidence decoding at every window size",
        all(lead > 1 for lead in leads),
        ", ".join(f"{w}: {lead:.2f} times" for w, lead in zip(WINDOWS, leads, strict=True)),
    )
    picture = Picture("Speed by window size", "window", "tokens/s",
                      [Curve(name, points) for name, points in curves.items()])  # fmt: skip
    text = f"Task {task}, length {length} in one block, batch {batch}, Flash-Cache."
    head = ("window", "confidence %", "tokens/s", "Flash-Verify %", "tokens/s", "lead")
    return Section("Figure 7: window", text, head, rows, (picture,), (claim,), (paper.FIGURE_7,))

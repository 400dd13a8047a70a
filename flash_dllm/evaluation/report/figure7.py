"""Figure 7: the window size."""

from __future__ import annotations

from typing import Any

from flash_dllm.evaluation.report import paper_values as paper
from flash_dllm.evaluation.report.cell import Cell, Source
from flash_dllm.evaluation.report.judging import every, is_faster, leads
from flash_dllm.evaluation.report.section import LENGTHS, Claim, Curve, Picture, Scope, Section
from flash_dllm.evaluation.report.shown import by_round, percent, speed, without_speed

WINDOWS = (8, 16, 32, 64)


def figure_7(lab: Source, scope: Scope) -> Section:
    """One row a window; in one block, so that the window is what limits a step."""
    task, length, batch = scope.tasks[0], LENGTHS[-1], scope.batch
    rows, found, wins, runs = [], [], [], []
    curves: dict[str, list[tuple[float, float, str]]] = {"confidence": [], "Flash-Verify": []}
    for window in WINDOWS:
        shared: dict[str, Any] = {
            "gen_length": length, "block_length": length, "window_size": window,
        }  # fmt: skip
        plain = lab.measure(Cell.of(task, batch, strategy="confidence", cache="flash", **shared))
        ours = lab.measure(Cell.of(task, batch, strategy="flash_verify", cache="flash", **shared))
        found.append(by_round(leads(ours, plain)))
        wins.append(is_faster(ours, plain, lab.noise))
        runs += [plain, ours]
        rows.append([str(window), percent(plain), speed(plain), percent(ours), speed(ours),
                     found[-1]])  # fmt: skip
        for name, run in (("confidence", plain), ("Flash-Verify", ours)):
            if run.speed is not None:
                curves[name].append((window, run.speed, percent(run)))
    claim = Claim(
        "Flash-Verify stays ahead of confidence decoding at every window size",
        every(wins),
        "times as fast, by window: "
        + ", ".join(f"{w}: {lead}" for w, lead in zip(WINDOWS, found, strict=True)),
    )
    picture = Picture("Speed by window size", "window", "tokens/s",
                      [Curve(name, points) for name, points in curves.items()])  # fmt: skip
    text = f"Task {task}, length {length} in one block, batch {batch}, Flash-Cache."
    head = ("window", "confidence %", "tokens/s", "Flash-Verify %", "tokens/s", "lead")
    return Section("Figure 7: window", text, head, rows, (picture,), (claim,), (paper.FIGURE_7,),
                   without_speed(runs))  # fmt: skip

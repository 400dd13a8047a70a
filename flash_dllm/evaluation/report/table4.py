"""Table 4: mean and standard deviation over seeds, by γ and tracked tokens."""

from __future__ import annotations

import statistics

from flash_dllm.evaluation.report import paper_values as paper
from flash_dllm.evaluation.report.cell import Source, pairs, verify
from flash_dllm.evaluation.report.judging import Open, every, is_above, means, over
from flash_dllm.evaluation.report.section import LENGTHS, Claim, Scope, Section
from flash_dllm.evaluation.report.shown import by_round, mean, number, points, spread, without_speed
from flash_dllm.evaluation.statistics import paired_difference

GAMMAS, TRACKED = (0.6, 0.7, 0.8, 0.9, 1.0), (16, 32, 64)


def table_4(lab: Source, scope: Scope) -> Section:
    """One row a γ, one column a β_t."""
    task, length = scope.tasks[0], LENGTHS[-1]
    runs = {
        (gamma, size): [
            lab.measure(
                verify(task, length, scope.batch, seed=seed, gamma=gamma, track_size=size)
            )
            for seed in range(scope.seeds)
        ]
        for gamma in GAMMAS
        for size in TRACKED
    }
    rows = [
        [f"{gamma:g}"]
        + [
            f"{spread([100 * run.accuracy for run in runs[gamma, size]])} %, "
            f"{spread([run.speed for run in runs[gamma, size]])} tokens/s"
            for size in TRACKED
        ]
        for gamma in GAMMAS
    ]

    loose, strict = runs[GAMMAS[0], TRACKED[0]], runs[GAMMAS[-1], TRACKED[-1]]
    accuracies = [
        100 * statistics.fmean(run.accuracy for run in found) for found in (loose, strict)
    ]
    speeds = [mean([run.speed for run in found]) for found in (loose, strict)]
    loss = paired_difference(*pairs(loose[0], strict[0]))
    is_open = loss.difference < 0 and loss.p >= 0.05
    claim = Claim(
        "A low γ with few tracked tokens is faster and less accurate than γ 1 with many",
        every([
            is_above(means(loose), means(strict), lab.noise),
            Open.NOISY if is_open else loss.difference < 0,
        ]),
        "; ".join(
            f"γ {gamma:g}, β_t {size}: {accuracy:.1f} %, {number(speed, 1)} tokens/s"
            for gamma, size, accuracy, speed in zip(
                (GAMMAS[0], GAMMAS[-1]), (TRACKED[0], TRACKED[-1]), accuracies, speeds,
                strict=True,
            )
        )
        + f"; {by_round(over(means(loose), means(strict)))} times as fast by round"
        + f"; on the first seed's items {points(loss)}"
        + (", which leaves the accuracy open" if is_open else ""),
    )  # fmt: skip
    text = (
        f"Task {task}, length {length}, batch {scope.batch}; mean ± standard deviation over "
        f"{scope.seeds} seeds. At temperature 0 a decoder has no chance in it: a seed draws "
        f"{lab.limit} of the task's items (where the task has no more, all, in another order)."
    )
    known = [
        f"γ {gamma:g}, β_t {size}: {accuracy} %, {speed} tokens/s"
        for (gamma, size), (accuracy, speed) in paper.TABLE_4.items()
    ]
    head = ["γ", *(f"β_t {size}" for size in TRACKED)]
    return Section("Table 4: seeds", text, head, rows, (), (claim,), known,
                   without_speed(run for found in runs.values() for run in found))  # fmt: skip

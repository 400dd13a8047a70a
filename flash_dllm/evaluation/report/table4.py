"""Table 4: mean and standard deviation over seeds, by γ and tracked tokens."""

from __future__ import annotations

from flash_dllm.evaluation.report import paper_values as paper
from flash_dllm.evaluation.report.cell import Source, verify
from flash_dllm.evaluation.report.section import LENGTHS, Claim, Scope, Section
from flash_dllm.evaluation.report.shown import spread

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

    def mean(gamma: float, size: int) -> tuple[float, float]:
        found = runs[gamma, size]
        return (
            100 * sum(run.accuracy for run in found) / len(found),
            sum(run.speed for run in found) / len(found),
        )

    loose, strict = mean(GAMMAS[0], TRACKED[0]), mean(GAMMAS[-1], TRACKED[-1])
    claim = Claim(
        "A low γ with few tracked tokens is faster and less accurate than γ 1 with many",
        loose[1] > strict[1] and loose[0] < strict[0],
        f"γ {GAMMAS[0]:g}, β_t {TRACKED[0]}: {loose[0]:.1f} %, {loose[1]:.1f} tokens/s; "
        f"γ {GAMMAS[-1]:g}, β_t {TRACKED[-1]}: {strict[0]:.1f} %, {strict[1]:.1f} tokens/s",
    )
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
    return Section("Table 4: seeds", text, head, rows, (), (claim,), known)

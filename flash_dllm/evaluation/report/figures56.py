"""Figures 5 and 6: accuracy against speed, and against tokens a step, over the thresholds."""

from __future__ import annotations

from collections.abc import Callable

from flash_dllm.evaluation.report import paper_values as paper
from flash_dllm.evaluation.report.cell import Cell, Measured, Source, verify
from flash_dllm.evaluation.report.judging import Judged, Open, is_faster, leads
from flash_dllm.evaluation.report.section import LENGTHS, Claim, Curve, Picture, Scope, Section
from flash_dllm.evaluation.report.shown import by_round, number, percent, speed, without_speed
from flash_dllm.evaluation.report.table4 import GAMMAS, TRACKED

Value = float | None
EPSILONS = (0.5, 0.7, 0.8, 0.9, 0.95, 0.99)


def figures_5_and_6(lab: Source, scope: Scope) -> Section:
    """Flash-Verify over γ and β_t, confidence decoding over ε."""
    task, length, batch = scope.tasks[0], LENGTHS[-1], scope.batch
    ours = {
        f"Flash-Verify, β_t {size}": [
            (f"γ {gamma:g}", lab.measure(verify(task, length, batch, gamma=gamma, track_size=size)))
            for gamma in GAMMAS
        ]
        for size in TRACKED
    }
    plain = [
        (
            f"ε {epsilon:g}",
            lab.measure(
                Cell.of(task, batch, strategy="confidence", cache="flash", gen_length=length,
                        epsilon=epsilon)
            ),
        )
        for epsilon in EPSILONS
    ]  # fmt: skip
    families = {**ours, "confidence": plain}
    rows = [
        [name, label, percent(run), speed(run), f"{run.tokens_per_step:.2f}"]
        for name, runs in families.items()
        for label, run in runs
    ]

    def curves(y: Callable[[Measured], Value], x: Callable[[Measured], Value]) -> list[Curve]:
        return [
            Curve(name, [(a, b, label) for label, run in runs
                         if (a := x(run)) is not None and (b := y(run)) is not None])
            for name, runs in families.items()
        ]  # fmt: skip

    pictures = (
        Picture("Figure 5: accuracy and speed", "tokens/s", "accuracy, %",
                curves(lambda run: 100 * run.accuracy, lambda run: run.speed)),
        Picture("Figure 6: accuracy and tokens a step", "tokens/step", "accuracy, %",
                curves(lambda run: 100 * run.accuracy, lambda run: run.tokens_per_step)),
        Picture("Figure 6: speed and tokens a step", "tokens/step", "tokens/s",
                curves(lambda run: run.speed, lambda run: run.tokens_per_step)),
    )  # fmt: skip
    mine = [run for runs in ours.values() for _, run in runs]
    theirs = [run for _, run in plain]
    claim = Claim(
        "Within one point of the best accuracy of confidence decoding, Flash-Verify is faster",
        *_is_ahead(mine, theirs, lab.noise),
    )
    text = f"Task {task}, length {length}, batch {batch}, Flash-Cache."
    head = ("decoder", "threshold", "accuracy %", "tokens/s", "tokens/step")
    known = [f"tokens/step, {name}: {value}" for name, value in paper.TOKENS_PER_STEP.items()]
    return Section("Figures 5 and 6: trade-offs", text, head, rows, pictures, (claim,), known,
                   without_speed([*mine, *theirs]))  # fmt: skip


def _is_ahead(
    mine: list[Measured], theirs: list[Measured], noise: float
) -> tuple[Judged, str]:
    """Whether the fastest accurate setting is one of mine, and why."""
    best = max(run.accuracy for run in theirs)
    close, others = (
        [run for run in runs if run.accuracy >= best - 0.01] for runs in (mine, theirs)
    )
    if not close:
        return False, f"no setting of it comes within a point of {100 * best:.1f} %"
    unknown = sum(run.speed is None for run in [*close, *others])
    lead, other = (max(runs, key=lambda run: run.speed or 0.0) for runs in (close, others))
    words = f"{number(lead.speed, 1)} tokens/s against {number(other.speed, 1)}"
    if unknown:
        unmeasured = f"{unknown} of the {len(close + others)} such runs have no speed"
        return Open.MISSING, f"{words}; {unmeasured}"
    ratio = by_round(leads(lead, other))
    return is_faster(lead, other, noise), f"{words}, {ratio} times by round"

"""Table 1: accuracy, tokens a second and speedup of every decoder, by task and length."""

from __future__ import annotations

import math

from flash_dllm.evaluation.report import paper_values as paper
from flash_dllm.evaluation.report.cell import Source, decoder, pairs
from flash_dllm.evaluation.report.judging import counted, every, is_faster
from flash_dllm.evaluation.report.section import LENGTHS, Claim, Scope, Section
from flash_dllm.evaluation.report.shown import p_value, points, speed_cell, without_speed
from flash_dllm.evaluation.statistics import holm, paired_difference

# (label, strategy, cache); the first is what speedups are against
COLUMNS: tuple[tuple[str, str, str], ...] = (
    ("greedy, no cache", "greedy", "none"),
    ("greedy, Flash-Cache", "greedy", "flash"),
    ("confidence, no cache", "confidence", "none"),
    ("confidence, Flash-Cache", "confidence", "flash"),
    ("Flash-Verify, no cache", "flash_verify", "none"),
    ("Flash-Verify, Flash-Cache", "flash_verify", "flash"),
)
# the column that Flash-Verify on Flash-Cache is compared with
PLAIN = 3


def table_1(lab: Source, scope: Scope) -> Section:
    """One row a task and length; claims about speed and about accuracy."""
    rows, fastest, losses, runs = [], [], [], []
    steps = 0.0, 0.0
    for task in scope.tasks:
        for length in LENGTHS:
            found = [
                lab.measure(decoder(task, strategy, cache, length, scope.batch))
                for _, strategy, cache in COLUMNS
            ]
            rows.append([f"{task} {length}", *(speed_cell(run, found[0]) for run in found)])
            runs += found
            fastest.append(every([is_faster(found[-1], other, lab.noise) for other in found[:-1]]))
            best = max(found, key=lambda run: run.accuracy)
            if task == scope.tasks[0]:
                # of the longest length in the end
                steps = found[PLAIN].tokens_per_step, found[-1].tokens_per_step
            losses.append((f"{task} {length}", paired_difference(*pairs(found[-1], best))))
    corrected = holm([d.p for _, d in losses])
    is_worse = any(
        p < 0.05 and d.difference < 0 for p, (_, d) in zip(corrected, losses, strict=True)
    )
    times = steps[1] / steps[0] if steps[0] else math.nan
    claims = (
        Claim(
            "Flash-Verify with Flash-Cache is the fastest decoder in every row of Table 1",
            every(fastest),
            f"fastest in {counted(fastest, 'rows')}",
        ),
        Claim(
            "Flash-Verify with Flash-Cache is nowhere significantly less accurate than the best "
            f"column (paired; McNemar's p, with Holm's correction for the {len(losses)} rows, is "
            "0.05 or more)",
            not is_worse,
            "; ".join(
                f"{name}: {points(d)}, corrected {p_value(p)}"
                for p, (name, d) in zip(corrected, losses, strict=True)
            ),
        ),
        Claim(
            "On Flash-Cache, Flash-Verify decides about twice as many tokens a step as confidence "
            "decoding (1.7 to 2.3 times)",
            1.7 <= times <= 2.3,
            f"{steps[1]:.2f} against {steps[0]:.2f} on {scope.tasks[0]} {LENGTHS[-1]}, "
            f"{times:.2f} times{', more than claimed' if times > 2.3 else ''}",
        ),
    )
    known = [
        f"{task} {length}: {accuracy} %, {speed} tokens/s, {ratio} × greedy without cache"
        for (task, length), (accuracy, speed, ratio) in paper.TABLE_1.items()
    ]
    known += [f"tokens/step on GSM8K, {name}: {v}" for name, v in paper.TOKENS_PER_STEP.items()]
    text = (
        "Accuracy with its 95 % interval, tokens/s, and × greedy without cache at the same batch "
        f"size ({scope.batch}; the median of that ratio by round). Lengths 64 and 128 stand for "
        "the paper's 256 and 512."
    )
    head = ["task, length", *(label for label, _, _ in COLUMNS)]
    return Section("Table 1: accuracy and speed", text, head, rows, (), claims, known,
                   without_speed(runs))  # fmt: skip

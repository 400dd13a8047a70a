"""The embedded model at the smallest and the largest batch size, beside one token a step without a
cache: the table of docs/performance.md. The paper has no such table."""

from __future__ import annotations

from flash_dllm.evaluation.report.cell import Source, decoder
from flash_dllm.evaluation.report.section import LENGTHS, Scope, Section
from flash_dllm.evaluation.report.shown import percent, speed, without_speed

DECODERS = (
    ("greedy", "none"), ("greedy", "flash"), ("confidence", "flash"), ("flash_verify", "flash"),
)  # fmt: skip


def embedded(lab: Source, scope: Scope) -> Section:
    """One row a decoder and batch size."""
    task, length = scope.tasks[0], LENGTHS[-1]
    rows, runs = [], []
    for batch in sorted({min(scope.batches), max(scope.batches)}):
        for strategy, cache in DECODERS:
            run = lab.measure(decoder(task, strategy, cache, length, batch))
            runs.append(run)
            rows.append([
                str(batch), strategy, cache, percent(run), f"{run.tokens_per_step:.2f}",
                f"{run.tokens_per_pass:.2f}", speed(run),
            ])  # fmt: skip
    text = f"Task {task}, length {length}; what is not named is the model's preset."
    head = ("batch", "strategy", "cache", "accuracy %", "tokens/step", "tokens/pass", "tokens/s")
    return Section("The embedded model", text, head, rows, note=without_speed(runs))

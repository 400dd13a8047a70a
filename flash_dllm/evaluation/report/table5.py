"""Table 5: generation lengths, and worked examples in front of the question."""

from __future__ import annotations

import math

from flash_dllm.evaluation.report import paper_values as paper
from flash_dllm.evaluation.report.cell import Cell, Source, verify
from flash_dllm.evaluation.report.section import LENGTHS, Claim, Scope, Section
from flash_dllm.evaluation.report.shown import percent, speed

SHORTEST = 32
SHOTS = (0, 1, 2)


def table_5(lab: Source, scope: Scope) -> Section:
    """One row a length or a number of examples."""
    task, batch = scope.tasks[0], scope.batch
    cases = [(length, 0) for length in (SHORTEST, *LENGTHS)]
    cases += [(LENGTHS[0], shots) for shots in SHOTS if shots]
    rows, leads = [], {}
    for length, shots in cases:
        plain = lab.measure(
            Cell.of(task, batch, 0, shots, strategy="confidence", cache="flash", gen_length=length)
        )
        ours = lab.measure(verify(task, length, batch, shots=shots))
        leads[length, shots] = ours.speed / plain.speed if plain.speed else math.nan
        rows.append([
            str(length), str(shots), percent(plain), speed(plain), percent(ours), speed(ours),
            f"{leads[length, shots]:.2f}",
        ])  # fmt: skip
    claim = Claim(
        "Flash-Verify's lead over confidence decoding shrinks with a longer prompt, but stays",
        1 < leads[LENGTHS[0], SHOTS[-1]] < leads[LENGTHS[0], 0],
        f"{leads[LENGTHS[0], 0]:.2f} times without examples, "
        f"{leads[LENGTHS[0], SHOTS[-1]]:.2f} with {SHOTS[-1]}",
    )
    text = f"Task {task}, batch {batch}, Flash-Cache. Shots are worked examples in the user's turn."
    head = ("length", "shots", "confidence %", "tokens/s", "Flash-Verify %", "tokens/s", "lead")
    return Section("Table 5: lengths", text, head, rows, (), (claim,), (paper.TABLE_5,))

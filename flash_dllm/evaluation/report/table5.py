"""Table 5: generation lengths, and worked examples in front of the question."""

from __future__ import annotations

from flash_dllm.evaluation.report import paper_values as paper
from flash_dllm.evaluation.report.cell import Cell, Measured, Source, Unmeasurable, verify
from flash_dllm.evaluation.report.judging import (
    every,
    is_above,
    leads,
    over,
)
from flash_dllm.evaluation.report.section import LENGTHS, Claim, Scope, Section
from flash_dllm.evaluation.report.shown import (
    UNKNOWN,
    by_round,
    not_measured,
    percent,
    speed,
    without_speed,
)

SHORTEST = 32
SHOTS = (0, 1, 2)


def table_5(lab: Source, scope: Scope) -> Section:
    """One row a length or a number of examples."""
    task, batch = scope.tasks[0], scope.batch
    cases = [(length, 0) for length in (SHORTEST, *LENGTHS)]
    cases += [(LENGTHS[0], shots) for shots in SHOTS if shots]
    rows: list[list[str]] = []
    runs: list[Measured] = []
    found: dict[tuple[int, int], tuple[Measured, Measured]] = {}
    missing: dict[str, str] = {}
    for length, shots in cases:
        cells = (
            Cell.of(task, batch, 0, shots, strategy="confidence", cache="flash", gen_length=length),
            verify(task, length, batch, shots=shots),
        )
        try:
            plain, ours = (lab.measure(cell) for cell in cells)
        except Unmeasurable as reason:
            missing[f"length {length} with {shots} examples"] = str(reason)
            rows.append([str(length), str(shots), *[UNKNOWN] * 5])
            continue
        runs += [plain, ours]
        found[length, shots] = ours, plain
        rows.append([
            str(length), str(shots), percent(plain), speed(plain), percent(ours), speed(ours),
            by_round(leads(ours, plain)),
        ])  # fmt: skip
    without, last = (
        leads(*pair) if (pair := found.get((LENGTHS[0], shots))) else [] for shots in (0, SHOTS[-1])
    )
    claim = Claim(
        "Flash-Verify's lead over confidence decoding shrinks with a longer prompt, but stays",
        every([
            is_above(last, [1.0] * len(last), lab.noise),
            is_above(without, last, lab.noise),
        ]),
        "times as fast, "
        + ", ".join(
            f"{name}: {by_round(ratios)}"
            for name, ratios in (
                ("without examples", without),
                (f"with {SHOTS[-1]}", last),
                ("the former by the latter", over(without, last)),
            )
        ),
    )  # fmt: skip
    text = f"Task {task}, batch {batch}, Flash-Cache. Shots are worked examples in the user's turn."
    if missing:
        text += f" {not_measured(missing)}"
    head = ("length", "shots", "confidence %", "tokens/s", "Flash-Verify %", "tokens/s", "lead")
    return Section("Table 5: lengths", text, head, rows, (), (claim,), (paper.TABLE_5,),
                   without_speed(runs))  # fmt: skip

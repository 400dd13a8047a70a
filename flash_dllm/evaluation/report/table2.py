"""Table 2: every method beside each other on one task, at the longer length."""

from __future__ import annotations

from flash_dllm.evaluation.report import paper_values as paper
from flash_dllm.evaluation.report.cell import Measured, Source, Unmeasurable, pairs
from flash_dllm.evaluation.report.decoders import OWN, Decoder, decoders
from flash_dllm.evaluation.report.judging import every, is_faster, leads
from flash_dllm.evaluation.report.section import LENGTHS, Claim, Scope, Section
from flash_dllm.evaluation.report.shown import (
    by_round,
    not_measured,
    number,
    p_value,
    percent,
    speed,
    without_speed,
)
from flash_dllm.evaluation.statistics import paired_difference
from flash_dllm.peers import PEERS

# settings of the paper's own method, which are no rivals of it
OURS = (OWN.name, *(name for name in PEERS if name.startswith("flash_")))
OUR_TITLES = [decoder.title for decoder in decoders() if decoder.name in OURS]


def table_2(lab: Source, scope: Scope) -> Section:
    """One row a decoder; the paper's claim is judged with its own settings and with the preset."""
    task, length = scope.tasks[0], LENGTHS[-1]
    found: dict[Decoder, Measured] = {}
    missing: dict[str, str] = {}
    for decoder in decoders():
        try:
            found[decoder] = lab.measure(decoder.cell(task, scope.batch, length))
        except Unmeasurable as reason:
            missing[decoder.title] = str(reason)
    ours = found[OWN]
    rows = []
    for decoder, run in found.items():
        difference = paired_difference(*pairs(run, ours))
        rows.append([
            decoder.title, percent(run), speed(run), f"{run.tokens_per_step:.2f}",
            f"{run.tokens_per_pass:.2f}", f"{run.details['row_layers_per_token']:.0f}",
            "–" if run is ours
            else f"{100 * difference.difference:+.1f} ({p_value(difference.p)})",
        ])  # fmt: skip
    rivals = {decoder: run for decoder, run in found.items() if decoder.name not in OURS}
    best = max(rivals, key=lambda decoder: rivals[decoder].speed or 0.0)
    unknown = sum(run.speed is None for run in rivals.values())
    left_out = f"; without a speed: {unknown} of them" if unknown else ""
    absent = [title for title in missing if title not in OUR_TITLES]
    left_out += f"; not measured: {', '.join(absent)}" if absent else ""
    claims = [
        Claim(
            f"{decoder.title} is faster than every other paper's method that was measured",
            every([is_faster(found[decoder], run, lab.noise) for run in rivals.values()]),
            f"{number(found[decoder].speed, 1)} tokens/s against "
            f"{number(rivals[best].speed, 1)} of {best.title}, "
            f"{by_round(leads(found[decoder], rivals[best]))} times by round, all at batch "
            f"{scope.batch}"
            f"{left_out}",
        )
        for decoder in found
        if decoder.name in ("flash_dllm", OWN.name)
    ]
    known = [f"{name}: {value} tokens/s on GSM8K-512" for name, value in paper.TABLE_2.items()]
    text = (
        f"Task {task}, length {length}, batch {scope.batch}; every peer with its own settings "
        "(docs/decoders.md). Difference: accuracy minus that of this model's preset."
    )
    if missing:
        text += f" {not_measured(missing)} Accuracy and counts of every decoder: docs/decoders.md."
    head = ("method", "accuracy %", "tokens/s", "tokens/step", "tokens/pass", "row-layers/token",
            "difference")  # fmt: skip
    return Section("Table 2: methods", text, head, rows, (), claims, known,
                   without_speed(found.values()))  # fmt: skip

"""Every decoder on every task: accuracy and cost in counts, against one token a step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from flash_dllm.evaluation.measurement import ratio
from flash_dllm.evaluation.report.cell import Measured, Source, Unmeasurable, pairs
from flash_dllm.evaluation.report.decoders import GREEDY, Decoder, decoders
from flash_dllm.evaluation.report.section import LENGTHS, Scope, Section
from flash_dllm.evaluation.report.shown import not_measured, p_value
from flash_dllm.evaluation.statistics import PairedDifference, paired_difference, wilson_interval

ALL = "all"


@dataclass(frozen=True)
class Line:
    """One decoder on one task, or on all of them together.

    difference  accuracy minus greedy's on the same items; None for greedy itself
    Ratios are ratios of sums over items.
    """

    decoder: Decoder
    task: str
    items: int
    accuracy: float
    interval: tuple[float, float]
    tokens_per_step: float
    tokens_per_pass: float
    row_layers_per_token: float
    difference: PairedDifference | None


def lines(
    lab: Source, scope: Scope, missing: dict[str, str] | None = None
) -> Iterator[Line]:
    """Each decoder of the scope on each task and on all of them; greedy first.

    missing  gets name → reason of decoders that this model can't run
    """
    tasks, length = list(scope.tasks), LENGTHS[-1]
    base: dict[str, Measured] = {}
    for decoder in decoders(scope.decoders):
        try:
            runs = {
                task: lab.measure(decoder.cell(task, scope.batch, length), timed=False)
                for task in tasks
            }
        except Unmeasurable as reason:
            if missing is not None:
                missing[decoder.title] = str(reason)
            continue
        if decoder is GREEDY:
            base = runs
        for task in tasks if len(tasks) == 1 else [*tasks, ALL]:
            parts = [runs[task]] if task != ALL else list(runs.values())
            against = [base[task]] if task != ALL else list(base.values())
            yield _line(decoder, task, parts, against)


def _line(
    decoder: Decoder, task: str, parts: list[Measured], against: list[Measured]
) -> Line:
    sums = {
        key: sum(run.details[key] for run in parts)
        for key in ("correct", "tokens", "steps", "passes", "row_layers")
    }
    items = sum(len(run.verdicts) for run in parts)
    both = [pairs(run, other) for run, other in zip(parts, against, strict=True)]
    first = [verdict for verdicts, _ in both for verdict in verdicts]
    second = [verdict for _, verdicts in both for verdict in verdicts]
    return Line(
        decoder, task, items, ratio(sums["correct"], items),
        wilson_interval(sums["correct"], items),
        ratio(sums["tokens"], sums["steps"]), ratio(sums["tokens"], sums["passes"]),
        ratio(sums["row_layers"], sums["tokens"]),
        None if decoder is GREEDY else paired_difference(first, second),
    )  # fmt: skip


def every_decoder(lab: Source, scope: Scope) -> Section:
    """One row a decoder: accuracy by task, counts and the paired difference over all of them."""
    missing: dict[str, str] = {}
    found = list(lines(lab, scope, missing))
    return section_of(found, scope.tasks, scope.batch, missing)


def section_of(
    found: Sequence[Line], tasks: Sequence[str], batch: int, missing: Mapping[str, str]
) -> Section:
    """Lines of one measuring, greedy's among them, as a table.

    missing  as in `lines`
    """
    by_decoder: dict[Decoder, list[Line]] = {}
    for line in found:
        by_decoder.setdefault(line.decoder, []).append(line)
    comparisons = max(1, len(by_decoder) - 1)
    rows = [row_of(lines, comparisons) for lines in by_decoder.values()]
    length, items = LENGTHS[-1], next(iter(by_decoder.values()))[-1].items
    text = (
        f"{', '.join(tasks)}: {items} items in all, length {length}, batch {batch}; "
        "accuracy in %, by task. Counts and the difference are over all items; the difference is "
        "accuracy minus that of one token a step on the same items, with Newcombe's 95 % interval "
        f"and McNemar's exact p (a star: below 0.05 / {comparisons}, as many comparisons as "
        "there are)."
    )
    if missing:
        text += f" {not_measured(missing)}"
    return Section("Every decoder", text, head(tasks), rows)


def head(tasks: Sequence[str]) -> list[str]:
    """The columns of `row_of`."""
    return ["decoder", *tasks, "tokens/step", "tokens/pass", "row-layers/token",
            "difference, points"]  # fmt: skip


def row_of(found: Sequence[Line], comparisons: int) -> list[str]:
    """A decoder's lines as a row of words; the last line is the one over all tasks.

    comparisons  how many decoders are compared with greedy, for Bonferroni's bar
    """
    tasks = [line for line in found if line.task != ALL]
    total = found[-1]
    d = total.difference
    difference = "–"
    if d is not None:
        star = "*" if d.p < 0.05 / comparisons else ""
        difference = (
            f"{100 * d.difference:+.1f} ({100 * d.low:+.1f} to {100 * d.high:+.1f}), "
            f"{p_value(d.p)}{star}"
        )
    return [
        total.decoder.title, *(f"{100 * line.accuracy:.1f}" for line in tasks),
        f"{total.tokens_per_step:.2f}", f"{total.tokens_per_pass:.2f}",
        f"{total.row_layers_per_token:.0f}", difference,
    ]  # fmt: skip

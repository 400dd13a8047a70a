"""Numbers as a table's words; what was not measured is a dash."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence

from flash_dllm.evaluation.report.cell import Measured
from flash_dllm.evaluation.report.judging import times
from flash_dllm.evaluation.report.timing import fifths
from flash_dllm.evaluation.statistics import PairedDifference

UNKNOWN = "–"
NOT_YET = (
    "measuring was stopped before their turn came, and the command that measured them, given "
    "again, goes on with them"
)


def percent(run: Measured) -> str:
    """Accuracy with its interval."""
    low, high = run.summary["accuracy_ci95"]
    return f"{100 * run.accuracy:.1f} ({100 * low:.0f}–{100 * high:.0f})"


def speed(run: Measured) -> str:
    """Tokens a second: median, with 20 and 80 percentiles."""
    if run.timing is None:
        return UNKNOWN
    low, high = run.timing.fifths
    return f"{run.timing.tokens_per_second:.1f} ({low:.0f}–{high:.0f})"


def speed_cell(run: Measured, against: Measured) -> str:
    """Accuracy, speed, and the ratio to a run of the same batch size."""
    ratio = number(times(run, against), 2, " ×")
    return f"{percent(run)} %, {speed(run)} tokens/s, {ratio}"


def by_round(ratios: Sequence[float]) -> str:
    """Ratios of two decoders, a round each, as they are judged: median, 20 and 80 percentiles.

    >>> by_round([1.5, 1.1, 1.2, 1.3, 1.4, 1.6]), by_round([])
    ('1.35 (1.20–1.50)', '–')
    """
    if not ratios:
        return UNKNOWN
    low, high = fifths(ratios)
    return f"{statistics.median(ratios):.2f} ({low:.2f}–{high:.2f})"


def number(value: float | None, digits: int, unit: str = "") -> str:
    """A number with its unit, or a dash.

    >>> number(1.25, 1, " ×"), number(None, 1, " ×")
    ('1.2 ×', '–')
    """
    return UNKNOWN if value is None else f"{value:.{digits}f}{unit}"


def mean(values: Sequence[float | None]) -> float | None:
    """None if one is missing: a mean over the others would be another row's."""
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if len(known) == len(values) else None


def spread(values: Sequence[float | None]) -> str:
    """Mean ± standard deviation; a dash if one value is missing."""
    average = mean(values)
    if average is None:
        return UNKNOWN
    known = [value for value in values if value is not None]
    deviation = statistics.stdev(known) if len(known) > 1 else 0.0
    return f"{average:.1f} ± {deviation:.1f}"


def without_speed(runs: Iterable[Measured]) -> str:
    """The line under a table of which some speeds are missing, "" if none is."""
    runs = list(runs)
    reasons = [run.problem or NOT_YET for run in runs if run.speed is None]
    if not reasons:
        return ""
    return (
        f"{len(reasons)} of these {len(runs)} runs have no speed ({UNKNOWN}): "
        f"{'; '.join(dict.fromkeys(reasons))}."
    )


def not_measured(reasons: Mapping[str, str]) -> str:
    """What has no run here, by reason: name → reason.

    >>> not_measured({"A": "too large", "B": "too large", "C": "too old"})
    'Not measured: A / B (too large); C (too old).'
    """
    names: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        names.setdefault(reason, []).append(name)
    groups = [f"{' / '.join(found)} ({reason})" for reason, found in names.items()]
    return f"Not measured: {'; '.join(groups)}."


def points(difference: PairedDifference) -> str:
    """A paired difference of accuracies in points, with its interval and McNemar's p."""
    d = difference
    return (
        f"{100 * d.difference:+.1f} points ({100 * d.low:+.1f} to {100 * d.high:+.1f}), "
        f"{p_value(d.p)}"
    )


def p_value(p: float) -> str:
    """Never a zero.

    >>> p_value(0.0004), p_value(0.25)
    ('p < 0.001', 'p 0.250')
    """
    return "p < 0.001" if p < 0.001 else f"p {p:.3f}"

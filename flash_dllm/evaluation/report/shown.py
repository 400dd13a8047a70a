"""Numbers as a table's words."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from flash_dllm.evaluation.report.cell import Measured
from flash_dllm.evaluation.statistics import PairedDifference


def percent(run: Measured) -> str:
    """Accuracy with its interval."""
    low, high = run.summary["accuracy_ci95"]
    return f"{100 * run.accuracy:.1f} ({100 * low:.0f}–{100 * high:.0f})"


def speed(run: Measured) -> str:
    """Tokens a second, with 20 and 80 percentiles where it was measured more than once."""
    timing = run.timing
    if timing is None or timing["repeats"] < 2:
        return f"{run.speed:.1f}"
    return f"{run.speed:.1f} ({timing['p20']:.0f}–{timing['p80']:.0f})"


def speed_cell(run: Measured, against: Measured) -> str:
    """Accuracy, speed, and the ratio to a run of the same batch size."""
    assert run.batch == against.batch, "no ratio across batch sizes"
    times = f"{run.speed / against.speed:.2f} ×" if against.speed else "–"
    return f"{percent(run)} %, {run.speed:.1f} tokens/s, {times}"


def spread(values: Sequence[float]) -> str:
    """Mean ± standard deviation."""
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.fmean(values):.1f} ± {deviation:.1f}"


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

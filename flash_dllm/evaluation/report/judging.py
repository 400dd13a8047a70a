"""Claims about speeds of which some are missing or too alike: true, false, or open."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from enum import Enum

from flash_dllm.evaluation.report.cell import Measured
from flash_dllm.evaluation.report.timing import fifths


class Open(Enum):
    """Why something can't be said; never true."""

    NOISY = "too noisy to judge"
    MISSING = "without a speed"

    def __bool__(self) -> bool:
        return False


Judged = bool | Open


def is_above(first: Sequence[float], second: Sequence[float], noise: float) -> Judged:
    """Whether one series of rounds is above another, by their ratio in each round: what drifts
    from round to round hits both.

    noise  how far the 20 and 80 percentiles of one decoder entered twice are from 1, as a factor

    "Too noisy to judge" is what it says if the ratio's 20-80 percentiles include 1, or its median
    is no further from 1 than the noise.

    >>> fast, slow = [9.0, 20.0, 11.0], [7.0, 16.0, 8.5]
    >>> is_above(fast, slow, 1.0), is_above(slow, fast, 1.0), is_above(fast, slow, 1.3)
    (True, False, <Open.NOISY: 'too noisy to judge'>)
    """
    if not first or not second:
        return Open.MISSING
    ratios = over(first, second)
    (low, high), middle = fifths(ratios), statistics.median(ratios)
    if low <= 1 <= high or max(middle, 1 / middle) <= noise:
        return Open.NOISY
    return middle > 1


def is_faster(run: Measured, other: Measured, noise: float) -> Judged:
    """Whether a run is faster than another of the same batch size.

    Raises AssertionError for runs of two batch sizes.
    """
    assert run.batch == other.batch, "no comparison across batch sizes"
    return is_above(rounds_of(run), rounds_of(other), noise)


def rounds_of(run: Measured) -> list[float]:
    """Tokens a second by round; [] where they were not measured."""
    return [] if run.timing is None else run.timing.speeds


def leads(run: Measured, other: Measured) -> list[float]:
    """How many times as fast, by round: both were decoded in each. [] where one is missing.

    Raises AssertionError for runs of two batch sizes: their ratio would say nothing of a decoder.
    """
    assert run.batch == other.batch, "no ratio across batch sizes"
    return over(rounds_of(run), rounds_of(other))


def over(first: Sequence[float], second: Sequence[float]) -> list[float]:
    """The ratio in each round; [] where one series is missing."""
    return [a / b for a, b in zip(first, second, strict=True)] if first and second else []


def means(runs: Sequence[Measured]) -> list[float]:
    """Mean speed over runs, by round; [] where one is missing."""
    speeds = [rounds_of(run) for run in runs]
    if not all(speeds):
        return []
    return [sum(found) / len(found) for found in zip(*speeds, strict=True)]


def every(verdicts: Sequence[Judged]) -> Judged:
    """One counterexample refutes; without one, what is open leaves it open.

    >>> every([True, Open.NOISY, False]), every([True, Open.NOISY]), every([True, True])
    (False, <Open.NOISY: 'too noisy to judge'>, True)
    """
    if any(verdict is False for verdict in verdicts):
        return False
    for reason in (Open.MISSING, Open.NOISY):
        if reason in verdicts:
            return reason
    return True


def times(run: Measured, other: Measured) -> float | None:
    """How many times as fast a run is: the median of its leads by round, which is what is judged,
    and no ratio of two medians, whose rounds may be other ones. None where that can't be said."""
    found = leads(run, other)
    return statistics.median(found) if found else None


def counted(verdicts: Sequence[Judged], of_what: str) -> str:
    """How often it is so.

    >>> counted([True, Open.NOISY, False], "rows")
    '1 of 3 rows, 1 too noisy to judge'
    """
    words = [f"{sum(verdict is True for verdict in verdicts)} of {len(verdicts)} {of_what}"]
    for reason in Open:
        if found := sum(verdict is reason for verdict in verdicts):
            words.append(f"{found} {reason.value}")
    return ", ".join(words)

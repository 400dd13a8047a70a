"""How sure an accuracy is, and whether two decoders differ on the same items.

The tests are scipy's; the interval of a paired difference and Holm's correction are written out:
scipy has neither.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.stats import binomtest

CONFIDENCE_LEVEL = 0.95


def wilson_interval(successes: int, count: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share (Wilson 1927). Raises ValueError for no items."""
    if count < 1:
        raise ValueError("an interval needs at least one item, got 0")
    interval = binomtest(successes, count).proportion_ci(CONFIDENCE_LEVEL, method="wilson")
    return float(interval.low), float(interval.high)


def mcnemar_p(only_first: int, only_second: int) -> float:
    """Exact two-sided McNemar test of the items that only one of two decoders got right.

    >>> mcnemar_p(0, 5)
    0.0625
    """
    discordant = only_first + only_second
    return float(binomtest(only_first, discordant).pvalue) if discordant else 1.0


def holm(ps: Sequence[float]) -> list[float]:
    """p-values of a family of tests, corrected for how many they are, in the given order.

    Of n sorted values the k-th is multiplied by n - k + 1, and none may fall below one before it:
    with all null hypotheses true, one below 0.05 comes out 5 times in 100 at most.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03, 0.5])]
    [0.04, 0.09, 0.09, 0.5]

    Source     Holm 1979, Scandinavian Journal of Statistics 6:65.
    """
    corrected, largest = [0.0] * len(ps), 0.0
    for rank, place in enumerate(sorted(range(len(ps)), key=lambda place: ps[place])):
        largest = max(largest, min(1.0, (len(ps) - rank) * ps[place]))
        corrected[place] = largest
    return corrected


@dataclass(frozen=True)
class PairedDifference:
    """First decoder's accuracy minus the second's on the same items.

    difference, low, high    shares; low and high are the 95 % interval
    p                        exact McNemar test
    only_first, only_second  items that only one of them got right
    """

    difference: float
    low: float
    high: float
    p: float
    only_first: int
    only_second: int


def paired_difference(first: Sequence[bool], second: Sequence[bool]) -> PairedDifference:
    """Compare two decoders on the same items, item by item.

    The interval combines both Wilson intervals and the correlation of the pairs. Unlike Wald's it
    keeps a width when no item differs.

    Raises     ValueError if the lengths differ or there are no items.
    Source     Newcombe 1998, Statistics in Medicine 17:2635, method 10.
    """
    if len(first) != len(second):
        raise ValueError(f"pairs need equal lengths, got {len(first)} and {len(second)}")
    count = len(first)
    both = sum(a and b for a, b in zip(first, second, strict=True))
    only_first, only_second = sum(first) - both, sum(second) - both
    neither = count - both - only_first - only_second
    low_1, high_1 = wilson_interval(both + only_first, count)
    low_2, high_2 = wilson_interval(both + only_second, count)
    share_1, share_2 = (both + only_first) / count, (both + only_second) / count
    phi = _phi(both, only_first, only_second, neither)
    difference = share_1 - share_2
    below = _combined(share_1 - low_1, high_2 - share_2, phi)
    above = _combined(high_1 - share_1, share_2 - low_2, phi)
    return PairedDifference(
        difference=difference,
        low=difference - below,
        high=difference + above,
        p=mcnemar_p(only_first, only_second),
        only_first=only_first,
        only_second=only_second,
    )


def _combined(first: float, second: float, phi: float) -> float:
    """Half-width of a difference of two correlated shares."""
    # rounding may push the radicand of two equal, fully correlated parts below zero
    return math.sqrt(max(0.0, first**2 - 2 * phi * first * second + second**2))


def _phi(both: int, only_first: int, only_second: int, neither: int) -> float:
    """Correlation of the pairs, a positive one with Newcombe's continuity correction."""
    margins = (
        (both + only_first)
        * (only_second + neither)
        * (both + only_second)
        * (only_first + neither)
    )
    if not margins:
        return 0.0
    product = both * neither - only_first * only_second
    if product > 0:
        product = max(0, 2 * product - (both + only_first + only_second + neither))
        return product / (2 * math.sqrt(margins))
    return product / math.sqrt(margins)

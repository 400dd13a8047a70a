"""Which decided positions to re-read next: the tracked set T (paper §2.2, docs/decisions.md)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence


def next_tracked(
    ranked: Sequence[int],
    newly: Sequence[int],
    dirty: Sequence[int],
    mass: Sequence[float],
    track_size: int,
) -> tuple[int, ...]:
    """T_{t+1}, in order of preference.

    ranked   the decided positions by falling mass, ties by position; this step's may be left out
    newly    this step's, in any order
    dirty    decided since they were last written: always kept, also beyond `track_size`, because
             a committed position must not keep a [MASK] entry past the next pass
    mass     attention mass per position (all zero when the pass did not measure it)

    >>> next_tracked([0, 1, 2], newly=[1, 2], dirty=[], mass=[.5, .3, .2, 0, 0], track_size=1)
    (1,)
    >>> next_tracked([0, 1, 2], newly=[1, 2], dirty=[2], mass=[.5, .3, .2, 0, 0], track_size=2)
    (2, 1)
    """
    first = sorted(set(dirty))
    taken = set(first)
    fresh = by_mass([p for p in newly if p not in taken], mass)
    taken.update(fresh)
    room = track_size - len(first) - len(fresh)
    rest = [p for p in ranked if p not in taken][: max(0, room)]
    return tuple(first + (fresh + rest)[: max(0, track_size - len(first))])


def by_mass(positions: Iterable[int], mass: Sequence[float]) -> list[int]:
    """Positions by falling mass, ties by position.

    >>> by_mass([0, 1, 2], [.2, .3, .2])
    [1, 0, 2]
    """
    # pairs instead of a key: this is done for every sequence while the device waits
    return [position for _, position in sorted([(-mass[p], p) for p in positions])]


def cosine(now: Sequence[float], before: Sequence[float]) -> float:
    """Cosine of two mass vectors; 1.0 when either is all zero (nothing to compare).

    >>> cosine([1.0, 0.0], [0.0, 1.0])
    0.0
    """
    norm = math.sqrt(sum(a * a for a in now) * sum(b * b for b in before))
    if norm == 0.0:
        return 1.0
    return sum(a * b for a, b in zip(now, before, strict=True)) / norm

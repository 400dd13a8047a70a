"""Which positions each layer of a pass computes, decided inside the forward.

A cache policy may give its query a `LayerPlan`. The engine then walks through the layers one by
one and asks the plan at each of them; a position that a layer leaves out goes on with what that
layer added to it when it was last computed. Plain Python: plans see numbers, never tensors
(`layerwise.py` makes them).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class LayerReport:
    """What one layer did in a pass with a plan.

    rows      positions that it computed: entries, attention and feed-forward, left to right
    compared  how many positions had their value computed for the comparison
    changed   mean of 1 − cosine(new value, kept value) over them; None if there were none
    turned    cosine of the watched position's attention with what it was when this layer last
              computed it; None if nothing was watched, or it is the first time
    leader    decided position with most attention from the window's rows; None where not wanted
    """

    rows: tuple[int, ...]
    compared: int = 0
    changed: float | None = None
    turned: float | None = None
    leader: int | None = None


@dataclass(frozen=True)
class LayerPlan(ABC):
    """One pass of one sequence. Layers are counted from 0; the rows of layer 0 must be among the
    query's, because only those bring a token."""

    @property
    def wants_leaders(self) -> bool:
        """Whether the reports must name each layer's leader."""
        return False

    def compared(self, layer: int) -> Sequence[int]:
        """Positions whose value this layer computes, keeps and compares with the one before."""
        return ()

    def watched(self, layer: int) -> int | None:
        """The position whose attention is compared, if this layer computes it."""
        return None

    @abstractmethod
    def rows(
        self, layer: int, similarity: Sequence[float], before: Sequence[LayerReport]
    ) -> Sequence[int]:
        """The positions that this layer computes, left to right.

        similarity  cosine of new and kept value of each compared position, in their order
        before      the reports of the layers before this one
        """


def least_similar(
    positions: Sequence[int], similarity: Sequence[float], count: int
) -> list[int]:
    """The `count` positions of smallest similarity, ties by position; left to right.

    Similarities that differ by less than 1e-12 are ties: that is rounding, not movement.

    >>> least_similar([4, 5, 6, 7], [0.9, 0.2, 0.9, 0.5], 3)
    [4, 5, 7]
    """
    rounded = [round(cosine, 12) for cosine in similarity]
    pairs = sorted(zip(rounded, positions, strict=True))
    return sorted(position for _, position in pairs[:count])

"""Dynamic-dLLM's cache updating: dLLM-Cache's skeleton with a budget that moves between layers.

Layers whose values moved more in the last step may refresh more positions in this one (DCU,
arXiv 2606.26120). Its other half, the adaptive threshold, is `strategies/adaptive.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from flash_dllm.caches.interval import IntervalCache, IntervalMemory, steps_between
from flash_dllm.canvas import Canvas
from flash_dllm.layer_plan import LayerPlan, LayerReport, least_similar

SHARPNESS = 200.0  # of the softmax over the layers' movements, as in the released code


def layer_budgets(moved: Sequence[float], layer_budget: int) -> list[float]:
    """How many positions each choosing layer may refresh besides the window.

    moved         how far each layer's values moved in the last step, mean of 1 − cosine
    layer_budget  the mean over all layers, the first (which always computes everything) included

    >>> [round(budget, 3) for budget in layer_budgets([0.01, 0.01], 2)]
    [3.0, 3.0]
    >>> [round(budget, 3) for budget in layer_budgets([0.0, 0.01 * math.log(3) / 2], 4)]
    [3.0, 9.0]
    """
    top = max(moved)
    weights = [math.exp(SHARPNESS * (movement - top)) for movement in moved]
    total = layer_budget * (len(moved) + 1)
    return [total * weight / sum(weights) for weight in weights]


def window_around(position: int, size: int, first: int, end: int) -> range:
    """`size` positions centred on one (an even size has one more on its left), cut to first…end.

    >>> window_around(10, 4, 0, 12), window_around(1, 5, 0, 12)
    (range(8, 12), range(0, 4))
    """
    start = position - size // 2
    return range(max(first, start), max(first, min(end, start + size)))


@dataclass(frozen=True)
class BudgetByLayer(LayerPlan):
    """length: positions; due: refreshed in every layer; near: refreshed whatever has moved;
    stale: to compare; budgets: of the layers from the second on, or one for all of them."""

    length: int
    due: tuple[int, ...]
    near: tuple[int, ...]
    stale: tuple[int, ...]
    budgets: tuple[float, ...]

    def compared(self, layer: int) -> Sequence[int]:
        return self.stale if layer > 0 else ()

    def rows(
        self, layer: int, similarity: Sequence[float], before: Sequence[LayerReport]
    ) -> Sequence[int]:
        if layer == 0:
            return range(self.length)
        if not self.stale:
            return self.due
        near = set(self.near)
        pairs = zip(self.stale, similarity, strict=True)
        far = [(position, cosine) for position, cosine in pairs if position not in near]
        budget = self.budgets[layer - 1] if len(self.budgets) > 1 else self.budgets[0]
        positions, similarities = [p for p, _ in far], [cosine for _, cosine in far]
        chosen = least_similar(positions, similarities, int(budget))
        return sorted({*self.due, *near, *chosen})


@dataclass(frozen=True)
class DynamicCache(IntervalCache):
    """Between refreshes each layer computes a window around the newest token, and besides it as
    many of the least similar values as its budget allows.

    clamp: the released code lets no layer refresh more than one position besides the window, from
    the third step on. That is hardly what the paper means, so it is off by default.
    """

    name: ClassVar[str] = "dynamic"

    prompt_interval: int = steps_between(5000, "K_p", "prompt")
    answer_interval: int = steps_between(5000, "K_r", "answer")
    newest_size: int = field(
        default=32,
        metadata={"symbol": "", "low": 0, "high": 8192,
                  "help": "positions around the newest token that every layer refreshes"},
    )
    layer_budget: int = field(
        default=32,
        metadata={"symbol": "", "low": 0, "high": 8192,
                  "help": "positions that a layer refreshes besides, on average"},
    )
    clamp: bool = field(
        default=False,
        metadata={"help": "at most one position besides, from step 3 on (as released)"},
    )

    def plan(
        self, memory: IntervalMemory, canvas: Canvas, due: tuple[int, ...], stale: tuple[int, ...]
    ) -> LayerPlan:
        first, end = canvas.prompt_length, canvas.length
        near: Sequence[int] = ()
        if stale and memory.last is not None:
            near = window_around(memory.last, self.newest_size, first, end)
        # before anything was compared every layer has the same budget
        budgets = [float(self.layer_budget)]
        if memory.moved:
            budgets = layer_budgets(memory.moved, self.layer_budget)
        if self.clamp and memory.steps >= 2:
            budgets = [min(1.0, budget) for budget in budgets]
        return BudgetByLayer(canvas.length, due, tuple(near), stale, tuple(budgets))

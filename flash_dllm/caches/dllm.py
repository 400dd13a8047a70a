"""dLLM-Cache: refresh at long intervals, and in between the values that moved most.

Source: arXiv 2506.06295 and its released code. ρ is a share of the whole answer, in every layer
but the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from flash_dllm.caches.interval import IntervalCache, IntervalMemory, steps_between
from flash_dllm.canvas import Canvas
from flash_dllm.layer_plan import LayerPlan, LayerReport, least_similar


@dataclass(frozen=True)
class ShareOfAnswer(LayerPlan):
    """length: positions; due: refreshed in every layer; stale: to choose from, their values are
    all renewed; count: how many."""

    length: int
    due: tuple[int, ...]
    stale: tuple[int, ...]
    count: int

    def compared(self, layer: int) -> Sequence[int]:
        return self.stale if layer > 0 else ()

    def rows(
        self, layer: int, similarity: Sequence[float], before: Sequence[LayerReport]
    ) -> Sequence[int]:
        if layer == 0:
            return range(self.length)
        chosen = least_similar(self.compared(layer), similarity, self.count)
        return sorted((*self.due, *chosen))


@dataclass(frozen=True)
class DllmCache(IntervalCache):
    """The prompt is refreshed every K_p steps, the answer every K_r; in the steps between, each
    layer refreshes the ⌊ρ · gen_length⌋ answer positions whose values have the smallest cosine
    with the kept ones."""

    name: ClassVar[str] = "dllm"

    prompt_interval: int = steps_between(50, "K_p", "prompt")
    answer_interval: int = steps_between(7, "K_r", "answer")
    transfer_ratio: float = field(
        default=0.25,
        metadata={"symbol": "ρ", "low": 0.0, "high": 1.0,
                  "help": "share of the answer that a layer refreshes in between"},
    )

    def plan(
        self, memory: IntervalMemory, canvas: Canvas, due: tuple[int, ...], stale: tuple[int, ...]
    ) -> LayerPlan:
        count = int(self.transfer_ratio * canvas.config.gen_length)
        # as published: any share above 0 renews all values, also where it is less than a position
        compared = stale if self.transfer_ratio > 0 else ()
        return ShareOfAnswer(canvas.length, due, compared, count)

"""The exact cache of block-causal models: past blocks are read once, the current one each pass.

Attention never looks behind its own block, so the entries of a finished block don't change any
more. They are written last in the first pass of the next block, where all its tokens are known.
Nothing is tracked, nothing goes stale, and `none` gives the same tokens (docs/decisions.md,
Block-causal models).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from flash_dllm.caches.base import CachePolicy, StepFacts, range_query, verify_query
from flash_dllm.canvas import Canvas
from flash_dllm.query import DraftAsk, Mass, Query, Role, VerifyAsk


@dataclass(frozen=True)
class BlockCache(CachePolicy):
    """The memory is a number: how many positions, from the first on, hold their final entries."""

    name: ClassVar[str] = "block"
    keeps_entries: ClassVar[bool] = False
    fits: ClassVar[frozenset[str]] = frozenset({"block-causal", "causal"})

    def start(self) -> int:
        return 0

    def tracked(self, memory: int) -> tuple[int, ...]:
        return ()

    def draft(self, memory: int, canvas: Canvas, ask: DraftAsk, mask_token_id: int) -> Query:
        kind = "draft" if memory else "full"
        return range_query(kind, canvas, memory, ask.window, mask_token_id)

    def verify(
        self, memory: int, canvas: Canvas, ask: VerifyAsk, mask_token_id: int, mass: Mass | None
    ) -> Query:
        current = tuple(position for position in canvas.decided() if position >= canvas.past)
        return verify_query(canvas, current, Role.CONTEXT, ask, mask_token_id)

    def learn(self, memory: int, facts: StepFacts) -> int:
        block = facts.canvas.causal_block
        assert block is not None, "the loop refuses this cache for other models"
        # this step's draft pass has read every block before the one it committed in
        return min(facts.accepted) // block * block

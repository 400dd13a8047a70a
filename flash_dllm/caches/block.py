"""The exact cache of block-causal models: past blocks are read once, the current one each pass.

Attention never looks behind its own block, so the entries of a finished block don't change any
more. They are written last in the first pass of the next block, where all its tokens are known.
Nothing is tracked, nothing goes stale, and `none` gives the same tokens (docs/decisions.md,
Block-causal models).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from flash_dllm.caches.base import FrozenPrefixCache, StepFacts, verify_query
from flash_dllm.canvas import Canvas
from flash_dllm.query import Mass, Query, Role, VerifyAsk


@dataclass(frozen=True)
class BlockCache(FrozenPrefixCache):
    """The prefix is the finished blocks."""

    name: ClassVar[str] = "block"
    fits: ClassVar[frozenset[str]] = frozenset({"block-causal", "causal"})

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

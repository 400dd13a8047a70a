"""FreeCache: what a pass has read as part of the clean prefix is kept and never read again.

From FlashDLM (arXiv 2505.21467). Unlike Fast-dLLM's prefix cache nothing is ever refreshed; the
masks behind the prefix are read in every pass.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from flash_dllm.caches.base import FrozenPrefixCache, StepFacts, verify_query
from flash_dllm.canvas import Canvas
from flash_dllm.config import check_ranges
from flash_dllm.query import Mass, Query, Role, VerifyAsk

FREEZE = ("position", "block")


@dataclass(frozen=True)
class FreeCache(FrozenPrefixCache):
    """The prefix is what is frozen.

    freeze="position": every position before the first mask is frozen by the pass that reads it
    there, so its entry comes from a pass that saw its token (their code for Dream).
    freeze="block": everything before the block is; a block is frozen as its last step's pass left
    it, when the tokens of that step were still masks (their code for LLaDA).
    """

    name: ClassVar[str] = "free"

    freeze: str = field(
        default="position",
        metadata={"choices": FREEZE, "help": "freeze by position, or by whole block"},
    )

    def __post_init__(self) -> None:
        check_ranges(self)

    def verify(
        self, memory: int, canvas: Canvas, ask: VerifyAsk, mask_token_id: int, mass: Mass | None
    ) -> Query:
        decided = tuple(position for position in canvas.decided() if position >= memory)
        return verify_query(canvas, decided, Role.CONTEXT, ask, mask_token_id)

    def learn(self, memory: int, facts: StepFacts) -> int:
        if self.freeze == "position":
            # this step's draft pass has read them all as tokens
            return facts.before.undecided()[0]
        start, end = facts.before.block
        return start if facts.canvas.block[0] == start else end

"""No cache: every draft pass reads every position (docs/decisions.md, Cache `none`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from flash_dllm.caches.base import CachePolicy, StepFacts, full_query, verify_query
from flash_dllm.canvas import Canvas
from flash_dllm.query import DraftAsk, Mass, Query, Role, VerifyAsk


@dataclass(frozen=True)
class NoCache(CachePolicy):
    """Nothing outlives a step. Inside a step the verify pass still reads this step's draft
    entries of the undecided positions, which are as fresh as can be."""

    name: ClassVar[str] = "none"
    keeps_entries: ClassVar[bool] = False
    fits: ClassVar[frozenset[str]] = frozenset({"bidirectional", "block-causal", "causal"})
    takes: ClassVar[frozenset[str]] = frozenset({"revocation", "branches", "guidance"})

    def start(self) -> None:
        return None

    def tracked(self, memory) -> tuple[int, ...]:
        return ()

    def draft(self, memory, canvas: Canvas, ask: DraftAsk, mask_token_id: int) -> Query:
        return full_query(canvas, ask.window, mask_token_id)

    def verify(
        self, memory, canvas: Canvas, ask: VerifyAsk, mask_token_id: int, mass: Mass | None
    ) -> Query:
        return verify_query(canvas, canvas.decided(), Role.CONTEXT, ask, mask_token_id)

    def learn(self, memory, facts: StepFacts) -> None:
        return None

"""Flash-Cache for a text that grows: masks far behind the window do not exist yet."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from flash_dllm.caches.base import StepFacts
from flash_dllm.caches.flash import FlashCache, FlashMemory
from flash_dllm.canvas import Canvas
from flash_dllm.query import DraftAsk, Mass, Query, Role, VerifyAsk


@dataclass(frozen=True)
class NearMemory(FlashMemory):
    """end: where the text ended in the last step."""

    end: int = 0


@dataclass(frozen=True)
class NearCache(FlashCache):
    """The text ends `margin` masks behind the window, and grows with it."""

    name: ClassVar[str] = "near"

    margin: int = field(
        default=32,
        metadata={"symbol": "", "low": 0, "high": 4096,
                  "help": "masks behind the window that are there at least"},
    )

    def start(self) -> NearMemory:
        return NearMemory()

    def end(self, canvas: Canvas) -> int:
        """Where the text ends for now."""
        window = canvas.window()
        last = window[-1] if window else canvas.length - 1
        grown = -(-(last + 1 - canvas.prompt_length + self.margin) // 16) * 16
        return min(canvas.length, canvas.prompt_length + grown)

    def draft(
        self, memory: NearMemory, canvas: Canvas, ask: DraftAsk, mask_token_id: int
    ) -> Query:
        end = self.end(canvas)
        query = super().draft(memory, canvas.until(end), ask, mask_token_id)
        if not memory.is_due:
            asked = set(ask.window)
            for position in range(memory.end, end):
                if position not in asked:
                    query.add(mask_token_id, position, position, Role.FAR)
        return query

    def verify(
        self, memory: NearMemory, canvas: Canvas, ask: VerifyAsk, mask_token_id: int,
        mass: Mass | None,
    ) -> Query:  # fmt: skip
        return super().verify(memory, canvas.until(self.end(canvas)), ask, mask_token_id, mass)

    def learn(self, memory: NearMemory, facts: StepFacts) -> NearMemory:
        learnt = super().learn(memory, facts)
        return NearMemory(**{**vars(learnt), "end": self.end(facts.before)})

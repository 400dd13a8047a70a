"""Fast-dLLM's caches: what stands outside the block is frozen while the block is decoded.

Every block starts with a full pass, which also decides. After it the prefix cache reads from the
block's start to the end of the text, the dual cache the block alone (arXiv 2505.22618).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from flash_dllm.caches.base import CachePolicy, StepFacts, full_query, rows_query, verify_query
from flash_dllm.canvas import Canvas
from flash_dllm.config import DecodeConfig
from flash_dllm.query import DraftAsk, Mass, Query, Role, VerifyAsk


@dataclass(frozen=True)
class BlockwiseCache(CachePolicy):
    """The memory is where the block starts that the last full pass was made for, or None."""

    keeps_entries: ClassVar[bool] = False
    takes: ClassVar[frozenset[str]] = frozenset({"revocation", "branches"})

    def start(self) -> int | None:
        return None

    def tracked(self, memory: int | None) -> tuple[int, ...]:
        return ()

    def draft(
        self, memory: int | None, canvas: Canvas, ask: DraftAsk, mask_token_id: int
    ) -> Query:
        if memory != canvas.block[0]:
            return full_query(canvas, ask.window, mask_token_id)
        # a strategy may ask about masks outside the block: those are read as well
        positions = sorted({*self._read(canvas), *ask.window})
        return rows_query("draft", canvas, positions, ask.window, mask_token_id)

    def verify(
        self,
        memory: int | None,
        canvas: Canvas,
        ask: VerifyAsk,
        mask_token_id: int,
        mass: Mass | None,
    ) -> Query:
        decided = tuple(position for position in self._read(canvas) if canvas.flags[position])
        return verify_query(canvas, decided, Role.CONTEXT, ask, mask_token_id)

    def learn(self, memory: int | None, facts: StepFacts) -> int | None:
        return facts.before.block[0]

    @abstractmethod
    def _read(self, canvas: Canvas) -> range:
        """What a pass reads that is not a full one."""


@dataclass(frozen=True)
class PrefixCache(BlockwiseCache):
    """Before the block: frozen. The block and everything behind it: read in every pass."""

    name: ClassVar[str] = "prefix"

    def branch_rows(self, config: DecodeConfig, length: int) -> int:
        # a shifted model also reads the row before the block
        return 1 + config.gen_length

    def _read(self, canvas: Canvas) -> range:
        return range(canvas.block[0], canvas.length)


@dataclass(frozen=True)
class DualCache(BlockwiseCache):
    """Before and behind the block: frozen. The block: read in every pass."""

    name: ClassVar[str] = "dual"

    def branch_rows(self, config: DecodeConfig, length: int) -> int:
        return 1 + config.block

    def _read(self, canvas: Canvas) -> range:
        return range(*canvas.block)

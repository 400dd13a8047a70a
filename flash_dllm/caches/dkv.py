"""dKV-Cache: a token's entry is kept only once it was computed with the token visible.

So a decided token is read once more in the step after it was committed, and then frozen until the
next full pass (arXiv 2505.15781). Both variants start over in every block.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import ClassVar

from flash_dllm.caches.base import CachePolicy, StepFacts, full_query, rows_query, verify_query
from flash_dllm.canvas import Canvas
from flash_dllm.config import check_ranges
from flash_dllm.query import DraftAsk, Mass, Query, Role, VerifyAsk


@dataclass(frozen=True)
class DelayedMemory:
    """block: where the block of the last step starts, or None; steps: how many were taken in it;
    fresh: positions that the last step committed."""

    block: int | None = None
    steps: int = 0
    fresh: tuple[int, ...] = ()

    def steps_in(self, canvas: Canvas) -> int:
        """Steps already taken in the canvas's block."""
        return self.steps if self.block == canvas.block[0] else 0


_RELOAD = {"symbol": "", "low": 1, "high": 4096,
           "help": "read every position again each so many steps of a block"}  # fmt: skip


@dataclass(frozen=True)
class DelayedCache(CachePolicy):
    """What both variants share: read some masks and what the last step committed."""

    keeps_entries: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_ranges(self)

    def start(self) -> DelayedMemory:
        return DelayedMemory()

    def tracked(self, memory: DelayedMemory) -> tuple[int, ...]:
        return tuple(sorted(memory.fresh))

    def draft(
        self, memory: DelayedMemory, canvas: Canvas, ask: DraftAsk, mask_token_id: int
    ) -> Query:
        steps = memory.steps_in(canvas)
        if self._is_full(steps):
            return full_query(canvas, ask.window, mask_token_id)
        positions = sorted({*memory.fresh, *self._masks(canvas, ask.window)})
        return rows_query("draft", canvas, positions, ask.window, mask_token_id, Role.TRACKED)

    def verify(
        self,
        memory: DelayedMemory,
        canvas: Canvas,
        ask: VerifyAsk,
        mask_token_id: int,
        mass: Mass | None,
    ) -> Query:
        return verify_query(canvas, self.tracked(memory), Role.TRACKED, ask, mask_token_id)

    def learn(self, memory: DelayedMemory, facts: StepFacts) -> DelayedMemory:
        steps = memory.steps_in(facts.before)
        return DelayedMemory(facts.before.block[0], steps + 1, facts.accepted)

    @abstractmethod
    def _is_full(self, steps: int) -> bool:
        """Whether everything is read after so many steps of a block."""

    @abstractmethod
    def _masks(self, canvas: Canvas, window: tuple[int, ...]) -> tuple[int, ...]:
        """The undecided positions that a pass reads which is not a full one."""


@dataclass(frozen=True)
class DelayedDecodeCache(DelayedCache):
    """The decode variant: read every mask and what the last step committed; all else is frozen.

    The first two passes of a block and every `reload_steps`-th are full ones.
    """

    name: ClassVar[str] = "dkv"
    takes: ClassVar[frozenset[str]] = frozenset({"revocation"})

    reload_steps: int = field(default=8, metadata=_RELOAD)

    def _is_full(self, steps: int) -> bool:
        # the first pass leaves nothing: none of its entries had seen this block's first token
        return steps == 1 or steps % self.reload_steps == 0

    def _masks(self, canvas: Canvas, window: tuple[int, ...]) -> tuple[int, ...]:
        return canvas.undecided()


@dataclass(frozen=True)
class DelayedGreedyCache(DelayedCache):
    """The greedy variant: of the masks only those that are asked about and some beside them.

    It needs a strategy that knows beforehand where it commits: `llada` with random remasking and
    `ask="next"`. With several next tokens the masks beside them are taken by distance, left
    before right, in all blocks (our reading).
    """

    name: ClassVar[str] = "dkv_greedy"

    reload_steps: int = field(default=2, metadata=_RELOAD)
    neighbours: int = field(
        default=4,
        metadata={"symbol": "", "low": 0, "high": 1024,
                  "help": "masks read beside the next tokens"},
    )

    def _is_full(self, steps: int) -> bool:
        return steps % self.reload_steps == 0

    def _masks(self, canvas: Canvas, window: tuple[int, ...]) -> tuple[int, ...]:
        return (*window, *islice(_beside(canvas, window), self.neighbours))


def _beside(canvas: Canvas, window: tuple[int, ...]) -> Iterator[int]:
    """Undecided positions outside the window, nearest first, left before right."""
    seen = set(window)
    for distance in range(1, canvas.length):
        for position in window:
            for other in (position - distance, position + distance):
                if 0 <= other < canvas.length and not canvas.flags[other] and other not in seen:
                    seen.add(other)
                    yield other

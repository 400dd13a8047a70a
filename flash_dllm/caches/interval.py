"""What dLLM-Cache and Dynamic-dLLM share: prompt and answer are refreshed at their own intervals.

Between refreshes a layer computes only those positions of the answer whose value vector has moved
most since it was kept; everything else goes on with what the layer added to it then. The first
layer always computes everything (arXiv 2506.06295).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace

from flash_dllm.caches.base import CachePolicy, StepFacts, rows_query, verify_query
from flash_dllm.canvas import Canvas
from flash_dllm.config import check_ranges
from flash_dllm.layer_plan import LayerPlan, LayerReport
from flash_dllm.query import DraftAsk, Mass, Query, Role, VerifyAsk


def steps_between(default: int, symbol: str, what: str) -> int:
    """The field of an interval: every policy has defaults of its own."""
    return field(
        default=default,
        metadata={"symbol": symbol, "low": 1, "high": 1_000_000,
                  "help": f"steps between {what} refreshes"},
    )


@dataclass(frozen=True)
class IntervalMemory:
    """steps: taken so far; last: position that was committed last, or None; moved: how far the
    values of each choosing layer had moved in the last pass that compared them."""

    steps: int = 0
    last: int | None = None
    moved: tuple[float, ...] = ()


@dataclass(frozen=True)
class IntervalCache(CachePolicy):
    """The skeleton; a policy says how many positions a layer may refresh between the intervals."""

    keeps_entries = False
    by_layer = True

    prompt_interval: int
    answer_interval: int

    def __post_init__(self) -> None:
        check_ranges(self)

    @abstractmethod
    def plan(
        self, memory: IntervalMemory, canvas: Canvas, due: tuple[int, ...], stale: tuple[int, ...]
    ) -> LayerPlan:
        """What the layers compute. due: refreshed in this step; stale: the answer's positions, to
        choose from, or nothing where the answer is due."""

    def start(self) -> IntervalMemory:
        return IntervalMemory()

    def tracked(self, memory: IntervalMemory) -> tuple[int, ...]:
        return ()

    def draft(
        self, memory: IntervalMemory, canvas: Canvas, ask: DraftAsk, mask_token_id: int
    ) -> Query:
        prompt, answer = self._due(memory, canvas)
        is_full = len(prompt) + len(answer) == canvas.length
        kind = "full" if is_full else "draft"
        query = rows_query(kind, canvas, range(canvas.length), ask.window, mask_token_id)
        stale = () if answer else tuple(range(canvas.prompt_length, canvas.length))
        query.plan = self.plan(memory, canvas, (*prompt, *answer), stale)
        return query

    def verify(
        self,
        memory: IntervalMemory,
        canvas: Canvas,
        ask: VerifyAsk,
        mask_token_id: int,
        mass: Mass | None,
    ) -> Query:
        """Re-reads what this step's draft pass has refreshed in every layer (our choice: the
        sources never verify)."""
        prompt, answer = self._due(memory, canvas)
        fresh = tuple(position for position in (*prompt, *answer) if canvas.flags[position])
        return verify_query(canvas, fresh, Role.CONTEXT, ask, mask_token_id)

    def learn(self, memory: IntervalMemory, facts: StepFacts) -> IntervalMemory:
        moved = _moved(facts.layers)
        return replace(
            memory,
            steps=memory.steps + 1,
            last=facts.accepted[-1],
            moved=moved if moved else memory.moved,
        )

    def _due(
        self, memory: IntervalMemory, canvas: Canvas
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The positions of the prompt, and of the answer, that this step refreshes."""
        prompt = memory.steps % self.prompt_interval == 0
        answer = memory.steps % self.answer_interval == 0
        start = canvas.prompt_length
        return (
            tuple(range(start)) if prompt else (),
            tuple(range(start, canvas.length)) if answer else (),
        )


def _moved(reports: tuple[LayerReport, ...]) -> tuple[float, ...]:
    return tuple(report.changed for report in reports if report.changed is not None)

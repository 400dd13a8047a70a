"""Elastic-Cache: keep the entries until the attention of the most attended tokens drifts.

The shallow layers compute the window and a few tokens only; from the first layer on whose tracked
token looks at the text differently than before, all deeper layers compute everything. Source:
arXiv 2510.14973; where it leaves room, docs/decoders.md says how we read it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from flash_dllm.caches.base import CachePolicy, StepFacts, rows_query, verify_query
from flash_dllm.canvas import Canvas
from flash_dllm.config import check_ranges
from flash_dllm.layer_plan import LayerPlan, LayerReport
from flash_dllm.query import DraftAsk, Mass, Query, Role, VerifyAsk


@dataclass(frozen=True)
class ElasticMemory:
    """leaders: the tracked token of each layer, () before the first pass; fresh: committed in the
    last step, so that their entries still hold [MASK]."""

    leaders: tuple[int, ...] = ()
    fresh: tuple[int, ...] = ()


@dataclass(frozen=True)
class UntilDrift(LayerPlan):
    """length: positions; read: what the layers compute as long as nothing drifts; leaders: the
    tracked token of each layer."""

    length: int
    read: tuple[int, ...]
    leaders: tuple[int, ...]
    drift_threshold: float

    @property
    def wants_leaders(self) -> bool:
        return True

    def watched(self, layer: int) -> int | None:
        return self.leaders[layer] if self.leaders else None

    def rows(
        self, layer: int, similarity: Sequence[float], before: Sequence[LayerReport]
    ) -> Sequence[int]:
        has_drifted = any(
            report.turned is not None and report.turned < self.drift_threshold for report in before
        )
        return range(self.length) if has_drifted else self.read


@dataclass(frozen=True)
class ElasticCache(CachePolicy):
    """Every step reads the window, each layer's tracked token (the decided one that got most
    attention from the window's rows in the last step) and what was committed in the last step.

    With a threshold of 1 nothing can pass the test, and every pass is a full one.
    """

    name: ClassVar[str] = "elastic"
    keeps_entries: ClassVar[bool] = False
    needs_mass: ClassVar[bool] = True
    by_layer: ClassVar[bool] = True

    drift_threshold: float = field(
        default=0.9,
        metadata={"symbol": "", "low": 0.0, "high": 1.0,
                  "help": "for elastic: below this cosine deeper layers compute everything"},
    )

    def __post_init__(self) -> None:
        check_ranges(self)

    def start(self) -> ElasticMemory:
        return ElasticMemory()

    def tracked(self, memory: ElasticMemory) -> tuple[int, ...]:
        return tuple(sorted({*memory.leaders, *memory.fresh}))

    def draft(
        self, memory: ElasticMemory, canvas: Canvas, ask: DraftAsk, mask_token_id: int
    ) -> Query:
        if not memory.leaders or self.drift_threshold == 1:
            return self._query("full", canvas, ask, mask_token_id, range(canvas.length), ())
        read = sorted({*self.tracked(memory), *ask.window})
        return self._query("draft", canvas, ask, mask_token_id, read, memory.leaders)

    def _query(
        self,
        kind: str,
        canvas: Canvas,
        ask: DraftAsk,
        mask_token_id: int,
        read: Sequence[int],
        leaders: tuple[int, ...],
    ) -> Query:
        role = Role.CONTEXT if kind == "full" else Role.TRACKED
        query = rows_query(kind, canvas, read, ask.window, mask_token_id, role)
        query.decided = canvas.flags
        query.plan = UntilDrift(canvas.length, tuple(read), leaders, self.drift_threshold)
        return query

    def verify(
        self,
        memory: ElasticMemory,
        canvas: Canvas,
        ask: VerifyAsk,
        mask_token_id: int,
        mass: Mass | None,
    ) -> Query:
        """Re-reads the tracked tokens, or all decided ones where every pass is a full one (our
        choice: the source never verifies)."""
        is_always_full = self.drift_threshold == 1
        reread = canvas.decided() if is_always_full else self.tracked(memory)
        return verify_query(canvas, reread, Role.TRACKED, ask, mask_token_id)

    def learn(self, memory: ElasticMemory, facts: StepFacts) -> ElasticMemory:
        leaders = tuple(report.leader for report in facts.layers if report.leader is not None)
        return ElasticMemory(leaders, facts.accepted)

    def possible(
        self,
        canvas: Canvas,
        ask: DraftAsk,
        mask_token_id: int,
        tracked: tuple[int, ...],
        is_first: bool,
    ) -> list[Query]:
        full = self._query("full", canvas, ask, mask_token_id, range(canvas.length), ())
        if is_first or self.drift_threshold == 1:
            return [full]
        read = sorted({*tracked, *ask.window})
        return [self._query("draft", canvas, ask, mask_token_id, read, ())]

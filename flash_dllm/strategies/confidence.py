"""Confidence decoding: every token with c ≥ ε, the surest one always (Fast-dLLM, Alg. 1)."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from flash_dllm.acceptance import split
from flash_dllm.config import check_ranges
from flash_dllm.query import Prediction
from flash_dllm.strategies.base import Ask, Decision, DecodingStrategy, StepState
from flash_dllm.strategies.draft import Draft, ask_draft
from flash_dllm.trace import Proposal, StopReason, Verdict

EPSILON = {"symbol": "ε", "low": 0.0, "high": 1.0, "help": "commit drafts at least this sure"}


def decided_proposals(
    draft: Draft,
    decided: list[int],
    epsilon: float,
    views: Mapping[int, tuple[int, float]] | None = None,
) -> list[Proposal]:
    """D as proposals, in draft order; `views` are mask views by draft index, where asked."""
    views = views or {}
    return [
        draft.proposal(
            i,
            Verdict.CONFIDENT if draft.confidences[i] >= epsilon else Verdict.FORCED,
            0,
            views.get(i),
        )
        for i in decided
    ]


@dataclass(frozen=True)
class Confidence(DecodingStrategy):
    """One question a step; all thresholds are tests against ε, inclusive."""

    name: ClassVar[str] = "confidence"

    epsilon: float = field(default=0.9, metadata=EPSILON)

    def __post_init__(self) -> None:
        check_ranges(self)

    def step(self, state: StepState) -> Generator[Ask, Prediction, Decision]:
        draft = yield from ask_draft(state)
        count = draft.decidable
        decided, waiting = split(draft.positions[:count], draft.confidences[:count], self.epsilon)
        rest = range(count, len(draft.positions))
        proposals = decided_proposals(draft, decided, self.epsilon)
        left = draft.waiting([*waiting, *rest])
        return Decision(tuple(proposals), StopReason.NO_SEARCH, left)

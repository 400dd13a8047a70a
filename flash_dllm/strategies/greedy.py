"""Greedy: the surest token of the window, one a pass (LLaDA's low-confidence remasking)."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import ClassVar

from flash_dllm.acceptance import by_confidence
from flash_dllm.query import Prediction
from flash_dllm.strategies.base import Ask, Decision, DecodingStrategy, StepState
from flash_dllm.strategies.draft import ask_draft
from flash_dllm.trace import StopReason, Verdict


@dataclass(frozen=True)
class Greedy(DecodingStrategy):
    """With `window_size = block_length` this is LLaDA's published loop at one token a step."""

    name: ClassVar[str] = "greedy"

    def step(self, state: StepState) -> Generator[Ask, Prediction, Decision]:
        draft = yield from ask_draft(state)
        count = draft.decidable
        ranked = by_confidence(draft.positions[:count], draft.confidences[:count])
        rest = range(count, len(draft.positions))
        forced = draft.proposal(ranked[0], Verdict.FORCED, rank=0)
        return Decision((forced,), StopReason.NO_SEARCH, draft.waiting([*ranked[1:], *rest]))

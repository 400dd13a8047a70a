"""Fast-dLLM's factor rule: the more tokens a step commits, the surer each must be."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import ClassVar

from flash_dllm.acceptance import by_confidence, leading
from flash_dllm.config import check_ranges
from flash_dllm.query import Prediction
from flash_dllm.strategies.base import Ask, Decision, DecodingStrategy, StepState
from flash_dllm.strategies.draft import ask_draft
from flash_dllm.trace import StopReason, Verdict


@dataclass(frozen=True)
class Factor(DecodingStrategy):
    """Commit the n surest with c of the n-th ≥ 1 − f / (n + 1), the surest one always.

    Our reading: the leading run, as in Fast-dLLM's own code (arXiv 2505.22618); others count
    every rank that passes, which differs only where the test fails and passes again.
    """

    name: ClassVar[str] = "factor"

    factor: float = field(
        default=1.0,
        metadata={"symbol": "f", "low": 0.0, "high": 100.0,
                  "help": "commit n tokens if the n-th has c ≥ 1 − f/(n+1)"},
    )

    def __post_init__(self) -> None:
        check_ranges(self)

    def step(self, state: StepState) -> Generator[Ask, Prediction, Decision]:
        draft = yield from ask_draft(state)
        count = draft.decidable
        ranked = by_confidence(draft.positions[:count], draft.confidences[:count])
        passing = leading([draft.confidences[i] for i in ranked], self.factor)
        verdict = Verdict.CONFIDENT if passing else Verdict.FORCED
        wanted = max(1, passing)
        chosen = [draft.proposal(i, verdict, rank=0) for i in ranked[:wanted]]
        left = draft.waiting([*ranked[wanted:], *range(count, len(draft.positions))])
        return Decision(tuple(chosen), StopReason.NO_SEARCH, left)

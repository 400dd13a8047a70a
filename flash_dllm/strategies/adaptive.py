"""Adaptive parallel decoding: a threshold that falls with doubt settled and rises with change.

Dynamic-dLLM's rule for committing (APD, arXiv 2606.26120). Its other half, the budget of cache
updates, is `caches/dynamic.py`.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from flash_dllm.acceptance import by_confidence
from flash_dllm.canvas import Canvas
from flash_dllm.config import DecodeConfig, check_ranges
from flash_dllm.query import Prediction
from flash_dllm.strategies.base import Ask, Decision, DecodingStrategy, StepState
from flash_dllm.strategies.draft import Draft, ask_draft
from flash_dllm.trace import StopReason, Verdict

SCOPES = ("mean", "token")


def runner_up(alternatives: Sequence[tuple[int, float]]) -> float:
    """The second-largest probability.

    >>> runner_up([(7, 0.75), (9, 0.125)])
    0.125
    """
    return alternatives[1][1]


@dataclass(frozen=True)
class Adaptive(DecodingStrategy):
    """Commit c ≥ τ in the block, the surest always. In every step τ ← τ − α·PC + β·DS, where PC is
    1 − the second-largest probability and DS how far the token probabilities have moved since the
    last step (1 − cosine; 0 in the first).

    scope "mean" has one τ, moved by the means over the block's undecided positions; "token" has
    one for each position, moved by its own numbers from the first step on. Every pass predicts all
    undecided positions, so that a block's first step has a step before it.
    """

    name: ClassVar[str] = "adaptive"
    wants_changes: ClassVar[bool] = True

    threshold: float = field(
        default=0.9,
        metadata={"symbol": "τ₀", "low": 0.0, "high": 2.0, "help": "the threshold to start from"},
    )
    certainty_weight: float = field(
        default=0.01,
        metadata={"symbol": "α", "low": 0.0, "high": 1.0,
                  "help": "how fast certain drafts lower the threshold"},
    )
    change_weight: float = field(
        default=0.15,
        metadata={"symbol": "β", "low": 0.0, "high": 1.0,
                  "help": "how fast moving drafts raise it"},
    )
    scope: str = field(
        default="mean",
        metadata={"choices": SCOPES, "help": "one threshold for all, or one for each token"},
    )

    def __post_init__(self) -> None:
        check_ranges(self)

    def check(self, config: DecodeConfig) -> None:
        if config.alternatives < 2:
            raise ValueError(
                "alternatives must be at least 2 for adaptive, which needs the second-largest "
                f"probability, got {config.alternatives}"
            )

    def start(self) -> float | Mapping[int, float]:
        """τ, or what it is by position where that differs from the start."""
        return self.threshold if self.scope == "mean" else {}

    def window(self, canvas: Canvas, carry: object) -> tuple[int, ...]:
        return tuple(position for position in canvas.undecided() if position < canvas.horizon)

    def step(self, state: StepState) -> Generator[Ask, Prediction, Decision]:
        draft = yield from ask_draft(state)
        count = draft.decidable
        memory = self._moved(state.carry, draft)
        ranked = by_confidence(draft.positions[:count], draft.confidences[:count])
        sure = {
            i for i in ranked if draft.confidences[i] >= self._threshold(memory, draft.positions[i])
        }
        chosen = [i for place, i in enumerate(ranked) if place == 0 or i in sure]
        proposals = [
            draft.proposal(i, Verdict.CONFIDENT if i in sure else Verdict.FORCED, rank=0)
            for i in chosen
        ]
        kept = set(chosen)
        waiting = [i for i in ranked if i not in kept]
        left = draft.waiting([*waiting, *range(count, len(draft.positions))])
        return Decision(tuple(proposals), StopReason.NO_SEARCH, left, carry=memory)

    def _moved(self, memory: object, draft: Draft) -> float | Mapping[int, float]:
        """The thresholds after this step's answers."""
        count = draft.decidable
        shifts = [
            self.change_weight * change - self.certainty_weight * (1 - runner_up(alternatives))
            for change, alternatives in zip(draft.changes, draft.alternatives, strict=True)
        ]
        if self.scope == "mean":
            assert isinstance(memory, float), "one threshold"
            return memory + sum(shifts[:count]) / count
        assert isinstance(memory, Mapping), "one threshold for each position"
        return {
            position: self._threshold(memory, position) + shift
            for position, shift in zip(draft.positions, shifts, strict=True)
        }

    def _threshold(self, memory: object, position: int) -> float:
        if isinstance(memory, Mapping):
            return memory.get(position, self.threshold)
        assert isinstance(memory, float), "one threshold"
        return memory

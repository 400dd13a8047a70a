"""The draft that every strategy starts from: one row of numbers per window position."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field

from flash_dllm.query import DraftAsk, Prediction
from flash_dllm.strategies.base import Ask, StepState
from flash_dllm.trace import Proposal, Verdict


@dataclass(frozen=True)
class Draft:
    """positions are the decidable ones first, then the rest of the window; tokens, confidences
    and alternatives go with them, and changes where the strategy wants them."""

    positions: tuple[int, ...]
    tokens: list[int]
    confidences: list[float]
    alternatives: list[tuple[tuple[int, float], ...]]
    decidable: int
    changes: list[float] = field(default_factory=list)

    def pairs(self, indices: list[int]) -> tuple[tuple[int, int], ...]:
        """(position, draft token) of these indices, as a verify question wants them."""
        return tuple((self.positions[i], self.tokens[i]) for i in indices)

    def proposal(
        self,
        index: int,
        verdict: Verdict,
        rank: int | None = None,
        view: tuple[int, float] | None = None,
    ) -> Proposal:
        """The proposal of the index-th position; `view` is its mask view's (token, confidence)."""
        token, confidence = view if view is not None else (None, None)
        return Proposal(
            self.positions[index],
            self.tokens[index],
            self.confidences[index],
            verdict,
            rank,
            token,
            confidence,
            self.alternatives[index],
            self.changes[index] if self.changes else None,
        )

    def waiting(
        self, indices: Iterable[int], views: Mapping[int, tuple[int, float]] | None = None
    ) -> Callable[[], list[Proposal]]:
        """Makes the proposals of positions that were not searched; `views` by index, if any."""
        views = views or {}
        return lambda: [
            self.proposal(i, Verdict.WAITING, view=views.get(i)) for i in indices
        ]


def ask_draft(state: StepState) -> Generator[Ask, Prediction, Draft]:
    """Ask for the window. The decidable positions come first in the result."""
    return draft_of(state, (yield DraftAsk(state.window)))


def draft_of(state: StepState, answer: Prediction) -> Draft:
    """The draft in an answer that starts with the window's, the decidable positions first."""
    window, count = state.window, len(state.decidable)
    if state.decidable == window[:count]:  # as nearly always: nothing to sort
        size = len(window)
        return Draft(
            window,
            answer.tokens[:size],
            answer.confidences[:size],
            answer.alternatives[:size],
            count,
            answer.changes[:size],
        )
    chosen = set(state.decidable)
    indices = [i for i, p in enumerate(window) if p in chosen]
    indices += [i for i, p in enumerate(window) if p not in chosen]
    return Draft(
        tuple(window[i] for i in indices),
        [answer.tokens[i] for i in indices],
        [answer.confidences[i] for i in indices],
        [answer.alternatives[i] for i in indices],
        count,
        [answer.changes[i] for i in indices] if answer.changes else [],
    )

"""Patient: confidence decoding that does not read again what was hopeless a moment ago."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from flash_dllm.acceptance import split
from flash_dllm.canvas import Canvas
from flash_dllm.config import check_ranges
from flash_dllm.query import Prediction
from flash_dllm.strategies.base import Ask, Decision, DecodingStrategy, StepState
from flash_dllm.strategies.confidence import EPSILON, decided_proposals
from flash_dllm.strategies.draft import Draft, ask_draft
from flash_dllm.trace import StopReason


@dataclass(frozen=True)
class LastRead:
    """confidence: of the draft when the position was read last; steps: how many steps ago that
    was, 1 for the step before."""

    confidence: float
    steps: int


@dataclass(frozen=True)
class Patient(DecodingStrategy):
    """Confidence decoding, but of the window a step asks about the `lead` leftmost positions, about
    those whose last draft had c ≥ `floor`, and about the others only every `patience` steps.

    A draft far below ε is hardly ever sure a step later, so its row is read in vain; the leftmost
    ones are read because their left context has just changed. On a cache that keeps entries a mask
    that is left out is seen by the others as it was when it was read last. What is committed is
    committed by confidence decoding's rule, among what was read: floor = 0, patience = 1 or a lead
    of the whole window is confidence decoding. Without a cache that leaves rows out it saves
    nothing.

    Our own. Measured in docs/experiments.md.
    """

    name: ClassVar[str] = "patient"

    epsilon: float = field(default=0.9, metadata=EPSILON)
    floor: float = field(
        default=0.5,
        metadata={"symbol": "c₀", "low": 0.0, "high": 1.0,
                  "help": "drafts less sure than this are not read again in the next steps"},
    )
    lead: int = field(
        default=4,
        metadata={"symbol": "", "low": 1, "high": 1024,
                  "help": "leftmost undecided positions that every step reads"},
    )
    patience: int = field(
        default=4,
        metadata={"symbol": "", "low": 1, "high": 1024,
                  "help": "steps after which a hopeless draft is read again"},
    )

    def __post_init__(self) -> None:
        check_ranges(self)

    def start(self) -> Mapping[int, LastRead]:
        """When each undecided position was read last, and what it said."""
        return {}

    def window(self, canvas: Canvas, carry: object) -> tuple[int, ...]:
        """What of the canvas's window is worth reading; its leftmost position always is."""
        assert isinstance(carry, Mapping)
        everything = canvas.window()
        return tuple(
            position
            for place, position in enumerate(everything)
            if place < self.lead or self._is_due(carry.get(position))
        )

    def _is_due(self, last: LastRead | None) -> bool:
        return last is None or last.confidence >= self.floor or last.steps >= self.patience

    def step(self, state: StepState) -> Generator[Ask, Prediction, Decision]:
        draft = yield from ask_draft(state)
        count = draft.decidable
        decided, waiting = split(draft.positions[:count], draft.confidences[:count], self.epsilon)
        left = [*waiting, *range(count, len(draft.positions))]
        return Decision(
            tuple(decided_proposals(draft, decided, self.epsilon)),
            StopReason.NO_SEARCH,
            draft.waiting(left),
            carry=_after(state.carry, draft, left),
        )


def _after(carry: object, draft: Draft, left: list[int]) -> Mapping[int, LastRead]:
    """What the next step knows: `left` are the draft's positions that stay undecided."""
    assert isinstance(carry, Mapping)
    read = set(draft.positions)
    older = {
        position: LastRead(last.confidence, last.steps + 1)
        for position, last in carry.items()
        if position not in read
    }
    return older | {draft.positions[i]: LastRead(draft.confidences[i], 1) for i in left}

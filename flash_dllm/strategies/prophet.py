"""Prophet: the greedy loop, until the answer is so clear that everything is committed at once."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from flash_dllm.acceptance import by_confidence
from flash_dllm.canvas import Canvas
from flash_dllm.config import DecodeConfig, check_ranges
from flash_dllm.query import Prediction
from flash_dllm.strategies.base import Ask, Decision, DecodingStrategy, StepState
from flash_dllm.strategies.draft import Draft, ask_draft
from flash_dllm.trace import StopReason, Verdict

_GAP = {"symbol": "", "low": 0.0, "high": 100.0}
# probabilities are recorded with 6 digits: less than half of the last one counts as that
_LEAST = 5e-7
PLACES = ("start", "end")


def logit_gap(alternatives: Sequence[tuple[int, float]]) -> float:
    """Distance of the two largest logits: the logarithm of their probabilities' ratio.

    >>> round(logit_gap([(7, 0.8), (9, 0.1)]), 4)
    2.0794
    """
    first, second = (max(_LEAST, probability) for _, probability in alternatives[:2])
    return math.log(first / second)


@dataclass(frozen=True)
class Prophet(DecodingStrategy):
    """One token a step of the current block; commit all masks of all blocks once the mean logit
    gap over the answer's positions reaches a bar that falls with progress (arXiv 2508.19982).

    Our reading: the gap is averaged over those of the answer's positions that are undecided, and
    an answer without any counts as clear. Without `answer_start` every undecided position belongs
    to it; the published code then never stops. Every pass predicts all undecided positions,
    whatever the window.

    answer_at "end" is ours, for texts whose final answer is their end and stands at no offset known
    beforehand: the answer is then the last `answer_length` positions before the first end token
    that is decided or drafted.
    """

    name: ClassVar[str] = "prophet"

    answer_start: int | None = field(
        default=None,
        metadata={"symbol": "", "low": 0, "high": 4095,
                  "help": "offset of the final answer in the text; none means all of it"},
    )
    answer_length: int = field(
        default=5, metadata={"symbol": "", "low": 1, "high": 4096, "help": "positions of it"}
    )
    gap_early: float = field(
        default=7.5, metadata={**_GAP, "help": "mean logit gap to stop at in the first third"}
    )
    gap_middle: float = field(
        default=5.0, metadata={**_GAP, "help": "the same in the second third"}
    )
    gap_late: float = field(default=2.5, metadata={**_GAP, "help": "the same in the last third"})
    answer_at: str = field(
        default="start",
        metadata={"choices": PLACES, "may_lack": True,
                  "help": "where the final answer stands: from answer_start on, or before the "
                  "first end token that is drafted"},
    )

    def __post_init__(self) -> None:
        check_ranges(self)

    def check(self, config: DecodeConfig) -> None:
        if config.alternatives < 2:
            raise ValueError(
                f"alternatives must be at least 2 for prophet, which compares the two likeliest "
                f"tokens, got {config.alternatives}"
            )
        if self.answer_start is not None and self.answer_start >= config.gen_length:
            raise ValueError(
                f"answer_start must be below gen_length ({config.gen_length}), got "
                f"{self.answer_start}"
            )
        if self.answer_start is not None and self.answer_at == "end":
            raise ValueError('answer_start does not go with answer_at "end": it must be none')

    def window(self, canvas: Canvas, carry: object) -> tuple[int, ...]:
        return tuple(position for position in canvas.undecided() if position < canvas.horizon)

    def step(self, state: StepState) -> Generator[Ask, Prediction, Decision]:
        draft = yield from ask_draft(state)
        answer = self._answer(state.canvas, draft)
        gaps = [
            logit_gap(alternatives)
            for position, alternatives in zip(draft.positions, draft.alternatives, strict=True)
            if position in answer
        ]
        # no text before its end is no answer, and nothing to be sure of
        is_clear = len(answer) > 0 and (not gaps or sum(gaps) / len(gaps) >= self._bar(state))
        everything = range(len(draft.positions))
        if is_clear:
            chosen = [draft.proposal(i, Verdict.CONFIDENT, rank=0) for i in everything]
            return Decision(tuple(chosen), StopReason.NO_SEARCH)
        count = draft.decidable
        ranked = by_confidence(draft.positions[:count], draft.confidences[:count])
        forced = draft.proposal(ranked[0], Verdict.FORCED, rank=0)
        left = draft.waiting([*ranked[1:], *range(count, len(draft.positions))])
        return Decision((forced,), StopReason.NO_SEARCH, left)

    def _answer(self, canvas: Canvas, draft: Draft) -> range:
        """The positions whose gap counts, decided ones among them."""
        if self.answer_at == "end":
            end = _first_end(canvas, draft)
            return range(max(canvas.prompt_length, end - self.answer_length), end)
        if self.answer_start is None:
            return range(canvas.prompt_length, canvas.length)
        first = canvas.prompt_length + self.answer_start
        return range(first, min(canvas.length, first + self.answer_length))

    def _bar(self, state: StepState) -> float:
        """The gap to reach, by how far the loop of one token a step has come."""
        progress = (state.index - 1) / state.canvas.config.gen_length
        if progress < 0.33:
            return self.gap_early
        return self.gap_middle if progress < 0.67 else self.gap_late


def _first_end(canvas: Canvas, draft: Draft) -> int:
    """Position of the leftmost end token, decided or drafted; behind the text if there is none."""
    drafted = zip(draft.positions, draft.tokens, strict=True)
    places = [position for position, token in drafted if token in canvas.eos_token_ids]
    decided = canvas.first_end()
    return min(places if decided is None else [*places, decided], default=canvas.length)

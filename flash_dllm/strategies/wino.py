"""WINO: commit eagerly, and take back what the text no longer supports (wide in, narrow out)."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from flash_dllm.acceptance import by_confidence
from flash_dllm.config import DecodeConfig, check_ranges
from flash_dllm.query import DraftAsk, Prediction
from flash_dllm.strategies.base import Ask, Decision, DecodingStrategy, StepState
from flash_dllm.strategies.draft import draft_of
from flash_dllm.trace import Recheck, StopReason, Verdict


def cap(masks: int, share: float, least: int, most: int) -> int:
    """How many tokens a step may commit where so many are masked: a share, within bounds.

    >>> [cap(masks, share=0.7, least=5, most=20) for masks in (3, 10, 32)]
    [5, 7, 20]
    """
    return min(max(int(share * masks), least), most)


def narrow_out(
    positions: Sequence[int], confidences: Sequence[float], bar: float, room: int
) -> set[int]:
    """Positions to mask again: those below the bar, the least sure first, at most `room`.

    >>> sorted(narrow_out([3, 4, 5, 6], [0.2, 0.95, 0.1, 0.8], bar=0.9, room=2))
    [3, 5]
    """
    ranked = sorted(zip(confidences, positions, strict=True))
    return {position for confidence, position in ranked[: max(0, room)] if confidence < bar}


@dataclass(frozen=True)
class Wino(DecodingStrategy):
    """Commit c ≥ τ (the surest always, at most a share of the masks), and mask again those earlier
    tokens of the block whose probability, given all the others, is below a bar.

    A pass reads a shadow block beside the text: [MASK] at each position that an earlier step of
    the block decided. A shadow sees everything but its own token, and nobody sees a shadow. A
    step takes back fewer tokens than it commits, so it always moves on.

    Our reading (of WINO's description and of d2Cache's code): a shadow doesn't see the other
    shadows either; shadows of masks are left out, because they would repeat the masks' own rows.
    """

    name: ClassVar[str] = "wino"
    can_revoke: ClassVar[bool] = True

    wide_in: float = field(
        default=0.6,
        metadata={"symbol": "τ₁", "low": 0.0, "high": 1.0, "help": "commit drafts at least this "
                  "sure"},
    )
    narrow_out: float = field(
        default=0.9,
        metadata={"symbol": "τ₂", "low": 0.0, "high": 1.0, "help": "take earlier tokens back whose "
                  "probability, given all the others, is below this; 0 takes nothing back"},
    )
    commit_share: float = field(
        default=0.7,
        metadata={"symbol": "", "low": 0.0, "high": 1.0, "help": "a step commits at most this "
                  "share of the masks, within the two bounds"},
    )
    commit_least: int = field(
        default=5, metadata={"symbol": "", "low": 1, "high": 4096, "help": "lower bound of that"}
    )
    commit_most: int = field(
        default=20, metadata={"symbol": "", "low": 1, "high": 4096, "help": "upper bound of that"}
    )

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.commit_least > self.commit_most:
            raise ValueError(
                f"commit_least must not exceed commit_most, got {self.commit_least} and "
                f"{self.commit_most}"
            )

    @property
    def fits_shift(self) -> bool:
        return False  # a shadow would need its predecessor's row, with the next token left out

    def max_views(self, config: DecodeConfig) -> int:
        return config.block

    def step(self, state: StepState) -> Generator[Ask, Prediction, Decision]:
        canvas = state.canvas
        first, end = canvas.block
        shadows = tuple(position for position in range(first, end) if canvas.flags[position])
        answer = yield DraftAsk(state.window, shadows)
        draft = draft_of(state, answer)
        count = draft.decidable
        ranked = by_confidence(draft.positions[:count], draft.confidences[:count])
        masks = end - first - len(shadows)
        allowed = cap(masks, self.commit_share, self.commit_least, self.commit_most)
        sure = [i for i in ranked if draft.confidences[i] >= self.wide_in][:allowed]
        verdict = Verdict.CONFIDENT if sure else Verdict.FORCED
        chosen = sure or ranked[:1]
        left = [*ranked[len(chosen) :], *range(count, len(draft.positions))]
        gone = narrow_out(shadows, answer.scores, self.narrow_out, len(chosen) - 1)
        rechecks = (
            Recheck(position, canvas.token(position), confidence, token, position in gone)
            for position, confidence, token in zip(
                shadows, answer.scores, answer.tokens[len(state.window) :], strict=True
            )
        )
        return Decision(
            tuple(draft.proposal(i, verdict, 0) for i in chosen),
            StopReason.NO_SEARCH,
            draft.waiting(left),
            tuple(rechecks),
        )

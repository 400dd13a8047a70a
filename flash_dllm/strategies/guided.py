"""Guided diffusion: an autoregressive guide says which drafts are kept (FlashDLM)."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from random import Random
from typing import ClassVar

from flash_dllm.config import check_ranges
from flash_dllm.query import GuideAsk, Prediction
from flash_dllm.strategies.base import Ask, Decision, DecodingStrategy, StepState
from flash_dllm.strategies.draft import Draft, ask_draft
from flash_dllm.trace import Proposal, StopReason, Verdict

RULES = (
    "deterministic", "topk", "topk_relative", "dynamic_threshold", "original", "aggressive"
)  # fmt: skip


@dataclass(frozen=True)
class Guided(DecodingStrategy):
    """Draft every mask of the window, let the guide read the drafts left to right in chunks, and
    commit those before the first one that it rejects; if that is the very first, commit it all
    the same, so that a step always commits something (FlashDLM, arXiv 2505.21467).

    When a draft is kept, with p its probability by the guide, top the guide's highest one:

    deterministic      it is the guide's own choice
    topk               it is among the guide's `guide_top_k` likeliest
    dynamic_threshold  p ≥ `guide_threshold` · top
    topk_relative      both of these
    aggressive         either of these
    original           with probability p / c, at most 1, where c is the draft's own confidence

    Our reading: of the last five we know the names and the numbers only. `original` is taken for
    speculative sampling's test; its draws depend on seed, step and position alone.
    """

    name: ClassVar[str] = "guided"
    needs_guide: ClassVar[bool] = True

    guide_rule: str = field(
        default="deterministic",
        metadata={"choices": RULES, "help": "when the guide keeps a draft"},
    )
    verify_batch_size: int = field(
        default=32,
        metadata={"symbol": "", "low": 1, "high": 1024, "help": "drafts the guide reads at once"},
    )
    guide_top_k: int = field(
        default=5,
        metadata={"symbol": "k", "low": 1, "high": 1024,
                  "help": "for topk, topk_relative and aggressive"},
    )
    guide_threshold: float = field(
        default=0.1,
        metadata={"symbol": "", "low": 0.0, "high": 1.0,
                  "help": "share of the guide's highest probability, for dynamic_threshold, "
                  "topk_relative and aggressive"},
    )

    def __post_init__(self) -> None:
        check_ranges(self)

    def step(self, state: StepState) -> Generator[Ask, Prediction, Decision]:
        draft = yield from ask_draft(state)
        config, ends = state.canvas.config, state.canvas.eos_token_ids
        count, kept, read = draft.decidable, 0, 0
        pairs = draft.pairs(list(range(count)))
        answers: list[tuple[int, float]] = []
        is_ended = is_rejected = False
        while read < count and not is_ended and not is_rejected:
            end = min(count, read + self.verify_batch_size)
            answer = yield GuideAsk(pairs[:end], end - read)
            answers += zip(answer.tokens, answer.confidences, strict=True)
            for (token, top), (probability, rank) in zip(
                answers[read:], answer.ranked, strict=True
            ):
                if self.guide_rule == "deterministic":
                    is_kept = token == draft.tokens[kept]
                elif self.guide_rule == "original":
                    draw = Random(f"{config.seed} {state.index} {draft.positions[kept]}").random()
                    is_kept = draw * draft.confidences[kept] < probability
                else:
                    is_kept = self._is_likely(probability, rank, top)
                if is_rejected := not is_kept:
                    break
                # with early_stop nothing behind an end is wanted
                is_ended = config.early_stop and draft.tokens[kept] in ends
                kept += 1
                if is_ended:
                    break
            read = end
        judged = _judged(draft, answers, kept, is_rejected)
        stop = StopReason.MISMATCH if is_rejected else StopReason.EXHAUSTED
        return Decision(judged, stop, draft.waiting(range(read, len(draft.positions))))

    def _is_likely(self, probability: float, rank: int, top: float) -> bool:
        """The rules that look at rank and probability."""
        is_high, is_near = rank < self.guide_top_k, probability >= self.guide_threshold * top
        if self.guide_rule == "topk":
            return is_high
        if self.guide_rule == "dynamic_threshold":
            return is_near
        return is_high and is_near if self.guide_rule == "topk_relative" else is_high or is_near


def _judged(
    draft: Draft, answers: list[tuple[int, float]], kept: int, is_rejected: bool
) -> tuple[Proposal, ...]:
    """The drafts that the guide has read, left to right."""
    verdicts = [Verdict.VERIFIED] * kept
    if is_rejected:
        verdicts.append(Verdict.MISMATCH if kept else Verdict.FORCED)
    verdicts += [Verdict.AFTER_STOP] * (len(answers) - len(verdicts))
    return tuple(
        draft.proposal(i, verdict, i + 1, answer)
        for i, (verdict, answer) in enumerate(zip(verdicts, answers, strict=True))
    )

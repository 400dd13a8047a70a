"""Flash-Verify: confidence decoding plus a second question (paper §2.3, Alg. 2)."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import ClassVar

from flash_dllm.acceptance import ACCEPTANCES, ORDERS, judge, search_order, split
from flash_dllm.config import DecodeConfig, check_ranges
from flash_dllm.query import Prediction, VerifyAsk
from flash_dllm.strategies.base import Ask, Decision, DecodingStrategy, StepState
from flash_dllm.strategies.confidence import EPSILON, decided_proposals
from flash_dllm.strategies.draft import ask_draft

MASK_VIEWS = ("isolated", "shared")


@dataclass(frozen=True)
class FlashVerify(DecodingStrategy):
    """Commit c ≥ ε; ask again about the others with a draft view and a mask view of each; keep
    the prefix where both agree and the mask view is at least γ sure.

    γ bounds the distance to the model's own one-by-one law under the same cache, not to the
    truth (paper, Appendix C). Not the γ of speculative decoding.
    """

    name: ClassVar[str] = "flash_verify"

    epsilon: float = field(default=0.9, metadata=EPSILON)
    gamma: float = field(
        default=0.8,
        metadata={"symbol": "γ", "low": 0.0, "high": 1.0,
                  "help": "accept drafts whose mask view agrees and is at least this sure"},
    )
    search_size: int | None = field(
        default=None,
        metadata={"symbol": "|S|", "low": 0, "high": 1024,
                  "help": "how many drafts to verify; none means all that may be committed"},
    )
    order: str = field(
        default="confidence",
        metadata={"choices": ORDERS, "help": "the order in which drafts are accepted"},
    )
    acceptance: str = field(
        default="each",
        metadata={"choices": ACCEPTANCES,
                  "help": "test each c̃ against γ, or their running product"},
    )
    correct: bool = field(
        default=False,
        metadata={"help": "at the first mismatch commit the mask view's own token if c̃ ≥ γ"},
    )
    audit: bool = field(
        default=False,
        metadata={"help": "record the mask view of every window position (changes no token)"},
    )

    mask_views: str = field(
        default="isolated",
        metadata={"choices": MASK_VIEWS, "may_lack": True,
                  "help": "who sees a mask view: its own row, or also rows before it (shared, as "
                  "in the authors' code: drafts then confirm themselves)"},
    )

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.audit and self.mask_views == "shared":
            raise ValueError(
                "audit needs mask_views='isolated': shared ones would change what it records"
            )

    @property
    def fits_shift(self) -> bool:
        return self.mask_views == "isolated"

    def max_views(self, config: DecodeConfig) -> int:
        if self.search_size is None or self.audit:  # an audit asks for the whole window's views
            return 2 * config.window_size
        return 2 * min(self.search_size, config.window_size)

    def step(self, state: StepState) -> Generator[Ask, Prediction, Decision]:
        draft = yield from ask_draft(state)
        count = draft.decidable
        decided, candidates = split(
            draft.positions[:count], draft.confidences[:count], self.epsilon
        )
        searched = search_order(candidates, draft.positions, self.order, self.search_size)
        kept = set(searched)
        waiting = [i for i in candidates if i not in kept]
        waiting += range(count, len(draft.positions))

        views: dict[int, tuple[int, float]] = {}
        if self.audit:
            # before the verify pass, which overwrites the [MASK] entries of D
            everything = decided + searched + waiting
            answer = yield VerifyAsk((), draft.pairs(everything), is_dry=True)
            views.update(_answers(everything, answer))
        if searched:
            shares_masks = self.mask_views == "shared"
            pairs = draft.pairs(decided), draft.pairs(searched)
            answer = yield VerifyAsk(*pairs, shares_masks=shares_masks)
            views.update(_answers(searched, answer))

        judgement = judge(
            [draft.tokens[i] for i in searched],
            [views[i][0] for i in searched],
            [views[i][1] for i in searched],
            self.gamma,
            self.acceptance,
            self.correct,
        )
        proposals = decided_proposals(draft, decided, self.epsilon, views)
        for rank, (i, verdict) in enumerate(zip(searched, judgement.verdicts, strict=True), 1):
            proposals.append(draft.proposal(i, verdict, rank, views.get(i)))
        return Decision(tuple(proposals), judgement.stop, draft.waiting(waiting, views))


def _answers(indices: list[int], answer: Prediction) -> dict[int, tuple[int, float]]:
    """Draft index → (token, confidence) of its mask view."""
    pairs = zip(answer.tokens, answer.confidences, strict=True)
    return dict(zip(indices, pairs, strict=True))

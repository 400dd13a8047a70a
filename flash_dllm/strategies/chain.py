"""Chain: drafts are kept from left to right for as long as the text before them holds."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import ClassVar

from flash_dllm.config import DecodeConfig, check_ranges
from flash_dllm.query import Prediction, VerifyAsk
from flash_dllm.strategies.base import Ask, Decision, DecodingStrategy, StepState
from flash_dllm.strategies.confidence import decided_proposals
from flash_dllm.strategies.draft import ask_draft
from flash_dllm.trace import StopReason, Verdict


def hopeful(confidences: Sequence[float], hope: float) -> int:
    """How many drafts, from the first on, are worth a place in the chain: the product of their
    confidences up to there, which estimates the chance that all of them hold, is at least `hope`.

    >>> hopeful([0.9, 0.5, 0.9, 0.6], hope=0.4)
    3
    """
    count, product = 0, 1.0
    for confidence in confidences:
        product *= confidence
        if product < hope:
            break
        count += 1
    return count


def judge_chain(
    drafts: Sequence[int],
    views: Sequence[tuple[int, float] | None],
    gamma: float,
) -> tuple[list[Verdict], StopReason]:
    """What becomes of the chain's drafts, and why acceptance ended.

    views   (token, confidence) of each mask view; None where the draft was sure enough without

    Stops at the first failure: what follows was judged given that draft.

    >>> judge_chain([7, 8, 9], [(7, 0.6), None, (4, 0.7)], gamma=0.0)[0][-1].value
    'CORRECTED'
    """
    verdicts: list[Verdict] = []
    stop = StopReason.EXHAUSTED if drafts else StopReason.NO_SEARCH
    for draft, view in zip(drafts, views, strict=True):
        if stop is not StopReason.EXHAUSTED:
            verdicts.append(Verdict.AFTER_STOP)
        elif view is None:
            verdicts.append(Verdict.CONFIDENT)
        elif view[0] != draft:
            stop = StopReason.MISMATCH
            verdicts.append(Verdict.CORRECTED if view[1] >= gamma else Verdict.MISMATCH)
        elif view[1] < gamma:
            stop = StopReason.BELOW_GAMMA
            verdicts.append(Verdict.UNSURE)
        else:
            verdicts.append(Verdict.VERIFIED)
    return verdicts, stop


@dataclass(frozen=True)
class Chain(DecodingStrategy):
    """Commit the leftmost draft and the sure ones right behind it; ask again about those that
    follow, as far as there is hope that the text before them holds; keep the prefix that does.

    The leftmost draft is what one token at a time from left to right would write, and a mask view
    of a contiguous chain says the same for its position, so nothing needs a threshold: at the
    first mismatch the view's own token is written. At ε = 1 the result is that of one token at a
    time, up to entries that are as old as the draft pass. A draft inside the chain with c ≥ ε gets
    no mask view: it is kept if the chain before it holds.

    Our own; the accepted prefix is that of Flash-Verify (paper, Alg. 2) in the order of positions.
    Measured in docs/experiments.md.
    """

    name: ClassVar[str] = "chain"

    epsilon: float = field(
        default=0.9,
        metadata={"symbol": "ε", "low": 0.0, "high": 1.0,
                  "help": "ask no second time about drafts at least this sure"},
    )
    hope: float = field(
        default=0.3,
        metadata={"symbol": "h", "low": 0.0, "high": 1.0,
                  "help": "end the chain where the product of its confidences falls below this"},
    )
    search_size: int | None = field(
        default=16,
        metadata={"symbol": "|S|", "low": 0, "high": 1024,
                  "help": "longest chain; none means all that may be committed"},
    )
    gamma: float = field(
        default=0.0,
        metadata={"symbol": "γ", "low": 0.0, "high": 1.0,
                  "help": "keep and correct only where the mask view is at least this sure"},
    )

    def __post_init__(self) -> None:
        check_ranges(self)

    def max_views(self, config: DecodeConfig) -> int:
        size = config.window_size if self.search_size is None else self.search_size
        return 2 * min(size, config.window_size)

    def step(self, state: StepState) -> Generator[Ask, Prediction, Decision]:
        # the decidable positions stand first, from left to right
        draft = yield from ask_draft(state)
        confidences = draft.confidences[: draft.decidable]
        sure = sum(1 for _ in takewhile(lambda c: c >= self.epsilon, confidences[1:]))
        decided = list(range(1 + sure))
        rest = confidences[len(decided) :][: self.search_size]
        end = len(decided) + hopeful(rest, self.hope)
        chain = range(len(decided), end)

        views: dict[int, tuple[int, float]] = {}
        if chain:
            trusted = [i for i in chain if confidences[i] >= self.epsilon]
            answer = yield VerifyAsk(
                draft.pairs(decided),
                draft.pairs(list(chain)),
                unviewed=tuple(draft.positions[i] for i in trusted),
            )
            asked = [i for i in chain if confidences[i] < self.epsilon]
            pairs = zip(answer.tokens, answer.confidences, strict=True)
            views = dict(zip(asked, pairs, strict=True))
        verdicts, stop = judge_chain(
            [draft.tokens[i] for i in chain], [views.get(i) for i in chain], self.gamma
        )
        proposals = decided_proposals(draft, decided, self.epsilon)
        for rank, (i, verdict) in enumerate(zip(chain, verdicts, strict=True), 1):
            proposals.append(draft.proposal(i, verdict, rank, views.get(i)))
        return Decision(tuple(proposals), stop, draft.waiting(range(end, len(draft.positions))))

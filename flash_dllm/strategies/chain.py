"""Chain: drafts are kept from left to right for as long as the text before them holds."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import ClassVar

from flash_dllm.config import check_ranges
from flash_dllm.query import Prediction, VerifyAsk
from flash_dllm.strategies.base import Ask, Decision, DecodingStrategy, StepState
from flash_dllm.strategies.confidence import EPSILON, decided_proposals
from flash_dllm.strategies.draft import ask_draft
from flash_dllm.trace import StopReason, Verdict


@dataclass(frozen=True)
class Chain(DecodingStrategy):
    name: ClassVar[str] = "chain"

    epsilon: float = field(default=0.9, metadata=EPSILON)
    hope: float = field(
        default=0.3,
        metadata={"symbol": "h", "low": 0.0, "high": 1.0,
                  "help": "end the chain where the product of its drafts' confidences is lower"},
    )
    search_size: int | None = field(
        default=16,
        metadata={"symbol": "|S|", "low": 0, "high": 1024,
                  "help": "longest chain behind the decided tokens; none means the whole window"},
    )
    far: float = field(
        default=1.0,
        metadata={"symbol": "", "low": 0.0, "high": 1.0, "help": "commit anywhere (1 = never)"},
    )

    defer: float = field(default=0.0, metadata={"symbol": "", "low": 0.0, "high": 1.0, "help": "x"})
    skip: float = field(default=0.0, metadata={"symbol": "", "low": 0.0, "high": 1.0, "help": "x"})
    gamma: float = field(default=0.0, metadata={"symbol": "γ", "low": 0.0, "high": 1.0, "help": "x"})
    force: str = field(default="leftmost", metadata={"choices": ("leftmost", "surest"), "help": "x"})

    def __post_init__(self) -> None:
        check_ranges(self)

    def max_views(self, window_size: int) -> int:
        size = window_size if self.search_size is None else self.search_size
        return 2 * min(size, window_size)

    def step(self, state: StepState) -> Generator[Ask, Prediction, Decision]:
        draft = yield from ask_draft(state)
        count = draft.decidable
        c = draft.confidences
        i = 0
        is_left = self.force == "leftmost" and c[0] >= self.defer
        decided = [0] if is_left else []
        i = len(decided)
        while i < count and c[i] >= self.epsilon:
            decided.append(i)
            i += 1
        if self.far < 1:
            decided += [j for j in range(i, count) if c[j] >= self.far]
        if not decided:
            decided = [max(range(count), key=lambda j: (c[j], -j))]
        chain: list[int] = []
        hope = 1.0
        taken = set(decided)
        for j in range(i, count):
            if j in taken or c[j] < max(self.skip, self.defer):
                continue
            if self.search_size is not None and len(chain) == self.search_size:
                break
            hope *= c[j]
            if hope < self.hope:
                break
            chain.append(j)
        views = {}
        if chain:
            asked = [j for j in chain if c[j] < self.epsilon]
            sure = tuple(draft.positions[j] for j in chain if c[j] >= self.epsilon)
            answer = yield VerifyAsk(draft.pairs(decided), draft.pairs(chain), unviewed=sure)
            views = dict(zip(asked, zip(answer.tokens, answer.confidences, strict=True), strict=True))
        proposals = decided_proposals(draft, decided, self.epsilon, {})
        stop = StopReason.EXHAUSTED if chain else StopReason.NO_SEARCH
        for rank, j in enumerate(chain, 1):
            if stop is not StopReason.EXHAUSTED:
                verdict = Verdict.AFTER_STOP
            elif j not in views:
                verdict = Verdict.CONFIDENT
            elif views[j][0] == draft.tokens[j]:
                verdict = Verdict.VERIFIED
                if views[j][1] < self.gamma:
                    verdict = Verdict.UNSURE
                    stop = StopReason.BELOW_GAMMA
            else:
                verdict = Verdict.CORRECTED if views[j][1] >= self.gamma else Verdict.MISMATCH
                stop = StopReason.MISMATCH
            proposals.append(draft.proposal(j, verdict, rank, views.get(j)))
        kept = taken | set(chain)
        waiting = [j for j in range(len(draft.positions)) if j not in kept]
        return Decision(tuple(proposals), stop, draft.waiting(waiting, views))

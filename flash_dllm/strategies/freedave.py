"""FreeDave: several states of the block in one pass, and exactly the text of one step at a time."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from flash_dllm.acceptance import by_confidence
from flash_dllm.canvas import Canvas
from flash_dllm.config import check_ranges
from flash_dllm.query import BranchAsk, DraftAsk, Prediction
from flash_dllm.strategies.base import Ask, Decision, DecodingStrategy, StepState
from flash_dllm.strategies.draft import Draft, draft_of
from flash_dllm.trace import Branch, Proposal, StopReason, Verdict

Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class _Ranked:
    """A state's answers, surest first: what one step commits there, and what would come after."""

    target: Pairs
    confidences: tuple[float, ...]
    after: Pairs


def _ranked(
    positions: Sequence[int],
    tokens: Sequence[int],
    confidences: Sequence[float],
    threshold: float | None,
) -> _Ranked:
    order = by_confidence(positions, confidences)
    count = 1
    if threshold is not None:
        count = max(1, sum(confidences[i] >= threshold for i in order))
    pairs = tuple((positions[i], tokens[i]) for i in order)
    return _Ranked(pairs[:count], tuple(confidences[i] for i in order[:count]), pairs[count:])


@dataclass(frozen=True)
class FreeDave(DecodingStrategy):
    """Ask about the text and, in the same pass, about the texts that the last pass expects next,
    each holding one token more than the one before. Follow the chain as long as what one step
    commits in a state is, token for token, another state that was asked.

    So the tokens are those of the plain loop under the same cache: one a step, or with a threshold
    (the "++" variant) all with c ≥ τ and the surest always. Each pass reads the block once per
    state and takes the place of as many passes as states were right.

    Our reading: the target of a "++" state follows the threshold rule as well, so that it is
    lossless against that loop. What the last state of the chain commits next is certain already;
    it is committed at once instead of with the next pass, which is the same text earlier. A state
    without masks is not asked.
    """

    name: ClassVar[str] = "freedave"

    draft_steps: int = field(
        default=4,
        metadata={"symbol": "d", "low": 1, "high": 32, "help": "states of the block asked in one "
                  "pass; 1 is the plain loop"},
    )
    commit_threshold: float | None = field(
        default=None,
        metadata={"symbol": "τ", "low": 0.0, "high": 1.0, "help": "a step commits all tokens at "
                  "least this sure (FreeDave++); none means one token"},
    )

    def __post_init__(self) -> None:
        check_ranges(self)

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"branches"}) if self.draft_steps > 1 else frozenset()

    @property
    def max_branches(self) -> int:
        return self.draft_steps - 1

    def window(self, canvas: Canvas, carry: object) -> tuple[int, ...]:
        """All masks of the block: the states ahead commit anywhere in it."""
        first, end = canvas.block
        return tuple(position for position in canvas.undecided() if first <= position < end)

    def step(self, state: StepState) -> Generator[Ask, Prediction, Decision]:
        asks = _states_ahead(state)
        answer = yield DraftAsk(state.window, branches=asks)
        draft = draft_of(state, answer)
        count = draft.decidable
        now = _ranked(
            draft.positions[:count], draft.tokens, draft.confidences[:count], self.commit_threshold
        )
        answers = _answers(asks, answer, len(state.window))
        chain, kept, after = self._follow(state.canvas, now, asks, answers)
        judged = _proposals(draft, now, chain, self.commit_threshold)
        written = {proposal.position for proposal in judged}
        ranked = by_confidence(draft.positions[:count], draft.confidences[:count])
        rest = (*ranked, *range(count, len(draft.positions)))
        left = [i for i in rest if draft.positions[i] not in written]
        branches = tuple(
            Branch(ask.filled, triples, number in kept)
            for number, (ask, triples) in enumerate(zip(asks, answers, strict=True), 1)
        )
        is_over = len(written) == len(state.window)
        stop = StopReason.NO_SEARCH
        if asks:
            stop = StopReason.EXHAUSTED if len(asks) in kept else StopReason.MISMATCH
        carry = () if is_over else after[: self.draft_steps - 1]
        return Decision(judged, stop, draft.waiting(left), branches=branches, carry=carry)

    def _follow(
        self,
        canvas: Canvas,
        now: _Ranked,
        asks: tuple[BranchAsk, ...],
        answers: list[tuple[tuple[int, int, float], ...]],
    ) -> tuple[list[_Ranked], set[int], Pairs]:
        """(what each state of the chain commits, from the first branch on; numbers of the states
        that the text reached; what the last one expects next)."""
        reached, best, chain, kept = canvas.commit(now.target), now, [], set()
        for number, (ask, triples) in enumerate(zip(asks, answers, strict=True), 1):
            # early stop: the plain loop would have ended here
            if reached.is_finished or canvas.commit(ask.filled).tokens != reached.tokens:
                continue
            positions, tokens, confidences = zip(*triples, strict=True)
            best = _ranked(positions, tokens, confidences, self.commit_threshold)
            reached = reached.commit(best.target)
            chain.append(best)
            kept.add(number)
        return chain, kept, best.after


def _states_ahead(state: StepState) -> tuple[BranchAsk, ...]:
    """The text with one more of the expected tokens at a time, as long as it has masks."""
    expected = state.carry
    assert expected is None or isinstance(expected, tuple)
    asks: list[BranchAsk] = []
    ahead, allowed = state.canvas, set(state.window)
    for number, pair in enumerate(expected or (), 1):
        ahead = ahead.commit([pair])
        window = tuple(position for position in ahead.decidable() if position in allowed)
        if ahead.is_finished or not window:
            break
        asks.append(BranchAsk(tuple((expected or ())[:number]), window))
    return tuple(asks)


def _answers(
    asks: tuple[BranchAsk, ...], answer: Prediction, start: int
) -> list[tuple[tuple[int, int, float], ...]]:
    """(position, token, confidence) of each branch's window; the answers from `start` on."""
    found = []
    for ask in asks:
        end = start + len(ask.window)
        found.append(
            tuple(
                zip(
                    ask.window, answer.tokens[start:end], answer.confidences[start:end],
                    strict=True,
                )
            )
        )  # fmt: skip
        start = end
    return found


def _proposals(
    draft: Draft, now: _Ranked, chain: list[_Ranked], threshold: float | None
) -> tuple[Proposal, ...]:
    """What the step commits: its own choice, then that of each state of the chain."""
    place = {position: i for i, position in enumerate(draft.positions)}
    is_sure = threshold is not None and now.confidences[0] >= threshold
    verdict = Verdict.CONFIDENT if is_sure else Verdict.FORCED
    done = [draft.proposal(place[position], verdict, 0) for position, _ in now.target]
    rank = 0
    for state in chain:
        for (position, token), confidence in zip(state.target, state.confidences, strict=True):
            rank += 1
            i = place[position]
            verdict = Verdict.VERIFIED if token == draft.tokens[i] else Verdict.CORRECTED
            done.append(draft.proposal(i, verdict, rank, (token, confidence)))
    return tuple(done)

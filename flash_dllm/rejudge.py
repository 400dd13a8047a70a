"""What if ε or γ had been different? Answered from a trace, without a model.

The recorded strategy with the other thresholds decides again on the recorded answers, step by
step, until something changes: what comes after that was answered for a text that would not have
been there, so only a real run knows it.

- γ judges the same answers, so the first step whose tokens change is still exact.
- ε changes D, and the mask views saw the old D. The new D is exact in the first step where it
  changes; what would be verified there is approximate, and known only where the mask views that
  it needs were recorded (an audit trace has them all).

Standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from enum import StrEnum

from flash_dllm.canvas import Canvas
from flash_dllm.query import VerifyAsk
from flash_dllm.replay_answers import redecide
from flash_dllm.strategies.base import Decision, DecodingStrategy, StepState
from flash_dllm.trace import (
    Branch,
    DecodeTrace,
    Proposal,
    Recheck,
    StepTrace,
    StopReason,
    Verdict,
)
from flash_dllm.trace_schema import read_settings

# stands for a mask view that was not recorded: agrees with no draft and passes no γ
ABSENT = (-1, -1.0)


class Certainty(StrEnum):
    """How much is known about a step at the other thresholds."""

    EXACT = "exact"  # what a run would decide
    APPROXIMATE = "approximate"  # D is exact, the mask views had seen another D
    DECIDED = "decided"  # D is exact, what would be verified is not known
    UNKNOWN = "unknown"  # after the first change; the recorded decision is shown


@dataclass(frozen=True)
class RejudgedStep:
    """One step at the other thresholds.

    proposals  in acceptance order; where only D is known the searched ones have a rank and WAIT
    stop       why acceptance would end, or None where that is not known
    """

    index: int
    proposals: tuple[Proposal, ...]
    stop: StopReason | None
    certainty: Certainty
    rechecks: tuple[Recheck, ...] = ()
    branches: tuple[Branch, ...] = ()

    @property
    def revoked(self) -> tuple[int, ...]:
        """Positions that would be masked again."""
        return tuple(recheck.position for recheck in self.rechecks if recheck.is_revoked)

    @property
    def accepted(self) -> tuple[tuple[int, int], ...]:
        """(position, token) pairs that the step would commit, in acceptance order."""
        pairs = ((p.position, p.committed_token) for p in self.proposals)
        return tuple((position, token) for position, token in pairs if token is not None)


@dataclass(frozen=True)
class Rejudged:
    """The run at the other thresholds, as far as it is known.

    first_change   index of the first step that decides otherwise, or None
    tokens_gained  how many tokens more (or fewer, negative) that step commits; None if unknown
    decided_gained the same for its D alone, which is always known
    badge          "exact", "exact until step 7", "approximate at step 7" or "needs a run"
    explanation    the badge in plain words
    """

    steps: tuple[RejudgedStep, ...]
    first_change: int | None
    tokens_gained: int | None
    decided_gained: int
    badge: str
    explanation: str


def rejudge(
    trace: DecodeTrace, epsilon: float | None = None, gamma: float | None = None
) -> Rejudged:
    """The steps of a trace decided at another ε, another γ, or both; None keeps the trace's.

    Raises ValueError for a threshold outside 0…1.
    """
    settings = read_settings(vars(trace))
    strategy, idle = _with_thresholds(settings.strategy, epsilon, gamma)
    canvas = strategy.canvas(trace.prompt_token_ids, settings.config, trace.model)
    steps: list[RejudgedStep] = []
    changed: tuple[StepTrace, RejudgedStep] | None = None
    carry = strategy.start()
    for step in trace.steps:
        if changed is not None:
            steps.append(
                RejudgedStep(
                    step.index, step.proposals, step.stop, Certainty.UNKNOWN, step.rechecks,
                    step.branches,
                )
            )  # fmt: skip
            continue
        again, carry = _again(strategy, canvas, step, carry)
        steps.append(again)
        if _decided(again.proposals) != _decided(step.proposals) or (
            again.accepted != step.accepted
        ):
            changed = step, again
        canvas = canvas.after(again)
    if changed is None:
        words = idle or ["Every recorded step decides the same at these thresholds."]
        return Rejudged(tuple(steps), None, 0, 0, "exact", " ".join(words))
    before, after = changed
    if after.certainty is Certainty.EXACT and canvas.is_finished:
        steps = steps[: after.index]  # the steps recorded behind it would not be taken
    tokens = len(after.accepted) - len(before.accepted)
    is_known = after.certainty is not Certainty.DECIDED
    badge, words = _badge(before, after, tokens, canvas.is_finished)
    return Rejudged(
        tuple(steps),
        after.index,
        tokens if is_known else None,
        len(_decided(after.proposals)) - len(_decided(before.proposals)),
        badge,
        " ".join([*idle, *words]),
    )


def _with_thresholds(
    strategy: DecodingStrategy, epsilon: float | None, gamma: float | None
) -> tuple[DecodingStrategy, list[str]]:
    """The strategy at these thresholds, and a remark on each one that it does not have."""
    wanted = {"epsilon": ("ε", epsilon), "gamma": ("γ", gamma)}
    knobs = {item.name for item in fields(strategy)}
    idle = []
    for name, (symbol, value) in wanted.items():
        if value is None:
            continue
        if name in knobs:
            strategy = replace(strategy, **{name: value})  # type: ignore[arg-type]
        else:
            idle.append(f"{symbol} means nothing to the strategy {strategy.name}.")
    return strategy, idle


def _again(
    strategy: DecodingStrategy, canvas: Canvas, step: StepTrace, carry: object
) -> tuple[RejudgedStep, object]:
    """One recorded step, decided by this strategy on this canvas, and what it leaves the next."""
    state = StepState.of(strategy, canvas, step.index, carry)
    decision, asks = redecide(strategy, state, step, ABSENT)
    has_searched = any(isinstance(ask, VerifyAsk) and not ask.is_dry for ask in asks)
    proposals, stop = decision.proposals, decision.stop
    certainty = Certainty.EXACT
    if _stops_at_absent(decision):
        # also with the same D: a chain at a higher ε asks about links that it had trusted
        certainty = Certainty.DECIDED
    elif has_searched and _decided(proposals) != _decided(step.proposals):
        certainty = Certainty.APPROXIMATE
    if certainty is Certainty.DECIDED:
        proposals = tuple(
            p if p.rank == 0 else replace(p, verdict=Verdict.WAITING) for p in proposals
        )
    proposals = tuple(
        replace(p, verify_token=None, verify_confidence=None) if _is_absent(p) else p
        for p in proposals
    )
    known_stop = None if certainty is Certainty.DECIDED else stop
    again = RejudgedStep(
        step.index, proposals, known_stop, certainty, decision.rechecks, decision.branches
    )
    return again, decision.carry


def _is_absent(proposal: Proposal) -> bool:
    return proposal.verify_token == ABSENT[0]


def _stops_at_absent(decision: Decision) -> bool:
    """Whether acceptance got as far as a mask view that was not recorded."""
    return any(_is_absent(p) and p.verdict is Verdict.MISMATCH for p in decision.judged)


def _decided(proposals: tuple[Proposal, ...]) -> tuple[int, ...]:
    """D: the positions decided before verifying, in draft order."""
    return tuple(p.position for p in proposals if p.rank == 0)


def _badge(
    before: StepTrace, after: RejudgedStep, tokens: int, is_finished: bool
) -> tuple[str, list[str]]:
    """Badge and words for a run that changes in this step."""
    index = after.index
    decided = len(_decided(after.proposals)) - len(_decided(before.proposals))
    if after.certainty is Certainty.EXACT:
        change = f"Step {index} would commit {_more(tokens)}"
        if decided:
            change = (
                f"Step {index} would decide {_more(decided)} before verifying and commit "
                f"{_more(tokens)} in all"
            )
        if is_finished:
            return "exact", [f"{change} and end the run."]
        return f"exact until step {index}", [
            f"{change}; what comes after it depends on that and needs a run."
        ]
    change = f"Step {index} would decide {_more(decided)} before verifying"
    if after.certainty is Certainty.APPROXIMATE:
        return f"approximate at step {index}", [
            f"{change}, so its mask views would see another text: about {_more(tokens)} in all; "
            "what comes after it needs a run."
        ]
    missing = [f"{change}; mask views that it would then need were not recorded."]
    if index == 1:
        return "needs a run", missing
    return f"exact until step {index - 1}", [*missing, "From there on it needs a run."]


def _more(count: int) -> str:
    """A difference of tokens in words.

    >>> [_more(n) for n in (2, 1, -1, 0)]
    ['2 tokens more', '1 token more', '1 token fewer', 'as many tokens']
    """
    if count == 0:
        return "as many tokens"
    tokens = "token" if abs(count) == 1 else "tokens"
    return f"{abs(count)} {tokens} {'more' if count > 0 else 'fewer'}"

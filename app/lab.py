"""One step of a run under the glass: the numbers behind the Verify lab, from the trace alone."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from flash_dllm.rejudge import RejudgedStep
from flash_dllm.trace import COMMITTED, DecodeTrace, Proposal, StepTrace, Verdict

Step = StepTrace | RejudgedStep


@dataclass(frozen=True)
class Bound:
    """How far a checked block may stand from the model writing the same block one by one.

    length   m, the drafts that the check accepted
    exact    1 − ∏ c̃ over them
    power    1 − γ^m: what γ alone promises
    linear   m(1 − γ), the simpler bound above it
    """

    length: int
    exact: float
    power: float
    linear: float


def bound(step: Step, gamma: float) -> Bound:
    """The bound of one step's accepted drafts at this γ (paper, Appendix C)."""
    chain = [p.verify_confidence or 0.0 for p in step.proposals if p.verdict is Verdict.VERIFIED]
    m = len(chain)
    return Bound(m, 1 - math.prod(chain), 1 - gamma**m, m * (1 - gamma))


@dataclass(frozen=True)
class Missed:
    """A draft that was right (it is the token that the run wrote there in the end) but was not
    written in this step. position counts from the first generated one.

    reason  "mismatch", "below_gamma", "after_stop" or "not_searched"
    later   how many steps later it was written
    """

    step: int
    position: int
    token: int
    confidence: float
    verify_token: int | None
    verify_confidence: float | None
    reason: str
    later: int


REASONS = {
    Verdict.MISMATCH: "mismatch",
    Verdict.UNSURE: "below_gamma",
    Verdict.AFTER_STOP: "after_stop",
    Verdict.WAITING: "not_searched",
}


def missed(trace: DecodeTrace) -> list[Missed]:
    """All missed chances of a run, step by step, in acceptance order."""
    final = dict(enumerate(trace.canvas_at(len(trace.steps)), trace.prompt_length))
    return [
        Missed(
            step.index,
            p.position - trace.prompt_length,
            p.draft_token,
            p.confidence,
            p.verify_token,
            p.verify_confidence,
            REASONS[p.verdict],
            trace.decided_step[p.position] - step.index,
        )
        for step in trace.steps
        for p in step.proposals
        if p.verdict not in COMMITTED and final.get(p.position) == p.draft_token
    ]


def held(step: StepTrace) -> list[tuple[int, int, float]]:
    """For each β_t that the record can answer: (β_t, position that it adds, share held by all).

    By the recorded attention alone: exact as a ranking of this step's draft pass. It says
    nothing of what re-reading fewer tokens would have changed.
    """
    shares, total = [], 0.0
    for count, (position, mass) in enumerate(step.attention, 1):
        total += mass
        shares.append((count, position, total))
    return shares


def pairs(steps: Iterable[Step]) -> list[tuple[int, Proposal]]:
    """(step, proposal) of every draft that has a mask view: the points of the c–c̃ plane.

    D has no check of its own in a decoding pass; an audit's views of it are left out.
    """
    return [
        (step.index, p)
        for step in steps
        for p in step.proposals
        if p.verify_confidence is not None and p.rank != 0
    ]

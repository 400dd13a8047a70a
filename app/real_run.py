"""A what-if tried for real: the run again at other thresholds, and what that shows."""

from __future__ import annotations

from app.compare import first_difference
from app.runs import Job, Runs, values_of
from app.sentences import counted, summary
from flash_dllm.rejudge import Certainty, rejudge
from flash_dllm.trace import DecodeTrace


def prepare(runs: Runs, trace: DecodeTrace, epsilon: float, gamma: float) -> Job:
    """The job that runs a trace's prompt again at these thresholds. Raises RunError."""
    model = runs.models.of(trace.model.fingerprint, trace.model.impl)
    return runs.prepare(trace.prompt, model, values_of(trace) | {
        key: value for key, value in (("epsilon", epsilon), ("gamma", gamma))
        if key in trace.strategy
    })  # fmt: skip


def telling(recorded: DecodeTrace, real: DecodeTrace) -> int | None:
    """The first step that differs, as far as the real run has it."""
    step = first_difference(recorded, real)
    return None if step is None else min(step, len(real.steps))


def verdict(
    recorded: DecodeTrace, real: DecodeTrace, epsilon: float | None, gamma: float | None
) -> str:
    """What the real run says about the what-if, in words."""
    if (real.model.name, real.model.fingerprint) != (
        recorded.model.name, recorded.model.fingerprint
    ):  # fmt: skip
        return (
            f"{summary(real)}. Another model than the recorded one answered, so the what-if can't "
            "be checked."
        )
    again = rejudge(recorded, epsilon, gamma)
    known = [s for s in again.steps if s.certainty is Certainty.EXACT]
    wrong = next(
        (
            s.index
            for s in known
            if s.index > len(real.steps)
            or dict(s.accepted) != dict(real.steps[s.index - 1].accepted)
        ),
        None,
    )
    if wrong is not None:
        return f"{summary(real)}. In step {wrong} it differs from the what-if, which was exact."
    first = first_difference(recorded, real)
    if first is None:
        return f"{summary(real)}. The same as recorded, as the what-if said."
    return (
        f"{summary(real)}. The what-if held for all {counted(len(known), 'step')} that it knew; "
        f"the first other step is {first}."
    )

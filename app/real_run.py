"""A what-if tried for real: the run again at other thresholds, and what that shows."""

from __future__ import annotations

from app.compare import first_difference
from app.control_values import values_of
from app.jobs import RAW, Job
from app.runs import Runs
from app.said import Said, counted, said
from app.sentences import summaries
from flash_dllm.rejudge import Certainty, rejudge
from flash_dllm.trace import DecodeTrace


def prepare(
    runs: Runs,
    trace: DecodeTrace,
    epsilon: float,
    gamma: float,
    track_size: int | None = None,
    visitor: str = "",
) -> Job:
    """The job that runs a trace's prompt again at these thresholds and this β_t, where it has
    them. Raises RunError."""
    model = runs.models.of(trace.model.fingerprint, trace.model.impl)
    values = values_of(trace) | {
        key: value
        for key, value in (("epsilon", epsilon), ("gamma", gamma))
        if key in trace.strategy
    }
    if track_size is not None and trace.cache.get("track_size") is not None:
        values["track_size"] = track_size
    values["raw"] = trace.prompt_format == RAW
    return runs.prepare(trace.prompt, model, values, visitor)


def telling(recorded: DecodeTrace, real: DecodeTrace) -> int | None:
    """The first step that differs, as far as the real run has it."""
    step = first_difference(recorded, real)
    return None if step is None else min(step, len(real.steps))


def verdict(
    recorded: DecodeTrace, real: DecodeTrace, epsilon: float | None, gamma: float | None
) -> Said:
    """What the real run says about the what-if, in words."""
    summary = summaries(real)
    if (real.model.name, real.model.fingerprint) != (
        recorded.model.name, recorded.model.fingerprint
    ):  # fmt: skip
        return said("verdict_model", summary=summary)
    sizes = [trace.cache.get("track_size") for trace in (recorded, real)]
    if sizes[0] != sizes[1]:
        # only the ranking was known before: what re-reading others changes is news
        first = first_difference(recorded, real)
        parts = {"summary": summary, "before": sizes[0], "now": sizes[1]}
        if first is None:
            return said("verdict_track_same", **parts)
        return said("verdict_track", step=first, **parts)
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
        return said("verdict_wrong", summary=summary, step=wrong)
    first = first_difference(recorded, real)
    if first is None:
        return said("verdict_same", summary=summary)
    return said("verdict_held", summary=summary, steps=counted(len(known), "step"), step=first)

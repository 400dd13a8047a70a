"""Replay: whether the steps of a trace follow from the rules, without a model.

The recorded strategy is run again on the recorded answers; what it decides must be what the
trace says. So an edited verdict, order, rank or stop reason is found whatever the strategy is.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import pairwise

from flash_dllm.caches.base import CachePolicy, StepFacts
from flash_dllm.canvas import Canvas
from flash_dllm.guidance import Hearing
from flash_dllm.query import GuideAsk, Query, VerifyAsk
from flash_dllm.replay_answers import redecide
from flash_dllm.replay_passes import check_passes
from flash_dllm.strategies.base import Decision, ModelAsk, StepState
from flash_dllm.trace import DecodeTrace, ModelInfo, Proposal, StepTrace, TraceError
from flash_dllm.trace_schema import Settings


def replay(trace: DecodeTrace, settings: Settings) -> list[list[Query]]:
    """What each step asked the model, pass by pass.

    Raises TraceError at the first thing that can't have happened in such a run.
    """
    if trace.model.mask_token_id in trace.prompt_token_ids:
        raise TraceError("holds the mask token", ".prompt_token_ids")
    if trace.model.mask_token_id in trace.model.eos_token_ids:
        raise TraceError("holds the mask token", ".model.eos_token_ids")
    model = trace.model
    canvas = settings.strategy.canvas(trace.prompt_token_ids, settings.config, model)
    memory = Memory(settings.cache.start(), settings.strategy.start())
    queries = []
    hearing = Hearing()
    if (trace.guide is not None) != settings.strategy.needs_guide:
        expected = "must name the guide" if trace.guide is None else "is of no use here"
        raise TraceError(f"{expected}: the strategy is {settings.strategy.name}", ".guide")
    for number, step in enumerate(trace.steps, 1):
        try:
            if canvas.is_finished:
                raise TraceError("comes after the run was finished")
            asked, memory, canvas = check_step(
                step, number, canvas, settings, model, memory, hearing
            )
            queries.append(asked)
        except TraceError as error:
            raise error.inside(f".steps[{number - 1}]") from None
    if canvas.is_finished and trace.status != "finished":
        raise TraceError("must be finished: the steps decide everything", ".status")
    if not canvas.is_finished and trace.status == "finished":
        raise TraceError("must be stopped: the steps leave masks undecided", ".status")
    return queries


@dataclass(frozen=True)
class Memory:
    """What cache policy and strategy keep from step to step."""

    cache: object
    carry: object


def check_step(
    step: StepTrace,
    number: int,
    canvas: Canvas,
    settings: Settings,
    model: ModelInfo,
    memory: Memory,
    hearing: Hearing,
) -> tuple[list[Query], Memory, Canvas]:
    """What this step asked, memory and canvas after it. Raises TraceError unless it is what the
    strategy and the cache policy, with this memory, do on this canvas; `hearing` is what a guide
    holds."""
    strategy, cache = settings.strategy, settings.cache
    if step.index != number:
        raise TraceError(f"must be {number}, got {step.index}", ".index")
    state = StepState.of(strategy, canvas, number, memory.carry)
    if step.window != state.window:
        raise TraceError("is not the window of the replayed text", ".window")
    positions = [proposal.position for proposal in step.proposals]
    if sorted(positions) != list(step.window):
        raise TraceError("must hold each window position once", ".proposals")
    decision, everything = redecide(strategy, state, step)
    guided = [ask for ask in everything if isinstance(ask, GuideAsk)]
    asks = [ask for ask in everything if not isinstance(ask, GuideAsk)]
    compare(step, decision)
    check_guide(step, guided, canvas, hearing)
    for place, proposal in enumerate(step.proposals):
        if proposal.committed_token == model.mask_token_id:
            raise TraceError("commits the mask token", f".proposals[{place}]")
        likely = [probability for _, probability in proposal.alternatives]
        if any(a < b for a, b in pairwise(likely)):
            raise TraceError("must stand likeliest first", f".proposals[{place}].alternatives")
    check_reading(step, canvas)
    queries = check_passes(step, asks, canvas, cache, model, memory.cache)
    after = canvas.after(step)
    kept = memory.cache
    if not cache.needs_mass:
        kept = cache.learn(kept, _facts(step, asks, canvas, after, cache))
    return queries, Memory(kept, decision.carry), after


def check_guide(
    step: StepTrace, asks: list[GuideAsk], canvas: Canvas, hearing: Hearing
) -> None:
    """Raise TraceError unless the guide was asked what it says, with rows that follow."""
    asked = [position for ask in asks for position, _ in ask.drafts[-ask.scored :]]
    if [score.position for score in step.guide_scores] != asked:
        raise TraceError("must hold each draft that the guide read, once", ".guide_scores")
    if len(step.guide_passes) != len(asks):
        raise TraceError(f"must hold {len(asks)}, got {len(step.guide_passes)}", ".guide_passes")
    for place, (record, ask) in enumerate(zip(step.guide_passes, asks, strict=True)):
        query = hearing.query(canvas, ask)
        wanted = (query.kind, query.rows, len(query.predict))
        if (record.kind, record.rows, record.predicted) != wanted:
            raise TraceError(
                f"must be {query.kind} of {query.rows} rows, {len(query.predict)} predicted",
                f".guide_passes[{place}]",
            )


def _facts(
    step: StepTrace, asks: list[ModelAsk], before: Canvas, after: Canvas, cache: CachePolicy
) -> StepFacts:
    """What the policy learned when this step ended."""
    accepted = tuple(position for position, _ in step.accepted)
    written: set[int] = set()
    if isinstance(last := asks[-1], VerifyAsk):
        written.update(position for position, _ in last.decided)
        if cache.promotes:
            written |= {p.position for p in step.proposals if p.keeps_view}
    unwritten = tuple(position for position in accepted if position not in written)
    was_full = step.passes[0].kind == "full"
    return StepFacts(
        before, after, accepted, unwritten, None, was_full, revoked=step.revoked
    )


def compare(step: StepTrace, decision: Decision) -> None:
    """Raise TraceError where the record says something else than the rules."""
    for place, (ours, theirs) in enumerate(zip(decision.proposals, step.proposals, strict=True)):
        for item in fields(Proposal):
            want, got = getattr(ours, item.name), getattr(theirs, item.name)
            if want != got:
                raise TraceError(
                    f"the rules give {_word(want)}, the file says {_word(got)}",
                    f".proposals[{place}].{item.name}",
                )
    for name in ("rechecks", "branches"):
        ours_, theirs_ = getattr(decision, name), getattr(step, name)
        for place, (want, got) in enumerate(zip(ours_, theirs_, strict=False)):
            if want != got:
                raise TraceError("is not what the rules give", f".{name}[{place}]")
        if len(ours_) != len(theirs_):
            raise TraceError(f"must hold {len(ours_)}, got {len(theirs_)}", f".{name}")
    if decision.stop is not step.stop:
        raise TraceError(
            f"the rules give {_word(decision.stop)}, the file says {_word(step.stop)}", ".stop"
        )


def _word(value: object) -> str:
    return "nothing" if value is None else str(value)


def check_reading(step: StepTrace, canvas: Canvas) -> None:
    """Raise TraceError unless only decided positions were re-read and ranked."""
    lists = {
        "tracked": step.tracked,
        "verify_tracked": step.verify_tracked,
        "attention": tuple(position for position, _ in step.attention),
    }
    for name, positions in lists.items():
        if len(set(positions)) != len(positions):
            raise TraceError("must not hold a position twice", f".{name}")
        for position in positions:
            if canvas.tokens[position] is None:
                raise TraceError(f"holds position {position}, which is undecided", f".{name}")
    if any(a < b for (_, a), (_, b) in pairwise(step.attention)):
        raise TraceError("must stand by falling mass", ".attention")
    listed = sum(mass for _, mass in step.attention)
    # every mass is rounded to 6 digits
    if step.decided_mass < listed - 1e-6 * (1 + len(step.attention)):
        raise TraceError("is less than the masses in attention", ".decided_mass")

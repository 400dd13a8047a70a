"""Replay: whether the steps of a trace follow from the rules, without a model.

The recorded strategy is run again on the recorded answers; what it decides must be what the
trace says. So an edited verdict, order, rank or stop reason is found whatever the strategy is.
"""

from __future__ import annotations

from dataclasses import fields
from itertools import pairwise

from flash_dllm.caches.base import (
    CachePolicy,
    StepFacts,
    full_query,
    rows_query,
    verify_query,
)
from flash_dllm.canvas import Canvas
from flash_dllm.query import DraftAsk, Prediction, Query, Role, VerifyAsk
from flash_dllm.shift import shifted
from flash_dllm.strategies.base import Ask, Decision, DecodingStrategy, StepState
from flash_dllm.trace import DecodeTrace, ModelInfo, Proposal, StepTrace, TraceError
from flash_dllm.trace_schema import Settings

View = tuple[int, float]


def replay(trace: DecodeTrace, settings: Settings) -> None:
    """Raise TraceError at the first thing that can't have happened in such a run."""
    if trace.model.mask_token_id in trace.prompt_token_ids:
        raise TraceError("holds the mask token", ".prompt_token_ids")
    if trace.model.mask_token_id in trace.model.eos_token_ids:
        raise TraceError("holds the mask token", ".model.eos_token_ids")
    model = trace.model
    canvas = Canvas.start(
        trace.prompt_token_ids, settings.config, model.eos_token_ids, model.causal_block
    )
    memory = settings.cache.start()
    for number, step in enumerate(trace.steps, 1):
        try:
            if canvas.is_finished:
                raise TraceError("comes after the run was finished")
            memory, canvas = check_step(step, number, canvas, settings, model, memory)
        except TraceError as error:
            raise error.inside(f".steps[{number - 1}]") from None
    if canvas.is_finished and trace.status != "finished":
        raise TraceError("must be finished: the steps decide everything", ".status")
    if not canvas.is_finished and trace.status == "finished":
        raise TraceError("must be stopped: the steps leave masks undecided", ".status")


def check_step(
    step: StepTrace,
    number: int,
    canvas: Canvas,
    settings: Settings,
    model: ModelInfo,
    memory: object,
) -> tuple[object, Canvas]:
    """Memory and canvas after this step. Raises TraceError unless it is what the strategy and the
    cache policy, with this memory, do on this canvas."""
    strategy, cache = settings.strategy, settings.cache
    if step.index != number:
        raise TraceError(f"must be {number}, got {step.index}", ".index")
    state = StepState.of(strategy, canvas, number)
    if step.window != state.window:
        raise TraceError("is not the window of the replayed text", ".window")
    positions = [proposal.position for proposal in step.proposals]
    if sorted(positions) != list(step.window):
        raise TraceError("must hold each window position once", ".proposals")
    decision, asks = redecide(strategy, state, step)
    compare(step, decision)
    for place, proposal in enumerate(step.proposals):
        if proposal.committed_token == model.mask_token_id:
            raise TraceError("commits the mask token", f".proposals[{place}]")
        likely = [probability for _, probability in proposal.alternatives]
        if any(a < b for a, b in pairwise(likely)):
            raise TraceError("must stand likeliest first", f".proposals[{place}].alternatives")
    check_reading(step, canvas)
    check_passes(step, asks, canvas, cache, model, memory)
    after = canvas.commit(step.accepted)
    if not cache.needs_mass:
        memory = cache.learn(memory, _facts(step, asks, canvas, after, cache))
    return memory, after


def _facts(
    step: StepTrace, asks: list[Ask], before: Canvas, after: Canvas, cache: CachePolicy
) -> StepFacts:
    """What the policy learned when this step ended."""
    accepted = tuple(position for position, _ in step.accepted)
    written: set[int] = set()
    if isinstance(last := asks[-1], VerifyAsk):
        written.update(position for position, _ in last.decided)
        if cache.keeps_entries:
            written |= {p.position for p in step.proposals if p.keeps_view}
    unwritten = tuple(position for position in accepted if position not in written)
    return StepFacts(before, after, accepted, unwritten, None, step.passes[0].kind == "full")


def redecide(
    strategy: DecodingStrategy, state: StepState, step: StepTrace, absent: View | None = None
) -> tuple[Decision, list[Ask]]:
    """What a strategy decides on the recorded answers of a step, and what it asked for.

    absent  the answer for a mask view that was not recorded; without it that is a TraceError
    """
    recorded = {proposal.position: proposal for proposal in step.proposals}
    asks: list[Ask] = []
    generator = strategy.step(state)
    try:
        ask = next(generator)
        while True:
            asks.append(ask)
            if isinstance(ask, DraftAsk):
                answer = _drafts([recorded[position] for position in ask.window])
            else:
                answer = _views([recorded[position] for position in ask.viewed], absent)
            ask = generator.send(answer)
    except StopIteration as end:
        return end.value, asks


def _drafts(proposals: list[Proposal]) -> Prediction:
    """The recorded answers to a draft question."""
    return Prediction(
        [proposal.draft_token for proposal in proposals],
        [proposal.confidence for proposal in proposals],
        [proposal.alternatives for proposal in proposals],
    )


def _views(proposals: list[Proposal], absent: View | None) -> Prediction:
    """The recorded answers of the mask views."""
    tokens, confidences = [], []
    for proposal in proposals:
        token, confidence = proposal.verify_token, proposal.verify_confidence
        if token is None or confidence is None:
            if absent is None:
                raise TraceError(
                    f"must hold the mask view of position {proposal.position}", ".proposals"
                )
            token, confidence = absent
        tokens.append(token)
        confidences.append(confidence)
    return Prediction(tokens, confidences, [()] * len(tokens))


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


def check_passes(
    step: StepTrace,
    asks: list[Ask],
    canvas: Canvas,
    cache: CachePolicy,
    model: ModelInfo,
    memory: object,
) -> None:
    """Raise TraceError unless there is one pass of the right kind and size for each question."""
    if not cache.needs_mass and step.tracked != cache.tracked(memory):
        raise TraceError("is not what this cache re-reads", ".tracked")
    if len(step.passes) != len(asks):
        raise TraceError(f"must hold {len(asks)}, got {len(step.passes)}", ".passes")
    for place, (record, ask) in enumerate(zip(step.passes, asks, strict=True)):
        where = f".passes[{place}]"
        possible = {
            query.kind: shifted(query, canvas, model.mask_token_id, model.shift)
            for query in _possible(step, ask, canvas, cache, model, memory)
        }
        if record.kind not in possible:
            raise TraceError(
                f"must be {' or '.join(possible)}, got {record.kind}", f"{where}.kind"
            )
        query = possible[record.kind]
        if record.predicted != len(query.predict):
            raise TraceError(
                f"must be {len(query.predict)}, got {record.predicted}", f"{where}.predicted"
            )
        if record.rows != query.rows:
            raise TraceError(f"must be {query.rows}, got {record.rows}", f"{where}.rows")


def _possible(
    step: StepTrace,
    ask: Ask,
    canvas: Canvas,
    cache: CachePolicy,
    model: ModelInfo,
    memory: object,
) -> list[Query]:
    """What the policy may have asked the model, by kind.

    The memory of a policy that needs mass can't be replayed: a trace holds the mass of the first
    positions only. Of such a one the trace says what was re-read, and that is taken.
    """
    mask_token_id = model.mask_token_id
    if isinstance(ask, VerifyAsk):
        if cache.needs_mass:
            return [
                verify_query(canvas, step.verify_tracked, Role.TRACKED, ask, mask_token_id)
            ]
        return [cache.verify(memory, canvas, ask, mask_token_id, None)]
    if not cache.needs_mass:
        return [cache.draft(memory, canvas, ask, mask_token_id)]
    full = full_query(canvas, ask.window, mask_token_id)
    if step.index == 1:
        return [full]
    read = sorted({*step.tracked, *ask.window})
    return [full, rows_query("draft", canvas, read, ask.window, mask_token_id)]

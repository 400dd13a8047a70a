"""Replay: whether the steps of a trace follow from the rules, without a model.

The recorded strategy is run again on the recorded answers; what it decides must be what the
trace says. So an edited verdict, order, rank or stop reason is found whatever the strategy is.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from itertools import pairwise

from flash_dllm.caches.base import CachePolicy, StepFacts, verify_query
from flash_dllm.canvas import Canvas
from flash_dllm.extra_rows import with_extra_rows
from flash_dllm.guidance import Hearing
from flash_dllm.layer_cost import counts_of, query_spans, total
from flash_dllm.query import DraftAsk, GuideAsk, Prediction, Query, Role, VerifyAsk
from flash_dllm.shift import shifted
from flash_dllm.strategies.base import Ask, Decision, DecodingStrategy, ModelAsk, StepState
from flash_dllm.trace import DecodeTrace, ModelInfo, PassRecord, Proposal, StepTrace, TraceError
from flash_dllm.trace_schema import Settings

View = tuple[int, float]


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
                drafts = [recorded[position] for position in ask.window]
                answer = _drafts(drafts, strategy.wants_changes)
                answer = _with_extra_answers(answer, ask, step)
            elif isinstance(ask, GuideAsk):
                answer = _guide([position for position, _ in ask.drafts[-ask.scored :]], step)
            else:
                answer = _views([recorded[position] for position in ask.viewed], absent)
            ask = generator.send(answer)
    except StopIteration as end:
        return end.value, asks


def _drafts(proposals: list[Proposal], wants_changes: bool) -> Prediction:
    """The recorded answers to a draft question."""
    changes = [p.change for p in proposals if p.change is not None] if wants_changes else []
    if wants_changes and len(changes) < len(proposals):
        raise TraceError("must say of each draft how far it has changed", ".proposals")
    return Prediction(
        [proposal.draft_token for proposal in proposals],
        [proposal.confidence for proposal in proposals],
        [proposal.alternatives for proposal in proposals],
        changes=changes,
    )


def _with_extra_answers(drafts: Prediction, ask: DraftAsk, step: StepTrace) -> Prediction:
    """The drafts, and the recorded answers of the shadows and branches of this question."""
    if tuple(recheck.position for recheck in step.rechecks) != ask.shadows:
        raise TraceError("must hold what was decided in this block, left to right", ".rechecks")
    if not ask.guidance:
        asked = tuple((branch.filled, branch.window) for branch in ask.branches)
        recorded = tuple(
            (branch.filled, tuple(position for position, *_ in branch.answers))
            for branch in step.branches
        )
        if recorded != asked:
            raise TraceError("must hold the states that the last step expected", ".branches")
    if not step.rechecks and not step.branches:
        return drafts
    answers = [answer for branch in step.branches for answer in branch.answers]
    others = len(step.rechecks) + len(answers)
    return replace(
        drafts,
        tokens=[
            *drafts.tokens,
            *(recheck.shadow_token for recheck in step.rechecks),
            *(token for _, token, _ in answers),
        ],
        confidences=[
            *drafts.confidences,
            # a shadow's own choice is recorded without how sure it is
            *[0.0] * len(step.rechecks),
            *(confidence for *_, confidence in answers),
        ],
        alternatives=[*drafts.alternatives, *[()] * others],
        scores=tuple(recheck.confidence for recheck in step.rechecks),
    )


def _guide(positions: list[int], step: StepTrace) -> Prediction:
    """The recorded answers of the guide."""
    recorded = {score.position: score for score in step.guide_scores}
    for position in positions:
        if position not in recorded:
            raise TraceError(f"must hold the guide's score of position {position}", ".guide_scores")
    scores = [recorded[position] for position in positions]
    return Prediction(
        [score.token for score in scores],
        [score.top for score in scores],
        [()] * len(scores),
        ranked=[(score.probability, score.rank) for score in scores],
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


def check_passes(
    step: StepTrace,
    asks: list[ModelAsk],
    canvas: Canvas,
    cache: CachePolicy,
    model: ModelInfo,
    memory: object,
) -> list[Query]:
    """The questions as rows. Raises TraceError unless there is one pass of the right kind, size
    and cost for each."""
    if not cache.needs_mass and step.tracked != cache.tracked(memory):
        raise TraceError("is not what this cache re-reads", ".tracked")
    if len(step.passes) != len(asks):
        raise TraceError(f"must hold {len(asks)}, got {len(step.passes)}", ".passes")
    queries = []
    for place, (record, ask) in enumerate(zip(step.passes, asks, strict=True)):
        where = f".passes[{place}]"
        possible = {
            query.kind: _all_rows(query, ask, canvas, model)
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
        try:
            check_cost(record, query, model.n_layers)
        except TraceError as error:
            raise error.inside(where) from None
        queries.append(query)
    return queries


def check_cost(record: PassRecord, query: Query, n_layers: int) -> None:
    """Raise TraceError unless the recorded cost is that of these rows; older files have none.

    What a plan chose inside the forward can't be replayed: then the cost must be one that its
    rows can have.
    """
    if query.plan is None and record.compared:
        raise TraceError("must be 0: no layer chose its rows", ".compared")
    if query.plan is None and not record.layers and not record.row_layers:
        return
    for name in ("layers", "row_layers"):
        if not getattr(record, name):
            raise TraceError("is missing", f".{name}")
    if record.row_layers != total(record.layers):
        raise TraceError(
            f"must be {total(record.layers)}, got {record.row_layers}", ".row_layers"
        )
    expected = query_spans(query, n_layers)
    if query.plan is None:
        if record.layers != expected:
            raise TraceError("is not what the rows of this pass cost", ".layers")
        return
    before = -1
    for first, last, layers in record.layers:
        if not before < first <= last < query.length:
            raise TraceError("must stand left to right, without overlap", ".layers")
        if layers > n_layers:
            raise TraceError(f"holds a position with more than {n_layers} layers", ".layers")
        before = last
    if not set(query.positions) <= set(counts_of(record.layers)):
        raise TraceError("leaves out a row of the first layer", ".layers")


def _all_rows(query: Query, ask: ModelAsk, canvas: Canvas, model: ModelInfo) -> Query:
    """The policy's rows and what the loop makes of them."""
    query = shifted(query, canvas, model.mask_token_id, model.shift)
    if isinstance(ask, VerifyAsk):
        return query
    return with_extra_rows(query, ask, canvas, model.mask_token_id)


def _possible(
    step: StepTrace,
    ask: ModelAsk,
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
            # a policy that keeps copies apart writes nothing else
            writes = ask.is_dry or not cache.max_copies(canvas.config)
            reread = step.verify_tracked
            return [verify_query(canvas, reread, Role.TRACKED, ask, mask_token_id, writes)]
        return [cache.verify(memory, canvas, ask, mask_token_id, None)]
    if not cache.needs_mass:
        return [cache.draft(memory, canvas, ask, mask_token_id)]
    is_first = step.index == 1
    return cache.possible(canvas, ask, mask_token_id, () if is_first else step.tracked, is_first)

"""The one loop: `decode_steps` yields each decision while decoding, `decode` collects them.

The loop fills the cache, asks each live sequence's strategy for its next question, packs the
questions of all sequences into one pass, and yields the very proposals that it committed.
Sequences in draft and in verify phase share a pass; a batch of one is no special case. It knows
nothing about tensors or tokenizers: `engine.py` does.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from flash_dllm.caches import CACHES
from flash_dllm.caches.base import CachePolicy, StepFacts
from flash_dllm.canvas import Canvas
from flash_dllm.config import DecodeConfig
from flash_dllm.engine_protocol import Engine, Guide, GuideSession, Session, SessionRequest
from flash_dllm.extra_rows import with_extra_rows
from flash_dllm.guidance import Hearing, guide_scores
from flash_dllm.layer_cost import query_spans, report_spans, total
from flash_dllm.query import DraftAsk, GuideAsk, Prediction, Query, Role, VerifyAsk
from flash_dllm.settings import Settings, check_cache
from flash_dllm.shift import shifted
from flash_dllm.strategies import STRATEGIES
from flash_dllm.strategies.base import Ask, Decision, DecodingStrategy, StepState
from flash_dllm.trace import DecodeTrace, ModelInfo, PassRecord, StepTrace

log = logging.getLogger(__name__)

# decided positions whose mass is recorded: more than any track_size the explorer offers
ATTENTION_RECORDED = 64


def decode(
    engine: Engine,
    prompt_ids: Sequence[int],
    strategy: DecodingStrategy,
    cache: CachePolicy,
    config: DecodeConfig,
    prompt: str = "",
) -> DecodeTrace:
    """Decode one prompt to the end. Errors as in `decode_steps`."""
    steps = list(decode_steps(engine, prompt_ids, strategy, cache, config))
    header = start_trace(engine, prompt_ids, strategy, cache, config, prompt)
    return finish_trace(engine, header, steps)


def decode_steps(
    engine: Engine,
    prompt_ids: Sequence[int],
    strategy: DecodingStrategy,
    cache: CachePolicy,
    config: DecodeConfig,
) -> Iterator[StepTrace]:
    """Decode one prompt, yielding one StepTrace per decision; closing it frees the cache.

    Raises ValueError for an empty prompt, one that holds the mask token or foreign ids, or one
    that is too long for the model together with `config.gen_length`.
    """
    for _, step in decode_batch_steps(engine, [prompt_ids], strategy, cache, config, 1):
        yield step


def decode_batch(
    engine: Engine,
    prompts: Sequence[Sequence[int]],
    strategy: DecodingStrategy,
    cache: CachePolicy,
    config: DecodeConfig,
    batch_size: int = 32,
) -> list[DecodeTrace]:
    """Decode many prompts, `batch_size` at a time, each as if it were alone."""
    steps: list[list[StepTrace]] = [[] for _ in prompts]
    for number, step in decode_batch_steps(engine, prompts, strategy, cache, config, batch_size):
        steps[number].append(step)
    return [
        finish_trace(engine, start_trace(engine, ids, strategy, cache, config), record)
        for ids, record in zip(prompts, steps, strict=True)
    ]


def decode_batch_steps(
    engine: Engine,
    prompts: Sequence[Sequence[int]],
    strategy: DecodingStrategy,
    cache: CachePolicy,
    config: DecodeConfig,
    batch_size: int,
) -> Iterator[tuple[int, StepTrace]]:
    """The loop. Yields (index of the prompt, step); finished sequences leave, new ones enter."""
    if not isinstance(batch_size, int) or batch_size < 1:
        raise ValueError(f"batch_size must be a whole number from 1 on, got {batch_size}")
    strategy.check(config)
    for prompt_ids in prompts:
        check_prompt(engine, prompt_ids, config)
    if not prompts:
        return
    if engine.info.attention not in cache.fits:
        fitting = [name for name, kind in CACHES.items() if engine.info.attention in kind.fits]
        raise ValueError(
            f"cache {cache.name} does not fit {engine.info.name}, whose attention is "
            f"{engine.info.attention}; use {' or '.join(fitting)}"
        )
    if engine.info.causal_block is not None and not strategy.fits_causal:
        raise ValueError(
            f"{strategy} can't be asked of {engine.info.name}, whose attention is block-causal; "
            "use another strategy"
        )
    if engine.info.shift and not strategy.fits_shift:
        raise ValueError(
            f"{strategy} can't be asked of {engine.info.name}, whose rows answer the next "
            "position; use mask_views='isolated' or another strategy"
        )
    check_cache(strategy, cache)
    sequences = min(batch_size, len(prompts))
    max_length = max(len(ids) for ids in prompts) + config.gen_length
    guide = guide_of(engine, strategy, max_length)
    session = engine.open(
        SessionRequest(
            sequences=sequences,
            max_length=max_length,
            max_views=strategy.max_views(config)
            + cache.max_copies(config)
            + strategy.max_branches * cache.branch_rows(config, max_length),
            temperature=config.temperature,
            alternatives=config.alternatives,
            mass_layers=cache.mass_layers,
            by_layer=cache.by_layer,
            wants_changes=strategy.wants_changes,
        )
    )
    log.info("decode %s with %s, cache %s", engine.info.name, strategy, cache)
    guiding = None
    try:
        if guide is not None:
            guiding = guide.open(SessionRequest(sequences, max_length, alternatives=0))
        yield from _loop(engine, session, guiding, prompts, strategy, cache, config, batch_size)
    finally:
        session.close()
        if guiding is not None:
            guiding.close()


def guide_of(engine: Engine, strategy: DecodingStrategy, max_length: int) -> Guide | None:
    """The guide that this strategy asks, or None if it asks none. Raises ValueError in one
    sentence if the model has none, or one that is too short."""
    if not strategy.needs_guide:
        return None
    guide = engine.guide
    if guide is None:
        raise ValueError(
            f"strategy {strategy.name} asks an autoregressive guide, and {engine.info.name} has "
            "none; give a causal model with the same tokens as guide, or choose another strategy"
        )
    if max_length > guide.max_length:
        raise ValueError(
            f"prompt and gen_length together ({max_length}) exceed the {guide.max_length} "
            f"positions of the guide {guide.info.name}; shorten one of them"
        )
    return guide


def _loop(
    engine: Engine,
    session: Session,
    guiding: GuideSession | None,
    prompts: Sequence[Sequence[int]],
    strategy: DecodingStrategy,
    cache: CachePolicy,
    config: DecodeConfig,
    batch_size: int,
) -> Iterator[tuple[int, StepTrace]]:
    waiting = deque(enumerate(prompts))
    live: list[_Sequence] = []
    ended: list[_Ended] = []
    while waiting or live:
        while waiting and len(live) < batch_size:
            number, prompt_ids = waiting.popleft()
            info = engine.info
            canvas = Canvas.start(
                prompt_ids, config, info.eos_token_ids, info.causal_block, strategy.can_revoke
            )
            handle = session.admit(canvas.length, config.seed)
            sequence = _Sequence(number, handle, canvas, strategy, cache, info)
            if guiding is not None:
                sequence.guide_handle = guiding.admit(canvas.length, config.seed)
            live.append(sequence)
        failure = None
        try:
            answers = _ask(session, guiding, live)
        except Exception as error:
            failure = error  # what was committed before it is told first
        # the last steps are recorded, and looked at by whoever decodes, while the device works
        for step in ended:
            yield step.number, step.record()
        if failure is not None:
            raise failure
        predictions = answers()
        received = [
            sequence.receive(prediction, session)
            for sequence, prediction in zip(live, predictions, strict=True)
        ]
        ended = [step for step in received if step is not None]
        for sequence in live:
            if sequence.canvas.is_finished:
                session.release(sequence.handle)
                if guiding is not None:
                    guiding.release(sequence.guide_handle)
        live = [sequence for sequence in live if not sequence.canvas.is_finished]
    for step in ended:
        yield step.number, step.record()


def _ask(
    session: Session, guiding: GuideSession | None, live: Sequence[_Sequence]
) -> Callable[[], list[Prediction]]:
    """One pass of the model for the sequences that wait for it, and one of the guide for those
    that wait for the guide. The answers come in the order of the sequences."""
    heard = [sequence for sequence in live if sequence.asks_guide]
    asked = [sequence for sequence in live if not sequence.asks_guide]
    answers = session.ask([(s.handle, s.query) for s in asked]) if asked else list
    guided: Callable[[], list[Prediction]] = list
    if heard:
        assert guiding is not None, "only a strategy that needs a guide asks one"
        guided = guiding.ask([(s.guide_handle, s.query) for s in heard])

    def received() -> list[Prediction]:
        of_model, of_guide = iter(answers()), iter(guided())
        return [next(of_guide if s.asks_guide else of_model) for s in live]

    return received


def check_prompt(engine: Engine, prompt_ids: Sequence[int], config: DecodeConfig) -> None:
    """Raise ValueError in one sentence if this prompt can't be decoded."""
    info = engine.info
    if isinstance(prompt_ids, str) or not all(type(token) is int for token in prompt_ids):
        raise ValueError("the prompt must be a list of token ids; use engine.encode for text")
    if len(prompt_ids) == 0:
        raise ValueError("the prompt is empty; give at least one token")
    if info.mask_token_id in prompt_ids:
        raise ValueError("the prompt holds the mask token; remove it")
    if not all(0 <= token < info.vocab_size for token in prompt_ids):
        raise ValueError(f"the prompt holds ids outside 0…{info.vocab_size - 1} of {info.name}")
    if len(prompt_ids) + config.gen_length > engine.max_length:
        raise ValueError(
            f"prompt ({len(prompt_ids)} tokens) and gen_length ({config.gen_length}) together "
            f"exceed the {engine.max_length} positions of {info.name}; shorten one of them"
        )


def start_trace(
    engine: Engine,
    prompt_ids: Sequence[int],
    strategy: DecodingStrategy,
    cache: CachePolicy,
    config: DecodeConfig,
    prompt: str = "",
    prompt_format: str = "",
) -> DecodeTrace:
    """The header of a run, without steps."""
    guide = engine.guide if strategy.needs_guide else None
    return DecodeTrace(
        prompt=prompt,
        prompt_token_ids=tuple(prompt_ids),
        model=engine.info,
        **Settings(strategy, cache, config).described(),
        token_texts={token: engine.token_text(token) for token in set(prompt_ids)},
        prompt_format=prompt_format,
        guide=guide.info if guide is not None else None,
    )


def finish_trace(
    engine: Engine, header: DecodeTrace, steps: Sequence[StepTrace]
) -> DecodeTrace:
    """The header with these steps, and the text of every token that occurs in them.

    The status follows from the steps: "stopped" where a run was ended from outside.
    """
    config = DecodeConfig(**header.config)
    model = header.model
    can_revoke = STRATEGIES[header.strategy["name"]].can_revoke
    canvas = Canvas.start(
        header.prompt_token_ids, config, model.eos_token_ids, model.causal_block, can_revoke
    )
    for step in steps:
        canvas = canvas.after(step)
    status = "finished" if canvas.is_finished else "stopped"
    occurring = {
        token
        for step in steps
        for p in step.proposals
        for token in (p.draft_token, p.verify_token, *(t for t, _ in p.alternatives))
        if token is not None
    }
    occurring |= {recheck.shadow_token for step in steps for recheck in step.rechecks}
    for branch in (branch for step in steps for branch in step.branches):
        occurring |= {token for _, token in branch.filled}
        occurring |= {token for _, token, _ in branch.answers}
    texts = {token: engine.token_text(token) for token in occurring}
    return header.with_steps(steps, status, texts)


@dataclass
class _Sequence:
    """One live sequence: its canvas, its strategy's pending question, the cache policy's memory
    and what the strategy keeps from step to step."""

    number: int
    handle: int
    canvas: Canvas
    strategy: DecodingStrategy
    cache: CachePolicy
    info: ModelInfo
    index: int = 0
    memory: object = None
    carry: object = None
    query: Query = field(init=False)
    asks_guide: bool = False  # whether `query` is for the guide
    guide_handle: int = -1
    hearing: Hearing = field(default_factory=Hearing)

    def __post_init__(self) -> None:
        self.memory, self.carry = self.cache.start(), self.strategy.start()
        self._begin()

    def _begin(self) -> None:
        """Start the strategy's next step and turn its first question into rows."""
        self.index += 1
        self._queries: list[Query] = []
        self._answers: list[Prediction] = []
        self._guided: list[tuple[Query, Prediction]] = []
        state = StepState.of(self.strategy, self.canvas, self.index, self.carry)
        self._window = state.window
        self._generator = self.strategy.step(state)
        self._set(next(self._generator))

    def _set(self, ask: Ask) -> None:
        mask_token_id = self.info.mask_token_id
        self.asks_guide = isinstance(ask, GuideAsk)
        if isinstance(ask, GuideAsk):
            self.query = self.hearing.query(self.canvas, ask)
            return
        if isinstance(ask, VerifyAsk):
            mass = self._answers[0].mass
            query = self.cache.verify(self.memory, self.canvas, ask, mask_token_id, mass)
        else:
            query = self.cache.draft(self.memory, self.canvas, ask, mask_token_id)
            query.top = max(query.top, ATTENTION_RECORDED)
        query = shifted(query, self.canvas, mask_token_id, self.info.shift)
        if isinstance(ask, DraftAsk):
            query = with_extra_rows(query, ask, self.canvas, mask_token_id)
        self.query = query

    def receive(self, prediction: Prediction, session: Session) -> _Ended | None:
        """Hand the answer to the strategy; returns what the step's record is made of if that
        ended the step."""
        if self.asks_guide:
            self._guided.append((self.query, prediction))
        else:
            if self.canvas.config.rank_ends_last:
                prediction = _ends_last(prediction, self.info.eos_token_ids)
            self._queries.append(self.query)
            self._answers.append(prediction)
        try:
            self._set(self._generator.send(prediction))
            return None
        except StopIteration as end:
            decision: Decision = end.value
        ended = _Ended(
            self.number,
            self.index,
            self._window,
            decision,
            self.cache.tracked(self.memory),
            self._queries,
            self._answers,
            self.info.n_layers,
            self._guided,
        )
        self._commit(decision, session)
        if not self.canvas.is_finished:
            self._begin()
        return ended

    def _commit(self, decision: Decision, session: Session) -> None:
        """Write the accepted tokens, mask the revoked ones, promote accepted draft views, choose
        the next tracked set."""
        accepted, revoked = decision.accepted, decision.revoked
        assert len(accepted) > len(revoked), "every step must decide more than it takes back"
        before, self.canvas = self.canvas, self.canvas.after(decision)
        self.carry = decision.carry
        last = self._queries[-1]
        written = set(_positions(last, Role.DECIDED))
        moves = []
        if last.kind == "verify" and self.cache.promotes:
            views = {
                position: slot
                for position, slot, role in zip(
                    last.positions, last.slots, last.roles, strict=True
                )
                if role == Role.DRAFT_VIEW
            }
            moves = [
                (views[p.position], p.position)
                for p in decision.judged
                if p.keeps_view and p.position in views
            ]
            session.promote(self.handle, moves)
        written.update(position for _, position in moves)
        positions = tuple(position for position, _ in accepted)
        self.memory = self.cache.learn(
            self.memory,
            StepFacts(
                before,
                self.canvas,
                positions,
                tuple(p for p in positions if p not in written),
                self._answers[0].mass,
                self._queries[0].kind == "full",
                self._answers[0].layers,
                revoked,
            ),
        )


def _ends_last(prediction: Prediction, ends: tuple[int, ...]) -> Prediction:
    """The answer with end tokens at confidence 0: they rank last, but can still be all there is.

    The alternatives keep the true probabilities. Source: LLaDA's `confidence_eos_eot_inf`, by
    intent (docs/decisions.md, End tokens).
    """
    pairs = zip(prediction.tokens, prediction.confidences, strict=True)
    return replace(prediction, confidences=[0.0 if t in ends else c for t, c in pairs])


@dataclass(frozen=True)
class _Ended:
    """A step that was committed: what its record is made of, in a quieter moment."""

    number: int
    index: int
    window: tuple[int, ...]
    decision: Decision
    tracked: tuple[int, ...]
    queries: list[Query]
    answers: list[Prediction]
    n_layers: int
    guided: list[tuple[Query, Prediction]]

    def record(self) -> StepTrace:
        """The record. It holds the very proposals that were committed."""
        last = self.queries[-1]
        mass = self.answers[0].mass
        step = StepTrace(
            index=self.index,
            window=self.window,
            proposals=self.decision.proposals,
            stop=self.decision.stop,
            tracked=self.tracked,
            verify_tracked=(
                _positions(last, Role.TRACKED, Role.TRACKED_COPY) if last.kind == "verify" else ()
            ),
            attention=mass.top[:ATTENTION_RECORDED] if mass is not None else (),
            decided_mass=mass.decided if mass is not None else 0.0,
            passes=tuple(
                self._pass(query, answer)
                for query, answer in zip(self.queries, self.answers, strict=True)
            ),
            rechecks=self.decision.rechecks,
            branches=self.decision.branches,
            guide_scores=tuple(
                score for query, answer in self.guided for score in guide_scores(query, answer)
            ),
            guide_passes=tuple(
                PassRecord(
                    query.kind, query.rows, len(query.predict), round(answer.seconds, 6),
                    answer.route,
                )
                for query, answer in self.guided
            ),  # fmt: skip
        )
        assert step.accepted == self.decision.accepted, "only judged proposals may commit"
        return step

    def _pass(self, query: Query, answer: Prediction) -> PassRecord:
        reports = answer.layers
        spans = report_spans(reports) if reports else query_spans(query, self.n_layers)
        return PassRecord(
            query.kind,
            query.rows,
            len(query.predict),
            round(answer.seconds, 6),
            answer.route,
            total(spans),
            spans,
            sum(report.compared for report in reports),
        )


def _positions(query: Query, *roles: Role) -> tuple[int, ...]:
    """Positions of the rows with one of these roles, in row order."""
    return tuple(
        position
        for position, row_role in zip(query.positions, query.roles, strict=True)
        if row_role in roles
    )

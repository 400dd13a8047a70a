"""The one loop: `decode_steps` yields each decision while decoding, `decode` collects them.

The loop fills the cache, asks each live sequence's strategy for its next question, packs the
questions of all sequences into one pass (or into two, computed in turn), and yields the very
proposals that it committed. Sequences in draft and in verify phase share a pass; a batch of one is
no special case. It knows nothing about tensors or tokenizers: `engine.py` does.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from flash_dllm.caches.base import CachePolicy
from flash_dllm.config import DecodeConfig
from flash_dllm.engine_protocol import Engine, GuideSession, Session, SessionRequest
from flash_dllm.fit import check_fit, check_prompt, guide_of
from flash_dllm.query import Prediction
from flash_dllm.sequence import EndedStep, LiveSequence
from flash_dllm.settings import Settings
from flash_dllm.strategies import STRATEGIES
from flash_dllm.strategies.base import DecodingStrategy
from flash_dllm.trace import DecodeTrace, StepTrace

log = logging.getLogger(__name__)


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
    groups: int | None = None,
) -> list[DecodeTrace]:
    """Decode many prompts, `batch_size` at a time, each as if it were alone. `groups` and errors
    as in `decode_batch_steps`."""
    steps: list[list[StepTrace]] = [[] for _ in prompts]
    for number, step in decode_batch_steps(
        engine, prompts, strategy, cache, config, batch_size, groups
    ):
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
    groups: int | None = None,
) -> Iterator[tuple[int, StepTrace]]:
    """The loop. Yields (index of the prompt, step); finished sequences leave, new ones enter.

    groups  into how many passes the live sequences are divided: while one is computed the host
            works for the other (docs/decisions.md); None leaves it to the session

    Raises what `decode_steps` raises, and ValueError for a number below 1.
    """
    for name, number in (("batch_size", batch_size), ("groups", 1 if groups is None else groups)):
        if not isinstance(number, int) or number < 1:
            raise ValueError(f"{name} must be a whole number from 1 on, got {number}")
    strategy.check(config)
    for prompt_ids in prompts:
        check_prompt(engine, prompt_ids, config)
    if not prompts:
        return
    check_fit(engine.info, strategy, cache)
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
            drawing=strategy.drawing,
        )
    )
    log.info("decode %s with %s, cache %s", engine.info.name, strategy, cache)
    guiding = None
    try:
        if guide is not None:
            guiding = guide.open(SessionRequest(sequences, max_length, alternatives=0))
        yield from _loop(
            engine, session, guiding, prompts, strategy, cache, config, batch_size, groups
        )
    finally:
        session.close()
        if guiding is not None:
            guiding.close()


def _loop(
    engine: Engine,
    session: Session,
    guiding: GuideSession | None,
    prompts: Sequence[Sequence[int]],
    strategy: DecodingStrategy,
    cache: CachePolicy,
    config: DecodeConfig,
    batch_size: int,
    groups: int | None,
) -> Iterator[tuple[int, StepTrace]]:
    waiting = deque(enumerate(prompts))
    ready: list[LiveSequence] = []  # have a question that is not asked yet
    flying: deque[tuple[list[LiveSequence], Callable[[], list[Prediction]]]] = deque()
    live = 0
    ended: list[EndedStep] = []
    while waiting or ready or flying:
        while waiting and live < batch_size:
            number, prompt_ids = waiting.popleft()
            info = engine.info
            canvas = strategy.canvas(prompt_ids, config, info)
            handle = session.admit(canvas.length, config.seed)
            sequence = LiveSequence(number, handle, canvas, strategy, cache, info)
            if guiding is not None:
                sequence.guide_handle = guiding.admit(canvas.length, config.seed)
            ready.append(sequence)
            live += 1
        wanted = groups or (session.groups_of(live) if guiding is None else 1)
        share = -(-live // wanted)
        failure = None
        try:
            while ready and len(flying) < wanted:
                asked, ready = ready[:share], ready[share:]
                flying.append((asked, _ask(session, guiding, asked)))
        except Exception as error:
            failure = error  # what was committed before it is told first
        # the last steps are recorded, and looked at by whoever decodes, while the device works
        for step in ended:
            yield step.number, step.record()
        if failure is not None:
            raise failure
        asked, answers = flying.popleft()
        received = [
            sequence.receive(prediction, session)
            for sequence, prediction in zip(asked, answers(), strict=True)
        ]
        ended = [step for step in received if step is not None]
        for sequence in asked:
            if sequence.canvas.is_finished:
                session.release(sequence.handle)
                if guiding is not None:
                    guiding.release(sequence.guide_handle)
                live -= 1
            else:
                ready.append(sequence)
    for step in ended:
        yield step.number, step.record()


def _ask(
    session: Session, guiding: GuideSession | None, live: Sequence[LiveSequence]
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
    canvas = STRATEGIES[header.strategy["name"]].canvas(
        header.prompt_token_ids, config, header.model
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

"""Loads the model when it is first needed, and decodes. Knows no gradio.

A run is a plain generator: nobody sleeps in it, and whoever drops it (Stop, a closed tab, an
error) leaves what was decoded in the store.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any

from app.control_values import flat
from app.controls import MAX_PROMPT_CHARACTERS, controls, settings
from app.jobs import Job, Update
from app.models import Models
from app.paces import Paces
from app.presets import EMBEDDED, TOY
from app.said import Said, either, said
from app.sentences import end_sentence, queued_sentence, status_sentence
from app.store import RunError, Store
from app.turns import Place, Turns
from flash_dllm.decoder import decode_steps, finish_trace, start_trace
from flash_dllm.engine_protocol import Engine
from flash_dllm.fit import check_prompt
from flash_dllm.settings import from_preset
from flash_dllm.trace import DecodeTrace

log = logging.getLogger(__name__)
UPDATE_SECONDS, SLOW_UPDATE_SECONDS = 0.1, 0.3  # the second one while others wait
# a waiting run tells its place so often, and whoever has left is noticed then; as every word costs
# the page and the server something, a long line tells less often
WAIT_SECONDS, WAIT_SECONDS_EACH = 1.0, 0.5
FORGET_SECONDS = 600.0
END_SECONDS = 2.0  # what a new run waits for the one before it at most
MOST_ENDED = 256


class Runs:
    """The model, the runs that wait for it, and the store of recent traces."""

    def __init__(
        self,
        folder: str | None = None,
        impl: str = "auto",
        device: str = "auto",
        dtype: str = "auto",
        graphs: bool = True,
        store: Store | None = None,
        turns: Turns | None = None,
        is_open: bool = True,
    ) -> None:
        self._choice: dict[str, Any] = dict(
            folder=folder, impl=impl, device=device, dtype=dtype, graphs=graphs
        )
        self.store = Store() if store is None else store
        self.turns = Turns() if turns is None else turns
        self.models = Models(self._choice, is_open)
        self._engines = self.models.engines
        self._jobs: dict[str, Job] = {}
        self._ended: OrderedDict[str, str] = OrderedDict()  # numbers → names of kept traces
        self.paces = Paces()

    def choose_model(self, **choice: Any) -> None:
        """Another folder, implementation, device, dtype or `graphs` for the next load."""
        self._choice.update(choice)
        self._engines.pop(EMBEDDED, None)

    def defaults(self, model: str) -> dict[str, Any]:
        """The settings to start from: the knobs' own, then what the model's folder carries."""
        values: dict[str, Any] = {c.name: c.default for c in controls().values()}
        values |= {"strategy": "flash_verify", "cache": "flash"}
        if model != TOY:
            chosen = from_preset(dict(self.models.preset(model)), {})
            knobs = flat(chosen.described())
            values |= {name: value for name, value in knobs.items() if name in values}
        return values

    def is_loaded(self, model: str) -> bool:
        return model in self._engines

    def engine(self, model: str) -> Engine:
        """The engine of that name, loaded once. Raises RunError."""
        return self.models.engine(model)

    def prepare(
        self, prompt: str, model: str, values: Mapping[str, Any], visitor: str = ""
    ) -> Job:
        """Check everything that can be checked without the model. Raises RunError."""
        if not prompt or not prompt.strip():
            raise RunError(said("prompt_empty"))
        if len(prompt) > MAX_PROMPT_CHARACTERS:
            raise RunError(said("prompt_long", count=len(prompt), most=MAX_PROMPT_CHARACTERS))
        self.models.check(model)
        strategy, cache = str(values.get("strategy")), str(values.get("cache"))
        try:
            made = settings(strategy, cache, values)
        except ValueError as error:
            raise RunError(in_words(error)) from error
        if model == TOY and (prompt.split() != ["^"] or made[2].gen_length != 4):
            raise RunError(said("toy_prompt"))
        engine = self._engines.get(model)
        if engine is not None and engine.info.attention not in made[1].fits:
            fitting = either(self.models.caches(model))
            attention = engine.info.attention
            raise RunError(said(
                "cache_misfit", cache=cache, model=engine.info.name, attention=attention,
                choices=fitting,
            ))  # fmt: skip
        return Job(prompt, model, *made, visitor=visitor, raw=bool(values.get("raw")))

    def enqueue(self, job: Job) -> str:
        """Take a job; returns its number, which nobody can guess. Jobs that nobody came for are
        forgotten. Raises RunError if too many wait."""
        self.turns.check(job.visitor)
        old = time.monotonic() - FORGET_SECONDS
        for stale in [n for n, j in list(self._jobs.items()) if j.born < old and not j.steps]:
            self._jobs.pop(stale, None)
        number = secrets.token_hex(8)
        self._jobs[number] = job
        return number

    def ahead(self) -> int:
        """How many unfinished runs a new one would have to wait for."""
        return self.turns.ahead()

    def is_going(self, number: str) -> bool:
        """Whether a run waits or goes on, and nobody has asked it to end."""
        job = self._jobs.get(number)
        return job is not None and not job.stop.is_set()

    def ended(self, number: str, within: float = 0.0) -> str | None:
        """The name of the trace that a run left, if it ends in so many seconds and has steps."""
        self.ends(number, within)
        return self._ended.get(number)

    def ends(self, number: str, within: float) -> bool:
        """Whether a run ends in so many seconds, or has ended."""
        job = self._jobs.get(number)
        return job is None or job.ended.wait(within)

    def stop(self, number: str) -> bool:
        """Ask a run to end after its present step; whether there was one."""
        job = self._jobs.get(number)
        if job is not None:
            job.stop.set()
            self.turns.wake()
        return job is not None

    def make_way(self, number: str) -> None:
        """End a run for the next one on the same page: its last picture, which is sent before this
        returns, must not come after the next one's first. It takes its present step at most, and
        no longer than END_SECONDS."""
        self.stop(number)
        self.ends(number, within=END_SECONDS)

    def leave(self, number: str) -> None:
        """End a run that nobody looks at any more: no update of it comes after this."""
        job = self._jobs.get(number)
        if job is not None:
            job.left.set()
            job.stop.set()
            self.turns.wake()

    def run(self, number: str) -> Iterator[Update]:
        """Decode a job when its turn comes, with at most ten updates a second (three, if others
        wait); the last one carries the trace, unless it was stopped before its turn. Raises
        RunError."""
        job = self._jobs.get(number)
        if job is None:
            raise RunError(said("run_unknown"))
        try:
            place = self.turns.join(job.visitor, job.stop)
            try:
                for update in self._in_turn(job, place):
                    if job.left.is_set():
                        break
                    yield update
            finally:
                self.turns.leave(place)
        finally:
            self._jobs.pop(number, None)
            if job.kept:
                self._ended[number] = job.kept[-1]
                while len(self._ended) > MOST_ENDED:
                    self._ended.popitem(last=False)
            job.ended.set()

    def _in_turn(self, job: Job, place: Place) -> Iterator[Update]:
        yield from self._wait(place)
        if not place.has_begun:
            yield Update(said("stopped_before"))
            return
        yield from self._run(job, place)

    def _wait(self, place: Place, before: Said | None = None) -> Iterator[Update]:
        """Updates with the place in the line, until its turn comes or it is stopped."""
        begin, next_word = time.monotonic(), 0.0
        while not self.turns.wait(place, next_word - time.monotonic()) and not place.stop.is_set():
            now = time.monotonic()
            if now < next_word:
                continue  # the line moved, and this run is still not the next one
            line = queued_sentence(self.turns.ahead(place), now - begin)
            yield Update(line if before is None else said("and_then", first=before, then=line))
            next_word = now + max(WAIT_SECONDS, WAIT_SECONDS_EACH * len(self.turns))

    def so_far(self, number: str) -> DecodeTrace | None:
        """What a run that is going on has decoded, for a page that lost an update."""
        job = self._jobs.get(number)
        engine = self._engines.get(job.model) if job else None
        if job is None or engine is None or not job.steps:
            return None
        engine = engine.suited(job.cache)
        ids = encode(engine, job.prompt, job.raw)
        header = start_trace(
            engine, ids, job.strategy, job.cache, job.config, job.prompt, job.prompt_format
        )
        return finish_trace(engine, header, list(job.steps))

    def decode(self, job: Job) -> DecodeTrace:
        """A job from start to end, for scripts. Raises RunError."""
        for update in self._run(job):
            if update.error:
                raise RunError(update.error)
        assert update.trace is not None
        return update.trace

    def _run(self, job: Job, place: Place | None = None) -> Iterator[Update]:
        if not self.is_loaded(job.model):
            for stage in self.models.stages(job.model):
                yield Update(stage)
        engine = self.engine(job.model).suited(job.cache)
        prompt_ids = encode(engine, job.prompt, job.raw)
        try:
            check_prompt(engine, prompt_ids, job.config)
        except ValueError as error:
            raise RunError(in_words(error)) from error
        header = start_trace(
            engine, prompt_ids, job.strategy, job.cache, job.config, job.prompt, job.prompt_format
        )
        yield Update(said("started"), header=header, text_of=engine.token_text)
        steps = job.steps
        sent, passes, masks, failure = 0, 0, job.config.gen_length, ""
        pace = UPDATE_SECONDS
        begin = last = time.monotonic()
        decoding = decode_steps(engine, prompt_ids, job.strategy, job.cache, job.config)
        try:
            if not job.stop.is_set():
                for step in self.models.turns.each(engine, decoding):
                    steps.append(step)
                    passes += len(step.counted)
                    masks -= len(step.accepted) - len(step.revoked)
                    now = time.monotonic()
                    if job.stop.is_set():
                        break
                    if now - last >= pace:
                        last = now
                        pace = SLOW_UPDATE_SECONDS if len(self.turns) > 1 else UPDATE_SECONDS
                        line = status_sentence(len(steps), masks, passes, now - begin)
                        yield Update(line, steps=tuple(steps[sent:]))
                        sent = len(steps)
                    if masks and place is not None and self.turns.is_over(place):
                        pause = said("others_turn", step=len(steps))
                        yield Update(pause, steps=tuple(steps[sent:]))
                        sent = len(steps)
                        self.turns.pass_on(place)
                        yield from self._wait(place, pause)
                        begin += time.monotonic() - now  # waiting is no part of the run
                        if job.stop.is_set():
                            break
        except (ValueError, KeyError, RuntimeError, MemoryError) as error:
            log.exception("the run failed in step %d", len(steps) + 1)
            reason = str(error) or type(error).__name__
            failure = said("run_failed", step=len(steps) + 1, reason=reason)
        finally:
            decoding.close()  # type: ignore[attr-defined]  # a generator in fact
            trace = finish_trace(engine, header, steps)
            name = self.store.keep(trace) if steps else ""
            job.kept.extend([name] if name else [])
        seconds = time.monotonic() - begin
        line = end_sentence(trace, seconds)
        self.paces.learn(job.model, trace, seconds)
        yield Update(line, steps=tuple(steps[sent:]), trace=trace, name=name, error=failure)


def encode(engine: Any, prompt: str, raw: bool = False) -> list[int]:
    """Prompt → ids, by the model's chat template where it has one. Raises RunError.

    raw  as plain text, whatever template there is
    """
    if not hasattr(engine, "encode"):
        return engine.ids(prompt)
    try:
        return engine.encode(prompt, raw) if raw else engine.encode(prompt)
    except ValueError as error:
        raise RunError(in_words(error)) from error


def in_words(error: Exception) -> str:
    """An error as a sentence, with the names of settings as the page writes them.

    >>> in_words(ValueError("gen_length must not be blank"))
    'Gen length must not be blank.'
    """
    text = str(error)
    for name in controls():
        text = text.replace(name, name.replace("_", " "))
    return f"{text[:1].upper()}{text[1:]}."

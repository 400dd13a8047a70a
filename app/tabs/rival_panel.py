"""Compare's picker of model, strategy and cache: run A's prompt is decoded again with them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gradio as gr

from app import rival, shelf
from app.player import packed, text_line
from app.presets import EMBEDDED
from app.runs import Runs
from app.said import said
from app.sentences import queued_sentence
from app.store import RunError
from app.tabs.model_panel import labelled
from app.tabs.shared import QUIET, SHORT, stopping, told, visitor
from app.words import Says
from flash_dllm.strategies import STRATEGIES

SAME = ("as run A", rival.AS_BEFORE)


class RivalPanel:
    """Built inside Compare's column; `finished` carries the name of the kept run."""

    def __init__(self, runs: Runs) -> None:
        self.runs = runs
        models = runs.models
        with gr.Accordion("Decode it otherwise", open=False, elem_id="fd-rival") as self.part:
            self.model = gr.Dropdown(
                models.names(), value=EMBEDDED, label="model", filterable=False,
                info="others are loaded under Model in Watch", elem_id="fd-rival-model",
            )  # fmt: skip
            self.facts = text_line(models.facts(EMBEDDED).line, "fd-rival-facts")
            self.strategy = gr.Dropdown(
                [SAME, *labelled(list(STRATEGIES))], value=rival.AS_BEFORE, label="strategy",
                filterable=False, elem_id="fd-rival-strategy",
            )  # fmt: skip
            self.cache = gr.Dropdown(
                [SAME, *labelled(models.caches(EMBEDDED))], value=rival.AS_BEFORE, label="cache",
                filterable=False, elem_id="fd-rival-cache",
            )  # fmt: skip
            with gr.Row():
                self.run = gr.Button(
                    "Run", variant="primary", elem_id="fd-rival-run", min_width=80
                )
                self.stop = gr.Button("Stop", elem_id="fd-rival-stop", min_width=80)
            self.status = text_line(Says("compare", "en")("rival_hint"), "fd-rival-status")
            self.job = gr.State("")
            self.finished = gr.State("")

    def wire(self, first: gr.Dropdown) -> Any:
        """The event of a run, for what follows it. first: the picker of run A."""
        self.model.change(
            self._offers, [self.model, self.cache], [self.facts, self.cache],
            api_name="rival_offers", **QUIET,
        )  # fmt: skip
        self.part.expand(
            self._refresh, self.model, [self.model, self.facts], api_name="rival_names", **QUIET
        )
        asked = [self.job, first, self.model, self.strategy, self.cache]
        self.stop.click(self._stop, self.job, self.status, api_name="rival_stop", **SHORT)
        return self.run.click(
            self._prepare, asked, [self.job, self.status], api_name="rival_prepare", **QUIET
        ).success(
            self._decode, self.job, [self.status, self.finished, self.facts],
            api_name="rival_run",
            concurrency_limit=None,  # the runs' own line (app/turns.py)
            trigger_mode="multiple",
            **QUIET,
        )  # fmt: skip

    def names(self) -> Any:
        """The models as they are now: other visitors may have loaded some."""
        return gr.update(choices=self.runs.models.names())

    def _offers(self, name: str, cache: str) -> list[Any]:
        with told():
            models = self.runs.models
            if name not in models.names():
                return [gr.skip()] * 2
            fitting = models.caches(name)
            value = cache if cache in fitting else rival.AS_BEFORE
            choices = [SAME, *labelled(fitting)]
            return [packed(models.facts(name).line), gr.update(choices=choices, value=value)]

    def _refresh(self, name: str) -> list[Any]:
        with told():
            return [self.names(), packed(self.runs.models.facts(name).line)]

    def _prepare(
        self, previous: str, first: str, model: str, strategy: str, cache: str
    ) -> tuple[str, str]:
        with told():
            self.runs.make_way(previous)
            trace = self.runs.store.trace(shelf.resolve(self.runs, first))
            job = rival.prepare(self.runs, trace, model, strategy, cache, visitor())
            number = self.runs.enqueue(job)
            ahead = self.runs.ahead()
            return number, packed(queued_sentence(ahead) if ahead else said("starting"))

    def _decode(self, number: str) -> Iterator[list[Any]]:
        with told():
            try:
                for update in self.runs.run(number):
                    yield [packed(update.status), update.name, gr.skip()]
                    if update.error:
                        raise RunError(update.error)
                if update.trace is not None:
                    model = self.runs.models.of(
                        update.trace.model.fingerprint, update.trace.model.impl
                    )
                    yield [gr.skip(), gr.skip(), packed(self.runs.models.facts(model).line)]
            except RunError as error:
                yield [packed(error.line), gr.skip(), gr.skip()]
                raise

    def _stop(self, number: str) -> Any:
        return stopping(self.runs, number)

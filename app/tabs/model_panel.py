"""The model picker of the Watch tab: which model answers, how it is loaded, what it takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gradio as gr

from app.models import NOT_HERE
from app.player import packed, text_line
from app.presets import EMBEDDED, TOY
from app.runs import Runs
from app.said import Said, said, together
from app.store import RunError
from app.tabs.shared import QUIET, told

# (dtype, quantisation) by label; int8 and fp8 weights need torchao
DTYPES = {
    "automatic": ("auto", "none"),
    "bfloat16": ("bfloat16", "none"),
    "float16": ("float16", "none"),
    "float32": ("float32", "none"),
    "bfloat16, int8 weights": ("bfloat16", "int8"),
    "bfloat16, fp8 weights": ("bfloat16", "fp8"),
    "bfloat16, fp8 products": ("bfloat16", "fp8_w8a8"),
}


class ModelPanel:
    """Built inside Watch's column; `model` and `raw` are inputs of its Run."""

    def __init__(self, runs: Runs) -> None:
        self.runs = runs
        with gr.Accordion("Model", open=False, elem_id="fd-model") as self.part:
            self.model = gr.Dropdown(
                runs.models.names(), value=EMBEDDED, label="model", filterable=False,
                elem_id="fd-model-name",
            )  # fmt: skip
            self.facts = text_line(runs.models.facts(EMBEDDED).line, "fd-model-facts")
            self.raw = gr.Checkbox(
                False, label="prompt as plain text", elem_id="fd-raw",
                info="off: in the model's chat template",
            )  # fmt: skip
            self.source = gr.Textbox(
                "", label="load another one", max_lines=1, elem_id="fd-model-source",
                placeholder="hub name (owner/model) or a folder",
            )  # fmt: skip
            self.dtype = gr.Dropdown(
                list(DTYPES), value="automatic", label="weights as", filterable=False,
                elem_id="fd-model-dtype",
            )  # fmt: skip
            with gr.Row():
                self.load = gr.Button("Load", elem_id="fd-model-load", min_width=80)
                self.unload = gr.Button("Unload", elem_id="fd-model-unload", min_width=80)
            words = said("shared_models") if runs.models.is_open else NOT_HERE
            self.status = text_line(words, "fd-model-status")

    def wire(self, cache: gr.Dropdown, start: gr.Dropdown, started: list[Any], begin) -> None:
        """cache, start: Watch's pickers, which offer what fits the model; `begin` fills `started`
        with a model's own settings."""
        offered = [self.facts, cache, start]
        self.load.click(
            self._load, [self.source, self.dtype, self.model], [self.model, self.status],
            api_name="model_load", show_progress="hidden", api_visibility="private",
        ).success(
            begin, [self.model], started, api_name="model_settings", **QUIET
        )  # fmt: skip
        self.unload.click(
            self._unload, self.model, [self.facts, self.status], api_name="model_unload", **QUIET
        )
        self.model.input(begin, [self.model], started, api_name="model_choose", **QUIET)
        self.model.change(
            self.offers, [self.model, cache], offered, api_name="model_offers", **QUIET
        )
        self.part.expand(
            self._refresh, self.model, [self.model, self.facts], api_name="model_names", **QUIET
        )

    def _load(self, source: str, dtype: str, current: str) -> Iterator[list[Any]]:
        with told():
            models = self.runs.models
            if not source.strip():
                name = current
            else:
                if dtype not in DTYPES:
                    raise RunError(
                        said("weights_one_of", known=", ".join(DTYPES), name=repr(dtype))
                    )
                name = models.add(source, *DTYPES[dtype])
            try:
                for stage in models.stages(name):
                    yield [gr.skip(), packed(said("stage", words=stage))]
            except RunError as error:
                models.forget(name)
                yield [gr.skip(), packed(error.line)]
                raise
            chosen = gr.update(choices=models.names(), value=name)
            yield [chosen, packed(self.line(name))]

    def _unload(self, name: str) -> list[str]:
        with told():
            if name == TOY:
                raise RunError(said("toy_is_a_table"))
            if not self.runs.models.is_open:
                raise RunError(NOT_HERE)
            words = self.runs.models.unload(name)
            return [packed(self.line(name)), packed(words)]

    def _refresh(self, name: str) -> list[Any]:
        with told():
            # other visitors may have loaded models since this page was opened
            return [gr.update(choices=self.runs.models.names()), packed(self.line(name))]

    def now(self, name: str) -> str:
        """The line that says what is loaded, after a run may have loaded it."""
        with told():
            return packed(self.line(name))

    def line(self, name: str) -> Said:
        """What is known of a model, and what else is loaded."""
        models = self.runs.models
        others = [other for other in models.engines if other not in (name, TOY)]
        beside = said("also_loaded", names=", ".join(others)) if others else ""
        return together(models.facts(name).line, beside)

    def offers(self, name: str, cache: str) -> list[Any]:
        """The caches and the presets that fit a model, and the line that says what it is."""
        with told():
            if name not in self.runs.models.names():
                return [gr.skip()] * 3
            fitting = self.runs.models.caches(name)
            value = cache if cache in fitting else fitting[0]
            return [
                packed(self.line(name)),
                gr.update(choices=labelled(fitting), value=value),
                gr.update(choices=starts(self.runs, name), value=None),
            ]


LABELS = {
    "flash_verify": "Flash-Verify: draft, check, keep",
    "chain": "Chain: left to right, for as long as it holds",
    "confidence": "Confidence only, no check",
    "greedy": "Greedy, one token a step",
    "flash": "Flash-Cache: re-read a few",
    "none": "None: read everything",
}


def labelled(names: list[str]) -> list[tuple[str, str]]:
    """(what the page says, name) of strategies or caches."""
    return [(LABELS.get(name, name.replace("_", " ")), name) for name in names]


def starts(runs: Runs, model: str) -> list[tuple[str, str]]:
    """(label, key) of the settings that a model can start from: its own, its family's, peers'."""
    from app.decoder_presets import choices

    return choices(runs.models, model)

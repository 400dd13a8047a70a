"""The Sweep tab's form for a sweep of one's own: what is tried, on what, and how good it is."""

from __future__ import annotations

from typing import Any

import gradio as gr

from app.controls import controls
from app.runs import Runs
from app.said import said
from app.store import RunError
from app.sweep_form import QUALITIES, SEARCH, planned, read_lines, suggestion
from app.tabs.shared import QUIET
from flash_dllm.evaluation.sweep_file import SAMPLERS, SweepFile
from flash_dllm.evaluation.tasks import OWN_TASKS

ADD = "add a knob"  # the value of the picker's first line


class NewSweep:
    """Built inside Sweep's column; `fields` are inputs of its Start, `plan` reads their values."""

    def __init__(self, runs: Runs) -> None:
        self.runs = runs
        with gr.Accordion("New sweep", open=False, elem_id="fd-sweep-new") as self.part:
            self.search = gr.Textbox(
                SEARCH, label="try these", lines=3, max_lines=8, elem_id="fd-sweep-search",
                info="one knob a line: “gamma: 0.5, 0.6”, or “gamma: 0.5 to 0.9” for random",
            )  # fmt: skip
            self.add = gr.Dropdown(
                knobs_offered(), value=ADD, label="add a knob", show_label=False, container=False,
                filterable=True, elem_id="fd-sweep-add",
            )  # fmt: skip
            self.tasks = gr.CheckboxGroup(
                list(OWN_TASKS), value=["word"], label="tasks", elem_id="fd-sweep-tasks"
            )
            self.limit = gr.Number(
                8, label="items a task", precision=0, elem_id="fd-sweep-limit"
            )
            self.quality = gr.Dropdown(
                qualities_offered(), value="accuracy", label="how good", filterable=False,
                elem_id="fd-sweep-quality",
            )  # fmt: skip
            self.start = gr.Button("Start", variant="primary", elem_id="fd-sweep-start")
            with gr.Accordion("Prompts, fixed knobs, sampler", open=False) as self.more:
                self._more()
        self.fields = [
            self.search, self.fixed, self.tasks, self.prompts, self.limit, self.sampler,
            self.trials, self.seed, self.quality,
        ]  # fmt: skip

    def _more(self) -> None:
        self.prompts = gr.Textbox(
            "", label="own prompts", lines=2, max_lines=8, elem_id="fd-sweep-prompts",
            info="one a line; judged by agreement with one token a step",
        )  # fmt: skip
        self.fixed = gr.Textbox(
            "", label="the same everywhere", lines=2, max_lines=8, elem_id="fd-sweep-fixed",
            info="like “temperature: 0.5”; else the model's preset",
        )  # fmt: skip
        with gr.Row():
            self.sampler = gr.Dropdown(
                list(SAMPLERS), value="grid", label="sampler", filterable=False,
                min_width=90, elem_id="fd-sweep-sampler",
            )  # fmt: skip
            self.trials = gr.Number(
                20, label="points", precision=0, min_width=70, elem_id="fd-sweep-trials"
            )
            self.seed = gr.Number(
                0, label="seed", precision=0, min_width=60, elem_id="fd-sweep-seed"
            )

    def wire(self) -> None:
        self.add.input(
            self._add, [self.add, self.search], [self.add, self.search], api_name="sweep_add",
            **QUIET,
        )  # fmt: skip

    def plan(
        self,
        storage: str,
        model: str,
        search: str,
        fixed: str,
        tasks: list[str],
        prompts: str,
        limit: float,
        sampler: str,
        trials: float,
        seed: float,
        quality: str,
    ) -> SweepFile:
        """The sweep that the fields say, for a storage's address and a model. Raises RunError."""
        same = read_lines(fixed, said("same_everywhere"))
        if several := [name for name, values in same.items() if len(values) != 1]:
            raise RunError(said("line_several", name=several[0], what=said("try_these")))
        tried = read_lines(search, said("try_these"))
        if not tried:
            raise RunError(said("nothing_to_try", what=said("try_these")))
        ranges = [name for name, values in tried.items() if isinstance(values, dict)]
        if ranges and sampler == "grid":
            raise RunError(said("line_range", name=ranges[0]))
        return planned(
            self.runs.models.preset(model), storage,
            tried, {n: v[0] for n, v in same.items()}, tasks,
            [line.strip() for line in prompts.splitlines() if line.strip()],
            int(limit or 0), sampler, int(trials or 0), int(seed or 0), quality,
            **self.runs.models.choice(model),
        )  # fmt: skip

    def _add(self, name: str, search: str) -> tuple[str, Any]:
        line = suggestion(name)
        if not line or f"{name}:" in search:
            return ADD, search
        return ADD, f"{search.rstrip()}\n{line}".lstrip()


def knobs_offered(language: str = "en") -> list[tuple[str, str]]:
    """(what the page says, name) of what a sweep can try."""
    first = said("add_a_knob").within(language), ADD
    return [first, *((name, name) for name in ("strategy", "cache", *controls()))]


def qualities_offered(language: str = "en") -> list[tuple[str, str]]:
    """(what the page says, key) of the ways to say how good a point is."""
    return [(said(f"quality_{key}").within(language), key) for key in QUALITIES]

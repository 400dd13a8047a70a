"""The Watch tab: settings at the side, the player in the middle."""

from __future__ import annotations

from typing import Any

import gradio as gr

from app import presets, views
from app.control_values import values_of
from app.controls import MAIN, Control, controls, raw_of
from app.player import text_line, trace_player
from app.runs import Runs
from app.tabs.cost import CostPanel
from app.tabs.model_panel import ModelPanel, labelled, starts
from app.tabs.shared import EACH, QUIET, SHORT
from app.tabs.watch_events import RECORDED, WatchEvents, hint
from flash_dllm.strategies import STRATEGIES


class Watch:
    """Components are attributes, so that the wiring below reads like a list.

    opening  the kept run that is shown first
    """

    def __init__(self, runs: Runs, opening: str) -> None:
        self.runs = runs
        self.knobs: dict[str, Any] = {}
        self.controls = controls()
        self.opening = opening
        first = presets.presets()[0]
        trace = runs.store.trace(opening)
        runs.paces.guess(first.model, trace)
        self.start = {**runs.defaults(presets.EMBEDDED), **values_of(trace)}
        prompt = trace.prompt if trace.prompt.strip() else first.prompt
        with gr.Tab("Watch", id="watch"), gr.Row(elem_classes="fd-page"):
            with gr.Column(scale=0, min_width=312, elem_classes="fd-side"):
                self._side(first.label, prompt)
            with gr.Column(scale=1, min_width=320, elem_classes="fd-main"):
                self.player = trace_player(views.view(trace, opening))
                self.cost_map = CostPanel(runs)
                self.job = gr.State("")
                self.said = gr.State((None, ""))
                self.step = gr.State(views.telling_step(trace) + 1)
        self.events = WatchEvents(runs, self.knobs)

    def shown(self, run_id: gr.State) -> list[Any]:
        """The outputs that show a run: the values of `WatchEvents.shown` go there."""
        return [self.player, self.badge, run_id, self.status, self.save]

    def settings(self) -> list[Any]:
        """The inputs that hold prompt, model and all knobs."""
        return [self.prompt, self.model, *self.knobs.values()]

    def filled(self, run_id: gr.State) -> list[Any]:
        """The outputs that show a run with its settings: the values of `WatchEvents.show`."""
        return [*self.shown(run_id), *self.settings(), self.said]

    def _side(self, label: str, prompt: str) -> None:
        self.example = gr.Dropdown(
            presets.offered(), value=str(label), label="Example", filterable=False
        )
        self.prompt = gr.Textbox(
            prompt, label="Prompt", lines=4, max_lines=8, elem_id="fd-prompt-box"
        )
        with gr.Row():
            self.run_button = gr.Button("Run", variant="primary", elem_id="fd-run", min_width=80)
            self.stop_button = gr.Button("Stop", elem_id="fd-stop", min_width=80)
        self.status = text_line(RECORDED, "fd-status")
        kind = presets.EMBEDDED, self.start["strategy"], self.start["cache"]
        self.cost = text_line(self.runs.paces.estimate(*kind, self.start["gen_length"]), "fd-cost")
        self.begin = gr.Dropdown(
            starts(self.runs, presets.EMBEDDED), value=None, label="start from a decoder",
            filterable=False, elem_id="fd-begin",
        )  # fmt: skip
        self.about = text_line("", "fd-about")
        self._choice("strategy", list(STRATEGIES))
        for name in MAIN[:2]:
            self._knob(self.controls[name])
        self.badge = text_line(hint(self.start), "fd-badge")
        for pair in (MAIN[2:4], MAIN[4:6]):
            with gr.Row():
                for name in pair:
                    self._knob(self.controls[name])
        with gr.Accordion("Advanced", open=False, elem_id="fd-advanced") as self.advanced:
            self._choice("cache", self.runs.models.caches(presets.EMBEDDED))
            for name, control in self.controls.items():
                if name not in MAIN:
                    self._knob(control)
        self.panel = ModelPanel(self.runs)
        self.model, self.knobs["raw"] = self.panel.model, self.panel.raw
        with gr.Row():
            self.save = gr.DownloadButton(
                "Save trace",
                value=self.runs.store.file_of(self.opening),
                elem_id="fd-save",
                min_width=80,
            )
            self.load = gr.UploadButton(
                "Load trace", file_types=[".json"], elem_id="fd-load", min_width=80
            )

    def _choice(self, name: str, choices: list[str]) -> None:
        self.knobs[name] = gr.Dropdown(
            labelled(choices),
            value=self.start[name],
            label=name,
            filterable=False,
            elem_id=f"fd-{name}",
        )

    def _knob(self, control: Control) -> None:
        value = raw_of(control, self.start[control.name])
        common: dict[str, Any] = {
            "value": value,
            "label": control.label,
            "info": control.help or None,
            "elem_id": f"fd-{control.name}",
        }
        if control.name in MAIN:
            common["info"] = None
        knob: Any
        match control.kind:
            case "slider":
                low, high = control.low or 0, control.high or 1
                knob = gr.Slider(low, high, step=0.01, buttons=[], **common)
            case "number":
                knob = gr.Number(precision=0 if control.is_whole else None, min_width=100, **common)
            case "choice":
                knob = gr.Dropdown(list(control.choices), filterable=False, **common)
            case "check":
                knob = gr.Checkbox(**common)
            case _:
                placeholder = "blank: not set" if control.optional else None
                knob = gr.Textbox(max_lines=1, placeholder=placeholder, **common)
        self.knobs[control.name] = knob

    def _learned(self, model: str, *asked: Any) -> tuple[str, str]:
        """After a run: what the next one would cost, and the model that it may have loaded."""
        return self.events.estimate(model, *asked), self.panel.now(model)

    def wire(self, run_id: gr.State) -> None:
        events = self.events
        self.cost_map.wire(run_id)
        epsilon, gamma = self.knobs["epsilon"], self.knobs["gamma"]
        shown = self.shown(run_id)
        settings = self.settings()
        run = self.run_button.click(
            events.prepare,
            [self.job, *settings],
            [self.job, self.status],
            api_name="prepare",
            **QUIET,
        ).success(
            events.decode,
            [self.job, run_id],
            shown,
            api_name="run",
            concurrency_limit=None,  # the runs' own line (app/turns.py)
            trigger_mode="multiple",  # a second Run starts while the first one is ending
            **QUIET,
        )
        asked = [self.model, self.knobs["strategy"], self.knobs["cache"], self.knobs["gen_length"]]
        run.then(
            self._learned, asked, [self.cost, self.panel.facts], api_name="learned", **SHORT
        )
        filling = [*self.knobs.values(), self.about]
        self.begin.input(
            events.begin, [self.model, self.begin], filling, api_name="begin", **QUIET
        )
        self.panel.wire(self.knobs["cache"], self.begin, filling, events.begin)
        gr.on(
            [part.change for part in asked],
            events.estimate,
            asked,
            self.cost,
            trigger_mode="always_last",
            api_name="estimate_again",
            **SHORT,
        )
        filled = self.filled(run_id)
        for other in (
            self.example.input(events.choose, self.example, filled, api_name="choose", **QUIET),
            self.load.upload(events.load, self.load, filled, api_name="load", **QUIET),
        ):
            # only when there is something else to show does a run that is going on end
            left = [self.job, self.said], [self.player, self.status]
            other.success(events.leave, *left, cancels=[run], api_name="leave", **QUIET)
        self.stop_button.click(events.stop, self.job, self.status, api_name="stop", **SHORT)
        for slider in (epsilon, gamma):
            slider.input(
                events.what_if,
                [run_id, epsilon, gamma],
                [self.player, self.badge],
                trigger_mode="always_last",
                api_name="what_if",
                **SHORT,
            )
        for name in ("strategy", "cache"):
            self.knobs[name].change(
                events.usable,
                [self.knobs["strategy"], self.knobs["cache"]],
                [self.knobs[control.name] for control in self.controls.values()],
                api_name="usable",
                **SHORT,
            )
        outputs = [self.player, self.badge]
        self.player.gamma(
            events.drag_gamma, [run_id, epsilon], [gamma, *outputs], api_name="gamma", **EACH
        )
        self.player.epsilon(
            events.drag_epsilon, [run_id, gamma], [epsilon, *outputs], api_name="eps", **EACH
        )
        self.player.resync(events.resync, None, self.player, api_name="resync", **QUIET)
        self.player.step(
            # in the queue, because only there gradio tells of a changed State, which is kept then
            events.step, None, self.step, api_name="step", **EACH
        )

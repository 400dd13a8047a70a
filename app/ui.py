"""The Blocks layout and its wiring. Meaning is in `views.py`, decoding in `runs.py`."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import gradio as gr

from app import embed, presets, views
from app.controls import MAIN, Control, controls, raw_of
from app.player import (
    PLOTLY_JS,
    figure_frame,
    packed,
    plotly_url,
    text_line,
    trace_player,
)
from app.runs import Runs, values_of
from app.store import RunError
from app.what_if import what_if
from flash_dllm.caches import CACHES
from flash_dllm.strategies import STRATEGIES

log = logging.getLogger(__name__)
INTRO = (
    "<h1>Flash-dLLM, step by step</h1><p>A diffusion language model starts from blanks and fills "
    "in many at once. Watch which words it writes straight away, which ones it <em>checks</em> "
    "first, and where the check says stop.</p>"
    '<p class="fd-jump"><a href="#fd-prompt-box">Try a prompt of your own</a></p>'
)
QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
LABELS = {
    "flash_verify": "Flash-Verify: draft, check, keep",
    "confidence": "Confidence only, no check",
    "greedy": "Greedy, one token a step",
    "flash": "Flash-Cache: re-read a few",
    "none": "None: read everything",
}
RECORDED = "A recorded run. Press Run to decode it yourself."


class Page:
    """One page. Components are attributes, so that the wiring below reads like a list."""

    def __init__(self, runs: Runs, opening: str = "") -> None:
        self.runs = runs
        self.knobs: dict[str, Any] = {}
        self.controls = controls()
        first = presets.presets()[0]
        self.first = opening or self._recorded(first) or self._toy()
        trace = runs.store.trace(self.first)
        runs.guess(first.model, trace)
        self.start = {**runs.defaults(presets.EMBEDDED), **values_of(trace)}
        prompt = trace.prompt if trace.prompt.strip() else first.prompt
        with gr.Blocks(analytics_enabled=False, title="Flash-dLLM explorer") as self.demo:
            gr.HTML(INTRO, elem_classes="fd-intro")
            with gr.Tabs():
                with gr.Tab("Watch"), gr.Row(elem_classes="fd-page"):
                    with gr.Column(scale=0, min_width=312, elem_classes="fd-side"):
                        self._side(first.label, prompt)
                    with gr.Column(scale=1, min_width=320, elem_classes="fd-main"):
                        self.player = trace_player(views.view(trace, self.first))
                with gr.Tab("As one Plotly figure") as self.figure_tab:
                    self.frame = figure_frame()
            self.run_id = gr.State(self.first)
            self.job = gr.State("")
            self.said = gr.State((None, ""))
            self._wire()

    def _side(self, label: str, prompt: str) -> None:
        labels = [preset.label for preset in presets.presets()]
        self.example = gr.Dropdown(labels, value=label, label="Example", filterable=False)
        self.prompt = gr.Textbox(
            prompt, label="Prompt", lines=4, max_lines=8, elem_id="fd-prompt-box"
        )
        with gr.Row():
            self.run_button = gr.Button("Run", variant="primary", elem_id="fd-run", min_width=80)
            self.stop_button = gr.Button("Stop", elem_id="fd-stop", min_width=80)
        self.status = text_line(RECORDED, "fd-status")
        kind = presets.EMBEDDED, self.start["strategy"], self.start["cache"]
        self.cost = text_line(self.runs.estimate(*kind, self.start["gen_length"]), "fd-cost")
        self._choice("strategy", list(STRATEGIES))
        for name in MAIN[:2]:
            self._knob(self.controls[name])
        self.badge = text_line(hint(self.start), "fd-badge")
        for pair in (MAIN[2:4], MAIN[4:6]):
            with gr.Row():
                for name in pair:
                    self._knob(self.controls[name])
        with gr.Accordion("Advanced", open=False, elem_id="fd-advanced"):
            self.model = gr.Dropdown(
                list(presets.MODELS), value=presets.EMBEDDED, label="model", filterable=False
            )
            # the page's models are bidirectional: a cache for others could only be refused
            fitting = [name for name, kind in CACHES.items() if "bidirectional" in kind.fits]
            self._choice("cache", fitting)
            for name, control in self.controls.items():
                if name not in MAIN:
                    self._knob(control)
        with gr.Row():
            self.save = gr.DownloadButton(
                "Save trace",
                value=self.runs.store.file_of(self.first),
                elem_id="fd-save",
                min_width=80,
            )
            self.load = gr.UploadButton(
                "Load trace", file_types=[".json"], elem_id="fd-load", min_width=80
            )

    def _choice(self, name: str, choices: list[str]) -> None:
        self.knobs[name] = gr.Dropdown(
            [(LABELS.get(choice, choice.replace("_", " ")), choice) for choice in choices],
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

    def _wire(self) -> None:
        epsilon, gamma = self.knobs["epsilon"], self.knobs["gamma"]
        shown = [self.player, self.badge, self.run_id, self.status, self.save]
        settings = [self.example, self.prompt, self.model, *self.knobs.values()]
        run = self.run_button.click(
            self._prepare,
            [self.job, *settings[1:]],
            [self.job, self.status],
            api_name="prepare",
            **QUIET,
        ).success(
            self._decode,
            [self.job, self.run_id],
            shown,
            api_name="run",
            concurrency_id="model",
            concurrency_limit=1,
            trigger_mode="multiple",  # a second Run starts while the first one is ending
            **QUIET,
        )
        asked = [self.model, self.knobs["strategy"], self.knobs["cache"], self.knobs["gen_length"]]
        run.then(self._estimate, asked, self.cost, api_name="estimate", **QUIET)
        gr.on(
            [part.change for part in asked],
            self._estimate,
            asked,
            self.cost,
            trigger_mode="always_last",
            api_name="estimate_again",
            **QUIET,
        )
        filled = [*shown, *settings[1:], self.said]
        for other in (
            self.example.input(self._choose, self.example, filled, api_name="choose", **QUIET),
            self.load.upload(self._load, self.load, filled, api_name="load", **QUIET),
        ):
            # only when there is something else to show does a run that is going on end
            left = [self.job, self.said], [self.player, self.status]
            other.success(self._leave, *left, cancels=[run], api_name="leave", **QUIET)
        self.stop_button.click(self._stop, self.job, self.status, api_name="stop", **QUIET)
        for slider in (epsilon, gamma):
            slider.input(
                self._what_if,
                [self.run_id, epsilon, gamma],
                [self.player, self.badge],
                trigger_mode="always_last",
                api_name="what_if",
                **QUIET,
            )
        for name in ("strategy", "cache"):
            self.knobs[name].change(
                self._usable,
                [self.knobs["strategy"], self.knobs["cache"]],
                [self.knobs[control.name] for control in self.controls.values()],
                api_name="usable",
                **QUIET,
            )
        drag: dict[str, Any] = {"trigger_mode": "always_last", **QUIET}
        outputs = [self.player, self.badge]
        self.player.gamma(
            self._drag_gamma, [self.run_id, epsilon], [gamma, *outputs], api_name="gamma", **drag
        )
        self.player.epsilon(
            self._drag_epsilon, [self.run_id, gamma], [epsilon, *outputs], api_name="eps", **drag
        )
        self.player.resync(self._resync, None, self.player, api_name="resync", **QUIET)
        self.figure_tab.select(self._figure, self.run_id, self.frame, api_name="figure", **QUIET)

    # --- what happens

    def _choose(self, label: str) -> list[Any]:
        with told():
            preset = presets.preset(label)
            name = self._recorded(preset)
            if name is None:
                values = {**self.runs.defaults(preset.model), **preset.settings}
                status = "No recorded run of this example yet. Press Run to decode it."
                shown = [*[gr.skip()] * 3, packed(status), gr.skip()]
                return [*shown, *self._filled(preset, values), (None, status)]
            trace = self.runs.store.trace(name)
            self.runs.guess(preset.model, trace)
            status = f"{preset.note} {RECORDED}".strip()
            preset = replace(preset, prompt=trace.prompt)
            filled = self._filled(preset, values_of(trace))
            return [*self._shown(name, status), *filled, (name, status)]

    def _load(self, path: str) -> list[Any]:
        with told():
            name = self.runs.store.load_file(path)
            trace = self.runs.store.trace(name)
            model = presets.TOY if trace.model.impl == "scripted" else presets.EMBEDDED
            preset = presets.Preset("", "", trace.prompt, model)
            status = f"Loaded a trace of {trace.model.name}: {len(trace.steps)} steps."
            filled = self._filled(preset, values_of(trace))
            return [*self._shown(name, status), *filled, (name, status)]

    def _prepare(self, previous: str, prompt: str, model: str, *raw: Any) -> tuple[str, str]:
        with told():
            self.runs.stop(previous)
            values = dict(zip(self.knobs, raw, strict=True))
            number = self.runs.enqueue(self.runs.prepare(prompt, model, values))
            ahead = self.runs.ahead(number)
            status = f"queued, {ahead} before you" if ahead else "starting"
            return number, packed(status)

    def _decode(self, number: str, before: str) -> Iterator[list[Any]]:
        with told():
            try:
                yield from self._updates(number, before)
            except RunError as error:
                yield [*[gr.skip()] * 3, packed(str(error)), gr.skip()]
                raise

    def _updates(self, number: str, before: str) -> Iterator[list[Any]]:
        live = None
        for update in self.runs.run(number):
            status = packed(update.status)
            if update.header is not None:
                live = views.LiveView(update.header, f"live-{number}", update.text_of)
                badge = packed(hint(update.header.strategy))
                yield [live.start(), badge, gr.skip(), status, gr.skip()]
            elif update.trace is not None:
                # stopped before the first step: what was shown before comes back
                name = self.runs.store.keep(update.trace) if update.trace.steps else before
                yield self._shown(name, update.status, f"live-{number}")
            elif live is not None and update.steps:
                yield [live.more(update.steps), *[gr.skip()] * 2, status, gr.skip()]
            else:
                yield [*[gr.skip()] * 3, status, gr.skip()]
            if update.error:
                raise RunError(update.error)

    def _leave(self, number: str, said: tuple[str | None, str]) -> tuple:
        name, status = said
        self.runs.leave(number)
        self.runs.ends(number, within=0.5)
        # once more: the browser may have passed over them for a last update of the run
        view = gr.skip() if name is None else views.view(self.runs.store.trace(name), name)
        return view, packed(status)

    def _usable(self, strategy: str, cache: str) -> list[dict]:
        """Show the knobs that this strategy and this cache have."""
        chosen = {strategy, cache, "config"}
        return [
            gr.update(visible=not chosen.isdisjoint(control.owners))
            for control in self.controls.values()
        ]

    def _stop(self, number: str) -> str | dict:
        if not self.runs.stop(number):
            return packed("nothing is running")
        # a run that ends at once says so itself; words from here would come after its own
        is_over = self.runs.ends(number, within=0.5)
        return gr.skip() if is_over else packed("stopping after this step")

    def _estimate(self, *asked: Any) -> str:
        return packed(self.runs.estimate(*asked))

    def _what_if(self, name: str, epsilon: float, gamma: float) -> tuple[str, str]:
        with told():
            trace = self.runs.store.trace(name)
            message, badge = what_if(trace, name, epsilon, gamma)
            return message, packed(badge or hint(trace.strategy))

    def _drag_gamma(self, name: str, epsilon: float, event: gr.EventData) -> tuple:
        gamma = share(event.v)
        return gamma, *self._what_if(name, epsilon, gamma)

    def _drag_epsilon(self, name: str, gamma: float, event: gr.EventData) -> tuple:
        epsilon = share(event.v)
        return epsilon, *self._what_if(name, epsilon, gamma)

    def _resync(self, event: gr.EventData) -> str | dict:
        number = str(event.run).removeprefix("live-")
        trace = self.runs.so_far(number)
        return gr.skip() if trace is None else views.view(trace, f"live-{number}", is_live=True)

    def _figure(self, name: str) -> str:
        with told():
            return packed(embed.document(self.runs.store.trace(name), plotly_url()))

    # --- what the outputs get

    def _recorded(self, preset: presets.Preset) -> str | None:
        path = preset.trace_path
        try:
            return None if path is None else self.runs.store.load_file(path)
        except RunError as error:
            log.warning("%s: %s", path, error)
            return None

    def _toy(self) -> str:
        """The toy example, decoded from its table: what opens the page if no run is bundled."""
        toy = presets.presets()[-1]
        values = {**self.runs.defaults(toy.model), **toy.settings}
        return self.runs.store.keep(
            self.runs.decode(self.runs.prepare(toy.prompt, toy.model, values))
        )

    def _shown(self, name: str, status: str, was: str = "") -> list[Any]:
        """Values for player, badge, run id, status and the file to save."""
        trace = self.runs.store.trace(name)
        view, badge = views.view(trace, name, was), packed(hint(trace.strategy))
        return [view, badge, name, packed(status), self.runs.store.file_of(name)]

    def _filled(self, preset: presets.Preset, values: dict[str, Any]) -> list[Any]:
        """Values for prompt, model and all knobs; a knob that `values` lacks stays as it is."""
        knobs = [
            gr.skip()
            if name not in values
            else raw_of(self.controls[name], values[name])
            if name in self.controls
            else values[name]
            for name in self.knobs
        ]
        return [preset.prompt, preset.model, *knobs]


def hint(strategy: Mapping[str, Any]) -> str:
    """What the sliders do, where the strategy has any.

    >>> hint({"name": "greedy"})
    'Greedy has no threshold to move.'
    """
    symbols = [s for s, knob in (("ε", "epsilon"), ("γ", "gamma")) if knob in strategy]
    if not symbols:
        return "Greedy has no threshold to move."
    movable = " or ".join(symbols)
    return f"Move {movable}: the recorded steps are judged again at once, without the model."


@contextmanager
def told() -> Iterator[None]:
    """What the visitor can mend is told in one sentence; the rest is logged under an id."""
    try:
        yield
    except RunError as error:
        raise gr.Error(str(error), title="", duration=None, print_exception=False) from None
    except gr.Error:
        raise
    except Exception as error:
        number = secrets.token_hex(3)
        log.exception("error %s", number)
        message = f"Something went wrong here; the log says more under {number}."
        raise gr.Error(message, duration=None, print_exception=False) from error


def share(value: Any) -> float:
    """A threshold that came from the browser, forced into 0…1."""
    try:
        return round(min(1.0, max(0.0, float(value))), 2)
    except (TypeError, ValueError):
        return 0.0


def build(runs: Runs, opening: str = "") -> gr.Blocks:
    """The page as Blocks, opening with a kept run (default: the first example's)."""
    gr.set_static_paths([PLOTLY_JS])
    return Page(runs, opening).demo

"""The Verify lab tab: one step of the run in Watch, enlarged, with thresholds to move."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gradio as gr

from app import real_run
from app.lab_view import lab_board
from app.player import board_view, packed, text_line
from app.runs import Runs
from app.said import said
from app.sentences import queued_sentence
from app.store import RunError
from app.tabs.shared import EACH, QUIET, share, told, visitor
from app.tabs.watch import Watch
from app.words import Says
from flash_dllm.trace import DecodeTrace

# as many as a trace records by attention
MOST_TRACKED = 64


class VerifyLab:
    """Filled when it is opened; follows the run and the step that Watch shows."""

    def __init__(self, runs: Runs) -> None:
        self.runs = runs
        with gr.Tab("Verify lab", id="lab") as self.tab, gr.Row(elem_classes="fd-page"):
            with gr.Column(scale=0, min_width=312, elem_classes="fd-side fd-first"):
                self.step = gr.Slider(
                    1, 2, 1, step=1, label="step", buttons=[], elem_id="fd-lab-step"
                )
                with gr.Row():
                    self.back = gr.Button("Step back", elem_id="fd-lab-back", min_width=80)
                    self.next = gr.Button("Step on", elem_id="fd-lab-next", min_width=80)
                self.epsilon = _threshold("ε · epsilon", "fd-lab-epsilon")
                self.gamma = _threshold("γ · gamma", "fd-lab-gamma")
                self.track = gr.Slider(
                    1, MOST_TRACKED, 32, step=1, label="βₜ · track size", buttons=[],
                    elem_id="fd-lab-track",
                )  # fmt: skip
                self.reset = gr.Button("Thresholds of the run", elem_id="fd-lab-reset")
                self.real = gr.Button("Run it for real", variant="primary", elem_id="fd-lab-real")
                self.status = text_line(Says("lab", "en")("hint"), "fd-lab-status")
            with gr.Column(scale=1, min_width=320, elem_classes="fd-main"):
                self.board = board_view("fd-lab-board")
                self.job = gr.State("")

    def wire(self, run_id: gr.State, watch: Watch, language: gr.State) -> None:
        """language: one of `app/words.py::LANGUAGES`, "" for English."""
        thresholds = [self.epsilon, self.gamma, self.track]
        filled = [self.step, *thresholds, self.board, self.status]
        self.tab.select(self._open, [language, run_id, watch.step], filled, api_name="lab", **QUIET)
        self.reset.click(
            self._open, [language, run_id, self.step], filled, api_name="lab_reset", **QUIET
        )
        asked = [language, run_id, self.step, *thresholds]
        latest: dict[str, Any] = {"trigger_mode": "always_last", **QUIET}
        for slider in (self.step, *thresholds):
            slider.input(self._judge, asked, self.board, api_name="lab_judge", **latest)
        for button, by in ((self.back, -1), (self.next, 1)):
            button.click(
                self._by(by), asked, [self.step, self.board], api_name="lab_step", **latest
            )
        self.board.act(
            self._act, asked, [self.step, *thresholds, self.board], api_name="lab_act", **EACH
        )
        self.real.click(
            self._prepare,
            [self.job, run_id, *thresholds],
            [self.job, self.status],
            api_name="lab_prepare",
            **QUIET,
        ).success(
            self._real,
            [self.job, *asked],
            [*filled, *watch.shown(run_id)],
            api_name="lab_run",
            concurrency_limit=None,  # the runs' own line (app/turns.py)
            trigger_mode="multiple",
            **QUIET,
        )
        self.watch = watch

    # --- what the events do

    def _open(self, language: str, name: str, step: int) -> list[Any]:
        with told():
            trace = self.runs.store.trace(name)
            return self._filled(language, trace, name, step, Says("lab", language or "en")("hint"))

    def _filled(
        self, language: str, trace: DecodeTrace, name: str, step: int, status: str
    ) -> list[Any]:
        step = max(1, min(int(step), len(trace.steps)))
        sliders = [
            gr.update(value=trace.strategy.get(knob, 0), visible=knob in trace.strategy)
            for knob in ("epsilon", "gamma")
        ]
        track = trace.cache.get("track_size")
        sliders.append(gr.update(value=track or 1, visible=track is not None))
        value = lab_board(trace, name, step, None, None, language=language or "en")
        # a slider needs room between its ends
        slider = gr.update(maximum=max(2, len(trace.steps)), value=step)
        return [slider, *sliders, value, packed(status)]

    def _judge(
        self,
        language: str,
        name: str,
        step: float,
        epsilon: float,
        gamma: float,
        track: float,
    ) -> str:
        with told():
            trace = self.runs.store.trace(name)
            number = max(1, min(int(step), len(trace.steps)))
            moved = share(epsilon), share(gamma), int(track)
            return lab_board(trace, name, number, *moved, language or "en")

    def _by(self, steps: int):
        def go(language: str, name: str, step: float, *moved: float) -> tuple[int, str]:
            with told():
                last = len(self.runs.store.trace(name).steps)
                to = max(1, min(int(step) + steps, last))
                return to, self._judge(language, name, to, *moved)

        return go

    def _act(
        self,
        language: str,
        name: str,
        step: float,
        epsilon: float,
        gamma: float,
        track: float,
        event: gr.EventData,
    ) -> tuple:
        value, skip = event.value, gr.skip()
        if event.name == "step":
            step = int(value) if isinstance(value, int) else step
            board = self._judge(language, name, step, epsilon, gamma, track)
            return step, skip, skip, skip, board
        if event.name == "epsilon":
            epsilon = share(value)
            board = self._judge(language, name, step, epsilon, gamma, track)
            return skip, epsilon, skip, skip, board
        gamma = share(value)
        board = self._judge(language, name, step, epsilon, gamma, track)
        return skip, skip, gamma, skip, board

    def _prepare(
        self, previous: str, name: str, epsilon: float, gamma: float, track: float
    ) -> tuple[str, str]:
        with told():
            self.runs.make_way(previous)
            recorded = self.runs.store.trace(name)
            job = real_run.prepare(
                self.runs, recorded, epsilon, gamma, int(track), visitor()
            )
            number = self.runs.enqueue(job)
            ahead = self.runs.ahead()
            return number, packed(queued_sentence(ahead) if ahead else said("starting"))

    def _real(
        self,
        number: str,
        language: str,
        name: str,
        step: float,
        epsilon: float,
        gamma: float,
        track: float,
    ) -> Iterator[list[Any]]:
        with told():
            nothing = [gr.skip()] * 5
            recorded = self.runs.store.trace(name)
            for update in self.runs.run(number):
                if update.trace is None or update.error:
                    yield [*[gr.skip()] * 5, packed(update.status), *nothing]
                if update.error:
                    raise RunError(update.error)
            real = update.trace
            if real is None or not real.steps:
                return
            words = real_run.verdict(recorded, real, share(epsilon), share(gamma))
            at = real_run.telling(recorded, real) or int(step)
            status = said("watch_shows", words=words)
            yield [
                *self._filled(language, real, update.name, at, status),
                *self.watch.events.shown(update.name, update.status),
            ]


def _threshold(name: str, elem_id: str) -> gr.Slider:
    return gr.Slider(0, 1, 0.9, step=0.01, label=name, buttons=[], elem_id=elem_id)

"""The Learn tab: short lessons that drive a player of their own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gradio as gr

from app import lessons, shelf
from app.lesson_view import Progress, glossary_board, lesson_board
from app.player import board_view, later_player
from app.runs import Runs
from app.said import Said
from app.store import RunError
from app.tabs.shared import EACH, LANGUAGE_STATE, QUIET, share, told
from app.view_tables import dump
from app.views import view
from app.what_if import what_if
from app.words import LANGUAGES

# the page's one choice of language: the players listen (assets/player.js)
SPEAK = """(language) => {
  window.fdLanguage = language;
  document.documentElement.lang = language;
  document.dispatchEvent(new CustomEvent('fd-language', { detail: language }));
}"""


class Learn:
    """Filled when it is opened; the visitor's progress is a state of the page."""

    def __init__(self, runs: Runs) -> None:
        self.runs = runs
        with gr.Tab("Learn", id="learn") as self.tab:
            with gr.Row(elem_classes="fd-page"):
                with gr.Column(scale=0, min_width=312, elem_classes="fd-side fd-lesson"):
                    languages = [
                        (lessons.words(name)["language"], name) for name in lessons.LANGUAGES
                    ]
                    self.language = gr.Dropdown(
                        languages, value="en", label="language", elem_id="fd-language",
                        filterable=False, container=False,
                    )  # fmt: skip
                    self.lesson = board_view("fd-lesson")
                with gr.Column(scale=1, min_width=320, elem_classes="fd-main"):
                    self.player = later_player()
            self.glossary = board_view("fd-glossary")
            # in the tab: the parts of gr.Tabs are counted as tabs
            self.progress = gr.State(Progress())
            self.step = gr.State(1)
            self.gamma = gr.State(None)
            # the page's language: that of a link, of the reader's browser or chosen here; "" is
            # English that nobody asked for
            self.asked = gr.State("")
            self.asked.elem_id = LANGUAGE_STATE
            self.asked_lesson = gr.State(lessons.LESSONS[0].key)  # likewise

    def wire(self) -> None:
        shown = [self.progress, self.lesson, self.player, self.step, self.gamma]
        here = [self.progress, self.step, self.gamma]
        self.tab.select(
            self._open,
            [*here, self.asked, self.asked_lesson],
            [*shown, self.language, self.glossary],
            api_name="learn",
            **QUIET,
        )
        self.language.change(None, self.language, None, js=SPEAK, api_visibility="private")
        self.language.input(
            self._speak,
            [self.progress, self.step, self.language],
            [self.progress, self.lesson, self.glossary, self.asked],
            api_name="learn_language",
            **QUIET,
        )
        self.lesson.act(self._act, here, shown, api_name="learn_act", **EACH)
        self.player.step(
            self._at, self.progress, [self.step, self.lesson], api_name="learn_step",
            **EACH,
        )  # fmt: skip
        self.player.gamma(
            self._gamma, self.progress, [self.player, self.gamma], api_name="learn_gamma",
            **EACH,
        )  # fmt: skip
        self.player.epsilon(
            self._epsilon, self.progress, self.player, api_name="learn_epsilon",
            **EACH,
        )  # fmt: skip

    # --- what the events do

    def _open(
        self,
        progress: Progress,
        step: int,
        gamma: float | None,
        asked: str,
        asked_lesson: str,
        request: gr.Request,
    ) -> list[Any]:
        with told():
            if progress.language:
                # seen before: the player still stands where it was
                return [*[gr.skip()] * 7]
            language = asked or lessons.preferred(request.headers.get("accept-language", ""))
            progress = replace(progress, language=language).at(asked_lesson)
            return [*self._begin(progress), language, glossary_board(language)]

    def _begin(self, progress: Progress) -> list[Any]:
        """The open lesson from its start: where it was answered, at the answer's step."""
        here = lessons.lesson(progress.lesson)
        name, trace = self._trace(here)
        at = here.before if progress.lesson not in progress.answers else here.after
        step = lessons.at_step(trace, at)
        player = view(trace, name, at=step, focus=here.focus)
        return [progress, lesson_board(progress, step), player, step, None]

    def _trace(self, here: lessons.Lesson):
        try:
            name = shelf.resolve(self.runs, shelf.BUNDLED + here.example)
        except RunError as error:
            words = [lessons.words(language)["ui"]["no_run"] for language in LANGUAGES]
            raise RunError(Said(words)) from error
        return name, self.runs.store.trace(name)

    def _speak(self, progress: Progress, step: int, language: str) -> list[Any]:
        with told():
            progress = replace(progress, language=language)
            return [progress, lesson_board(progress, step), glossary_board(language), language]

    def _act(
        self, progress: Progress, step: int, gamma: float | None, event: gr.EventData
    ) -> list[Any]:
        with told():
            name, value = event.name, str(event.value)
            if name == "lesson":
                return self._begin(progress.at(value))
            here = lessons.lesson(progress.lesson)
            _, trace = self._trace(here)
            if name == "answer":
                progress = progress.answered(int(value))
                step = lessons.at_step(trace, here.after)
                go = dump({"kind": "go", "step": step, "focus": here.focus})
                return [progress, lesson_board(progress, step), go, step, gr.skip()]
            progress = progress.checked(trace, step, gamma)
            return [progress, lesson_board(progress, step), *[gr.skip()] * 3]

    def _at(self, progress: Progress, event: gr.EventData) -> list[Any]:
        step = int(event.step)
        if progress.lesson not in progress.answers:
            return [step, gr.skip()]
        # the last verdict was on another step
        return [step, lesson_board(replace(progress, said=""), step)]

    def _gamma(self, progress: Progress, event: gr.EventData) -> tuple[str, float]:
        gamma = share(event.v)
        return self._judged(progress, None, gamma), gamma

    def _epsilon(self, progress: Progress, event: gr.EventData) -> str:
        return self._judged(progress, share(event.v), None)

    def _judged(self, progress: Progress, epsilon: float | None, gamma: float | None) -> str:
        with told():
            name, trace = self._trace(lessons.lesson(progress.lesson))
            return what_if(trace, name, epsilon, gamma)[0]

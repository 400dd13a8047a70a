"""The Compare tab: two to four runs on one clock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gradio as gr

from app import rival, shelf
from app.compare import CLOCKS, same_prompt
from app.compare_view import compare_board
from app.link import FIRST_CLOCK
from app.player import board_view, packed, text_line
from app.runs import Runs
from app.said import said
from app.store import RunError
from app.tabs.rival_panel import RivalPanel
from app.tabs.shared import QUIET, told
from app.words import Says

SECOND = shelf.BUNDLED + "word-1-confidence"


class Compare:
    """Filled when it is opened: the run of Watch against another one."""

    def __init__(self, runs: Runs) -> None:
        self.runs = runs
        with gr.Tab("Compare", id="compare") as self.tab, gr.Row(elem_classes="fd-page"):
            with gr.Column(scale=0, min_width=312, elem_classes="fd-side fd-first"):
                self.chosen = [
                    gr.Dropdown(
                        [(str(said("no_run")), "")], value="", label=f"run {letter}",
                        filterable=False,
                        elem_id=f"fd-compare-{letter}",
                    )
                    for letter in "ABCD"
                ]  # fmt: skip
                self.status = text_line("", "fd-compare-status")
                self.rival = RivalPanel(runs)
            with gr.Column(scale=1, min_width=320, elem_classes="fd-main"):
                self.board = board_view("fd-compare-board")
                self.clock = gr.State(FIRST_CLOCK)
                self.asked = gr.State(())  # the runs that a link asked for, until they are shown
                self.shown = gr.State(())  # those that are shown

    def wire(self, run_id: gr.State, mine: gr.State, language: gr.State) -> None:
        """language: one of `app/words.py::LANGUAGES`, "" for English."""
        shown = [self.board, self.status, self.shown]
        asked = [language, self.clock, *self.chosen]
        self.tab.select(
            self._open, [self.asked, run_id, mine, *asked],
            [self.asked, mine, *self.chosen, *shown, self.rival.model],
            api_name="compare", **QUIET,
        )  # fmt: skip
        self.rival.wire(self.chosen[0]).success(
            self._add, [self.rival.finished, mine, *asked], [mine, *self.chosen, *shown],
            api_name="compare_add", **QUIET,
        )  # fmt: skip
        for part in self.chosen:
            part.input(self._show, asked, shown, api_name="compare_show", **QUIET)
        self.board.act(
            self._turn, asked, [self.clock, *shown], api_name="compare_clock", **QUIET
        )

    def _open(
        self,
        asked: Sequence[str],
        run: str,
        mine: list[str],
        language: str,
        clock: str,
        *chosen: str,
    ) -> list[Any]:
        with told():
            mine = shelf.remembered(mine, run)
            known = {value for _, value in shelf.choices(self.runs, mine)}
            values = [value if value in known else "" for value in chosen]
            lost = 0
            if asked:
                mine, found = self._kept(mine, asked)
                lost = len(asked) - len(found)
                values = [*found, *[""] * (len(chosen) - len(found))]
            values[0] = values[0] or shelf.value_of(self.runs, run)
            if sum(bool(value) for value in values) < 2:
                values[1] = self._second(values[0], mine)
            filled = self._filled(mine, language, clock, values)
            if lost:
                filled[-2] = packed(_say(language)("lost", lost))
            return [(), mine, *filled, self.rival.names()]

    def _kept(self, mine: list[str], asked: Sequence[str]) -> tuple[list[str], list[str]]:
        """The runs of a link that are still here, and a visitor's list with them in it."""
        found = []
        for value in asked:
            try:
                name = shelf.resolve(self.runs, value)
            except RunError:
                continue
            found.append(value)
            if not value.startswith(shelf.BUNDLED):
                mine = shelf.remembered(mine, name)
        return mine, found

    def _filled(
        self, mine: list[str], language: str, clock: str, values: list[str]
    ) -> list[Any]:
        """Values for the pickers, the board and the status."""
        offered = shelf.choices(self.runs, mine, language)
        nothing = said("no_run").within(language or "en"), ""
        updates = [
            gr.update(choices=offered if k == 0 else [nothing, *offered], value=value)
            for k, value in enumerate(values)
        ]
        return [*updates, *self._show(language, clock, *values)]

    def _add(
        self, new: str, mine: list[str], language: str, clock: str, *chosen: str
    ) -> list[Any]:
        """A run that was decoded here takes its place beside the others."""
        with told():
            if not new:
                return [gr.skip()] * (4 + len(chosen))
            mine = shelf.remembered(mine, new)
            value = shelf.value_of(self.runs, new)
            values = rival.placed(list(chosen), value)
            return [mine, *self._filled(mine, language, clock, values)]

    def _second(self, first: str, mine: list[str]) -> str:
        """What to lay beside a run: the visitor's run before, or a recorded one."""
        prompt = self.runs.store.trace(shelf.resolve(self.runs, first)).prompt_token_ids
        known = [value for _, value in shelf.choices(self.runs, mine) if value != first]
        for value in known:
            name = shelf.resolve(self.runs, value)
            if name != first and self.runs.store.trace(name).prompt_token_ids == prompt:
                return value
        return SECOND if SECOND in known else known[0] if known else ""

    def _show(self, language: str, clock: str, *chosen: str) -> list[Any]:
        with told():
            names = [shelf.resolve(self.runs, value) for value in chosen if value]
            if len(names) < 2:
                raise RunError(_say(language)("least"))
            traces = [self.runs.store.trace(name) for name in names]
            same = all(same_prompt(traces[0], trace) for trace in traces[1:])
            words = "" if same else _say(language)("prompts")
            board = compare_board(traces, "+".join(names), clock, language or "en")
            return [board, packed(words), tuple(filter(None, chosen))]

    def _turn(
        self,
        language: str,
        clock: str,
        a: str,
        b: str,
        c: str,
        d: str,
        event: gr.EventData,
    ) -> list[Any]:
        kind = event.value if event.value in CLOCKS else clock
        return [kind, *self._show(language, kind, a, b, c, d)]


def _say(language: str) -> Says:
    return Says("compare", language or "en")

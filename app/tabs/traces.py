"""The Traces tab: runs kept here, files in and out, a link, and how programs call the page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import gradio as gr

from app import csv_files, film, offline, shelf
from app.link import query_of
from app.player import board_view, packed, text_line
from app.runs import Runs
from app.said import said
from app.store import RunError
from app.tabs.linked import Linked
from app.tabs.shared import QUIET, told
from app.tabs.watch import Watch
from app.tabs.watch_events import STATUS
from app.traces_view import traces_board

TABS = [
    ("Watch", "watch"), ("Verify lab", "lab"), ("Compare", "compare"), ("Sweep", "sweep"),
    ("Learn", "learn"),
]  # fmt: skip
MAKERS = {
    "html": (offline.write_player, "Player, one HTML file"),
    "png": (film.write_png, "Picture, PNG"),
    "gif": (film.write_gif, "Film, GIF"),
    "zip": (csv_files.write_csv, "All tables, CSV"),
}
# the file is ready when the new address has reached the button
PRESS = "() => setTimeout(() => document.querySelector('#fd-made').click(), 60)"
COPY = """(query) => {
  const link = location.origin + location.pathname + '?' + JSON.parse(query);
  const box = document.querySelector('#fd-link textarea, #fd-link input');
  if (navigator.clipboard) navigator.clipboard.writeText(link).catch(() => {});
  return link;
}"""


class Traces:
    """Filled when it is opened."""

    def __init__(self, runs: Runs) -> None:
        self.runs = runs
        with gr.Tab("Traces", id="traces") as self.tab, gr.Row(elem_classes="fd-page"):
            with gr.Column(scale=0, min_width=312, elem_classes="fd-side fd-first"):
                self.chosen = gr.Dropdown(
                    [], label="run", filterable=False, elem_id="fd-traces-run"
                )
                with gr.Row():
                    self.show = gr.Button("Show", elem_id="fd-traces-show", min_width=80)
                    self.delete = gr.Button("Remove", elem_id="fd-traces-delete", min_width=80)
                self.buttons = {
                    kind: gr.Button(label, elem_id=f"fd-export-{kind}", size="sm")
                    for kind, (_, label) in MAKERS.items()
                }
                self.json = gr.Button("Trace, JSON", elem_id="fd-export-json", size="sm")
                self.file = gr.File(
                    label="Drop a trace file here", file_types=[".json"], type="filepath",
                    height=150, elem_id="fd-drop",
                )  # fmt: skip
                self.status = text_line("", "fd-traces-status")
                self.made = gr.DownloadButton("file", elem_id="fd-made", elem_classes="fd-out")
            with gr.Column(scale=1, min_width=320, elem_classes="fd-main"):
                with gr.Row(equal_height=True):
                    self.opens = gr.Dropdown(
                        TABS, value="watch", label="the link opens", elem_id="fd-link-tab",
                        filterable=False, container=False, scale=0, min_width=130,
                    )  # fmt: skip
                    self.copy = gr.Button("Copy link", elem_id="fd-copy", scale=0, min_width=120)
                    self.link = gr.Textbox(
                        show_label=False, interactive=False, elem_id="fd-link", max_lines=1,
                        placeholder="A link that restores Watch's run, settings and step.",
                        container=False,
                    )  # fmt: skip
                self.board = board_view("fd-traces-board")
                self.query = text_line("", "fd-query")

    def wire(
        self,
        run_id: gr.State,
        mine: gr.State,
        watch: Watch,
        tabs: gr.Tabs,
        linked: Linked,
        language: gr.State,
    ) -> None:
        """language: one of `app/words.py::LANGUAGES`, "" for English."""
        shown = [self.chosen, self.board]
        self.tab.select(self._open, [run_id, mine, language], shown, api_name="traces", **QUIET)
        self.chosen.input(
            self._choose, [self.chosen, language], self.board, api_name="traces_run", **QUIET
        )
        self.delete.click(
            self._remove, [self.chosen, mine, language], [mine, *shown, self.status],
            api_name="traces_remove", **QUIET,
        )  # fmt: skip
        self.show.click(
            self._show, self.chosen, [*watch.filled(run_id), tabs], api_name="traces_show", **QUIET
        )
        self.file.upload(
            self._load, self.file, [*watch.filled(run_id), tabs, self.file, self.status],
            api_name="traces_load", **QUIET,
        ).failure(lambda: None, None, self.file, api_visibility="private")  # for another file
        for kind, button in (*self.buttons.items(), ("json", self.json)):
            button.click(
                self._make(kind), [self.chosen, watch.step, run_id, language],
                [self.made, self.status], api_name=f"export_{kind}", **QUIET,
            ).success(None, None, None, js=PRESS, api_visibility="private")  # fmt: skip
        self.copy.click(
            self._query,
            [run_id, watch.step, self.opens, *linked.inputs, *watch.settings()],
            self.query,
            api_name="link",
            **QUIET,
        ).success(None, self.query, self.link, js=COPY, api_visibility="private")
        self.watch, self.linked = watch, linked

    # --- what the events do

    def _open(self, run: str, mine: list[str], language: str) -> list[Any]:
        with told():
            mine = shelf.remembered(mine, run)
            value = shelf.value_of(self.runs, run)
            offered = shelf.choices(self.runs, mine, language)
            return [gr.update(choices=offered, value=value), self._board(value, language)]

    def _board(self, value: str, language: str) -> str:
        name = shelf.resolve(self.runs, value)
        return traces_board(self.runs.store.trace(name), name, language or "en")

    def _choose(self, value: str, language: str) -> str:
        with told():
            return self._board(value, language)

    def _remove(self, value: str, mine: list[str], language: str) -> list[Any]:
        with told():
            if value.startswith(shelf.BUNDLED):
                raise RunError(said("examples_stay"))
            mine = [name for name in mine if name != value]
            offered = shelf.choices(self.runs, mine, language)
            left = offered[0][1]
            chosen = gr.update(choices=offered, value=left)
            return [mine, chosen, self._board(left, language), packed(said("removed"))]

    def _show(self, value: str) -> list[Any]:
        with told():
            name = shelf.resolve(self.runs, value)
            return [*self.watch.events.show(name, said("from_traces")), gr.Tabs(selected="watch")]

    def _load(self, path: str) -> Iterator[list[Any]]:
        for update in self.watch.events.load(path):
            yield [*update, gr.skip(), gr.skip(), update[STATUS]]
        yield [*[gr.skip()] * len(update), gr.Tabs(selected="watch"), None, packed("")]

    def _make(self, kind: str):
        def make(value: str, step: int, run: str, language: str) -> Iterator[tuple[Any, str]]:
            with told():
                name = shelf.resolve(self.runs, value)
                if kind != "json":  # a film of a long run takes seconds
                    yield gr.skip(), packed(said("making", kind=kind))
                try:
                    made = self._file(kind, name, step if name == run else 0, language)
                except RunError as error:
                    yield gr.skip(), packed(error.line)
                    raise
                yield str(made), packed(said("saving", name=made.name))

        return make

    def _file(self, kind: str, name: str, step: int, language: str = "") -> Path:
        store = self.runs.store
        if kind == "json":
            return Path(store.file_of(name))
        trace = store.trace(name)
        writer: Any = MAKERS[kind][0]
        parts: dict[str, Any] = {}
        ending = ""
        if kind in ("html", "png") and 1 <= step <= len(trace.steps):
            parts["step"], ending = step, f"-step{step}"
        if kind == "html" and language:
            parts["language"], ending = language, f"{ending}-{language}"
        return store.file(name, f"{ending}.{kind}", lambda path: writer(trace, path, **parts))

    def _query(self, run: str, step: int, tab: str, *rest: Any) -> str:
        with told():
            beside, (prompt, model, *raw) = self.linked.split(rest)
            link = self.watch.events.link(run, step, tab, prompt, model, raw)
            return packed(query_of(replace(link, **beside)))

"""The Sweep tab: a study in pictures, a new sweep, and any point's run in Watch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gradio as gr

from app.control_values import flat
from app.controls import controls
from app.player import board_view, packed, text_line
from app.runs import Runs
from app.said import Said, counted, said, within
from app.store import RunError
from app.sweep_choice import View
from app.sweep_view import sweep_board
from app.sweep_words import compared
from app.sweeps import Place, Sweeps, progress
from app.tabs.new_sweep import NewSweep
from app.tabs.shared import EACH, QUIET, told, visitor
from app.tabs.watch import Watch
from flash_dllm.evaluation.study_table import StudyTable
from flash_dllm.evaluation.trial import sweep_items

# the file is ready when the new address has reached the button
PRESS = "() => setTimeout(() => document.querySelector('#fd-sweep-made').click(), 60)"


class Sweep:
    """Filled when it is opened; a sweep runs as long as the page is open."""

    def __init__(self, runs: Runs, sweeps: Sweeps) -> None:
        self.runs, self.sweeps = runs, sweeps
        # number of a sweep that runs → what its page shows now, which may be another study, and
        # in which language
        self._looks: dict[str, tuple[Place, View, str]] = {}
        with gr.Tab("Sweep", id="sweep") as self.tab, gr.Row(elem_classes="fd-page"):
            with gr.Column(scale=0, min_width=312, elem_classes="fd-side fd-first"):
                self._side()
            with gr.Column(scale=1, min_width=320, elem_classes="fd-main"):
                self.board = board_view("fd-sweep-board")
                self.place = gr.State(Place(""))
                self.view = gr.State(View())
                self.known = gr.State([])
                self.job = gr.State("")
                self.wanted = gr.State(None)

    def _side(self) -> None:
        self.study = gr.Dropdown([], label="study", filterable=False, elem_id="fd-study")
        with gr.Row():
            self.files = {
                kind: gr.Button(label, elem_id=f"fd-sweep-{kind}", size="sm", min_width=60)
                for kind, label in (("csv", "CSV"), ("parquet", "Parquet"), ("yaml", "YAML"))
            }
        self.status = text_line("", "fd-sweep-status")
        with gr.Row():
            self.pause = gr.Button("Pause", elem_id="fd-sweep-pause", min_width=70)
            self.resume = gr.Button("Resume", elem_id="fd-sweep-resume", min_width=70)
            self.cancel = gr.Button("Cancel", elem_id="fd-sweep-cancel", min_width=70)
        self.form = NewSweep(self.runs)
        with gr.Accordion("Open another study", open=False) as self.other:
            self.address = gr.Textbox(
                "", label="address", max_lines=1, elem_id="fd-sweep-address",
                placeholder="sqlite:////home/me/sweep.db",
            )  # fmt: skip
            self.open = gr.Button("Open", elem_id="fd-sweep-open", size="sm")
            self.file = gr.File(
                label="Drop a study's .db file here", file_types=[".db"], type="filepath",
                height=120, elem_id="fd-sweep-drop",
            )  # fmt: skip
        self.made = gr.DownloadButton("file", elem_id="fd-sweep-made", elem_classes="fd-out")

    def wire(self, run_id: gr.State, watch: Watch, tabs: gr.Tabs, language: gr.State) -> None:
        """language: one of `app/words.py::LANGUAGES`, "" for English."""
        self.watch = watch
        shown = [self.study, self.known, self.place, self.view, self.board, self.status]
        asked = [self.job, self.known, self.place, self.view, language]
        self.tab.select(self._open, asked, shown, api_name="sweep_tab", **QUIET)
        self.study.input(
            self._choose, [self.study, *asked], shown, api_name="sweep_study", **QUIET
        )
        self.open.click(
            self._address, [self.address, *asked], shown, api_name="sweep_open", **QUIET
        )
        self.file.upload(
            self._upload, [self.file, *asked], shown, api_name="sweep_load", **QUIET
        ).failure(lambda: None, None, self.file, api_visibility="private")  # for another file
        self.board.act(
            self._act, asked, [self.view, self.board, self.wanted], api_name="sweep_act", **EACH
        )
        self.form.wire()
        form = [watch.model, *self.form.fields]
        started = [self.job, *shown]
        for name, button, begin, inputs in (
            ("start", self.form.start, self._start, [*asked, *form]),
            ("resume", self.resume, self._resume, asked),
        ):
            button.click(begin, inputs, started, api_name=f"sweep_{name}", **QUIET).success(
                self._follow, self.job, [self.board, self.status], api_name=f"sweep_run_{name}",
                trigger_mode="multiple", concurrency_limit=None, **QUIET,
            )  # fmt: skip
        self.pause.click(self._pause, self.job, self.status, api_name="sweep_pause", **QUIET)
        self.cancel.click(
            self._cancel, asked, [self.board, self.status], api_name="sweep_cancel", **QUIET
        )
        for kind, button in self.files.items():
            button.click(
                self._make(kind), self.place, [self.made, self.status],
                api_name=f"sweep_{kind}", **QUIET,
            ).success(None, None, None, js=PRESS, api_visibility="private")  # fmt: skip
        self.wanted.change(
            self._run,
            [self.wanted, self.place],
            [*watch.filled(run_id), tabs, self.status],
            api_name="sweep_watch",
            concurrency_limit=None,  # the runs' own line (app/turns.py)
            **QUIET,
        )

    # --- which study

    def _places(self, known: list[Place]) -> list[Place]:
        """What this visitor may choose: own ones, on an open page all of the server's, bundled."""
        there = self.sweeps.mine() if self.runs.models.is_open else []
        return list(dict.fromkeys([*known, *there, *self.sweeps.bundled()]))

    def _shown(
        self, number: str, known: list[Place], place: Place, view: View, language: str
    ) -> list[Any]:
        places = self._places(known)
        if not places:
            raise RunError(said("no_study"))
        if place not in places:
            place, view = places[-1], View()
        table = self.sweeps.table(place)
        if number:
            self._looks[number] = place, view, language
        board = self._board(table, view, language)
        chosen = self._picker(places, place, language)
        return [chosen, places, place, view, board, packed(_status(table, place))]

    def _picker(self, places: list[Place], place: Place, language: str) -> Any:
        """The studies on offer, with this one chosen."""
        labels = [within(self.sweeps.label(known), language or "en") for known in places]
        options = [(label, str(k)) for k, label in enumerate(labels)]
        return gr.update(choices=options, value=str(places.index(place)))

    def _board(self, table: StudyTable, view: View, language: str) -> str:
        prompts = self._prompts(table) if view.trial is not None else ()
        return sweep_board(table, view, prompts, language or "en")

    def _prompts(self, table: StudyTable) -> list[str]:
        """The prompts of a study's items; none where it does not say which."""
        sweep = table.sweep
        if sweep is None:
            return []
        try:
            items = sweep_items(sweep.tasks, sweep.prompts, sweep.limit, sweep.data)
        except (ValueError, OSError, ImportError):
            return []  # a public set that is not here
        return [item.prompt for item in items]

    def _open(
        self, number: str, known: list[Place], place: Place, view: View, language: str
    ) -> list[Any]:
        with told():
            if number in self._looks:
                # its stream fills the page
                self._looks[number] = (*self._looks[number][:2], language)
                return [gr.skip()] * 6
            return self._shown("", known, place, view, language)

    def _choose(
        self, value: str, number: str, known: list[Place], place: Place, view: View, language: str
    ) -> list[Any]:
        with told():
            number = number if number in self._looks else ""
            return self._shown(number, known, known[int(value)], View(), language)

    def _address(
        self, address: str, number: str, known: list[Place], place: Place, view: View, language: str
    ) -> Iterator[list[Any]]:
        with told():
            # another machine's database may take its time
            yield [*[gr.skip()] * 5, packed(said("opening"))]
            try:
                found = self.sweeps.at(address)
            except RunError as error:
                yield [*[gr.skip()] * 5, packed(error.line)]
                raise
            number = number if number in self._looks else ""
            yield self._shown(number, [*found, *known], found[0], View(), language)

    def _upload(
        self, path: str, number: str, known: list[Place], place: Place, view: View, language: str
    ) -> list[Any]:
        with told():
            found = self.sweeps.uploaded(path)
            number = number if number in self._looks else ""
            return self._shown(number, [*found, *known], found[0], View(), language)

    def _make(self, kind: str):
        def make(place: Place) -> Iterator[tuple[Any, str]]:
            with told():
                yield gr.skip(), packed(said("making", kind=kind))
                name = "".join(c if c.isalnum() else "-" for c in place.name).strip("-") or "study"
                path = self.runs.store.passing(f"{name}.{kind}")
                try:
                    self.sweeps.write(place, path)
                except RunError as error:
                    yield gr.skip(), packed(error.line)
                    raise
                yield str(path), packed(said("made", name=path.name))

        return make

    # --- what the pictures send

    def _act(
        self,
        number: str,
        known: list[Place],
        place: Place,
        view: View,
        language: str,
        event: gr.EventData,
    ) -> list[Any]:
        with told():
            name, value = event.name, event.value
            nothing = [gr.skip()] * 3
            if value is None:
                return nothing
            table = self.sweeps.table(place)
            if name == "item":
                return [gr.skip(), gr.skip(), (view.trial, int(value))]
            if name == "trial":
                view = View(**{**vars(view), "trial": int(value)})
                only = len(self._prompts(table)) == 1
                wanted = (int(value), 0) if only else gr.skip()
            else:
                view, wanted = view.within(table).with_choice(name, str(value)), gr.skip()
            if number in self._looks:
                self._looks[number] = place, view, language
            return [view, self._board(table, view, language), wanted]

    def _run(self, wanted: tuple[int, int], place: Place) -> Iterator[list[Any]]:
        """Decode an item with a point's settings, and show the run in Watch."""
        with told():
            if wanted is None:
                return
            trial, item = wanted
            table = self.sweeps.table(place)
            row = next(row for row in table.rows if row.number == trial)
            prompts, sweep = self._prompts(table), table.sweep
            if sweep is None or "settings" not in row.measured or item >= len(prompts):
                raise RunError(said("no_items"))
            model = self.runs.models.named(sweep.model, sweep.dtype, sweep.quantize)
            values = {**self.runs.defaults(model), **flat(row.measured["settings"])}
            # the sweep kept no runner-ups; the run in Watch shows them
            values["alternatives"] = controls()["alternatives"].default
            job = self.runs.prepare(prompts[item], model, values, visitor())
            nothing = [gr.skip()] * (len(self.watch.filled(gr.State())) + 1)
            trace = None
            for update in self.runs.run(self.runs.enqueue(job)):
                if update.error:
                    raise RunError(update.error)
                trace = update.trace
                if trace is None:
                    at = said("point_status", trial=trial, item=item + 1, status=update.status)
                    yield [*nothing, packed(at)]
            if trace is None or not trace.steps:
                return
            found = compared(trace, row, item)
            words = said("point_opened", trial=trial, item=item + 1, words=found)
            filled = self.watch.events.show(update.name, words)
            yield [*filled, gr.Tabs(selected="watch"), packed(words)]

    # --- a sweep that runs

    def _start(
        self,
        number: str,
        known: list[Place],
        place: Place,
        view: View,
        language: str,
        model: str,
        *fields: Any,
    ) -> list[Any]:
        with told():
            self._free(number)
            sweep = self.form.plan(self.sweeps.storage, model, *fields)
            return self._begun(self.sweeps.start(sweep, model, visitor()), known, language)

    def _resume(
        self, number: str, known: list[Place], place: Place, view: View, language: str
    ) -> list[Any]:
        with told():
            self._free(number)
            return self._begun(self.sweeps.resume(place, visitor()), known, language)

    def _free(self, number: str) -> None:
        if self.sweeps.is_running(number):
            raise RunError(said("sweep_yours"))

    def _begun(self, number: str, known: list[Place], language: str) -> list[Any]:
        job = self.sweeps.job(number)
        places = self._places([job.place, *known])
        chosen = self._picker(places, job.place, language)
        view = View()
        self._looks[number] = job.place, view, language
        return [number, chosen, places, job.place, view, gr.skip(), packed(said("starting"))]

    def _follow(self, number: str) -> Iterator[list[Any]]:
        """The board and the status of a sweep while it runs."""
        with told():
            drawn: Any = None
            try:
                for job in self.sweeps.watch(number):
                    place, view, language = self._looks.get(number, (job.place, View(), ""))
                    board: Any = gr.skip()
                    now = job.done, job.state, language
                    if place == job.place and drawn != now and job.state != "loading":
                        drawn, board = now, self._drawn(job.place, view, language)
                    yield [board, packed(progress(job))]
                    if job.error:
                        raise RunError(job.error)
            finally:
                self._looks.pop(number, None)

    def _drawn(self, place: Place, view: View, language: str) -> Any:
        try:
            return self._board(self.sweeps.table(place), view, language)
        except RunError:
            return gr.skip()  # the study is not there yet

    def _pause(self, number: str) -> Any:
        with told():
            return gr.skip() if self.sweeps.pause(number) else packed(said("no_sweep"))

    def _cancel(
        self, number: str, known: list[Place], place: Place, view: View, language: str
    ) -> list[Any]:
        with told():
            self.sweeps.cancel(number, place)
            table = self.sweeps.table(place)
            return [self._board(table, view, language), packed(_status(table, place))]


def _status(table: StudyTable, place: Place) -> Said:
    """The status line of a study that nobody runs."""
    if table.sweep is None:
        return said("study_foreign")
    parts = {"done": table.settled, "points": counted(table.sweep.total, "point")}
    if table.is_cancelled:
        return said("study_cancelled", **parts)
    if not place.storage:
        return said("study_hint")
    if table.is_open:
        return said("study_paused", **parts)
    return said("study_done")

"""The studies of this server: the bundled one, those made here, and any other that is opened.

A sweep is `flash_dllm.sweep`'s own: its studies, its trials; only the engine is the page's. It runs
as long as somebody watches it: whoever stops watching pauses it. Knows no gradio.
"""

from __future__ import annotations

import itertools
import logging
import os
import shutil
import tempfile
import threading
import time
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from app import sweep_share
from app.models import NOT_HERE
from app.presets import ASSETS, EMBEDDED, TOY
from app.runs import Runs
from app.said import Said, counted, said
from app.store import RunError, unsaved
from flash_dllm.evaluation.study_table import (
    CANCELLED,
    StudyTable,
    load_study,
    read_csv,
    studies_in,
)
from flash_dllm.evaluation.sweep_file import SweepFile, as_yaml, read_sweep, shown_address
from flash_dllm.evaluation.trial import Bench, sweep_items
from flash_dllm.evaluation.workers import Here

log = logging.getLogger(__name__)
BUNDLED = ASSETS / "sweeps"
EVERY = 0.3  # seconds between two looks at a sweep that runs


class Stopped(BaseException):
    """Ends a trial in the middle; no Exception, because a trial that fails is another thing."""


@dataclass(frozen=True)
class Place:
    """Where a study is: its storage's address and its name there; bundled ones have no storage."""

    name: str
    storage: str = ""


@dataclass
class SweepJob:
    """A sweep that was started; `stop` pauses it within a step, for good if `is_cancelled`.

    state  waiting, loading, running, then finished, paused or failed
    steps  steps of items since the present point began
    visitor  who started it; "" is a visitor of its own
    ahead  sweeps that come first, while it waits
    """

    sweep: SweepFile
    model: str
    visitor: str = ""
    ahead: int = 1
    stop: threading.Event = field(default_factory=threading.Event)
    is_cancelled: bool = False
    ended: threading.Event = field(default_factory=threading.Event)
    state: str = "waiting"
    done: int = 0
    total: int = 0
    steps: int = 0
    said: str = ""
    error: str = ""
    seconds: list[float] = field(default_factory=list)
    begun: float = field(default_factory=time.monotonic)

    @property
    def place(self) -> Place:
        return Place(self.sweep.study, self.sweep.storage)


class Sweeps:
    """Studies and the sweep that runs; one at a time on a server, others wait."""

    def __init__(self, runs: Runs) -> None:
        self.runs = runs
        self._storage = ""
        self._jobs: dict[str, SweepJob] = {}
        self._numbers = itertools.count(1)
        self._starting = threading.Lock()

    @property
    def storage(self) -> str:
        """The address of this page's own studies; a temporary file unless `keep_in` was called."""
        if not self._storage:
            folder = Path(tempfile.mkdtemp(prefix="flash-dllm-sweeps-"))
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            self._storage = f"sqlite:///{folder / 'sweeps.db'}"
        return self._storage

    def keep_in(self, path: Path) -> None:
        """Keep this page's studies in a SQLite file, made with the first of them. Raises OSError
        if it can't be there."""
        path.parent.mkdir(parents=True, exist_ok=True)
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise PermissionError(f"{path} can't be written")
        self._storage = f"sqlite:///{path.resolve()}"

    # --- what there is

    def bundled(self) -> list[Place]:
        """The studies that ship with the page."""
        tables = sorted(BUNDLED.glob("*.csv"))
        return [Place(path.stem) for path in tables if path.with_suffix(".yaml").is_file()]

    def label(self, place: Place) -> str:
        """A study as the page names it."""
        if place.storage:
            return place.name
        return said("study_recorded", name=read_sweep(BUNDLED / f"{place.name}.yaml").study)

    def mine(self) -> list[Place]:
        """The studies of this page's own storage, the newest first."""
        if not self._storage:
            return []
        try:
            return [Place(name, self.storage) for name in studies_in(self.storage)]
        except ValueError:
            return []  # nothing was put there yet

    def at(self, storage: str) -> list[Place]:
        """The studies at an address, or in a file. Raises RunError."""
        if not self.runs.models.is_open:
            raise RunError(NOT_HERE)
        return self._at(storage.strip())

    def uploaded(self, path: str) -> list[Place]:
        """The studies of a file that a visitor brought. Raises RunError."""
        try:
            return self._at(path)
        except RunError as error:
            # what is wrong with it would name the server's own folder
            raise RunError(said("no_study_file")) from error

    def _at(self, storage: str) -> list[Place]:
        if not storage:
            raise RunError(said("type_an_address"))
        if "://" not in storage:
            storage = f"sqlite:///{Path(storage).resolve()}"
        try:
            names = studies_in(storage)
        except ValueError as error:
            raise RunError(f"{str(error)[:1].upper()}{str(error)[1:]}.") from error
        if not names:
            raise RunError(said("no_study_in", address=shown_address(storage)))
        return [Place(name, storage) for name in names]

    def table(self, place: Place) -> StudyTable:
        """A study as rows. Raises RunError."""
        try:
            if place.storage:
                return load_study(place.storage, place.name)
            if place not in self.bundled():
                raise ValueError(f"there is no bundled study named {place.name}")
            path = BUNDLED / f"{place.name}.yaml"
            return read_csv(path.with_suffix(".csv"), read_sweep(path))
        except (ValueError, OSError) as error:
            raise RunError(f"{str(error)[:1].upper()}{str(error)[1:]}.") from error

    def write(self, place: Place, path: Path) -> None:
        """A study as .csv or .parquet, as `flash_dllm.sweep --export` writes it, or as .yaml.
        Raises RunError."""
        try:
            self._write(self.table(place), place, path)
        except ImportError as error:
            raise RunError(f"{error}.") from error
        except OSError as error:
            raise RunError(unsaved(error)) from error

    def _write(self, table: StudyTable, place: Place, path: Path) -> None:
        if path.suffix == ".yaml":
            if table.sweep is None:
                raise RunError(said("study_no_file"))
            path.write_text(as_yaml(table.sweep), encoding="utf-8")
            return
        if not place.storage and path.suffix == ".csv":
            shutil.copyfile(BUNDLED / f"{place.name}.csv", path)
            return
        import optuna

        from flash_dllm.sweep import export, export_table

        if place.storage:
            export(optuna.load_study(study_name=place.name, storage=place.storage), path)
            return
        import pandas

        # digits, one an item, and no number
        kinds = {"user_attrs_correct": str}
        export_table(pandas.read_csv(BUNDLED / f"{place.name}.csv", dtype=kinds), path)

    # --- a sweep that runs

    def start(self, sweep: SweepFile, model: str = EMBEDDED, visitor: str = "") -> str:
        """Begin a sweep, or go on with it; the number to watch it by. Raises RunError, on a page
        that many share also for more than a fair share (`app/sweep_share.py`)."""
        if model == TOY:
            raise RunError(said("toy_sweep"))
        self.runs.models.check(model)
        with self._starting:
            going = self._going()
            if any(job.place == Place(sweep.study, sweep.storage) for job in going):
                raise RunError(said("sweep_running"))
            if not self.runs.models.is_open:
                sweep_share.check_size(sweep)
                sweep_share.check_place(visitor, [job.visitor for job in going])
            job = SweepJob(sweep, model, visitor)
            number = str(next(self._numbers))
            self._jobs[number] = job
        threading.Thread(target=self._work, args=(job,), daemon=True).start()
        return number

    def resume(self, place: Place, visitor: str = "") -> str:
        """Go on with a study that was paused. Raises RunError."""
        table = self.table(place)
        # a stranger's file may name any task, and code answers outside of a sandbox
        is_foreign = not self.runs.models.is_open and place.storage != self.storage
        if not place.storage or table.sweep is None or is_foreign:
            raise RunError(said("sweep_only_here"))
        sweep = replace(table.sweep, storage=place.storage)
        model = self.runs.models.named(sweep.model, sweep.dtype, sweep.quantize)
        return self.start(sweep, model, visitor)

    def _going(self) -> list[SweepJob]:
        """Sweeps that run or wait, in the order in which they were started."""
        return [job for job in list(self._jobs.values()) if not job.ended.is_set()]

    def job(self, number: str) -> SweepJob:
        """A sweep that was started."""
        return self._jobs[number]

    def is_running(self, number: str) -> bool:
        """Whether a sweep of that number runs, or waits for its turn."""
        job = self._jobs.get(number)
        return job is not None and not job.ended.is_set()

    def pause(self, number: str) -> bool:
        """End a sweep within a step, so that it can go on later; whether one ran."""
        job = self._jobs.get(number)
        if job is None or job.ended.is_set():
            return False
        job.stop.set()
        job.ended.wait(5.0)
        return True

    def cancel(self, number: str, place: Place) -> None:
        """End a sweep for good; what was measured stays. Raises RunError."""
        if job := self._jobs.get(number):
            # before it ends: whoever watches it tells its last state, perhaps after us
            job.is_cancelled = True
        self.pause(number)
        if not place.storage:
            raise RunError(said("bundled_cancel"))
        import optuna

        try:
            study = optuna.load_study(study_name=place.name, storage=place.storage)
        except KeyError:
            return  # it had not begun
        study.set_user_attr(CANCELLED, True)

    def watch(self, number: str) -> Iterator[SweepJob]:
        """The sweep again and again while it runs, at last when it has ended; dropped before, it
        is paused. Raises RunError."""
        job = self._jobs.get(number)
        if job is None:
            raise RunError(said("sweep_unknown"))
        try:
            while not job.ended.wait(EVERY):
                yield job
            yield job
        finally:
            job.stop.set()
            if job.ended.wait(5.0):
                self._jobs.pop(number, None)

    def _work(self, job: SweepJob) -> None:
        """The sweep's own thread: `run_study` with the page's engine."""
        try:
            while ahead := self._going().index(job):
                job.ahead = ahead
                if job.stop.wait(EVERY):
                    raise Stopped
            self._run(job)
            job.state = "finished"
        except Stopped:
            job.state = "paused"
        except RunError as error:
            job.state, job.error = "failed", error.line
        except (ValueError, OSError, RuntimeError, ImportError) as error:
            job.state, job.error = "failed", f"{str(error).rstrip('.')}."
        except Exception as error:
            log.exception("the sweep %s failed", job.sweep.study)
            job.state, job.error = "failed", said("sweep_ended", error=error)
        finally:
            job.ended.set()

    def _run(self, job: SweepJob) -> None:
        from flash_dllm.evaluation.study import open_study, run_study

        job.state = "loading"
        engine = self.runs.models.engine(job.model, lambda words: setattr(job, "said", words))
        sweep = job.sweep
        items = sweep_items(sweep.tasks, sweep.prompts, sweep.limit, sweep.data)
        bench = Bench.of(engine, items)
        study = open_study(sweep)
        study.set_user_attr(CANCELLED, False)
        job.state, job.begun = "running", time.monotonic()
        turns = self.runs.models.turns

        def on_step() -> None:
            job.steps += 1
            if job.stop.is_set():
                raise Stopped
            turns.give_way()
            if not self.runs.models.is_open:
                visitors = self.runs.turns
                sweep_share.stand_back(lambda: len(visitors) > 0, turns.give_way, job.stop.is_set)

        def measure(_: SweepFile, knobs: dict[str, Any]) -> dict[str, Any]:
            if job.stop.is_set():
                raise Stopped
            job.steps, job.begun = 0, time.monotonic()
            with turns.held(engine):
                return bench.measure(sweep, knobs, on_step)

        def on_start(done: int, total: int) -> None:
            job.done, job.total = done, total

        def on_trial() -> None:
            job.done += 1
            job.seconds.append(time.monotonic() - job.begun)

        run_study(sweep, study, Here(measure), on_start, on_trial)


def progress(job: SweepJob) -> str:
    """The status line of a sweep."""
    if job.state == "waiting" and job.ahead > 1:
        return said("sweeps_before", count=job.ahead)
    if job.state == "waiting":
        return said("sweep_next")
    if job.state == "loading":
        return job.said or said("loading")
    points: dict[str, Any] = {"done": job.done, "points": counted(job.total, "point")}
    if job.state == "running":
        now = time.monotonic() - job.begun
        steps = counted(job.steps, "step")
        line = said("sweep_line", steps=steps, seconds=f"{now:.0f}", **points)
        if job.seconds:
            # the first point may carry the one-token answers of all
            later = job.seconds[1:] or job.seconds
            left = (job.total - job.done) * sum(later) / len(later) - now
            return said("sweep_left", line=line, time=in_minutes(max(1.0, left)))
        return line
    if job.state == "paused" and job.is_cancelled:
        return said("study_cancelled", **points)
    if job.state == "paused":
        return said("sweep_paused", **points)
    if job.state == "failed":
        return said("sweep_failed", error=job.error, **points)
    return said("sweep_finished", **points)


def in_minutes(seconds: float) -> Said:
    """A duration in words.

    >>> in_minutes(42.3), in_minutes(150), in_minutes(7500)
    ('42 s', '2 min 30 s', '2 h 5 min')
    """
    whole = round(seconds)
    if whole < 60:
        return said("time_seconds", s=whole)
    if whole < 3600:
        return said("time_minutes", m=whole // 60, s=whole % 60)
    return said("time_hours", h=whole // 3600, m=whole % 3600 // 60)

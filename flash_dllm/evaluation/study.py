"""A sweep on Optuna: this process asks and tells, workers only measure, so results come once.

Every trial is in the storage before it is sent out. When this process is killed, its running trials
stay "running" there; the next one marks them as failed and sends the same knobs out again.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flash_dllm.evaluation.sweep_file import SweepFile
from flash_dllm.evaluation.trial import Impossible
from flash_dllm.evaluation.workers import Workers

if TYPE_CHECKING:
    from optuna import Study
    from optuna.trial import FrozenTrial, Trial

log = logging.getLogger(__name__)

COORDINATOR, DESCRIPTION = "coordinator", "sweep"
# what may differ when a sweep is gone on with: how far it goes, how it draws, where files are
MAY_CHANGE = ("sampler", "trials", "seed", "data", "device", "allow_unsandboxed")
# keys that older studies do not have, and what they meant then
LATER_KEYS: dict[str, Any] = {"prompts": [], "quantize": "none"}
# another coordinator that was seen within so many seconds is taken for alive
FRESH_SECONDS = 60.0
BEAT_SECONDS = 10.0


def open_study(sweep: SweepFile) -> Study:
    """The study of a sweep, made if there is none yet.

    Raises ValueError if the storage can't be reached or holds another sweep of that name.
    """
    import optuna
    from sqlalchemy.exc import SQLAlchemyError

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    kinds = optuna.study.StudyDirection
    directions = [kinds[direction.upper()] for direction in sweep.objectives.values()]
    try:
        study = optuna.create_study(
            storage=_storage(sweep.storage),
            study_name=sweep.study,
            directions=directions,
            load_if_exists=True,
        )
    except (SQLAlchemyError, ImportError, optuna.exceptions.StorageInternalError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ValueError(f"the storage {sweep.address} can't be opened ({reason})") from None
    described = json.loads(json.dumps(asdict(sweep)))
    # whoever reads the study has the address already, and it may hold a password
    del described["storage"]
    known = study.user_attrs.get(DESCRIPTION)
    if known is None:
        study.set_user_attr(DESCRIPTION, described)
        # Names for the dashboard; Optuna has called them experimental since 3.2. The filter stays:
        # catch_warnings() would put back the filters of all threads, and sweeps run beside a page.
        warnings.filterwarnings("ignore", ".*set_metric_names is experimental")
        study.set_metric_names(list(sweep.objectives))
    elif differing := [
        key
        for key in described
        if key not in MAY_CHANGE and known.get(key, LATER_KEYS.get(key)) != described[key]
    ]:
        raise ValueError(
            f"study {sweep.study} was started with another {', '.join(differing)}; give this sweep "
            "another name (study), or go back"
        )
    study.sampler = _sampler(sweep, len(study.trials))
    return study


@contextmanager
def storage_in_words(sweep: SweepFile) -> Iterator[None]:
    """Raise RuntimeError in one sentence if the storage fails in the middle: a full disk, a server
    that is gone."""
    from optuna.exceptions import StorageInternalError
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (SQLAlchemyError, StorageInternalError) as error:
        cause = error.__cause__ or error
        reason = " ".join(str(getattr(cause, "orig", None) or cause).split())[:200]
        raise RuntimeError(
            f"the storage {sweep.address} can't be written ({reason}); trials that are in it stay, "
            "and the same command goes on with the rest"
        ) from None


def _storage(address: str) -> Any:
    """Optuna's storage at an address; a server gets a connection a question, none waits idle:
    trials take minutes, and networks cut what is quiet for long."""
    from optuna.storages import RDBStorage
    from sqlalchemy.pool import NullPool

    is_file = address.startswith("sqlite:")
    return address if is_file else RDBStorage(address, engine_kwargs={"poolclass": NullPool})


def run_study(
    sweep: SweepFile,
    study: Study,
    workers: Workers,
    on_start: Callable[[int, int], object] = lambda done, total: None,
    on_trial: Callable[[], object] = lambda: None,
) -> None:
    """Run what is missing of a sweep.

    on_start  called with (trials there, trials in all)
    on_trial  called after each trial; what it raises ends the sweep

    Interrupted, it gives running trials back to the study as waiting ones.
    Raises ValueError if another process runs the same study, RuntimeError if trials failed.
    """
    _become_coordinator(study)
    _plan(sweep, study)
    missing = _missing(sweep, study)
    on_start(sweep.total - missing, sweep.total)
    running: dict[int, Trial] = {}
    problems: list[str] = []
    beat = time.monotonic()
    try:
        while missing or running:
            # one more than there are workers, so that none waits for the storage
            while missing and len(running) <= workers.size:
                trial = study.ask()
                knobs = _suggest(sweep, trial)
                running[trial.number] = trial
                missing -= 1
                workers.submit(trial.number, sweep, knobs)
            for number, outcome in workers.finished(BEAT_SECONDS):
                problem = _tell(sweep, study, running.pop(number), outcome)
                if problem is not None:
                    problems.append(problem)
                on_trial()
            if time.monotonic() - beat > BEAT_SECONDS:
                _beat(study)
                beat = time.monotonic()
    finally:
        workers.close()
        for trial in running.values():
            _give_back(study, trial)
        study.set_user_attr(COORDINATOR, None)
    if problems:
        raise RuntimeError(f"{len(problems)} trials failed, the first with: {problems[0]}")


def _sampler(sweep: SweepFile, asked: int) -> Any:
    """A sampler whose seed moves on: a resumed sweep must not draw its first points again."""
    from optuna import samplers

    seed = sweep.seed + asked
    if sweep.sampler == "tpe":
        return samplers.TPESampler(seed=seed)
    if sweep.sampler == "nsga2":
        return samplers.NSGAIISampler(seed=seed)
    # the points of a grid are planned; nothing is left to draw
    return samplers.RandomSampler(seed=seed)


def _become_coordinator(study: Study) -> None:
    """Take the study over from nobody, or from a process that is gone."""
    from optuna.trial import TrialState

    other = study.user_attrs.get(COORDINATOR)
    if other is not None and _is_alive(other):
        raise ValueError(
            f"study {study.study_name} is being run by process {other['pid']} on {other['host']}; "
            "wait for it, or stop it"
        )
    _beat(study)
    for trial in study.get_trials(states=(TrialState.RUNNING,)):
        log.warning("trial %d was lost with its process and is sent out again", trial.number)
        study.tell(trial.number, state=TrialState.FAIL)
        _enqueue(study, trial.params, trial.user_attrs.get("point"))


def _is_alive(other: dict[str, Any]) -> bool:
    if other["host"] == socket.gethostname():
        pid = other["pid"]
        # numbers are given out again, in a container from 1 on
        is_same = other.get("started") in (None, _started(pid))
        return pid != os.getpid() and os.path.exists(f"/proc/{pid}") and is_same
    return time.time() - other["time"] < FRESH_SECONDS


def _started(pid: int) -> int | None:
    """When a process began, in the system's ticks since it was started; None where nobody says."""
    try:
        line = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    # the program's name in brackets may hold anything; 20 fields follow
    return int(line.rpartition(")")[2].split()[19])


def _beat(study: Study) -> None:
    pid = os.getpid()
    me = {"host": socket.gethostname(), "pid": pid, "started": _started(pid), "time": time.time()}
    study.set_user_attr(COORDINATOR, me)


def _plan(sweep: SweepFile, study: Study) -> None:
    """Put the points of a grid into the study, those that are not there yet."""
    if sweep.sampler != "grid":
        return
    from optuna.trial import TrialState

    planned = {
        trial.user_attrs.get("point")
        for trial in study.get_trials(deepcopy=False)
        if trial.state != TrialState.FAIL
    }
    for knobs in sweep.combinations():
        point = _point(knobs)
        if point not in planned:
            _enqueue(study, knobs, point)


def _point(knobs: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in sorted(knobs.items()))


def _enqueue(study: Study, knobs: dict[str, Any], point: str | None) -> None:
    study.enqueue_trial(knobs, user_attrs={"point": point} if point else None)


def _missing(sweep: SweepFile, study: Study) -> int:
    """How many trials are still to be run."""
    from optuna.trial import TrialState

    trials = study.get_trials(deepcopy=False)
    if sweep.sampler == "grid":
        return sum(trial.state == TrialState.WAITING for trial in trials)
    settled = sum(trial.state in (TrialState.COMPLETE, TrialState.PRUNED) for trial in trials)
    return max(0, sweep.total - settled)


def _suggest(sweep: SweepFile, trial: Trial) -> dict[str, Any]:
    knobs: dict[str, Any] = {}
    for name, choices in sweep.search.items():
        if isinstance(choices, list):
            knobs[name] = trial.suggest_categorical(name, choices)
        elif all(isinstance(choices[key], int) for key in ("low", "high")):
            knobs[name] = trial.suggest_int(name, **choices)
        else:
            knobs[name] = trial.suggest_float(name, **choices)
    return knobs


def _tell(sweep: SweepFile, study: Study, trial: Trial, outcome: Any) -> str | None:
    """Write what came of a trial; the reason in words if it failed."""
    from optuna.trial import TrialState

    if isinstance(outcome, Impossible):
        trial.set_user_attr("reason", str(outcome))
        study.tell(trial, state=TrialState.PRUNED)
        return None
    if isinstance(outcome, Exception):
        reason = f"{type(outcome).__name__}: {outcome}"
        trial.set_user_attr("reason", reason)
        study.tell(trial, state=TrialState.FAIL)
        return reason
    # the values last: a trial that is complete has all its facts
    for name, value in outcome.items():
        trial.set_user_attr(name, value)
    study.tell(trial, [outcome[name] for name in sweep.objectives])
    return None


def _give_back(study: Study, trial: Trial) -> None:
    """A trial that was stopped in the middle waits again."""
    from optuna.trial import TrialState

    frozen: FrozenTrial = study.tell(trial, state=TrialState.FAIL)
    _enqueue(study, frozen.params, frozen.user_attrs.get("point"))

"""A sweep on Optuna: this process asks and tells, workers only measure, so results come once.

Every trial is in the storage before it is sent out. When this process is killed, its running trials
stay "running" there; the next one marks them as failed and sends the same knobs out again.
"""

from __future__ import annotations

import json
import logging
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from flash_dllm.evaluation.coordinator import alive, check_mine, coordinating, is_mine
from flash_dllm.evaluation.sweep_file import SweepFile
from flash_dllm.evaluation.trial import Impossible
from flash_dllm.evaluation.workers import Workers

if TYPE_CHECKING:
    from optuna import Study
    from optuna.trial import FrozenTrial, Trial

log = logging.getLogger(__name__)

DESCRIPTION = "sweep"
# what may differ when a sweep is gone on with: how far it goes, how it draws, where files are
MAY_CHANGE = ("sampler", "trials", "seed", "data", "device", "allow_unsandboxed")
# keys that older studies do not have, and what they meant then
LATER_KEYS: dict[str, Any] = {"prompts": [], "quantize": "none"}
# a look at the workers takes so long at most
WAIT_SECONDS = 10.0


def open_study(sweep: SweepFile) -> Study:
    """The study of a sweep, made if there is none yet.

    Raises ValueError if the storage can't be reached or holds another sweep of that name.
    """
    import optuna
    from sqlalchemy.exc import SQLAlchemyError

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    kinds = optuna.study.StudyDirection
    directions = [kinds[direction.upper()] for direction in sweep.objectives.values()]
    described = json.loads(json.dumps(asdict(sweep)))
    # whoever reads the study has the address already, and it may hold a password
    del described["storage"]

    def opened() -> Study:
        return optuna.create_study(
            storage=_storage(sweep.storage),
            study_name=sweep.study,
            directions=directions,
            load_if_exists=True,
        )

    try:
        try:
            study = opened()
        except SQLAlchemyError as error:
            # two processes make the tables of a new storage at the same moment
            if "already exists" not in str(error):
                raise
            time.sleep(0.5)
            study = opened()
        if study.user_attrs.get(DESCRIPTION, described) != described and _is_untouched(study):
            # a sweep that was corrected before its first trial
            optuna.delete_study(study_name=sweep.study, storage=_storage(sweep.storage))
            study = opened()
    except (SQLAlchemyError, ImportError, optuna.exceptions.StorageInternalError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ValueError(f"the storage {sweep.address} can't be opened ({reason})") from None
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


def _is_untouched(study: Study) -> bool:
    """Whether it holds nothing, and nobody is about to change that."""
    return not study.get_trials(deepcopy=False) and alive(study) is None


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
    check: Callable[[], object] = lambda: None,
) -> None:
    """Run what is missing of a sweep.

    on_start  called with (trials there, trials in all)
    on_trial  called after each trial; what it raises ends the sweep
    check     called before the first trial, if any is missing; what it raises ends the sweep, and
              the study stays as it was

    Interrupted, it gives running trials back to the study as waiting ones.
    Raises ValueError if another process runs the same study, RuntimeError if trials failed.
    """
    running: dict[int, Trial] = {}
    problems: list[str] = []
    with coordinating(study):
        try:
            _send_out_again(study)
            points = _unplanned(sweep, study)
            missing = _missing(sweep, study) + len(points)
            if missing:
                check()
            check_mine(study)
            for knobs in points:
                _enqueue(study, knobs, _point(knobs))
            on_start(sweep.total - missing, sweep.total)
            while missing or running:
                # one more than there are workers, so that none waits for the storage
                while missing and len(running) <= workers.size:
                    trial = study.ask()
                    knobs = _suggest(sweep, trial)
                    running[trial.number] = trial
                    missing -= 1
                    workers.submit(trial.number, sweep, knobs)
                for number, outcome in workers.finished(WAIT_SECONDS):
                    check_mine(study)
                    problem = _tell(sweep, study, running.pop(number), outcome)
                    if problem is not None:
                        problems.append(problem)
                    on_trial()
        finally:
            workers.close()
            # who takes a study over sends them out again
            for trial in running.values() if is_mine(study) else ():
                _give_back(study, trial)
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


def _send_out_again(study: Study) -> None:
    """Trials that a process left running when it was killed."""
    from optuna.trial import TrialState

    for trial in study.get_trials(states=(TrialState.RUNNING,)):
        log.warning("trial %d was lost with its process and is sent out again", trial.number)
        study.tell(trial.number, state=TrialState.FAIL)
        _enqueue(study, trial.params, trial.user_attrs.get("point"))


def _unplanned(sweep: SweepFile, study: Study) -> list[dict[str, Any]]:
    """The points of a grid that the study lacks."""
    if sweep.sampler != "grid":
        return []
    from optuna.trial import TrialState

    planned = {
        trial.user_attrs.get("point")
        for trial in study.get_trials(deepcopy=False)
        if trial.state != TrialState.FAIL
    }
    return [knobs for knobs in sweep.combinations() if _point(knobs) not in planned]


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

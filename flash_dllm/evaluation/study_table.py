"""Studies as plain rows: what was tried, what came of it; from a storage or from an exported CSV.

Any Optuna study can be read. One that `flash_dllm.sweep` made also says how it was made.
"""

from __future__ import annotations

import ast
import csv
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from flash_dllm.evaluation.study import DESCRIPTION
from flash_dllm.evaluation.sweep_file import SweepFile, checked, shown_address

if TYPE_CHECKING:
    from optuna import Study

# a study's attribute: ended for good
CANCELLED = "cancelled"
COUNTS = {"items", "tokens", "steps", "passes", "rows", "batch_size"}


@dataclass(frozen=True)
class Row:
    """One trial.

    state     COMPLETE, PRUNED (knobs that don't go together), FAIL, RUNNING or WAITING
    measured  metric → value, and whatever else the trial kept; {} before it is complete
    """

    number: int
    state: str
    knobs: Mapping[str, Any]
    measured: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        return self.state == "COMPLETE"


@dataclass(frozen=True)
class StudyTable:
    """A study; `sweep` is what made it, None for a study of another program; `is_cancelled` when
    it was ended for good before all points were measured."""

    name: str
    rows: tuple[Row, ...]
    objectives: Mapping[str, str]
    sweep: SweepFile | None = None
    is_cancelled: bool = False

    @property
    def settled(self) -> int:
        """Points that need no further trial."""
        return sum(row.state in ("COMPLETE", "PRUNED") for row in self.rows)

    @property
    def is_open(self) -> bool:
        """Whether points are missing that may still be measured."""
        return self.sweep is not None and not self.is_cancelled and self.settled < self.sweep.total

    @property
    def complete(self) -> list[Row]:
        return [row for row in self.rows if row.is_complete]

    def knob_values(self) -> dict[str, list[Any]]:
        """Knob → its different values in order, of all trials."""
        values: dict[str, list[Any]] = {}
        for row in self.rows:
            for name, value in row.knobs.items():
                if value not in values.setdefault(name, []):
                    values[name].append(value)
        return {name: sorted(found, key=_order) for name, found in values.items()}

    def metrics(self) -> list[str]:
        """Names of what was measured as one number, in the order of the trials' records."""
        names: dict[str, None] = dict.fromkeys(self.objectives)
        for row in self.complete:
            for name, value in row.measured.items():
                if isinstance(value, (int, float)) and not isinstance(value, bool):
                    names.setdefault(name)
        return list(names)


def front(rows: Sequence[Row], x: str, y: str, x_is_better_low: bool = False) -> list[Row]:
    """The Pareto front of two metrics, by rising x: no other row is at least as good in both and
    better in one. y: more is better; x likewise, unless `x_is_better_low`. Of equal rows the first
    stands for all."""
    sign = -1 if x_is_better_low else 1
    known = [row for row in rows if x in row.measured and y in row.measured]
    best: list[Row] = []
    for row in sorted(known, key=lambda r: (-sign * r.measured[x], -r.measured[y], r.number)):
        if not best or row.measured[y] > best[-1].measured[y]:
            best.append(row)
    return sorted(best, key=lambda r: r.measured[x])


def read_study(study: Study, storage: str) -> StudyTable:
    """A study of Optuna, whoever made it, from the storage at that address."""
    directions = [direction.name.lower() for direction in study.directions]
    names = study.metric_names or [f"value {k}" for k in range(len(directions))]
    rows = []
    for trial in study.get_trials(deepcopy=False):
        measured = {k: v for k, v in trial.user_attrs.items() if k != "point"}
        measured |= dict(zip(names, trial.values or (), strict=False))
        rows.append(Row(trial.number, trial.state.name, dict(trial.params), measured))
    return StudyTable(
        study.study_name,
        tuple(rows),
        dict(zip(names, directions, strict=True)),
        _described(study.user_attrs.get(DESCRIPTION), storage),
        bool(study.user_attrs.get(CANCELLED)),
    )


def studies_in(storage: str) -> list[str]:
    """Names of the studies at a storage's address, the newest first. Raises ValueError."""
    import optuna
    from sqlalchemy.exc import SQLAlchemyError

    _check_file(storage)
    try:
        summaries = optuna.get_all_study_summaries(storage, include_best_trial=False)
    except (SQLAlchemyError, ImportError, RuntimeError, ValueError) as error:
        raise ValueError(_unreachable(storage, error)) from None
    except optuna.exceptions.StorageInternalError as error:
        raise ValueError(_unreachable(storage, error)) from None
    return [summary.study_name for summary in reversed(summaries)]


def load_study(storage: str, name: str) -> StudyTable:
    """A stored study as rows. Raises ValueError in one sentence."""
    import optuna
    from sqlalchemy.exc import SQLAlchemyError

    _check_file(storage)
    try:
        return read_study(optuna.load_study(study_name=name, storage=storage), storage)
    except KeyError:
        raise ValueError(f"there is no study named {name} in {shown_address(storage)}") from None
    except (SQLAlchemyError, ImportError, optuna.exceptions.StorageInternalError) as error:
        raise ValueError(_unreachable(storage, error)) from None


def read_csv(path: Path, sweep: SweepFile) -> StudyTable:
    """A table that `--export` wrote, with the sweep that made it. Raises ValueError or OSError."""
    rows = []
    with path.open(encoding="utf-8", newline="") as file:
        for record in csv.DictReader(file):
            if "state" not in record or "number" not in record:
                raise ValueError(f"{path} is no exported study: it lacks number or state")
            parts: dict[str, dict[str, Any]] = {"params": {}, "user_attrs": {}, "values": {}}
            for column, text in record.items():
                kind, _, name = column.partition("_")
                if column.startswith("user_attrs_"):
                    kind, name = "user_attrs", column.removeprefix("user_attrs_")
                if kind in parts and text != "":
                    parts[kind][name] = _value(text)
            parts["user_attrs"].pop("point", None)
            measured = parts["user_attrs"] | parts["values"]
            # a table with points that are not measured yet holds its counts as fractions
            for name in COUNTS & set(measured):
                measured[name] = int(measured[name])
            # what stands as digits in the table, one character an item
            if "correct" in measured:
                measured["correct"] = record["user_attrs_correct"]
            rows.append(Row(int(record["number"]), record["state"], parts["params"], measured))
    return StudyTable(sweep.study, tuple(rows), sweep.objectives, sweep)


def _described(content: Any, storage: str) -> SweepFile | None:
    if not isinstance(content, dict):
        return None
    try:
        # a study does not hold its own address
        return checked({**content, "storage": storage})
    except (ValueError, TypeError, KeyError):
        return None  # another version's, or another program's


def _check_file(storage: str) -> None:
    """Optuna makes tables in whatever it opens: look first whether a SQLite file is a study's."""
    if not storage.startswith("sqlite:///"):
        if "://" not in storage:
            raise ValueError(
                f"the storage must be an address like sqlite:///sweep.db, got {storage!r}"
            )
        return
    path = Path(storage.removeprefix("sqlite:///"))
    if not path.is_file():
        raise ValueError(f"there is no file {path}; give the address of a study's storage")
    try:
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as database:
            found = database.execute(
                "SELECT COUNT(*) FROM sqlite_master WHERE name IN ('studies', 'trials')"
            ).fetchone()[0]
        database.close()
    except sqlite3.Error as error:
        raise ValueError(f"{path} is no SQLite file that can be read ({error})") from None
    if found != 2:
        raise ValueError(f"{path} holds no Optuna studies")


def _unreachable(storage: str, error: Exception) -> str:
    reason = " ".join(str(error).split())[:200]
    return f"the storage {shown_address(unquote(storage))} can't be opened ({reason})"


def _value(text: str) -> Any:
    """A cell as it was before it became text."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _order(value: Any) -> tuple:
    """Numbers by size, then words."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return (0, value, "") if is_number else (1, 0, str(value))

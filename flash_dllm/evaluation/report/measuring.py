"""Measure what a report needs: verdicts and counts first, side by side if that is asked for, then
the speeds, part by part, with the device to themselves.

The records alone are enough to go on with: what they hold is not measured again.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from flash_dllm.evaluation.measurement import versions
from flash_dllm.evaluation.place import commit, device_name, place
from flash_dllm.evaluation.report.bench import Bench, measure_cell
from flash_dllm.evaluation.report.cell import Cell, Measured
from flash_dllm.evaluation.report.parts import PARTS
from flash_dllm.evaluation.report.plan import Wanted, wanted
from flash_dllm.evaluation.report.records import Records, load_records
from flash_dllm.evaluation.report.section import Scope
from flash_dllm.evaluation.report.timing import MOST_ROUNDS, ROUNDS
from flash_dllm.evaluation.report.timing_parts import Deadline, begun, reason_of, time_part
from flash_dllm.evaluation.tasks import load_task
from flash_dllm.evaluation.workers import Here, Processes, Workers

log = logging.getLogger(__name__)

# a stop loses the counts of so many seconds at most
SAVED_EVERY = 20.0
# what counts depend on: records that differ in one of these are another measuring
SAME = ("model", "fingerprint", "device", "dtype", "impl", "items", "task_files")


def measure_report(
    bench: Bench,
    scope: Scope,
    parts: Sequence[str],
    path: Path,
    workers: int = 1,
    timed_items: int = 64,
    seconds: float | None = None,
    on_start: Callable[[int], object] = lambda total: None,
    on_step: Callable[[], object] = lambda: None,
) -> tuple[Records, bool]:
    """Measure what the records in `path` lack for these parts, and keep it there.

    parts        in the order in which they are measured
    workers      processes that measure accuracies and counts
    timed_items  items that a speed is of; 0 for no speeds
    seconds      stop by oneself after so long; every part then gets the rounds that a speed needs
                 before one gets those that make it steadier
    on_start     called with how much there is to do, on_step after each part of it
    Returns      the records, and whether they are complete
    Raises       ValueError if the records are of another measuring, or a task has too few items
    """
    deadline = Deadline.after(seconds)
    notes = wanted(scope, parts, bench.limit)
    for task in dict.fromkeys(cell.task for cell in notes.cells):
        # a run of fewer items than asked for would say otherwise
        load_task(task, bench.limit, bench.tasks)
    records = _gone_on_with(path, _facts(bench, scope, timed_items), scope, list(parts))
    missing = [cell for cell in notes.cells if not isinstance(records.cells.get(cell), Measured)]
    timed = notes.timed if timed_items else {}
    samples = sum((2 + ROUNDS) * len(cells) for cells in timed.values())
    on_start(len(missing) + samples)
    is_complete = _count(bench, records, missing, path, workers, deadline, on_step)
    _put_in_order(records, notes)
    if notes.wants_attention and records.seen is None and not deadline.is_over:
        records.seen = bench.attention()
    records.save(path)
    here = place(bench.engine.info.device) if timed else {}
    for most in (MOST_ROUNDS,) if seconds is None else (ROUNDS, MOST_ROUNDS):
        for part, asked in timed.items():
            if not is_complete or deadline.is_over:
                is_complete = False
                break
            cells = [cell for cell in asked if isinstance(records.cells.get(cell), Measured)]
            times = begun(records.times.get(part), cells, timed_items, here, part)
            records.times[part] = times
            is_complete = time_part(
                bench, times, cells, here, deadline, partial(records.save, path), on_step, most
            )
    records.save(path)
    return records, is_complete and not (notes.wants_attention and records.seen is None)


def _gone_on_with(path: Path, facts: dict[str, Any], scope: Scope, parts: list[str]) -> Records:
    """Records to add to: those in the file, or new ones."""
    records = Records(facts, scope, parts, facts["items"])
    if not path.is_file():
        return records
    known = load_records(path)
    for key in SAME:
        if known.facts.get(key) != facts[key]:
            raise ValueError(
                f"{path} holds records with another {key} ({known.facts.get(key)}, here "
                f"{facts[key]}); choose another --output or --records, or delete it"
            )
    if known.facts.get("commit") not in (facts["commit"], None):
        log.warning(
            "%s: its runs were measured at commit %s and stand beside those of %s", path,
            known.facts["commit"] or "unknown", facts["commit"] or "unknown",
        )  # fmt: skip
    records.cells, records.times, records.seen = known.cells, known.times, known.seen
    if known.scope == scope:
        records.parts = [name for name in PARTS if name in {*parts, *known.parts}]
    elif left := [name for name in known.parts if name not in parts]:
        now = asdict(scope)
        other = [key for key, value in asdict(known.scope).items() if value != now[key]]
        log.warning(
            "%s: %s was measured with another choice of %s and will not be shown beside this; name "
            "it in --parts to measure what it lacks", path, ", ".join(left), ", ".join(other),
        )  # fmt: skip
    return records


def _facts(bench: Bench, scope: Scope, timed_items: int) -> dict[str, Any]:
    """What a page says of the numbers: model, device, versions, commit."""
    info = bench.engine.info
    files = [bench.tasks / f"{task}.jsonl" for task in scope.tasks]
    contents = b"".join(file.read_bytes() for file in files if file.is_file())
    return {
        "model": info.name,
        "fingerprint": info.fingerprint,
        "device": device_name(info.device),
        "dtype": info.dtype,
        "impl": info.impl,
        "items": bench.limit,
        "task_files": hashlib.sha256(contents).hexdigest()[:12],
        "timed_items": timed_items or None,
        "versions": versions(),
        "commit": commit(),
    }


def _count(
    bench: Bench, records: Records, cells: Sequence[Cell], path: Path, workers: int,
    deadline: Deadline, on_cell: Callable[[], object],
) -> bool:  # fmt: skip
    """Verdicts and counts of these cells; False if the deadline came first."""
    if not cells:
        return True
    size = min(workers, len(cells))
    pool: Workers = Processes(measure_cell, size) if workers > 1 else Here(measure_cell)
    left, saved = len(cells), time.monotonic()
    try:
        for number, cell in enumerate(cells):
            pool.submit(number, bench, cell)
        while left:
            for number, outcome in pool.finished(1.0):
                records.cells[cells[number]] = _in_words(outcome, cells[number])
                left -= 1
                on_cell()
                if time.monotonic() - saved > SAVED_EVERY:
                    records.save(path)
                    saved = time.monotonic()
                if deadline.is_over:
                    break
            if deadline.is_over:
                break
    finally:
        pool.close()
        records.save(path)
    return not left


def _in_words(outcome: Measured | BaseException, cell: Cell) -> Measured | str:
    """What a cell gave, or the reason in words: one cell that fails must not cost the others."""
    if isinstance(outcome, Measured):
        return outcome
    reason = reason_of(outcome)
    log.warning("%s on %s: %s", cell.preset or dict(cell.knobs), cell.task, reason)
    return reason


def _put_in_order(records: Records, notes: Wanted) -> None:
    """The order in which cells are asked for, whoever came first; commits of all runs there."""
    order = {cell: records.cells[cell] for cell in notes.cells if cell in records.cells}
    records.cells = order | records.cells
    commits = {
        there["commit"]
        for found in records.cells.values()
        if isinstance(found, Measured)
        for there in found.details.get("places", ())
    }
    records.facts["commit"] = ", ".join(sorted(commits)) or records.facts["commit"]

"""Measure what a report needs: here one after the other, or first in several processes.

With several processes every cell's verdicts and counts come first, side by side; then each cell
whose speed is shown is decoded again, alone. Both stages go on where they were stopped.
"""

from __future__ import annotations

import logging
import subprocess
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from flash_dllm.evaluation.measurement import versions
from flash_dllm.evaluation.report.bench import Bench, measure_beside_others
from flash_dllm.evaluation.report.cell import Cell, Measured
from flash_dllm.evaluation.report.plan import wanted
from flash_dllm.evaluation.report.records import Records, load_records
from flash_dllm.evaluation.report.section import Scope
from flash_dllm.evaluation.workers import Processes

log = logging.getLogger(__name__)

# a stop loses the times of so many cells at most
SAVED_EVERY = 8


def measure_report(
    bench: Bench,
    scope: Scope,
    parts: list[str],
    path: Path,
    workers: int = 1,
    timed_items: int = 64,
    on_start: Callable[[int], object] = lambda total: None,
    on_cell: Callable[[], object] = lambda: None,
) -> Records:
    """Measure every cell of these parts and keep the records in `path`.

    workers      processes that measure side by side; with one, speeds are those of the runs
    timed_items  items a cell whose speed is measured apart, with several workers
    on_start     called with how many measurements there will be, on_cell after each
    """
    notes = wanted(scope, parts, bench.limit)
    timed = [cell for cell, is_timed in notes.cells.items() if is_timed] if workers > 1 else []
    on_start(len(notes.cells) + len(timed))
    facts = facts_of(bench, workers, timed_items)
    records = Records(facts, scope, parts, bench.limit)
    known = _known_times(path, facts)
    if workers > 1:
        _side_by_side(bench, list(notes.cells), workers, records, on_cell)
        for cell, timing in known.items():
            found = records.cells.get(cell)
            if isinstance(found, Measured):
                records.cells[cell] = replace(found, timing=timing)
        # before the times, which take long: a stop must not lose it
        if notes.wants_attention:
            records.seen = bench.attention()
        records.save(path)
        for number, cell in enumerate(timed):
            if cell not in known:
                _time(bench, cell, timed_items, records)
            on_cell()
            if number % SAVED_EVERY == 0:
                records.save(path)
    else:
        for cell in notes.cells:
            records.cells[cell] = _outcome(partial(bench.measure, cell), cell)
            on_cell()
        if notes.wants_attention:
            records.seen = bench.attention()
    records.save(path)
    return records


def facts_of(bench: Bench, workers: int, timed_items: int) -> dict[str, Any]:
    """What a page says of the numbers: model, device, versions, commit."""
    info = bench.engine.info
    return {
        "model": info.name,
        "fingerprint": info.fingerprint,
        "device": _device_name(info.device),
        "dtype": info.dtype,
        "impl": info.impl,
        "items": bench.limit,
        "timed_items": timed_items if workers > 1 else None,
        "versions": versions(),
        "commit": _commit(),
    }


def _side_by_side(
    bench: Bench, cells: list[Cell], workers: int, records: Records,
    on_cell: Callable[[], object],
) -> None:  # fmt: skip
    pool = Processes(measure_beside_others, workers)
    try:
        for number, cell in enumerate(cells):
            pool.submit(number, bench, cell)
        left = len(cells)
        outcomes: dict[int, Measured | str] = {}
        while left:
            for number, outcome in pool.finished(5.0):
                outcomes[number] = _outcome(partial(_unpack, outcome), cells[number])
                left -= 1
                on_cell()
    finally:
        pool.close()
    # in the report's order, whoever came first
    records.cells |= {cells[number]: outcomes[number] for number in sorted(outcomes)}


def _unpack(outcome: Any) -> Measured:
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


def _time(bench: Bench, cell: Cell, count: int, records: Records) -> None:
    found = records.cells[cell]
    if isinstance(found, Measured):
        records.cells[cell] = _outcome(
            lambda: replace(found, timing=bench.timed(cell, count)), cell
        )


def _outcome(make: Callable[[], Measured], cell: Cell) -> Measured | str:
    """What a cell gave, or the reason in words: one cell that fails must not cost the others."""
    try:
        return make()
    except Exception as error:
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        log.warning("%s on %s: %s", cell.preset or dict(cell.knobs), cell.task, reason)
        return reason if isinstance(error, ValueError) else f"{type(error).__name__}: {reason}"


def _known_times(path: Path, facts: dict[str, Any]) -> dict[Cell, dict[str, Any]]:
    """Times of an earlier, stopped command with the same model, machine and commit."""
    if not path.is_file():
        return {}
    before = load_records(path)
    if before.facts != facts:
        return {}
    return {
        cell: found.timing
        for cell, found in before.cells.items()
        if isinstance(found, Measured) and found.timing is not None
    }


def _device_name(device: str) -> str:
    if device != "cuda":
        return device
    import torch

    return torch.cuda.get_device_name()


def _commit() -> str:
    """The checkout's commit, "" where it has none."""
    root = Path(__file__).resolve().parents[3]
    try:
        found = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"],
            cwd=root, capture_output=True, text=True, check=True,
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return ""
    return found.stdout.strip()

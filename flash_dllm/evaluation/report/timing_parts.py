"""Time all decoders of one part of a report together, and go on where that was stopped."""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from flash_dllm.evaluation.place import differences
from flash_dllm.evaluation.report.bench import Bench
from flash_dllm.evaluation.report.cell import Cell
from flash_dllm.evaluation.report.part_times import PartTimes
from flash_dllm.evaluation.report.timing import (
    MOST_ROUNDS,
    Clock,
    Decode,
    one_round,
    repeats_for,
    warmed_up,
)

log = logging.getLogger(__name__)


@dataclass
class Deadline:
    """When to stop by oneself.

    end  on `time.monotonic`'s clock; None for never
    """

    end: float | None = None

    @classmethod
    def after(cls, seconds: float | None) -> Deadline:
        return cls(None if seconds is None else time.monotonic() + seconds)

    @property
    def is_over(self) -> bool:
        return self.end is not None and time.monotonic() >= self.end


class _Failed(Exception):
    """A decoder failed while it was timed."""

    def __init__(self, cell: Cell, reason: str) -> None:
        super().__init__(reason)
        self.cell = cell


def begun(
    known: PartTimes | None, cells: Sequence[Cell], items: int, here: dict[str, str], part: str
) -> PartTimes:
    """What is gone on with: the known times, or new ones where those can't be.

    Times of another place stand if they are complete, as their own; rounds of two places are
    never put together.
    """
    if known is None or not (known.rounds or known.problems):
        return PartTimes(here, items)
    if not known.covers(cells, items):
        log.warning("%s: its speeds are of other decoders or items and are measured again", part)
        return PartTimes(here, items)
    if known.place != here and not known.is_measured:
        log.warning(
            "%s: %d rounds of another place are measured again (%s)", part, len(known.rounds),
            differences(known.place, here),
        )  # fmt: skip
        return PartTimes(here, items)
    return known


def time_part(
    bench: Bench,
    times: PartTimes,
    cells: Sequence[Cell],
    here: dict[str, str],
    deadline: Deadline,
    save: Callable[[], object],
    on_sample: Callable[[], object] = lambda: None,
    most: int = MOST_ROUNDS,
    clock: Clock = time.perf_counter,
) -> bool:
    """Add rounds until there are enough, or `most`; False if the deadline came first.

    save  called after each round: a stop loses one at most
    """

    def is_done() -> bool:
        return times.is_done or len(times.rounds) >= most

    if is_done() or times.place != here:
        return True
    ready: dict[Cell, tuple[Decode, int, float]] = {}
    for cell in cells:
        if cell in times.problems:
            continue
        if deadline.is_over:
            return False
        try:
            decode = bench.decode(cell, times.items)
            tokens, seconds = warmed_up(decode, clock)
            ready[cell] = _named(cell, decode), tokens, seconds
        except Exception as error:
            _drop(times, cell, reason_of(error))
        on_sample()
    while ready and not is_done():
        if not times.rounds:
            _enter(times, ready)
        if deadline.is_over:
            return False
        # forwards and backwards: what drifts within a round favours nobody
        way = -1 if len(times.rounds) % 2 else 1
        order = [*times.cells, times.cells[times.control]][::way]
        gc.collect()
        try:
            found = one_round(
                [ready[cell][0] for cell in order],
                [repeats_for(ready[cell][2]) for cell in order],
                clock,
                on_sample,
            )[::way]
        except _Failed as failure:
            # rounds without it are other rounds
            del ready[failure.cell]
            _drop(times, failure.cell, str(failure))
            times.rounds.clear()
            continue
        times.rounds.append(found)
        save()
    return True


def reason_of(error: BaseException) -> str:
    """An error in one sentence, with its kind unless it was written for people."""
    reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    return reason if isinstance(error, ValueError) else f"{type(error).__name__}: {reason}"


def _enter(times: PartTimes, ready: dict[Cell, tuple[Decode, int, float]]) -> None:
    """Who takes part in the rounds, and who twice: the fastest, where jitter weighs most."""
    times.cells = list(ready)
    times.tokens = [tokens for _, tokens, _ in ready.values()]
    seconds = [seconds for _, _, seconds in ready.values()]
    times.control = seconds.index(min(seconds))


def _drop(times: PartTimes, cell: Cell, reason: str) -> None:
    log.warning("%s on %s: %s", cell.preset or dict(cell.knobs), cell.task, reason)
    times.problems[cell] = reason


def _named(cell: Cell, decode: Decode) -> Decode:
    def run() -> int:
        try:
            return decode()
        except Exception as error:
            raise _Failed(cell, reason_of(error)) from error

    return run

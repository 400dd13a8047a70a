"""What a sweep may take of a page that many share (`--locked`). Knows neither model nor page.

On a page of one's own (`app/models.py::Models.is_open`) the bounds of `app/sweep_form.py` suffice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from app.said import counted, said
from app.store import RunError
from flash_dllm.evaluation.sweep_file import SweepFile

MOST_ANSWERS = 256  # points × items
MOST_SWEEPS = 4  # of all visitors, waiting ones included
STAND_BACK = 2.0  # seconds; a step at least so often, whoever decodes
LOOK = 0.01


def check_size(sweep: SweepFile) -> None:
    """Raise RunError if a sweep has too many answers for a page that many share."""
    items = len(sweep.prompts) + len(sweep.tasks) * (sweep.limit or 0)
    endless = bool(sweep.tasks) and sweep.limit is None
    if endless or sweep.total * items > MOST_ANSWERS:
        got = said("whole_tasks") if endless else said(
            "answers_of", count=sweep.total * items, points=counted(sweep.total, "point"),
            items=counted(items, "item"),
        )  # fmt: skip
        raise RunError(said("share_size", most=MOST_ANSWERS, got=got))


def check_place(visitor: str, going: Sequence[str]) -> None:
    """Raise RunError if a visitor can't start a sweep now; `going` are the visitors whose sweeps
    run or wait. "" is a visitor of its own."""
    if visitor and visitor in going:
        raise RunError(said("share_visitor"))
    if len(going) >= MOST_SWEEPS:
        raise RunError(said("share_full", count=MOST_SWEEPS))


def stand_back(
    is_busy: Callable[[], bool], give_way: Callable[[], None], is_over: Callable[[], bool]
) -> None:
    """Wait between two steps of a sweep while visitors decode, `STAND_BACK` seconds at most.

    give_way  lets those who wait for the device have it; is_over: the sweep was paused
    """
    until = time.monotonic() + STAND_BACK
    while is_busy() and not is_over() and time.monotonic() < until:
        give_way()
        time.sleep(LOOK)

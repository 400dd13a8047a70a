"""Who runs a study: one process at a time, known by its host, its number and a sign of life."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optuna import Study

log = logging.getLogger(__name__)

COORDINATOR = "coordinator"
# one on another host that was seen within so many seconds is taken for alive
FRESH_SECONDS = 60.0
BEAT_SECONDS = 10.0


@contextmanager
def coordinating(study: Study) -> Iterator[None]:
    """This process runs the study, until the block ends. Raises ValueError if another one does.

    The sign of life comes from a thread: a trial in this process may take minutes.
    """
    if (other := alive(study)) is not None:
        raise ValueError(_taken(study, other))
    _beat(study)
    is_over = threading.Event()

    def live() -> None:
        while not is_over.wait(BEAT_SECONDS):
            try:
                if is_mine(study):
                    _beat(study)
            except Exception as error:
                # if the storage is gone for good, the next trial says so
                log.info("no sign of life could be given: %s", error)

    thread = threading.Thread(target=live, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        if is_mine(study):
            study.set_user_attr(COORDINATOR, None)


def check_mine(study: Study) -> None:
    """Raise ValueError if another process took the study at the same moment, or since."""
    other = study.user_attrs.get(COORDINATOR)
    if other is not None and not _is_me(other):
        raise ValueError(_taken(study, other))


def is_mine(study: Study) -> bool:
    """Whether this process is the one that runs it."""
    other = study.user_attrs.get(COORDINATOR)
    return other is not None and _is_me(other)


def alive(study: Study) -> dict[str, Any] | None:
    """The other process that runs the study; None if nobody does, or one that is gone."""
    other = study.user_attrs.get(COORDINATOR)
    return other if other is not None and _is_alive(other) else None


def _is_alive(other: dict[str, Any]) -> bool:
    if other["host"] == socket.gethostname():
        pid = other["pid"]
        # numbers are given out again, in a container from 1 on
        is_same = other.get("started") in (None, started(pid))
        return pid != os.getpid() and os.path.exists(f"/proc/{pid}") and is_same
    return time.time() - other["time"] < FRESH_SECONDS


def started(pid: int) -> int | None:
    """When a process began, in the system's ticks since it was started; None where nobody says."""
    try:
        line = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    # the program's name in brackets may hold anything; 20 fields follow
    return int(line.rpartition(")")[2].split()[19])


def _taken(study: Study, other: dict[str, Any]) -> str:
    return (
        f"study {study.study_name} is being run by process {other['pid']} on {other['host']}; "
        "wait for it, or stop it"
    )


def _is_me(other: dict[str, Any]) -> bool:
    return (other["host"], other["pid"]) == (socket.gethostname(), os.getpid())


def _beat(study: Study) -> None:
    pid = os.getpid()
    me = {"host": socket.gethostname(), "pid": pid, "started": started(pid), "time": time.time()}
    study.set_user_attr(COORDINATOR, me)

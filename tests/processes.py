"""Processes of this machine: whether one is there, and waiting for what it does."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path


def waited_for(fact: Callable[[], bool], seconds: float = 60.0) -> bool:
    """Whether the fact came true in time."""
    end = time.monotonic() + seconds
    while not fact() and time.monotonic() < end:
        time.sleep(0.05)
    return fact()


def is_there(pid: int) -> bool:
    """Whether a process runs; one that has ended but was not waited for does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


def say_and_wait(folder: str, seconds: float) -> int:
    """A worker's process number, written down before the wait."""
    (Path(folder) / str(os.getpid())).touch()
    time.sleep(seconds)
    return os.getpid()

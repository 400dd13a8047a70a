"""One thread that computes for everybody, behind all threads that answer a person.

A pass keeps a core busy for as long as it takes. On a machine with few cores the page's answers,
and a browser on the same machine, would wait for it; so the system is told to prefer them.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

Item = TypeVar("Item")
STEPS_BACK = 5  # of 19: about a third of the weight of another thread that wants the same core


def step_back() -> None:
    """Let the system prefer other threads to this one, for good (on Linux; elsewhere nothing)."""
    if sys.platform == "linux":
        thread = threading.get_native_id()
        now = os.getpriority(os.PRIO_PROCESS, thread)
        os.setpriority(os.PRIO_PROCESS, thread, min(19, now + STEPS_BACK))


class Background:
    """The thread. Whoever takes items waits for each of them; others take theirs in between."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, "compute", initializer=step_back)

    def each(self, items: Iterator[Item]) -> Iterator[Item]:
        """The same items, each made in the thread. What making one raises, is raised here."""
        end: Any = object()
        while (item := self._pool.submit(next, items, end).result()) is not end:
            yield item

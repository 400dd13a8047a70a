"""Runs and sweeps that share a GPU take turns, a step each; on a CPU they share the cores anyway.

Two threads must not launch into one device at a time: one of them may be capturing a CUDA graph.
On a CPU a run's steps are made in a thread that stands back behind everything else.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from app.background import Background

Item = TypeVar("Item")


class DeviceTurns:
    """One device's turnstile. Who may run at all is another thing: `app/turns.py`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting = 0
        self._counting = threading.Lock()  # += of two threads can lose one
        self._background = Background()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """A turn of somebody with a person in front of it: the next one that is given."""
        with self._counting:
            self._waiting += 1
        self._lock.acquire()
        with self._counting:
            self._waiting -= 1
        try:
            yield
        finally:
            self._lock.release()

    def each(self, engine: Any, steps: Iterator[Item]) -> Iterator[Item]:
        """The same items, each made in a turn of its own; on a CPU, in the background."""
        if engine.info.device == "cpu":
            yield from self._background.each(steps)
            return
        while True:
            with self.turn():
                try:
                    item = next(steps)
                except StopIteration:
                    return
            yield item

    @contextmanager
    def held(self, engine: Any) -> Iterator[None]:
        """All turns but those that `give_way` gives to others."""
        if engine.info.device == "cpu":
            yield
            return
        with self._lock:
            yield

    def give_way(self) -> None:
        """Inside `held`: let those who wait have a turn."""
        while self._waiting and self._lock.locked():
            self._lock.release()
            time.sleep(0.001)  # a lock goes to whoever asks first, and that is not us
            self._lock.acquire()

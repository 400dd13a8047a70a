"""Rehearsal: while the device computes, the host goes once more through what it will do next.

A pass of an 8B model takes 5 ms. A host that only waits for so long finds its code and data gone
from the processor's caches, and what stands between two passes then takes two to four times as
long (benchmarks/log.md). So shortly before answers are due the last step is done again with the
last answers, and everything that comes of it is thrown away.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from flash_dllm.packing import PassBuffer
from flash_dllm.pass_sizes import PassSizes
from flash_dllm.query import Query
from flash_dllm.sampling import rank_mass, read_choice

LEAST_SECONDS = 4e-3  # a shorter pass leaves no time for it, and caches as they are
LEAD_SECONDS = 3e-3  # so long before the end it begins: the first time through is slow
TIMES = 2  # not more, as what `act` asks of the device comes between two passes
SPARE_SECONDS = 2e-4  # and so long before the end it is over
NAP_SECONDS = 1e-3  # a pass may end sooner than the last one did

Asked = Sequence[tuple[int, Query]]


class Rehearsal:
    """What a session does again: reading answers and packing questions.

    buffer  on the host, to pack into; nobody reads it
    """

    def __init__(self, buffer: PassBuffer) -> None:
        self._buffer = buffer
        self._seconds: dict[PassSizes, float] = {}
        # of the last two passes, as a draft is followed by a verify pass
        self._asked: deque[tuple[Asked, PassSizes]] = deque(maxlen=2)
        self._read: tuple[np.ndarray, tuple[Any, ...], Asked] | None = None

    def asked(self, queries: Asked, sizes: PassSizes) -> None:
        """A pass was packed."""
        self._asked.append((queries, sizes))

    def answered(
        self, queries: Asked, sizes: PassSizes, flat: np.ndarray, shapes: tuple[Any, ...],
        seconds: float,
    ) -> None:  # fmt: skip
        """A pass came back; `flat` and `shapes` as `read_choice` takes them."""
        # the shortest: the first ones compile and capture
        self._seconds[sizes] = min(seconds, self._seconds.get(sizes, seconds))
        if sizes.mass:
            self._read = flat.copy(), shapes, queries

    def run(
        self,
        sizes: PassSizes,
        begin: float,
        table: Tensor,
        act: Callable[[], object],
        is_over: Callable[[], bool],
    ) -> None:
        """`act` and the session's own part, twice, the last time shortly before the end of the
        pass that began at `begin` (`time.perf_counter`); nothing if that is too soon or unknown.
        """
        expected = self._seconds.get(sizes, 0.0)
        if expected < LEAST_SECONDS or not self._asked:
            return
        end = begin + expected
        start = end - LEAD_SECONDS
        for _ in range(TIMES):
            while (left := start - time.perf_counter()) > 0 and not is_over():
                time.sleep(min(left, NAP_SECONDS))
            if is_over() or (begun := time.perf_counter()) > end - SPARE_SECONDS:
                return
            if self._read is not None:
                flat, shapes, queries = self._read
                mass = read_choice(flat, *shapes).mass
                rank_mass(mass, [query for _, query in queries])
            act()
            # the next pass is most likely one like the one before this
            asked, padded = self._asked[0]
            self._buffer.fill(asked, table, padded)
            # again at the last moment; on warm caches it takes half of the time, or less
            start = end - SPARE_SECONDS - (time.perf_counter() - begun) / 2

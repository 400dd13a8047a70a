"""CUDA graphs of passes: one launch in place of hundreds.

A graph is kept for each key (the sizes of a padded pass and what it delivers); the phase, the
tokens and the sequences are data in a buffer that the graph reads. A key that comes for the first
time runs as it is, which also compiles kernels and chooses between them; from the second time on
it is a graph. On a device without CUDA graphs the padded passes simply run.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Hashable
from functools import cache
from typing import Any

import torch
from torch import Tensor

log = logging.getLogger(__name__)
LONG_SECONDS = 0.5


@cache
def capture_stream(device: torch.device) -> torch.cuda.Stream:
    """The stream that all graphs of a device are captured on: cuBLAS keeps 32 MB for each one."""
    return torch.cuda.Stream(device)


class PassGraphs:
    """The graphs of one workspace. They share their memory, so they must not run side by side.

    replays, captures count what happened, for the record.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pool: Any = None
        self._seen: set[Hashable] = set()
        self._graphs: dict[Hashable, tuple[torch.cuda.CUDAGraph, Tensor]] = {}
        self.replays = 0

    @property
    def captures(self) -> int:
        return len(self._graphs)

    def run(self, key: Hashable, launch: Callable[[], Tensor]) -> Tensor:
        """The result of `launch`, which must read and write the same memory for the same key and
        must not wait for the device. The next run may write over what it returns."""
        if self._device.type != "cuda":
            return launch()
        if key not in self._seen:
            result = launch()
            self._seen.add(key)
            return result
        if key not in self._graphs:
            self._graphs[key] = self._capture(key, launch)
        graph, result = self._graphs[key]
        graph.replay()
        self.replays += 1
        return result

    def _capture(
        self, key: Hashable, launch: Callable[[], Tensor]
    ) -> tuple[torch.cuda.CUDAGraph, Tensor]:
        begin = time.perf_counter()
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
        stream = capture_stream(self._device)
        graph = torch.cuda.CUDAGraph()
        # not `torch.cuda.graph`, which collects garbage and empties the allocator every time
        stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(stream):
            # other threads may go on using the GPU
            graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
            try:
                result = launch()
            except BaseException:
                # the stream must leave capture mode; what it says then is only a consequence
                with contextlib.suppress(RuntimeError):
                    graph.capture_end()
                raise
            graph.capture_end()
        torch.cuda.current_stream(self._device).wait_stream(stream)
        seconds = time.perf_counter() - begin
        level = logging.INFO if seconds >= LONG_SECONDS else logging.DEBUG
        log.log(level, "CUDA graph %d captured in %.2f s: %s", len(self._graphs) + 1, seconds, key)
        return graph, result

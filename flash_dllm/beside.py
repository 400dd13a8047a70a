"""Beside: work of a pass that nothing in the pass waits for, on a stream of its own.

With few rows a pass leaves multiprocessors idle between and beside its products. Attention mass is
read by nobody before the last layer, so it runs there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

# with more rows the products fill the GPU, and what is kept for the side stream grows
FEW_ROWS = 256


class Beside:
    """A side stream of one device. Off a GPU, or for many rows, work runs in its place."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream: torch.cuda.Stream | None = None
        self._kept: list[torch.Tensor] = []

    @contextmanager
    def after(self, *read: torch.Tensor, rows: int) -> Iterator[None]:
        """Run what follows beside the pass, once everything launched so far is done.

        read  tensors of the pass that it reads: kept from being written over until `join`
        """
        if self._device.type != "cuda" or rows > FEW_ROWS:
            yield
            return
        if self._stream is None:
            self._stream = torch.cuda.Stream(self._device)
        self._kept += read
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._stream):
            yield

    def join(self) -> None:
        """From here on the pass waits for it."""
        if self._kept and self._stream is not None:
            torch.cuda.current_stream(self._device).wait_stream(self._stream)
        self._kept = []

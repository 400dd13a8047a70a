"""The one transfer of a pass: the memory that its numbers come to, and when it began and ended."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


class Transfer:
    """Of one pass at a time. Passes that are on their way together have one each, because the
    numbers of the first must stay until they are read, whatever comes after it.

    On CUDA the memory is pinned and two events mark the pass; elsewhere nothing is copied ahead.
    """

    def __init__(self, device: torch.device) -> None:
        self._host: Tensor | None = None
        self._flat: Tensor | None = None
        self._events: tuple[torch.cuda.Event, torch.cuda.Event] | None = None
        if device.type == "cuda":
            make = torch.cuda.Event
            self._events = make(enable_timing=True), make(enable_timing=True)

    def depart(self) -> None:
        """The pass begins here: by the device's clock, so behind everything launched before."""
        if self._events is not None:
            self._events[0].record()

    def start(self, flat: Tensor) -> None:
        """Begin to bring the pass's result [N] to the host; the device's copy may be written over
        by whatever is launched from now on."""
        self._flat = flat
        if self._events is None:
            return
        if self._host is None or len(self._host) < len(flat) or self._host.dtype != flat.dtype:
            self._host = torch.empty(2 * len(flat), dtype=flat.dtype, pin_memory=True)
        self._flat = self._host[: len(flat)]
        self._flat.copy_(flat, non_blocking=True)
        self._events[1].record()

    def finish(self) -> tuple[np.ndarray, float]:
        """Wait for it: (the numbers [N], good until the next `start`; the device's seconds, 0 off
        CUDA)."""
        assert self._flat is not None, "only what was started comes"
        flat, self._flat = self._flat, None
        if self._events is None:
            return flat.cpu().numpy(), 0.0
        begin, end = self._events
        end.synchronize()
        return flat.numpy(), begin.elapsed_time(end) / 1e3

    def settle(self) -> None:
        """Wait for a pass whose numbers nobody wants."""
        self._flat = None
        if self._events is not None:
            self._events[1].synchronize()

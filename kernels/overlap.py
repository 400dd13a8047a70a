"""Programmatic dependent launch: a kernel starts while the one before it ends (sm_90 and newer).

Between two kernels of a stream the GPU drains, flushes and launches: about 1 µs, three hundred
times a pass. A kernel launched with `overlap(...)` may be placed on multiprocessors that the one
before has left, or has room beside; it must call `begin` before it reads or writes anything that
another kernel touches. Results are the same to the bit.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from kernels.contract import architecture

# architecture classes on which it was measured to pay (benchmarks/log.md)
CLASSES = {90}


@triton.jit
def begin(OVERLAPS: tl.constexpr):
    """Wait for everything before this kernel, then let the next one come."""
    if OVERLAPS:
        gdc_wait()
        gdc_launch_dependents()


def overlap(tensor: Tensor) -> dict[str, bool]:
    """Arguments of a launch: the constant OVERLAPS, and Triton's own option where it applies."""
    if architecture(tensor.device) in CLASSES:
        return {"OVERLAPS": True, "launch_pdl": True}
    return {"OVERLAPS": False}

"""silu(gate) * up on the stacked product [R, 2F]: one read, one write, fp32 inside."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.contract import check
from kernels.overlap import begin, overlap

BLOCK, WARPS = 1024, 4


@triton.jit
def _swiglu_kernel(
    gate_up_ptr,
    out_ptr,
    stride,
    size,
    BLOCK: tl.constexpr,
    OVERLAPS: tl.constexpr,
):
    begin(OVERLAPS)
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    is_real = column < size
    gate = tl.load(gate_up_ptr + row * stride + column, mask=is_real, other=0.0).to(tl.float32)
    up = tl.load(gate_up_ptr + row * stride + size + column, mask=is_real, other=0.0)
    out = gate * tl.sigmoid(gate) * up.to(tl.float32)
    tl.store(out_ptr + row * size + column, out.to(out_ptr.dtype.element_ty), mask=is_real)


def swiglu(gate_up: Tensor) -> Tensor:
    """silu(left half) * right half; gate_up [R, 2F], returns [R, F] in its dtype."""
    check("swiglu", gate_up=gate_up)
    rows, doubled = gate_up.shape
    size = doubled // 2
    out = torch.empty(rows, size, dtype=gate_up.dtype, device=gate_up.device)
    if rows:
        grid = (rows, triton.cdiv(size, BLOCK))
        _swiglu_kernel[grid](
            gate_up, out, gate_up.stride(0), size, BLOCK=BLOCK, num_warps=WARPS,
            **overlap(gate_up),
        )  # fmt: skip
    return out

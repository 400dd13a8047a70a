"""A row's scale and its numbers in e4m3: one program a row, one read of it.

The quotient is rounded like division is (not by a reciprocal), so that it is the torch truth's to
the bit: a quotient that falls to the other side of a tie would be a twentieth of itself away. For
the same reason it is rounded to e4m3's grid before the conversion, which then has nothing left to
round (Triton's interpreter loses a carry there).
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.contract import check, power_of_two
from kernels.overlap import begin, overlap
from kernels.scaled import FP8, LARGEST, SMALLEST

# a row must fit the registers of one program
MAX_SIZE = 32768


@triton.jit
def on_grid(x):
    """fp32 of at most 448 → the nearest numbers that e4m3 holds, ties to even."""
    # three bits behind the first stay, from 2^-6 on; a carry into the exponent is right
    bits = x.to(tl.int32, bitcast=True)
    bits += 0x7FFFF + ((bits >> 20) & 1)
    normal = (bits & -0x100000).to(tl.float32, bitcast=True)
    # below, the grid is even, 2^-9 wide, like that of fp32 behind 1.5 * 2^14
    small = (x + 24576.0) - 24576.0
    return tl.where(tl.abs(x) < 0.015625, small, normal)


@triton.jit
def _quantize_rows_kernel(
    x_ptr,
    values_ptr,
    scales_ptr,
    stride,
    size,
    LARGEST: tl.constexpr,
    SMALLEST: tl.constexpr,
    BLOCK: tl.constexpr,
    OVERLAPS: tl.constexpr,
):
    begin(OVERLAPS)
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    is_real = column < size
    x = tl.load(x_ptr + row * stride + column, mask=is_real, other=0.0).to(tl.float32)
    largest = tl.maximum(tl.max(tl.abs(x), 0), SMALLEST)
    scale = tl.div_rn(largest, LARGEST)
    values = tl.div_rn(x, tl.zeros_like(x) + scale)
    values = tl.minimum(tl.maximum(values, -LARGEST), LARGEST)
    tl.store(values_ptr + row * size + column, on_grid(values).to(tl.float8e4nv), mask=is_real)
    tl.store(scales_ptr + row, scale)


def quantize_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    """See `scaled.quantize_rows`. x [R, K], at most 32768 wide."""
    check("quantize_rows", x=x)
    rows, size = x.shape
    if size > MAX_SIZE:
        raise ValueError(f"quantize_rows: rows are at most {MAX_SIZE} wide for impl='triton'")
    values = torch.empty(rows, size, dtype=FP8, device=x.device)
    scales = torch.empty(rows, dtype=torch.float32, device=x.device)
    if rows:
        block = power_of_two(size)
        _quantize_rows_kernel[(rows,)](
            x, values, scales, x.stride(0), size, LARGEST=LARGEST, SMALLEST=SMALLEST, BLOCK=block,
            num_warps=min(max(block // 512, 1), 8), **overlap(x),
        )  # fmt: skip
    return values, scales

"""RMSNorm, alone or with the residual addition before it: one program a row, one read of it.

Rounding follows LLaDA: statistics in fp32, cast back, times the weight. With the addition, the sum
is rounded first, as it is what the residual stream carries on. The addend may be the fp32 parts of
a split product, which are added up here in fixed order, so that no kernel runs for that.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.contract import check, check_rows, power_of_two
from kernels.overlap import begin, overlap

# a row must fit the registers of one program
MAX_SIZE = 32768


@triton.jit
def _rms_norm_kernel(
    hidden_ptr,
    branch_ptr,
    rows_ptr,
    weight_ptr,
    total_ptr,
    normed_ptr,
    hidden_stride,
    branch_stride,
    part_stride,
    size,
    eps,
    PARTS: tl.constexpr,
    HAS_ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    OVERLAPS: tl.constexpr,
):
    begin(OVERLAPS)
    out_row = tl.program_id(0).to(tl.int64)
    row = out_row
    if HAS_ROWS:
        row = tl.load(rows_ptr + out_row).to(tl.int64)
    column = tl.arange(0, BLOCK)
    is_real = column < size
    x = tl.load(hidden_ptr + row * hidden_stride + column, mask=is_real, other=0.0)
    x = x.to(tl.float32)  # [BLOCK]
    if PARTS > 0:
        source = branch_ptr + row * branch_stride + column
        branch = tl.load(source, mask=is_real, other=0.0).to(tl.float32)
        for _ in tl.static_range(1, PARTS):
            source += part_stride
            branch += tl.load(source, mask=is_real, other=0.0).to(tl.float32)
        total = (x + branch).to(total_ptr.dtype.element_ty)
        tl.store(total_ptr + out_row * size + column, total, mask=is_real)
        x = total.to(tl.float32)
    scale = tl.rsqrt(tl.sum(x * x, 0) / size + eps)
    weight = tl.load(weight_ptr + column, mask=is_real, other=0.0).to(tl.float32)
    normed = (x * scale).to(normed_ptr.dtype.element_ty).to(tl.float32) * weight
    tl.store(
        normed_ptr + out_row * size + column, normed.to(normed_ptr.dtype.element_ty), mask=is_real
    )


def rms_norm(hidden: Tensor, weight: Tensor, eps: float) -> Tensor:
    """See `reference.rms_norm`. hidden [..., D], its leading dimensions contiguous."""
    return _launch("rms_norm", hidden, None, None, weight, eps)[1]


def add_rms_norm(
    hidden: Tensor,
    branch: Tensor,
    weight: Tensor,
    eps: float,
    rows: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """See `reference.add_rms_norm`. Both results are new tensors."""
    return _launch("add_rms_norm", hidden, branch, rows, weight, eps)


def _launch(
    operation: str,
    hidden: Tensor,
    branch: Tensor | None,
    rows: Tensor | None,
    weight: Tensor,
    eps: float,
) -> tuple[Tensor, Tensor]:
    """(hidden + branch, its norm); the first is empty without a branch."""
    check(operation, hidden=hidden, branch=branch, weight=weight)
    size = hidden.shape[-1]
    if size > MAX_SIZE:
        raise ValueError(f"{operation}: rows are at most {MAX_SIZE} wide for impl='triton'")
    flat = hidden.view(-1, size)
    count = len(flat)
    shape = hidden.shape
    if rows is not None:
        count = len(rows)
        check_rows(operation, count, rows=rows)
        shape = torch.Size((count, size))
    addend = flat if branch is None else branch
    parts = addend if addend.ndim == 3 else addend[None]
    normed = torch.empty(shape, dtype=hidden.dtype, device=hidden.device)
    total = torch.empty(
        shape if branch is not None else (0,), dtype=hidden.dtype, device=hidden.device
    )
    if count:
        block = power_of_two(size)
        warps = min(max(block // 512, 1), 8)
        _rms_norm_kernel[(count,)](
            flat, parts, flat if rows is None else rows, weight, total, normed,
            flat.stride(0), parts.stride(1), parts.stride(0), size, eps,
            PARTS=0 if branch is None else len(parts), HAS_ROWS=rows is not None, BLOCK=block,
            num_warps=warps, **overlap(flat),
        )
    return total, normed

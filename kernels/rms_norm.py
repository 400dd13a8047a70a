"""RMSNorm, alone or with the residual addition before it: one program a row, one read of it.

Rounding follows LLaDA: statistics in fp32, cast back, times the weight. With the addition, the sum
is rounded first, as it is what the residual stream carries on.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.contract import check, power_of_two

# a row must fit the registers of one program
MAX_SIZE = 32768


@triton.jit
def _rms_norm_kernel(
    hidden_ptr,
    branch_ptr,
    weight_ptr,
    total_ptr,
    normed_ptr,
    hidden_stride,
    branch_stride,
    size,
    eps,
    ADDS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    is_real = column < size
    x = tl.load(hidden_ptr + row * hidden_stride + column, mask=is_real, other=0.0)
    x = x.to(tl.float32)  # [BLOCK]
    if ADDS:
        branch = tl.load(branch_ptr + row * branch_stride + column, mask=is_real, other=0.0)
        total = (x + branch.to(tl.float32)).to(total_ptr.dtype.element_ty)
        tl.store(total_ptr + row * size + column, total, mask=is_real)
        x = total.to(tl.float32)
    scale = tl.rsqrt(tl.sum(x * x, 0) / size + eps)
    weight = tl.load(weight_ptr + column, mask=is_real, other=0.0).to(tl.float32)
    normed = (x * scale).to(normed_ptr.dtype.element_ty).to(tl.float32) * weight
    tl.store(
        normed_ptr + row * size + column, normed.to(normed_ptr.dtype.element_ty), mask=is_real
    )


def rms_norm(hidden: Tensor, weight: Tensor, eps: float) -> Tensor:
    """See `reference.rms_norm`. hidden [..., D], its leading dimensions contiguous."""
    return _launch(hidden, None, weight, eps)[1]


def add_rms_norm(
    hidden: Tensor, branch: Tensor, weight: Tensor, eps: float
) -> tuple[Tensor, Tensor]:
    """See `reference.add_rms_norm`. Both results are new tensors."""
    return _launch(hidden, branch, weight, eps)


def _launch(
    hidden: Tensor, branch: Tensor | None, weight: Tensor, eps: float
) -> tuple[Tensor, Tensor]:
    """(hidden + branch, its norm); the first is empty without a branch."""
    operation = "rms_norm" if branch is None else "add_rms_norm"
    check(operation, hidden=hidden, branch=branch, weight=weight)
    size = hidden.shape[-1]
    if size > MAX_SIZE:
        raise ValueError(f"{operation}: rows are at most {MAX_SIZE} wide for impl='triton'")
    flat = hidden.view(-1, size)
    flat_branch = flat if branch is None else branch.view(-1, size)
    normed = torch.empty(hidden.shape, dtype=hidden.dtype, device=hidden.device)
    total = torch.empty_like(normed) if branch is not None else normed.new_empty(0)
    if len(flat):
        block = power_of_two(size)
        _rms_norm_kernel[(len(flat),)](
            flat, flat_branch, weight, total, normed, flat.stride(0), flat_branch.stride(0),
            size, eps, ADDS=branch is not None, BLOCK=block,
            num_warps=min(max(block // 512, 1), 8),
        )
    return total, normed

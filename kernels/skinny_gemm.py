"""hidden [R, K] times weight [N, K] transposed for few rows (R ≤ 256), weights read once.

At batch 1 a pass has 16-192 rows and the weights are the cost, so all rows stand in one block and a
program streams a tile of weights past them. The operands are swapped: weight rows are the M of the
matrix instruction (64 or more of them), the text's rows its N, which need not be a power of two in
hardware. Triton's tiles must be, so N is a main tile and a tail (144 = 128 + 16) that share each
load of the weights; 144 rows as M would cost 192, as one power of two 256.

Few tiles of N leave part of the GPU idle, so K may be split; the parts are fp32, and are added in
fixed order by the norm that reads them (`skinny_parts`), or by a second kernel.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from kernels.contract import check, power_of_two
from kernels.overlap import begin, overlap
from kernels.routes import Tile

MAX_ROWS = 256


@triton.jit
def load_tile(source, row, k, stride, rows, size_k, ROWS: tl.constexpr, BLOCK_K: tl.constexpr,
               USES_TMA: tl.constexpr):  # fmt: skip
    """[ROWS, BLOCK_K] from (row, k) on, zero outside; `source` is a descriptor or a pointer."""
    if USES_TMA:
        return source.load([row, k])
    else:
        index = row + tl.arange(0, ROWS)
        column = k + tl.arange(0, BLOCK_K)
        offset = index.to(tl.int64)[:, None] * stride + column[None, :]
        is_real = (index < rows)[:, None] & (column < size_k)[None, :]
        return tl.load(source + offset, mask=is_real, other=0.0)


@triton.jit
def _store_rows(out_ptr, acc, first_row, n, rows, size_n, ROWS: tl.constexpr,
                BLOCK_N: tl.constexpr):  # fmt: skip
    """acc [BLOCK_N, ROWS], transposed, to out [rows, size_n]."""
    row = first_row + tl.arange(0, ROWS)
    column = n + tl.arange(0, BLOCK_N)
    offset = row.to(tl.int64)[:, None] * size_n + column[None, :]
    is_real = (row < rows)[:, None] & (column < size_n)[None, :]
    tl.store(out_ptr + offset, acc.T.to(out_ptr.dtype.element_ty), mask=is_real)


@triton.jit
def _skinny_kernel(
    weight,
    main,
    tail,
    out_ptr,
    weight_stride,
    hidden_stride,
    rows,
    weight_rows,
    size_n,
    size_k,
    share,
    MAIN: tl.constexpr,
    TAIL: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    STAGES: tl.constexpr,
    USES_TMA: tl.constexpr,
    IS_GATED: tl.constexpr,
    OVERLAPS: tl.constexpr,
):
    n = tl.program_id(0) * BLOCK_N
    split = tl.program_id(1)
    low = split * share
    high = tl.minimum(low + share, size_k)
    begin(OVERLAPS)

    # without a tail its accumulator is never read, and the compiler drops it
    TAIL_ROWS: tl.constexpr = TAIL if TAIL > 0 else 16
    acc = tl.zeros((BLOCK_N, MAIN), tl.float32)
    acc_tail = tl.zeros((BLOCK_N, TAIL_ROWS), tl.float32)
    up = tl.zeros((BLOCK_N, MAIN), tl.float32)
    up_tail = tl.zeros((BLOCK_N, TAIL_ROWS), tl.float32)
    for k in tl.range(low, high, BLOCK_K, num_stages=STAGES):
        w = load_tile(
            weight, n, k, weight_stride, weight_rows, size_k, BLOCK_N, BLOCK_K, USES_TMA
        )
        x = load_tile(main, 0, k, hidden_stride, rows, size_k, MAIN, BLOCK_K, USES_TMA)
        acc = tl.dot(w, x.T, acc, input_precision="ieee")
        if TAIL > 0:
            y = load_tile(tail, MAIN, k, hidden_stride, rows, size_k, TAIL, BLOCK_K, USES_TMA)
            acc_tail = tl.dot(w, y.T, acc_tail, input_precision="ieee")
        if IS_GATED:
            u = load_tile(
                weight, size_n + n, k, weight_stride, weight_rows, size_k, BLOCK_N, BLOCK_K,
                USES_TMA,
            )  # fmt: skip
            up = tl.dot(u, x.T, up, input_precision="ieee")
            if TAIL > 0:
                up_tail = tl.dot(u, y.T, up_tail, input_precision="ieee")

    if IS_GATED:
        acc = acc * tl.sigmoid(acc) * up
        acc_tail = acc_tail * tl.sigmoid(acc_tail) * up_tail
    out_ptr += split.to(tl.int64) * rows * size_n
    _store_rows(out_ptr, acc, 0, n, rows, size_n, MAIN, BLOCK_N)
    if TAIL > 0:
        _store_rows(out_ptr, acc_tail, MAIN, n, rows, size_n, TAIL, BLOCK_N)


@triton.jit
def _add_parts_kernel(parts_ptr, out_ptr, size, SPLITS: tl.constexpr, BLOCK: tl.constexpr,
                      OVERLAPS: tl.constexpr):  # fmt: skip
    begin(OVERLAPS)
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    is_real = at < size
    total = tl.zeros((BLOCK,), tl.float32)
    source = parts_ptr + at
    for _ in tl.static_range(SPLITS):
        total += tl.load(source, mask=is_real, other=0.0)
        source += size
    tl.store(out_ptr + at, total.to(out_ptr.dtype.element_ty), mask=is_real)


def row_tiles(rows: int) -> tuple[int, int]:
    """(main, tail): powers of two from 16 on that hold the rows with least padding; tail 0 = none.

    >>> [row_tiles(rows) for rows in (1, 32, 33, 128, 144, 161, 193)]
    [(16, 0), (32, 0), (32, 16), (128, 0), (128, 16), (128, 64), (256, 0)]
    """
    whole = max(power_of_two(rows), 16)
    main = whole // 2
    tail = max(power_of_two(rows - main), 16)
    return (whole, 0) if main + tail >= whole else (main, tail)


def skinny_gemm(hidden: Tensor, weight: Tensor, tile: Tile, is_gated: bool = False) -> Tensor:
    """`reference.linear`, or with `is_gated` silu of the upper half of the weights times the lower.

    hidden     [R, K]  R ≤ 256; fp16, bf16 or fp32 (without tf32), accumulated in fp32
    weight     [N, K]
    Returns    [R, N] (gated: [R, N/2]) in hidden's dtype
    """
    parts = skinny_parts(hidden, weight, tile, is_gated)
    if tile.splits == 1:
        return parts[0]
    out = torch.empty(parts.shape[1:], dtype=hidden.dtype, device=hidden.device)
    if out.numel():
        block = 1024
        _add_parts_kernel[(triton.cdiv(out.numel(), block),)](
            parts, out, out.numel(), SPLITS=tile.splits, BLOCK=block, num_warps=4,
            **overlap(parts),
        )
    return out


def skinny_parts(hidden: Tensor, weight: Tensor, tile: Tile, is_gated: bool = False) -> Tensor:
    """The product as parts [splits, R, N] whose sum it is: fp32, or hidden's dtype if it is one."""
    check("skinny_gemm", hidden=hidden, weight=weight)
    rows, size_k = hidden.shape
    weight_rows = len(weight)
    if rows > MAX_ROWS:
        raise ValueError(f"skinny_gemm: at most {MAX_ROWS} rows, got {rows}; use a library GEMM")
    if hidden.dtype != weight.dtype or weight.shape[1] != size_k:
        raise ValueError(
            f"skinny_gemm: hidden {tuple(hidden.shape)} {hidden.dtype} does not fit weight "
            f"{tuple(weight.shape)} {weight.dtype}"
        )
    if is_gated and (weight_rows % 2 or tile.splits != 1):
        raise ValueError("skinny_gemm: a gated product needs two equal halves and one split")
    size_n = weight_rows // 2 if is_gated else weight_rows
    dtype = hidden.dtype if tile.splits == 1 else torch.float32
    parts = torch.empty(tile.splits, rows, size_n, dtype=dtype, device=hidden.device)
    if parts.numel() == 0:
        return parts
    main, tail = row_tiles(rows)
    weight_source, main_source, tail_source = weight, hidden, hidden
    if tile.uses_tma:
        weight_source = descriptor("weight", weight, tile.block_n, tile.block_k)
        main_source = descriptor("hidden", hidden, main, tile.block_k)
        tail_source = descriptor("hidden", hidden, tail or main, tile.block_k)
    _skinny_kernel[(triton.cdiv(size_n, tile.block_n), tile.splits)](
        weight_source, main_source, tail_source, parts,
        weight.stride(0), hidden.stride(0), rows, weight_rows, size_n, size_k,
        tile.share(size_k),
        MAIN=main, TAIL=tail, BLOCK_N=tile.block_n, BLOCK_K=tile.block_k,
        STAGES=tile.stages, USES_TMA=tile.uses_tma, IS_GATED=is_gated,
        num_warps=tile.warps, **overlap(parts),
    )
    return parts


def descriptor(name: str, matrix: Tensor, rows: int, columns: int) -> TensorDescriptor:
    if matrix.stride(0) * matrix.element_size() % 16:
        raise ValueError(
            f"rows of {name} must start at multiples of 16 bytes for a tile with "
            f"uses_tma, got stride {matrix.stride(0)} of {matrix.dtype}"
        )
    return TensorDescriptor(matrix, list(matrix.shape), list(matrix.stride()), [rows, columns])

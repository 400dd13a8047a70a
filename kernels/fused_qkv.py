"""The paper's single kernel (Alg. 1): QKV projection, rotary embedding and cache write in one.

A program holds one head of one block of rows, so both halves of the head that the rotation pairs
are in its accumulator, and the head norm sees the whole head. The products never go through memory.
Grouped heads, bias and head norms are optional. Head sizes are powers of two from 16 on. Few rows
stand in one block with swapped operands, as in `skinny_gemm`, so that weights are read once.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.contract import INTERPRETER, architecture, check, check_rows
from kernels.overlap import begin, overlap
from kernels.reference import HeadNorms
from kernels.rope_cache import check_cache
from kernels.routes import FUSED_QKV, qkv_route
from kernels.skinny_gemm import MAX_ROWS, descriptor, load_tile, row_tiles


class Tile(NamedTuple):
    """One configuration: `block_m` rows by one head; 0 rows: all of them, operands swapped."""

    block_m: int
    block_k: int
    stages: int
    warps: int
    uses_tma: bool = False


# (few rows, many rows) by architecture class: shared memory is 64 KB on 75, 99 KB on 86 and 89;
# the interpreter's tiles are small, so that its short inputs have borders inside
TILES = {
    90: (Tile(0, 64, 5, 8, True), Tile(128, 64, 3, 8, True)),
    89: (Tile(0, 32, 3, 8), Tile(128, 32, 3, 8)),
    86: (Tile(0, 32, 3, 8), Tile(128, 32, 3, 8)),
    80: (Tile(0, 32, 4, 8), Tile(128, 32, 4, 8)),
    75: (Tile(64, 32, 2, 4), Tile(64, 32, 2, 4)),
    INTERPRETER: (Tile(0, 32, 2, 4), Tile(32, 32, 2, 4, True)),
}
FEW_ROWS = 192


@triton.jit
def _finish_head(
    acc,
    first_row,
    head,
    rows,
    bias_ptr,
    q_norm_ptr,
    k_norm_ptr,
    eps,
    cos_ptr,
    sin_ptr,
    positions_ptr,
    slots_ptr,
    q_ptr,
    key_ptr,
    value_ptr,
    key_stride,
    value_stride,
    N_HEADS: tl.constexpr,
    N_KV_HEADS: tl.constexpr,
    SIZE: tl.constexpr,
    ROWS: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    HAS_NORMS: tl.constexpr,
):
    """Bias, norm and rotation of acc [ROWS, SIZE], then to q or to the rows' slots."""
    HALF: tl.constexpr = SIZE // 2
    row = first_row + tl.arange(0, ROWS)
    is_row = row < rows
    if HAS_BIAS:
        acc += tl.load(bias_ptr + head * SIZE + tl.arange(0, SIZE)).to(tl.float32)[None, :]

    # columns i and i + HALF side by side: [ROWS, SIZE] → twice [ROWS, HALF]
    left, right = tl.split(tl.permute(tl.reshape(acc, (ROWS, 2, HALF)), (0, 2, 1)))
    half = tl.arange(0, HALF)
    dtype = q_ptr.dtype.element_ty
    is_q = head < N_HEADS
    is_v = head >= N_HEADS + N_KV_HEADS
    if not is_v:
        if HAS_NORMS:
            square = tl.sum(left * left + right * right, 1) / SIZE
            scale = tl.rsqrt(square + eps)[:, None]
            norm_ptr = q_norm_ptr if is_q else k_norm_ptr
            left_weight = tl.load(norm_ptr + half).to(tl.float32)[None, :]
            right_weight = tl.load(norm_ptr + HALF + half).to(tl.float32)[None, :]
            left = (left * scale).to(dtype).to(tl.float32) * left_weight
            right = (right * scale).to(dtype).to(tl.float32) * right_weight
        position = tl.load(positions_ptr + row, mask=is_row, other=0).to(tl.int64)
        angle = position[:, None] * HALF + half[None, :]  # [ROWS, HALF]
        cos = tl.load(cos_ptr + angle, mask=is_row[:, None], other=0.0).to(tl.float32)
        sin = tl.load(sin_ptr + angle, mask=is_row[:, None], other=0.0).to(tl.float32)
        turned = left * cos - right * sin
        right = right * cos + left * sin
        left = turned

    left = left.to(dtype)
    right = right.to(dtype)
    if is_q:
        target = q_ptr + (row.to(tl.int64) * N_HEADS + head)[:, None] * SIZE + half[None, :]
        tl.store(target, left, mask=is_row[:, None])
        tl.store(target + HALF, right, mask=is_row[:, None])
    else:
        slot = tl.load(slots_ptr + row, mask=is_row, other=-1).to(tl.int64)
        is_kept = (slot >= 0)[:, None]
        if is_v:
            own = (head - N_HEADS - N_KV_HEADS) * SIZE + half
            target = value_ptr + slot[:, None] * value_stride + own[None, :]
        else:
            own = (head - N_HEADS) * SIZE + half
            target = key_ptr + slot[:, None] * key_stride + own[None, :]
        tl.store(target, left, mask=is_kept)
        tl.store(target + HALF, right, mask=is_kept)


@triton.jit
def _fused_qkv_kernel(
    weight,
    main,
    tail,
    bias_ptr,
    q_norm_ptr,
    k_norm_ptr,
    eps,
    cos_ptr,
    sin_ptr,
    positions_ptr,
    slots_ptr,
    q_ptr,
    key_ptr,
    value_ptr,
    weight_stride,
    hidden_stride,
    key_stride,
    value_stride,
    rows,
    weight_rows,
    size_k,
    N_HEADS: tl.constexpr,
    N_KV_HEADS: tl.constexpr,
    SIZE: tl.constexpr,
    MAIN: tl.constexpr,
    TAIL: tl.constexpr,
    BLOCK_K: tl.constexpr,
    STAGES: tl.constexpr,
    USES_TMA: tl.constexpr,
    IS_SWAPPED: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    HAS_NORMS: tl.constexpr,
    OVERLAPS: tl.constexpr,
):
    # row blocks of one head are neighbours, so its weights are read from memory once
    first_row = tl.program_id(0) * MAIN
    head = tl.program_id(1)
    n = head * SIZE
    begin(OVERLAPS)
    TAIL_ROWS: tl.constexpr = TAIL if TAIL > 0 else 16
    acc = tl.zeros((SIZE, MAIN) if IS_SWAPPED else (MAIN, SIZE), tl.float32)
    acc_tail = tl.zeros((SIZE, TAIL_ROWS), tl.float32)
    for k in tl.range(0, size_k, BLOCK_K, num_stages=STAGES):
        w = load_tile(weight, n, k, weight_stride, weight_rows, size_k, SIZE, BLOCK_K, USES_TMA)
        x = load_tile(main, first_row, k, hidden_stride, rows, size_k, MAIN, BLOCK_K, USES_TMA)
        if IS_SWAPPED:
            acc = tl.dot(w, x.T, acc, input_precision="ieee")
        else:
            acc = tl.dot(x, w.T, acc, input_precision="ieee")
        if TAIL > 0:
            y = load_tile(tail, MAIN, k, hidden_stride, rows, size_k, TAIL, BLOCK_K, USES_TMA)
            acc_tail = tl.dot(w, y.T, acc_tail, input_precision="ieee")
    _finish_head(
        acc.T if IS_SWAPPED else acc, first_row, head, rows, bias_ptr, q_norm_ptr, k_norm_ptr,
        eps, cos_ptr, sin_ptr, positions_ptr, slots_ptr, q_ptr, key_ptr, value_ptr, key_stride,
        value_stride, N_HEADS, N_KV_HEADS, SIZE, MAIN, HAS_BIAS, HAS_NORMS,
    )  # fmt: skip
    if TAIL > 0:
        _finish_head(
            acc_tail.T, MAIN, head, rows, bias_ptr, q_norm_ptr, k_norm_ptr,
            eps, cos_ptr, sin_ptr, positions_ptr, slots_ptr, q_ptr, key_ptr, value_ptr, key_stride,
            value_stride, N_HEADS, N_KV_HEADS, SIZE, TAIL, HAS_BIAS, HAS_NORMS,
        )  # fmt: skip


def fused_qkv(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    head_norms: HeadNorms | None,
    cos: Tensor,
    sin: Tensor,
    positions: Tensor,
    slots: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    n_heads: int,
    tile: Tile | None = None,
) -> Tensor:
    """See `reference.project_and_cache`; `tile` overrides the table's configuration."""
    rows, size_k = hidden.shape
    n_kv_heads, head_dim = key_cache.shape[1:]
    qkv_route(rows, head_dim, hidden.device, FUSED_QKV)
    check_cache("fused_qkv", key_cache, value_cache, cos, sin)
    q_norm = k_norm = None
    if head_norms is not None:
        q_norm, k_norm = head_norms.q, head_norms.k
    check(
        "fused_qkv", hidden=hidden, weight=weight, bias=bias, q_norm=q_norm, k_norm=k_norm
    )
    check_rows("fused_qkv", rows, positions=positions, slots=slots)
    q = torch.empty(rows, n_heads, head_dim, dtype=hidden.dtype, device=hidden.device)
    if rows == 0:
        return q
    tile = tile or TILES[architecture(hidden.device)][rows > FEW_ROWS]
    is_swapped = tile.block_m == 0
    if is_swapped and rows > MAX_ROWS:
        raise ValueError(f"fused_qkv: a tile of all rows takes at most {MAX_ROWS}, got {rows}")
    main, tail = row_tiles(rows) if is_swapped else (tile.block_m, 0)
    # the table counts in 16-bit numbers; fp32 takes half as many columns in the same memory
    block_k = tile.block_k * 2 // hidden.element_size()
    uses_tma = tile.uses_tma and all(
        x.stride(0) * x.element_size() % 16 == 0 for x in (hidden, weight)
    )
    weight_source, main_source, tail_source = weight, hidden, hidden
    if uses_tma:
        weight_source = descriptor("weight", weight, head_dim, block_k)
        main_source = descriptor("hidden", hidden, main, block_k)
        tail_source = descriptor("hidden", hidden, tail or main, block_k)
    # pointers that a variant never reads are any valid pointer
    _fused_qkv_kernel[(triton.cdiv(rows, main + tail), n_heads + 2 * n_kv_heads)](
        weight_source, main_source, tail_source, q if bias is None else bias,
        q if q_norm is None else q_norm, q if k_norm is None else k_norm,
        0.0 if head_norms is None else head_norms.eps,
        cos, sin, positions, slots, q, key_cache, value_cache,
        weight.stride(0), hidden.stride(0), key_cache.stride(0), value_cache.stride(0),
        rows, len(weight), size_k,
        N_HEADS=n_heads, N_KV_HEADS=n_kv_heads, SIZE=head_dim, MAIN=main, TAIL=tail,
        BLOCK_K=block_k, STAGES=tile.stages, USES_TMA=uses_tma, IS_SWAPPED=is_swapped,
        HAS_BIAS=bias is not None, HAS_NORMS=head_norms is not None, num_warps=tile.warps,
        **overlap(q),
    )
    return q

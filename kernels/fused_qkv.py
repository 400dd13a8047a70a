"""The paper's single kernel (Alg. 1): QKV projection, rotary embedding and cache write in one.

A program holds one head of one block of rows, so both halves of the head that the rotation pairs
are in its accumulator, and the head norm sees the whole head. The products never go through memory.
Grouped heads, bias and head norms are optional. Head sizes are powers of two from 16 on.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from kernels.contract import INTERPRETER, architecture, check, check_rows
from kernels.reference import HeadNorms
from kernels.rope_cache import check_cache
from kernels.routes import FUSED_QKV, qkv_route


class Tile(NamedTuple):
    """One configuration; a tile is `block_m` rows by one head."""

    block_m: int
    block_k: int
    stages: int
    warps: int
    uses_tma: bool = False


# (few rows, many rows) by architecture class: shared memory is 64 KB on 75, 99 KB on 86 and 89;
# the interpreter's tiles are small, so that its short inputs have borders inside
TILES = {
    90: (Tile(64, 64, 5, 4, True), Tile(128, 64, 4, 8, True)),
    89: (Tile(64, 32, 3, 4), Tile(128, 32, 3, 8)),
    86: (Tile(64, 32, 3, 4), Tile(128, 32, 3, 8)),
    80: (Tile(64, 64, 4, 4), Tile(128, 32, 4, 8)),
    75: (Tile(64, 32, 2, 4), Tile(64, 32, 2, 4)),
    INTERPRETER: (Tile(16, 32, 2, 4), Tile(32, 32, 2, 4, True)),
}
FEW_ROWS = 64


@triton.jit
def _fused_qkv_kernel(
    hidden,
    weight,
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
    hidden_stride,
    weight_stride,
    key_stride,
    value_stride,
    rows,
    size_k,
    N_HEADS: tl.constexpr,
    N_KV_HEADS: tl.constexpr,
    SIZE: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_K: tl.constexpr,
    STAGES: tl.constexpr,
    USES_TMA: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    HAS_NORMS: tl.constexpr,
):
    HALF: tl.constexpr = SIZE // 2
    # row blocks of one head are neighbours, so its weights are read from memory once
    first_row = tl.program_id(0) * BLOCK_M
    head = tl.program_id(1)
    row = first_row + tl.arange(0, BLOCK_M)
    is_row = row < rows
    wide_row = row.to(tl.int64)
    column = head * SIZE + tl.arange(0, SIZE)

    acc = tl.zeros((BLOCK_M, SIZE), tl.float32)
    for k in tl.range(0, size_k, BLOCK_K, num_stages=STAGES):
        if USES_TMA:
            x = hidden.load([first_row, k])
            w = weight.load([head * SIZE, k])
        else:
            inner = k + tl.arange(0, BLOCK_K)
            is_inner = (inner < size_k)[None, :]
            x = tl.load(
                hidden + wide_row[:, None] * hidden_stride + inner[None, :],
                mask=is_row[:, None] & is_inner, other=0.0,
            )  # fmt: skip
            w = tl.load(
                weight + column.to(tl.int64)[:, None] * weight_stride + inner[None, :],
                mask=is_inner, other=0.0,
            )  # fmt: skip
        acc = tl.dot(x, w.T, acc, input_precision="ieee")
    if HAS_BIAS:
        acc += tl.load(bias_ptr + column).to(tl.float32)[None, :]

    # columns i and i + HALF side by side: [BLOCK_M, SIZE] → twice [BLOCK_M, HALF]
    left, right = tl.split(tl.permute(tl.reshape(acc, (BLOCK_M, 2, HALF)), (0, 2, 1)))
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
        angle = position[:, None] * HALF + half[None, :]  # [BLOCK_M, HALF]
        cos = tl.load(cos_ptr + angle, mask=is_row[:, None], other=0.0).to(tl.float32)
        sin = tl.load(sin_ptr + angle, mask=is_row[:, None], other=0.0).to(tl.float32)
        turned = left * cos - right * sin
        right = right * cos + left * sin
        left = turned

    left = left.to(dtype)
    right = right.to(dtype)
    if is_q:
        target = q_ptr + (wide_row * N_HEADS + head)[:, None] * SIZE + half[None, :]
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
    # the table counts in 16-bit numbers; fp32 takes half as many columns in the same memory
    block_k = tile.block_k * 2 // hidden.element_size()
    uses_tma = tile.uses_tma and all(
        x.stride(0) * x.element_size() % 16 == 0 for x in (hidden, weight)
    )
    hidden_source, weight_source = hidden, weight
    if uses_tma:
        hidden_source = _descriptor(hidden, tile.block_m, block_k)
        weight_source = _descriptor(weight, head_dim, block_k)
    # pointers that a variant never reads are any valid pointer
    _fused_qkv_kernel[(triton.cdiv(rows, tile.block_m), n_heads + 2 * n_kv_heads)](
        hidden_source, weight_source, q if bias is None else bias, q if q_norm is None else q_norm,
        q if k_norm is None else k_norm, 0.0 if head_norms is None else head_norms.eps,
        cos, sin, positions, slots, q, key_cache, value_cache,
        hidden.stride(0), weight.stride(0), key_cache.stride(0), value_cache.stride(0),
        rows, size_k,
        N_HEADS=n_heads, N_KV_HEADS=n_kv_heads, SIZE=head_dim, BLOCK_M=tile.block_m,
        BLOCK_K=block_k, STAGES=tile.stages, USES_TMA=uses_tma, HAS_BIAS=bias is not None,
        HAS_NORMS=head_norms is not None, num_warps=tile.warps,
    )
    return q


def _descriptor(matrix: Tensor, rows: int, columns: int) -> TensorDescriptor:
    return TensorDescriptor(matrix, list(matrix.shape), list(matrix.stride()), [rows, columns])

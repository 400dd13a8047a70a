"""Everything between the QKV product and attention in one kernel: one read, one write.

Optional bias, optional RMS norm of each query and key head, rotary embedding by position, K and V
to their cache slots, q out. The cosine and sine tables are read by position inside, so no gather
runs before it.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.contract import check, check_rows, power_of_two
from kernels.overlap import begin, overlap
from kernels.reference import HeadNorms

# elements of one program: enough to hide latency, small enough to fill the GPU at 32 rows
ELEMENTS, WARPS = 2048, 4


@triton.jit
def _rope_cache_kernel(
    qkv_ptr,
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
    qkv_stride,
    key_stride,
    value_stride,
    N_HEADS: tl.constexpr,
    N_KV_HEADS: tl.constexpr,
    HALF: tl.constexpr,
    BLOCK_HALF: tl.constexpr,
    BLOCK_HEADS: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    HAS_NORMS: tl.constexpr,
    OVERLAPS: tl.constexpr,
):
    begin(OVERLAPS)
    # blocks of heads: those of q, then of k, then of v
    Q_BLOCKS: tl.constexpr = (N_HEADS + BLOCK_HEADS - 1) // BLOCK_HEADS
    KV_BLOCKS: tl.constexpr = (N_KV_HEADS + BLOCK_HEADS - 1) // BLOCK_HEADS
    row = tl.program_id(0).to(tl.int64)
    block = tl.program_id(1)
    is_q = block < Q_BLOCKS
    is_v = block >= Q_BLOCKS + KV_BLOCKS
    own_block = tl.where(is_q, block, tl.where(is_v, block - KV_BLOCKS, block) - Q_BLOCKS)
    heads = tl.where(is_q, N_HEADS, N_KV_HEADS)
    before = tl.where(is_q, 0, tl.where(is_v, N_HEADS + N_KV_HEADS, N_HEADS))
    slot = tl.load(slots_ptr + row).to(tl.int64)

    head = own_block * BLOCK_HEADS + tl.arange(0, BLOCK_HEADS)
    half = tl.arange(0, BLOCK_HALF)
    is_real = (head < heads)[:, None] & (half < HALF)[None, :]
    # a dropped row still gives its q
    is_kept = is_real & (is_q | (slot >= 0))
    offset = head[:, None] * (2 * HALF) + half[None, :]  # [BLOCK_HEADS, BLOCK_HALF]

    source = qkv_ptr + row * qkv_stride + before * (2 * HALF) + offset
    left = tl.load(source, mask=is_real, other=0.0).to(tl.float32)
    right = tl.load(source + HALF, mask=is_real, other=0.0).to(tl.float32)
    if HAS_BIAS:
        bias = bias_ptr + before * (2 * HALF) + offset
        left += tl.load(bias, mask=is_real, other=0.0).to(tl.float32)
        right += tl.load(bias + HALF, mask=is_real, other=0.0).to(tl.float32)
    if not is_v:
        if HAS_NORMS:
            square = tl.sum(left * left + right * right, 1) / (2 * HALF)
            scale = tl.rsqrt(square + eps)[:, None]
            left = (left * scale).to(q_ptr.dtype.element_ty).to(tl.float32)
            right = (right * scale).to(q_ptr.dtype.element_ty).to(tl.float32)
            if is_q:
                left *= tl.load(q_norm_ptr + half, mask=half < HALF).to(tl.float32)[None, :]
                right *= tl.load(q_norm_ptr + HALF + half, mask=half < HALF).to(tl.float32)[None, :]
            else:
                left *= tl.load(k_norm_ptr + half, mask=half < HALF).to(tl.float32)[None, :]
                right *= tl.load(k_norm_ptr + HALF + half, mask=half < HALF).to(tl.float32)[None, :]
        position = tl.load(positions_ptr + row).to(tl.int64)
        angle = position * HALF + half
        cos = tl.load(cos_ptr + angle, mask=half < HALF, other=0.0).to(tl.float32)[None, :]
        sin = tl.load(sin_ptr + angle, mask=half < HALF, other=0.0).to(tl.float32)[None, :]
        turned_left = left * cos - right * sin
        right = right * cos + left * sin
        left = turned_left

    left = left.to(q_ptr.dtype.element_ty)
    right = right.to(q_ptr.dtype.element_ty)
    if is_q:
        target = q_ptr + row * (N_HEADS * 2 * HALF) + offset
        tl.store(target, left, mask=is_kept)
        tl.store(target + HALF, right, mask=is_kept)
    elif is_v:
        target = value_ptr + slot * value_stride + offset
        tl.store(target, left, mask=is_kept)
        tl.store(target + HALF, right, mask=is_kept)
    else:
        target = key_ptr + slot * key_stride + offset
        tl.store(target, left, mask=is_kept)
        tl.store(target + HALF, right, mask=is_kept)


def rope_cache(
    qkv: Tensor,
    bias: Tensor | None,
    head_norms: HeadNorms | None,
    cos: Tensor,
    sin: Tensor,
    positions: Tensor,
    slots: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    n_heads: int,
) -> Tensor:
    """The second half of `reference.project_and_cache`: qkv [R, (H + 2G)·E] → q [R, H, E].

    Writes `key_cache` and `value_cache` in place; slot -1 writes nothing.
    """
    rows = len(qkv)
    n_kv_heads, head_dim = key_cache.shape[1:]
    check_cache("rope_cache", key_cache, value_cache, cos, sin)
    q_norm = k_norm = None
    if head_norms is not None:
        q_norm, k_norm = head_norms.q, head_norms.k
    check("rope_cache", qkv=qkv, bias=bias, q_norm=q_norm, k_norm=k_norm)
    check_rows("rope_cache", rows, positions=positions, slots=slots)
    q = torch.empty(rows, n_heads, head_dim, dtype=qkv.dtype, device=qkv.device)
    if rows == 0:
        return q
    block_half = power_of_two(head_dim // 2)
    block_heads = min(max(ELEMENTS // (2 * block_half), 1), power_of_two(n_heads))
    grid = (rows, triton.cdiv(n_heads, block_heads) + 2 * triton.cdiv(n_kv_heads, block_heads))
    # pointers that a variant never reads are any valid pointer
    _rope_cache_kernel[grid](
        qkv, qkv if bias is None else bias, qkv if q_norm is None else q_norm,
        qkv if k_norm is None else k_norm, 0.0 if head_norms is None else head_norms.eps,
        cos, sin, positions, slots, q, key_cache, value_cache,
        qkv.stride(0), key_cache.stride(0), value_cache.stride(0),
        N_HEADS=n_heads, N_KV_HEADS=n_kv_heads, HALF=head_dim // 2, BLOCK_HALF=block_half,
        BLOCK_HEADS=block_heads, HAS_BIAS=bias is not None, HAS_NORMS=head_norms is not None,
        num_warps=WARPS, **overlap(qkv),
    )
    return q


def check_cache(
    operation: str, key_cache: Tensor, value_cache: Tensor, cos: Tensor, sin: Tensor
) -> None:
    """Caches [slots, G, E] whose slots are whole, tables [positions, E/2] in one piece."""
    check(operation, key_cache=key_cache, value_cache=value_cache, cos=cos, sin=sin)
    head_dim = key_cache.shape[2]
    for name, cache in (("key_cache", key_cache), ("value_cache", value_cache)):
        if cache.stride(1) != head_dim and cache.shape[1] > 1:
            raise ValueError(f"{operation}: the heads of a slot of {name} must be contiguous")
    for name, table in (("cos", cos), ("sin", sin)):
        if not table.is_contiguous() or table.shape[1] * 2 != head_dim:
            raise ValueError(
                f"{operation}: {name} must be contiguous [positions, {head_dim // 2}], got "
                f"{tuple(table.shape)}"
            )

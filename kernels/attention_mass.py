"""Triton: attention probability per key from the saved log-sum-exp (truth: `reference.py`).

One program takes one tile of keys, one key/value head and one sequence, and walks over the wanted
rows of the query heads that read this key/value head. No values, no outputs, no second softmax.

Each program alone adds to its own entries of `total`, layer after layer, in one fixed order:
atomic additions would make ties between tracked tokens a matter of chance. The sum over heads
comes once, after the last layer.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.configs_attention import Tile, mass_tile
from kernels.overlap import begin, overlap
from kernels.schedule import PAGE, Schedule
from kernels.scheduled_attention import LOG2_E, check_layout, gpu


@triton.jit(
    do_not_specialize=["n_heads", "n_kv_heads", "n_wanted", "n_pages", "n_keys"],
    do_not_specialize_on_alignment=["mass_rows", "mass_weight", "page_table", "key_count"],
)
def mass_kernel(
    q_ptr, lse_ptr, k_ptr, total_ptr,
    mass_rows, mass_weight, page_table, key_count,
    stride_q_row, stride_q_head, stride_slot, stride_kv_head,
    n_heads, n_kv_heads, n_wanted, n_pages, n_keys, scale, log2_e,
    GROUP: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_E: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, PAGE: tl.constexpr,
    OVERLAPS: tl.constexpr,
):  # fmt: skip
    """total[sequence, kv_head, keys of this tile] += Σ over rows of weight × probability."""
    begin(OVERLAPS)
    kv_head = tl.program_id(1)
    sequence = tl.program_id(2)
    n_own = tl.load(key_count + sequence).to(tl.int32)
    at = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    if tl.program_id(0) * BLOCK_N >= n_own:
        return
    e = tl.arange(0, BLOCK_E)
    is_e = e < HEAD_DIM
    live = tl.minimum(at, n_own - 1)
    page = tl.load(page_table + sequence * n_pages + live // PAGE)
    offset = (page.to(tl.int64) * PAGE + live % PAGE) * stride_slot + kv_head * stride_kv_head
    keys = tl.load(k_ptr + offset[None, :] + e[:, None], mask=is_e[:, None], other=0.0)
    mass_rows += sequence * n_wanted
    mass_weight += sequence * n_wanted
    mass = tl.zeros([BLOCK_N], tl.float32)
    for start in range(0, n_wanted * GROUP, BLOCK_M):
        m = start + tl.arange(0, BLOCK_M)
        wanted = m // GROUP
        weight = tl.load(mass_weight + wanted, mask=wanted < n_wanted, other=0.0)
        is_row = weight > 0
        row = tl.load(mass_rows + wanted, mask=is_row, other=0)
        head = kv_head * GROUP + m % GROUP
        q = tl.load(
            q_ptr + (row * stride_q_row + head * stride_q_head)[:, None] + e[None, :],
            mask=is_row[:, None] & is_e[None, :],
            other=0.0,
        )
        # a row that saw nothing (-inf) has no mass to give
        lse = tl.load(lse_ptr + row * n_heads + head, mask=is_row, other=0.0)
        weight = tl.where(lse == float("-inf"), 0.0, weight)
        lse = tl.where(lse == float("-inf"), 0.0, lse)
        scores = tl.dot(q, keys, input_precision="ieee")
        probability = tl.exp2(scores * scale - (lse * log2_e)[:, None])
        mass += tl.sum(tl.where(weight[:, None] > 0, probability * weight[:, None], 0.0), 0)
    own = total_ptr + (sequence * n_kv_heads + kv_head).to(tl.int64) * n_keys + at
    before = tl.load(own, mask=at < n_own, other=0.0)
    tl.store(own, before + mass, mask=at < n_own)


def add_attention_mass(
    q: Tensor,
    lse: Tensor,
    key_cache: Tensor,
    schedule: Schedule,
    total: Tensor,
    tile: tuple[int, Tile] | None = None,
) -> None:
    """`reference.add_attention_mass`: adds one layer to `total` [B, G, K] fp32, in place.

    `tile` replaces the table's choice (tests, benchmarks).
    """
    check_layout("attention_mass", q, key_cache)
    rows_BP, weight_BP = schedule.mass_rows_BP, schedule.mass_weight_BP
    assert rows_BP is not None and weight_BP is not None
    n_heads, head_dim = q.shape[1:]
    n_kv_heads = key_cache.shape[1]
    batch, keys = schedule.key_slots_BK.shape
    block_m, shape = tile or mass_tile(gpu(q)[0], head_dim, q.element_size())
    mass_kernel[(triton.cdiv(keys, shape.keys), n_kv_heads, batch)](
        q, lse, key_cache, total,
        rows_BP, weight_BP, schedule.page_table_BN, schedule.key_count_B,
        q.stride(0), q.stride(1), key_cache.stride(0), key_cache.stride(1),
        n_heads, n_kv_heads, rows_BP.shape[1], schedule.page_table_BN.shape[1], keys,
        head_dim**-0.5 * LOG2_E, LOG2_E,
        GROUP=n_heads // n_kv_heads, HEAD_DIM=head_dim,
        BLOCK_E=max(16, triton.next_power_of_2(head_dim)),
        BLOCK_M=block_m, BLOCK_N=shape.keys, PAGE=PAGE,
        num_warps=shape.warps, num_stages=shape.stages, **overlap(q),
    )  # fmt: skip


def attention_mass(q: Tensor, lse: Tensor, key_cache: Tensor, schedule: Schedule) -> Tensor:
    """`reference.attention_mass`: [B, K] in fp32."""
    batch, keys = schedule.key_slots_BK.shape
    total = torch.zeros(
        (batch, key_cache.shape[1], keys), dtype=torch.float32, device=q.device
    )
    add_attention_mass(q, lse, key_cache, schedule, total)
    return total.sum(1) / q.shape[1]

"""Triton: attention probability per key from the saved log-sum-exp (truth: `reference.py`).

One program takes a run of key tiles, one key/value head and one sequence. Keys stream past the
wanted rows of the query heads that read this key/value head, which stay where they are if they fit
one tile (they do at 64 window rows without grouped heads). No values, no outputs, no second softmax.

Each program alone adds to its own entries of `total`, layer after layer, in one fixed order:
atomic additions would make ties between tracked tokens a matter of chance. The sum over heads
comes once, after the last layer.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.configs_attention import Tile, mass_programs, mass_tile
from kernels.overlap import begin, overlap
from kernels.schedule import PAGE, Schedule
from kernels.scheduled_attention import LOG2_E, check_layout, gpu


@triton.jit
def _wanted_queries(
    q_ptr, lse_ptr, mass_rows, mass_weight, kv_head, start,
    stride_q_row, stride_q_head, n_heads, n_wanted, log2_e,
    GROUP: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_E: tl.constexpr, BLOCK_M: tl.constexpr,
):  # fmt: skip
    """BLOCK_M query vectors [M, E] from `start` on, their log-sum-exp in base 2, their weights."""
    m = start + tl.arange(0, BLOCK_M)
    wanted = m // GROUP
    weight = tl.load(mass_weight + wanted, mask=wanted < n_wanted, other=0.0)
    is_row = weight > 0
    row = tl.load(mass_rows + wanted, mask=is_row, other=0)
    head = kv_head * GROUP + m % GROUP
    e = tl.arange(0, BLOCK_E)
    q = tl.load(
        q_ptr + (row * stride_q_row + head * stride_q_head)[:, None] + e[None, :],
        mask=is_row[:, None] & (e < HEAD_DIM)[None, :],
        other=0.0,
    )
    # a row that saw nothing (-inf) has no mass to give
    lse = tl.load(lse_ptr + row * n_heads + head, mask=is_row, other=0.0)
    weight = tl.where(lse == float("-inf"), 0.0, weight)
    lse = tl.where(lse == float("-inf"), 0.0, lse)
    return q, lse * log2_e, weight


@triton.jit
def _tile_mass(q, lse, weight, keys, scale):
    """Σ over rows of weight × probability, per key; keys [E, N]."""
    scores = tl.dot(q, keys, input_precision="ieee")
    probability = tl.exp2(scores * scale - lse[:, None])
    return tl.sum(tl.where(weight[:, None] > 0, probability * weight[:, None], 0.0), 0)


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
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, ONE_TILE: tl.constexpr, PAGE: tl.constexpr,
    OVERLAPS: tl.constexpr,
):  # fmt: skip
    """total[sequence, kv_head, keys of this run] += Σ over rows of weight × probability."""
    begin(OVERLAPS)
    kv_head = tl.program_id(1)
    sequence = tl.program_id(2)
    n_own = tl.load(key_count + sequence).to(tl.int32)
    # tiles are dealt out by the sequence's own keys
    share = tl.cdiv(tl.cdiv(n_own, BLOCK_N), tl.num_programs(0)) * BLOCK_N
    low = tl.program_id(0) * share
    high = tl.minimum(low + share, n_own)
    if low >= high:
        return
    n = tl.arange(0, BLOCK_N)
    e = tl.arange(0, BLOCK_E)
    is_e = e < HEAD_DIM
    last = n_own - 1
    page_table += sequence * n_pages
    k_ptr += kv_head * stride_kv_head
    mass_rows += sequence * n_wanted
    mass_weight += sequence * n_wanted
    own = total_ptr + (sequence * n_kv_heads + kv_head).to(tl.int64) * n_keys
    if ONE_TILE:
        q, lse, weight = _wanted_queries(
            q_ptr, lse_ptr, mass_rows, mass_weight, kv_head, 0,
            stride_q_row, stride_q_head, n_heads, n_wanted, log2_e,
            GROUP, HEAD_DIM, BLOCK_E, BLOCK_M,
        )  # fmt: skip
    # one step ahead, as in `scheduled_attention.py`
    page = tl.load(page_table + tl.minimum(low + n, last) // PAGE)
    for start in range(low, high, BLOCK_N):
        at = start + n
        slot = page.to(tl.int64) * PAGE + tl.minimum(at, last) % PAGE
        page = tl.load(page_table + tl.minimum(at + BLOCK_N, last) // PAGE)
        offset = (slot * stride_slot)[None, :] + e[:, None]
        if BLOCK_E == HEAD_DIM:
            keys = tl.load(k_ptr + offset)
        else:
            keys = tl.load(k_ptr + offset, mask=is_e[:, None], other=0.0)
        if ONE_TILE:
            mass = _tile_mass(q, lse, weight, keys, scale)
        else:
            mass = tl.zeros([BLOCK_N], tl.float32)
            for first in range(0, n_wanted * GROUP, BLOCK_M):
                q, lse, weight = _wanted_queries(
                    q_ptr, lse_ptr, mass_rows, mass_weight, kv_head, first,
                    stride_q_row, stride_q_head, n_heads, n_wanted, log2_e,
                    GROUP, HEAD_DIM, BLOCK_E, BLOCK_M,
                )  # fmt: skip
                mass += _tile_mass(q, lse, weight, keys, scale)
        is_key = at < n_own
        before = tl.load(own + at, mask=is_key, other=0.0)
        tl.store(own + at, before + mass, mask=is_key)


def add_attention_mass(
    q: Tensor,
    lse: Tensor,
    key_cache: Tensor,
    schedule: Schedule,
    total: Tensor,
    tile: tuple[int, Tile] | None = None,
    programs: int | None = None,
) -> None:
    """`reference.add_attention_mass`: adds one layer to `total` [B, G, K] fp32, in place.

    `tile` and `programs` (that share a head's keys) replace the table's choice (tests, benchmarks).
    """
    check_layout("attention_mass", q, key_cache)
    rows_BP, weight_BP = schedule.mass_rows_BP, schedule.mass_weight_BP
    assert rows_BP is not None and weight_BP is not None
    n_heads, head_dim = q.shape[1:]
    n_kv_heads = key_cache.shape[1]
    batch, keys = schedule.key_slots_BK.shape
    capability, processors = gpu(q)
    block_m, shape = tile or mass_tile(capability, head_dim, q.element_size())
    group = n_heads // n_kv_heads
    wanted = rows_BP.shape[1]
    programs = programs or mass_programs(batch * n_kv_heads, keys, shape, processors)
    mass_kernel[(programs, n_kv_heads, batch)](
        q, lse, key_cache, total,
        rows_BP, weight_BP, schedule.page_table_BN, schedule.key_count_B,
        q.stride(0), q.stride(1), key_cache.stride(0), key_cache.stride(1),
        n_heads, n_kv_heads, wanted, schedule.page_table_BN.shape[1], keys,
        head_dim**-0.5 * LOG2_E, LOG2_E,
        GROUP=group, HEAD_DIM=head_dim,
        BLOCK_E=max(16, triton.next_power_of_2(head_dim)),
        BLOCK_M=block_m, BLOCK_N=shape.keys, ONE_TILE=wanted * group <= block_m, PAGE=PAGE,
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

"""Triton: attention of ragged query blocks over the flat cache (truth: `reference.py`).

One program takes one query block, one key/value head and one share of the keys. The block table
says whose rows a block holds, so sequences of any length mix in one launch. The query heads that
read one key/value head stand in one tile: tile row m is row m // GROUP, head m % GROUP.

A block of 144 rows is a tile of 128 and a tail of 16 that share each load of keys and values:
144 rows (the paper's window 64 + 80 tracked) would otherwise be padded to 256, or read the cache
two or three times. On Hopper the tail is computed transposed, keys × rows: its 16 rows are then
the free side of a product whose other side fills the 64 rows of a wgmma. It must be: with a wgmma
and an mma.sync on one load, Triton (3.6.0, 3.7.1) reserves one buffer too few, and new keys are
copied over those that are still being multiplied.

Where every sequence's keys stand in one run of slots (a cache hands out pages in order, so most of
the time) Hopper's copy engine fetches whole tiles of them, which needs no addresses in registers.
Elsewhere each key is fetched by way of the page table.

With few blocks the keys are split between programs, and a second kernel joins the parts by their
log-sum-exp, in order. The number of parts depends on shapes only, so a repeated pass gives the
same bits; a sequence gives the same bits in any batch that has the same number of parts and whose
keys are fetched the same way.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.configs_attention import Tile, attention_plan, attention_tile, copies_runs
from kernels.overlap import begin, overlap
from kernels.schedule import MASK_TILE, PAGE, Schedule, tile_rows
from kernels.skinny_gemm import descriptor

LOG2_E = 1.4426950408889634
LN_2 = tl.constexpr(0.6931471805599453)
# a finite start of the running maximum: with -inf, exp2(-inf - -inf) of a hidden row would be NaN
FLOOR = tl.constexpr(-3.0e38)
# integers that change from pass to pass must not compile new variants
_PLAIN = ["n_rows", "n_heads", "n_pages", "n_keys", "n_flags", "n_parts"]
_TABLES = [
    "block_sequence", "block_first", "block_rows", "page_table", "key_count", "row_code",
    "row_replaces",
    "key_from", "key_until", "key_row", "key_mixed",
]  # fmt: skip


@triton.jit
def _tile_rows(first, kv_head, within, count, M: tl.constexpr, GROUP: tl.constexpr):
    """Row numbers, query heads and validity of a tile of M, `within` rows into its block."""
    m = tl.arange(0, M)
    row = within + m // GROUP
    # a group that doesn't divide M leaves the last tile rows empty
    is_row = (row < count) & (m < M // GROUP * GROUP)
    return first + row, kv_head * GROUP + m % GROUP, is_row


@triton.jit
def _load_queries(
    q_ptr, rows, heads, is_row, stride_row, stride_head,
    HEAD_DIM: tl.constexpr, BLOCK_E: tl.constexpr,
):  # fmt: skip
    e = tl.arange(0, BLOCK_E)
    at = rows.to(tl.int64)[:, None] * stride_row + heads[:, None] * stride_head + e[None, :]
    return tl.load(q_ptr + at, mask=is_row[:, None] & (e < HEAD_DIM)[None, :], other=0.0)


@triton.jit
def _seen(
    at, count, rows, is_row, row_code, row_replaces, key_from, key_until, key_row,
    HAS_VIEWS: tl.constexpr,
):  # fmt: skip
    """Which rows see which keys, [rows, keys]."""
    is_key = at < count
    if HAS_VIEWS:
        code = tl.load(row_code + rows, mask=is_row, other=0)
        # keys past the end get an empty interval and no row
        start = tl.load(key_from + at, mask=is_key, other=1)
        until = tl.load(key_until + at, mask=is_key, other=0)
        own = tl.load(key_row + at, mask=is_key, other=-1)
        inside = (start[None, :] <= code[:, None]) & (code[:, None] < until[None, :])
        replaced = tl.load(row_replaces + rows, mask=is_row, other=-1)
        inside &= at[None, :] != replaced[:, None]
        return inside | (own[None, :] == rows[:, None])
    else:
        return is_key[None, :] & (rows >= 0)[:, None]


@triton.jit
def _fold(scores, values, peak, total, acc, scale):
    """One step of the online softmax, in base 2; scores [rows, keys], acc [rows, E]."""
    higher = tl.maximum(peak, tl.max(scores, 1) * scale)
    weights = tl.exp2(scores * scale - higher[:, None])
    fade = tl.exp2(peak - higher)
    total = total * fade + tl.sum(weights, 1)
    acc = tl.dot(weights.to(values.dtype), values, acc * fade[:, None], input_precision="ieee")
    return higher, total, acc


@triton.jit
def _fold_transposed(scores, values, peak, total, acc, scale):
    """The same for scores [keys, rows] and acc [E, rows]."""
    higher = tl.maximum(peak, tl.max(scores, 0) * scale)
    weights = tl.exp2(scores * scale - higher[None, :])
    fade = tl.exp2(peak - higher)
    total = total * fade + tl.sum(weights, 0)
    acc = tl.dot(
        tl.trans(values), weights.to(values.dtype), acc * fade[None, :], input_precision="ieee"
    )
    return higher, total, acc


@triton.jit
def _store_tile(
    out_ptr, lse_ptr, rows, heads, is_row, n_heads, peak, total, acc,
    HEAD_DIM: tl.constexpr, BLOCK_E: tl.constexpr,
):  # fmt: skip
    """Normalise and store; a row that saw nothing gets 0 and -inf."""
    e = tl.arange(0, BLOCK_E)
    has_any = total > 0
    total = tl.where(has_any, total, 1.0)
    out = acc / total[:, None]
    lse = tl.where(has_any, peak * LN_2 + tl.log(total), float("-inf"))
    pair = rows.to(tl.int64) * n_heads + heads
    tl.store(
        out_ptr + pair[:, None] * HEAD_DIM + e[None, :],
        out.to(out_ptr.dtype.element_ty),
        mask=is_row[:, None] & (e < HEAD_DIM)[None, :],
    )
    tl.store(lse_ptr + pair, lse, mask=is_row)


@triton.jit(do_not_specialize=_PLAIN, do_not_specialize_on_alignment=_TABLES)
def attend_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr,
    block_sequence, block_first, block_rows,
    page_table, key_count, row_code, row_replaces, key_from, key_until, key_row, key_mixed,
    stride_q_row, stride_q_head, stride_slot, stride_kv_head,
    n_rows, n_heads, n_pages, n_keys, n_flags, n_parts, scale,
    GROUP: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_E: tl.constexpr,
    MAIN: tl.constexpr, TAIL: tl.constexpr, TAIL_TRANSPOSED: tl.constexpr,
    SHARES: tl.constexpr, BLOCK_N: tl.constexpr,
    HAS_VIEWS: tl.constexpr, PAGE: tl.constexpr, MASK_TILE: tl.constexpr,
    IS_RUN: tl.constexpr, OVERLAPS: tl.constexpr,
):  # fmt: skip
    """See the file's docstring. out [parts, R, H, E] (fp32 if there are several), lse likewise.

    k_ptr and v_ptr are descriptors of [slots, G·E] with tiles [BLOCK_N, E] if IS_RUN.
    """
    begin(OVERLAPS)
    # SHARES programs share a block that is too large for one (small GPUs, fp32)
    block = tl.program_id(0) // SHARES
    within = tl.program_id(0) % SHARES * (MAIN // GROUP)
    kv_head = tl.program_id(1)
    part = tl.program_id(2)
    count = tl.load(block_rows + block)
    if count <= within:
        return
    sequence = tl.load(block_sequence + block)
    first = tl.load(block_first + block)
    n_own = tl.load(key_count + sequence).to(tl.int32)

    rows, heads, is_row = _tile_rows(first, kv_head, within, count, MAIN, GROUP)
    q = _load_queries(
        q_ptr, rows, heads, is_row, stride_q_row, stride_q_head, HEAD_DIM, BLOCK_E
    )
    peak = tl.full([MAIN], FLOOR, tl.float32)
    total = tl.zeros([MAIN], tl.float32)
    acc = tl.zeros([MAIN, BLOCK_E], tl.float32)
    if TAIL:
        tail_rows, tail_heads, is_tail = _tile_rows(
            first, kv_head, MAIN // GROUP, count, TAIL, GROUP
        )
        tail_q = _load_queries(
            q_ptr, tail_rows, tail_heads, is_tail, stride_q_row, stride_q_head, HEAD_DIM, BLOCK_E
        )
        tail_peak = tl.full([TAIL], FLOOR, tl.float32)
        tail_total = tl.zeros([TAIL], tl.float32)
        if TAIL_TRANSPOSED:
            tail_acc = tl.zeros([BLOCK_E, TAIL], tl.float32)
            tail_q = tl.trans(tail_q)
        else:
            tail_acc = tl.zeros([TAIL, BLOCK_E], tl.float32)

    # the share of this part follows from the sequence's own keys, not from the batch's longest
    share = tl.cdiv(tl.cdiv(n_own, BLOCK_N), n_parts) * BLOCK_N
    low = part * share
    high = tl.minimum(low + share, n_own)
    n = tl.arange(0, BLOCK_N)
    e = tl.arange(0, BLOCK_E)
    is_e = e < HEAD_DIM
    page_table += sequence * n_pages
    if IS_RUN:
        base = tl.load(page_table) * PAGE
        column = kv_head * HEAD_DIM
    else:
        k_ptr += kv_head * stride_kv_head
        v_ptr += kv_head * stride_kv_head
    key_from += sequence * n_keys
    key_until += sequence * n_keys
    key_row += sequence * n_keys
    key_mixed += sequence * n_flags
    # positions past the end read the last key again: weight 0, and no stray NaN can enter
    last = tl.maximum(n_own - 1, 0)
    # the page numbers are fetched one step ahead: a load that waits for a load would cost the
    # pipeline half its depth
    if not IS_RUN:
        page = tl.load(page_table + tl.minimum(low + n, last) // PAGE)
    for start in range(low, high, BLOCK_N):
        if IS_RUN:
            # the last tile is moved back to end with the last key: a tile never reads what is not
            # the sequence's own
            origin = tl.minimum(start, n_own - BLOCK_N)
            at = origin + n
            keys = k_ptr.load([base + origin, column])
        else:
            at = start + n
            slot = page.to(tl.int64) * PAGE + tl.minimum(at, last) % PAGE
            page = tl.load(page_table + tl.minimum(at + BLOCK_N, last) // PAGE)
            # one set of addresses for keys and values: a fifth of the instructions in a step
            offset = (slot * stride_slot)[:, None] + e[None, :]
            if BLOCK_E == HEAD_DIM:
                keys = tl.load(k_ptr + offset)
            else:
                keys = tl.load(k_ptr + offset, mask=is_e[None, :], other=0.0)
        scores = tl.dot(q, tl.trans(keys), input_precision="ieee")
        if HAS_VIEWS:
            is_mixed = tl.load(key_mixed + start // MASK_TILE) > 0
            if BLOCK_N > MASK_TILE:
                is_mixed |= tl.load(key_mixed + start // MASK_TILE + 1) > 0
            if IS_RUN:
                is_mixed |= start + BLOCK_N > n_own
        else:
            is_mixed = start + BLOCK_N > n_own
        if is_mixed:
            seen = _seen(
                at, n_own, rows, is_row, row_code, row_replaces, key_from, key_until, key_row,
                HAS_VIEWS,
            )  # fmt: skip
            if IS_RUN:
                seen &= (at >= start)[None, :]
            scores = tl.where(seen, scores, float("-inf"))
        if TAIL:
            if TAIL_TRANSPOSED:
                tail_scores = tl.dot(keys, tail_q, input_precision="ieee")
            else:
                tail_scores = tl.dot(tail_q, tl.trans(keys), input_precision="ieee")
            if is_mixed:
                seen = _seen(
                    at, n_own, tail_rows, is_tail,
                    row_code, row_replaces, key_from, key_until, key_row, HAS_VIEWS,
                )  # fmt: skip
                if IS_RUN:
                    seen &= (at >= start)[None, :]
                if TAIL_TRANSPOSED:
                    seen = tl.trans(seen)
                tail_scores = tl.where(seen, tail_scores, float("-inf"))
        if IS_RUN:
            values = v_ptr.load([base + origin, column])
        elif BLOCK_E == HEAD_DIM:
            values = tl.load(v_ptr + offset)
        else:
            values = tl.load(v_ptr + offset, mask=is_e[None, :], other=0.0)
        peak, total, acc = _fold(scores, values, peak, total, acc, scale)
        if TAIL:  # its softmax runs while the main tile's second product is in flight
            if TAIL_TRANSPOSED:
                tail_peak, tail_total, tail_acc = _fold_transposed(
                    tail_scores, values, tail_peak, tail_total, tail_acc, scale
                )
            else:
                tail_peak, tail_total, tail_acc = _fold(
                    tail_scores, values, tail_peak, tail_total, tail_acc, scale
                )

    before = part.to(tl.int64) * n_rows * n_heads
    out_ptr += before * HEAD_DIM
    lse_ptr += before
    _store_tile(
        out_ptr, lse_ptr, rows, heads, is_row, n_heads, peak, total, acc, HEAD_DIM, BLOCK_E
    )
    if TAIL:
        if TAIL_TRANSPOSED:
            tail_acc = tl.trans(tail_acc)
        _store_tile(
            out_ptr, lse_ptr, tail_rows, tail_heads, is_tail, n_heads,
            tail_peak, tail_total, tail_acc, HEAD_DIM, BLOCK_E,
        )  # fmt: skip


@triton.jit(do_not_specialize=["n_pairs"])
def join_kernel(
    part_out, part_lse, out_ptr, lse_ptr, n_pairs,
    HEAD_DIM: tl.constexpr, BLOCK_E: tl.constexpr, PAIRS: tl.constexpr, SPLITS: tl.constexpr,
    OVERLAPS: tl.constexpr,
):  # fmt: skip
    """Join the parts of PAIRS (row, head) pairs by their log-sum-exp, in the order of the parts."""
    begin(OVERLAPS)
    n_pairs = tl.cast(n_pairs, tl.int64)
    pair = tl.program_id(0).to(tl.int64) * PAIRS + tl.arange(0, PAIRS)
    is_pair = pair < n_pairs
    e = tl.arange(0, BLOCK_E)
    at = pair[:, None] * HEAD_DIM + e[None, :]
    mask = is_pair[:, None] & (e < HEAD_DIM)[None, :]
    peak = tl.full([PAIRS], FLOOR, tl.float32)
    for part in tl.static_range(SPLITS):
        lse = tl.load(part_lse + part * n_pairs + pair, mask=is_pair, other=float("-inf"))
        peak = tl.maximum(peak, lse)
    total = tl.zeros([PAIRS], tl.float32)
    acc = tl.zeros([PAIRS, BLOCK_E], tl.float32)
    for part in tl.static_range(SPLITS):
        lse = tl.load(part_lse + part * n_pairs + pair, mask=is_pair, other=float("-inf"))
        weight = tl.exp(lse - peak)
        out = tl.load(part_out + part * n_pairs * HEAD_DIM + at, mask=mask, other=0.0)
        acc += weight[:, None] * out
        total += weight
    has_any = total > 0
    total = tl.where(has_any, total, 1.0)
    tl.store(out_ptr + at, (acc / total[:, None]).to(out_ptr.dtype.element_ty), mask=mask)
    lse = tl.where(has_any, peak + tl.log(total), float("-inf"))
    tl.store(lse_ptr + pair, lse, mask=is_pair)


def scheduled_attention(
    q: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    schedule: Schedule,
    splits: int | None = None,
    tile: Tile | None = None,
) -> tuple[Tensor, Tensor]:
    """`reference.scheduled_attention` in fp16, bf16 or fp32, accumulated in fp32.

    q [R, H, E]; caches [slots, G, E] of one dtype and one layout, last stride 1, read only.
    Every row of R must stand in one block of the schedule; a row that sees no key (a padding
    row of a sequence with key_count 0) gets out 0 and log-sum-exp -inf; blocks of 0 rows do
    nothing. `splits` and `tile` replace the table's choice (tests, benchmarks).
    Raises ValueError for a dtype, layout or block size that the kernel can't take.
    """
    check_layout("scheduled_attention", q, key_cache, value_cache)
    n_rows, n_heads, head_dim = q.shape
    n_kv_heads = key_cache.shape[1]
    group = n_heads // n_kv_heads
    rows = tile_rows(schedule.block_size, group)
    blocks = len(schedule.block_rows)
    keys = schedule.key_slots_BK.shape[1]
    has_views = schedule.has_views
    block_e = max(16, triton.next_power_of_2(head_dim))
    capability, _ = gpu(q)
    tile = tile or attention_tile(capability, rows, head_dim, q.element_size(), has_views)
    can_copy = copies_runs(capability) and block_e == head_dim and key_cache.is_contiguous()
    is_run = can_copy and tile.keys <= schedule.run_keys
    splits = splits or plan(q, schedule, n_kv_heads, is_run)[1]
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    lse = torch.empty((n_rows, n_heads), dtype=torch.float32, device=q.device)
    part_out, part_lse = out, lse
    if splits > 1:
        part_out = torch.empty((splits, *q.shape), dtype=torch.float32, device=q.device)
        part_lse = torch.empty((splits, *lse.shape), dtype=torch.float32, device=q.device)
    main, tail, shares = min(rows, 128), max(rows - 128, 0), 1
    if rows > tile.most_rows:
        main, tail = tile.most_rows, 0
        if group > main:
            raise ValueError(
                f"scheduled_attention: {group} query heads for a kv head don't fit on this GPU in "
                f"{q.dtype}; use impl='torch'"
            )
        shares = triton.cdiv(schedule.block_size, main // group)
    sources = key_cache, value_cache
    if is_run:
        sources = tuple(
            descriptor("cache", cache.view(len(cache), -1), tile.keys, head_dim)
            for cache in sources
        )
    # a pass without views has no such tables, and its variant of the kernel never reads them
    absent = schedule.page_table_BN
    rules = (
        schedule.row_replaces_R, schedule.key_from_BK, schedule.key_until_BK,
        schedule.key_mixed_BT,
    )  # fmt: skip
    replaces, start, until, mixed = (absent if rule is None else rule for rule in rules)
    attend_kernel[(blocks * shares, n_kv_heads, splits)](
        q, *sources, part_out, part_lse,
        schedule.block_sequence, schedule.block_first, schedule.block_rows,
        schedule.page_table_BN, schedule.key_count_B,
        schedule.row_code_R, replaces, start, until, schedule.key_row_BK, mixed,
        q.stride(0), q.stride(1), key_cache.stride(0), key_cache.stride(1),
        n_rows, n_heads, schedule.page_table_BN.shape[1], keys, mixed.shape[1], splits,
        head_dim**-0.5 * LOG2_E,
        GROUP=group, HEAD_DIM=head_dim, BLOCK_E=block_e,
        MAIN=main, TAIL=tail, TAIL_TRANSPOSED=tile.is_tail_transposed,
        SHARES=shares, BLOCK_N=tile.keys,
        HAS_VIEWS=has_views, PAGE=PAGE, MASK_TILE=MASK_TILE, IS_RUN=is_run,
        num_warps=tile.warps, num_stages=tile.stages, **overlap(q),
    )  # fmt: skip
    if splits > 1:
        pairs = n_rows * n_heads
        join_kernel[(triton.cdiv(pairs, 16),)](
            part_out, part_lse, out, lse, pairs,
            HEAD_DIM=head_dim, BLOCK_E=block_e, PAIRS=16, SPLITS=splits, num_warps=4,
            **overlap(q),
        )  # fmt: skip
    return out, lse


def plan(q: Tensor, schedule: Schedule, n_kv_heads: int, is_run: bool) -> tuple[Tile, int]:
    """(tile, key splits) of the table for a pass."""
    _, n_heads, head_dim = q.shape
    capability, processors = gpu(q)
    sequences, width = schedule.rows_BW.shape
    # blocks that may hold rows: the table has room for padding rows beside them
    blocks = min(
        len(schedule.block_rows), sequences * triton.cdiv(width, schedule.block_size)
    )
    return attention_plan(
        capability, processors, tile_rows(schedule.block_size, n_heads // n_kv_heads), head_dim,
        q.element_size(), schedule.has_views, blocks * n_kv_heads,
        schedule.key_slots_BK.shape[1], is_run,
    )  # fmt: skip


def gpu(tensor: Tensor) -> tuple[tuple[int, int], int]:
    """(compute capability, multiprocessors) of the device; the interpreter plays an H200."""
    if tensor.device.type != "cuda":
        return (9, 0), 132
    properties = torch.cuda.get_device_properties(tensor.device)
    return (properties.major, properties.minor), properties.multi_processor_count


def check_layout(operation: str, q: Tensor, *caches: Tensor) -> None:
    """What the kernels take for granted, at the door."""
    if q.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(
            f"{operation}: impl='triton' takes float16, bfloat16 or float32, got {q.dtype}; "
            "use impl='torch'"
        )
    for tensor in (q, *caches):
        if tensor.dtype != q.dtype or tensor.stride(-1) != 1 or tensor.data_ptr() % 16:
            raise ValueError(
                f"{operation}: queries and caches must share one dtype, be contiguous in their "
                f"last dimension and start at a multiple of 16 bytes, got {tensor.dtype}, strides "
                f"{tensor.stride()}, address modulo 16 {tensor.data_ptr() % 16}"
            )
        if tensor is not q and tensor.stride() != caches[0].stride():
            raise ValueError(f"{operation}: key and value cache must have the same strides")

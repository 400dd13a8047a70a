"""Queries of all live sequences → one batch of tensors, no padded rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from flash_dllm.query import Query, Role
from kernels.schedule import (
    ALWAYS,
    DRAFT_VIEW,
    MASK_TILE,
    MASK_VIEW,
    PAGE,
    SLOT,
    Schedule,
    best_block_size,
)

_VIEW_OF_ROLE = torch.tensor(
    [
        {Role.DRAFT_VIEW: DRAFT_VIEW, Role.MASK_VIEW: MASK_VIEW}.get(role, SLOT)
        for role in Role
    ]
)


@dataclass(frozen=True)
class Packed:
    """One pass. tokens, positions, slots [R] int64; predict [P] int64 row numbers."""

    tokens: Tensor
    positions: Tensor
    slots: Tensor
    predict: Tensor
    schedule: Schedule


def pack(
    queries: Sequence[tuple[int, Query]],
    table: Tensor,
    device: torch.device,
    group: int = 1,
    block_size: int | None = None,
) -> Packed:
    """Pack (handle, query) pairs; `table` maps a sequence's local slots to the buffer's.

    group       query heads per key/value head, for the kernels' query blocks
    block_size  rows per query block (`kernels.schedule.block_sizes`), or None for the best
    """
    asked = [query for _, query in queries]
    counts = torch.tensor([query.rows for query in asked])
    tokens, positions, local, roles, ranks = (
        _joined(asked, name) for name in ("tokens", "positions", "slots", "roles", "ranks")
    )
    sequences = torch.repeat_interleave(counts)
    handles = torch.tensor([handle for handle, _ in queries])
    starts = counts.cumsum(0) - counts
    predict, mass_rows, mass_weight = _wanted(asked, starts.tolist())

    rows = torch.arange(len(tokens))
    width = int(counts.max())
    within = rows - starts[sequences]
    rows_BW = torch.zeros(len(asked), width, dtype=torch.int64)
    rows_BW[sequences, within] = rows

    # keys are the positions' slots, then the scratch slots of this pass's views
    views = _VIEW_OF_ROLE[roles]
    is_view = views != SLOT
    lengths = torch.tensor([query.length for query in asked])
    key_count = lengths + torch.bincount(sequences[is_view], minlength=len(asked))
    keys = int(key_count.max())
    has_views = bool(is_view.any())
    searched = torch.zeros(len(asked), keys, dtype=torch.int64)
    key_view, key_rank = torch.zeros_like(searched), torch.zeros_like(searched)
    key_row = torch.full_like(searched, -1)
    if has_views:
        hidden = torch.tensor(
            [
                (number, slot, rank)
                for number, query in enumerate(asked)
                for slot, rank in query.searched.items()
            ]
        ).view(-1, 3)
        searched[hidden[:, 0], hidden[:, 1]] = hidden[:, 2]
        at = sequences[is_view], local[is_view]
        key_view[at], key_rank[at], key_row[at] = views[is_view], ranks[is_view], rows[is_view]

    is_padded = int(counts.min()) != width or int(key_count.min()) != keys
    block_size = block_size or best_block_size(width, group)
    blocks = torch.from_numpy(block_table(counts.numpy(), block_size)).to(device)
    pages = table[handles, :keys:PAGE].div(PAGE, rounding_mode="floor").to(torch.int32)
    rules: list[Tensor | None] = [None, None, None]
    if has_views:
        parts = key_rules(key_count, searched, key_view, key_rank)
        rules = [part.to(device, non_blocking=True) for part in parts]

    def put(tensor: Tensor) -> Tensor:
        return tensor.to(device, non_blocking=True)

    schedule = Schedule(
        rows_BW=put(rows_BW),
        row_count_B=put(counts),
        padded_R=put(sequences * width + within),
        key_slots_BK=put(table[handles, :keys]),
        key_count_B=put(key_count),
        row_rank_R=put(ranks),
        row_view_R=put(views),
        key_searched_BK=put(searched),
        key_view_BK=put(key_view),
        key_rank_BK=put(key_rank),
        key_row_BK=put(key_row),
        has_views=has_views,
        is_padded=is_padded,
        block_size=block_size,
        block_sequence=blocks[0],
        block_first=blocks[1],
        block_rows=blocks[2],
        page_table_BN=put(pages),
        row_code_R=put((2 * ranks + (views == DRAFT_VIEW)).to(torch.int32)),
        key_from_BK=rules[0],
        key_until_BK=rules[1],
        key_mixed_BT=rules[2],
        mass_rows_BP=None if mass_rows is None else put(mass_rows),
        mass_weight_BP=None if mass_weight is None else put(mass_weight),
    )
    slots = table[handles[sequences], local]
    return Packed(put(tokens), put(positions), put(slots), put(predict), schedule)


def block_table(counts: np.ndarray, block_size: int, blocks: int | None = None) -> np.ndarray:
    """Query blocks of sequences whose rows follow one another: [3, blocks] int32.

    counts  rows of each sequence
    blocks  length of the table, filled up with blocks of 0 rows; None for as many as needed
    Returns sequence, first row and number of rows of each block.

    >>> block_table(np.array([3, 5]), 4, blocks=4).tolist()
    [[0, 1, 1, 0], [0, 3, 7, 0], [3, 4, 1, 0]]
    """
    per_sequence = -(-counts // block_size)
    sequence = np.repeat(np.arange(len(counts)), per_sequence)
    within = np.arange(len(sequence)) - (per_sequence.cumsum() - per_sequence)[sequence]
    first = (counts.cumsum() - counts)[sequence] + within * block_size
    rows = np.minimum(block_size, counts[sequence] - within * block_size)
    table = np.zeros((3, len(sequence) if blocks is None else blocks), np.int32)
    table[:, : len(sequence)] = sequence, first, rows
    return table


def key_rules(
    key_count_B: Tensor, searched_BK: Tensor, view_BK: Tensor, rank_BK: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Who sees a key, as an interval of row codes: (from, until, mixed) of `Schedule`, int32.

    A slot searched at rank s is seen below code 2s, that is by rows of rank < s. The draft view of
    rank j is seen from code 2j + 1 on: by draft views of rank j and by all rows of higher rank.
    A mask view's interval is empty; only its own row sees it.
    """
    start = torch.where(view_BK == DRAFT_VIEW, 2 * rank_BK + 1, 0).to(torch.int32)
    until = torch.where(searched_BK > 0, 2 * searched_BK, ALWAYS).to(torch.int32)
    until.masked_fill_(view_BK == MASK_VIEW, 0)
    batch, keys = start.shape
    tiles = -(-keys // (2 * MASK_TILE)) * 2
    is_plain = torch.zeros(batch, tiles * MASK_TILE, dtype=torch.bool)
    is_plain[:, :keys] = (start == 0) & (until == ALWAYS)
    is_plain[:, :keys] &= torch.arange(keys) < key_count_B[:, None]
    mixed = ~is_plain.view(batch, tiles, MASK_TILE).all(-1)
    return start, until, mixed.to(torch.int32)


def _joined(asked: Sequence[Query], name: str) -> Tensor:
    """One field of all queries, end to end; numpy reads long lists ten times faster than torch."""
    values = chain.from_iterable(getattr(query, name) for query in asked)
    return torch.from_numpy(np.fromiter(values, np.int64))


def _wanted(
    asked: Sequence[Query], starts: Sequence[int]
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Row numbers to predict, and the padded rows whose attention mass is wanted."""
    predict = [
        start + row for query, start in zip(asked, starts, strict=True) for row in query.predict
    ]
    mass = [
        [start + row for row in query.predict] if query.wants_mass else []
        for query, start in zip(asked, starts, strict=True)
    ]
    width = max(len(rows) for rows in mass)
    if not width:
        return torch.tensor(predict), None, None
    rows = torch.tensor([row + [0] * (width - len(row)) for row in mass])
    weight = torch.tensor(
        [[1.0 / len(row)] * len(row) + [0.0] * (width - len(row)) if row else [0.0] * width
         for row in mass]
    )
    return torch.tensor(predict), rows, weight

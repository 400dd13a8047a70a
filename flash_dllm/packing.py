"""Queries of all live sequences → one batch of tensors, no padded rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from flash_dllm.query import Query, Role
from kernels.schedule import DRAFT_VIEW, MASK_VIEW, SLOT, Schedule

_VIEW_OF_ROLE = torch.tensor(
    [
        {Role.DRAFT_VIEW: DRAFT_VIEW, Role.MASK_VIEW: MASK_VIEW,
         Role.PREDECESSOR_VIEW: MASK_VIEW}.get(role, SLOT)
        for role in Role
    ]
)
# as a key a predecessor's view is a mask view; as a reader of rank r it knows the first r drafts
_READER_OF_ROLE = _VIEW_OF_ROLE.clone()
_READER_OF_ROLE[Role.PREDECESSOR_VIEW] = DRAFT_VIEW


@dataclass(frozen=True)
class Packed:
    """One pass. tokens, positions, slots [R] int64; predict [P] int64 row numbers."""

    tokens: Tensor
    positions: Tensor
    slots: Tensor
    predict: Tensor
    schedule: Schedule


def pack(
    queries: Sequence[tuple[int, Query]], table: Tensor, device: torch.device
) -> Packed:
    """Pack (handle, query) pairs; `table` maps a sequence's local slots to the buffer's."""
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

    def put(tensor: Tensor) -> Tensor:
        return tensor.to(device, non_blocking=True)

    schedule = Schedule(
        rows_BW=put(rows_BW),
        row_count_B=put(counts),
        padded_R=put(sequences * width + within),
        key_slots_BK=put(table[handles, :keys]),
        key_count_B=put(key_count),
        row_rank_R=put(ranks),
        row_view_R=put(_READER_OF_ROLE[roles]),
        key_searched_BK=put(searched),
        key_view_BK=put(key_view),
        key_rank_BK=put(key_rank),
        key_row_BK=put(key_row),
        has_views=has_views,
        is_padded=is_padded,
        mass_rows_BP=None if mass_rows is None else put(mass_rows),
        mass_weight_BP=None if mass_weight is None else put(mass_weight),
        row_limit_R=_limits(asked, put),
        row_replaces_R=_replaced(asked, starts.tolist(), len(rows), put),
    )
    slots = table[handles[sequences], local]
    return Packed(put(tokens), put(positions), put(slots), put(predict), schedule)


def _limits(asked: Sequence[Query], put: Callable[[Tensor], Tensor]) -> Tensor | None:
    """How many slots each row may see, or None where every row sees all of them."""
    if all(query.block_size is None for query in asked):
        return None
    limits = [query.limit(row) for query in asked for row in range(query.rows)]
    lengths = [query.length for query in asked for _ in range(query.rows)]
    return None if limits == lengths else put(torch.tensor(limits))


def _replaced(
    asked: Sequence[Query], starts: Sequence[int], rows: int, put: Callable[[Tensor], Tensor]
) -> Tensor | None:
    """The key that each row's own entry stands in for (-1: none), or None where there is none."""
    if not any(query.replaced for query in asked):
        return None
    replaced = torch.full((rows,), -1)
    for query, start in zip(asked, starts, strict=True):
        for row, slot in query.replaced.items():
            replaced[start + row] = slot
    return put(replaced)


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

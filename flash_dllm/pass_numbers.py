"""The numbers of a pass, written over the image of its frame: rows, keys, who sees whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np

from flash_dllm.pass_frame import Frame
from flash_dllm.pass_layout import Layout
from flash_dllm.pass_sizes import has_past_rows
from flash_dllm.query import Query, Role
from kernels.schedule import ALWAYS, BRANCH_VIEW, DRAFT_VIEW, MASK_TILE, MASK_VIEW, SLOT

_VIEWS = {
    Role.DRAFT_VIEW: DRAFT_VIEW, Role.MASK_VIEW: MASK_VIEW, Role.PREDECESSOR_VIEW: MASK_VIEW,
    Role.SHADOW: MASK_VIEW, Role.BRANCH: BRANCH_VIEW, Role.TRACKED_COPY: DRAFT_VIEW,
    Role.DECIDED_COPY: DRAFT_VIEW,
}  # fmt: skip
_VIEW_OF_ROLE = np.array([_VIEWS.get(role, SLOT) for role in Role])
# as a key a predecessor's view is a mask view; as a reader of rank r it knows the first r drafts
_READER_OF_ROLE = _VIEW_OF_ROLE.copy()
_READER_OF_ROLE[Role.PREDECESSOR_VIEW] = DRAFT_VIEW
# a view's entry is seen from one row code on until another: [times, more] of times · rank + more
_INTERVALS = np.zeros((2, 2, 4), np.int64)
_INTERVALS[:, :, DRAFT_VIEW] = (2, 0), (1, ALWAYS)
_INTERVALS[:, :, BRANCH_VIEW] = (2, 2), (0, 1)


def write_pass(
    layout: Layout,
    at: Mapping[str, np.ndarray],
    frame: Frame,
    asked: Sequence[Query],
    key_counts: Sequence[int],
    table: np.ndarray,
) -> None:
    """Fill the host's views, which hold the image of the frame, with the numbers of this pass.

    key_counts  keys of each sequence: its positions' slots, then the scratch slots of its views
    """
    rows = frame.rows
    if layout.sizes.has_views:
        numbers = _joined(asked, "tokens", "positions", "slots", "roles", "ranks")
        tokens, positions, local, roles, ranks = numbers
    else:
        # every row writes to its position's own slot, and nobody needs a rank
        tokens, positions = _joined(asked, "tokens", "positions")
        local = positions
    at["tokens"][:rows] = tokens
    at["positions"][:rows] = positions
    at["slots"][:rows] = table[frame.handles_R, local]
    starts = frame.starts
    predict = [start + row for start, q in zip(starts, asked, strict=True) for row in q.predict]
    at["predict"][: len(predict)] = predict
    if layout.sizes.mass:
        _write_mass(at, asked)
    if layout.sizes.has_views:
        at["key_count_B"][: len(asked)] = key_counts
        _write_views(layout, at, frame, asked, local, roles, ranks)


def _write_views(
    layout: Layout,
    at: Mapping[str, np.ndarray],
    frame: Frame,
    asked: Sequence[Query],
    local: np.ndarray,
    roles: np.ndarray,
    ranks: np.ndarray,
) -> None:
    """Who sees whom, in a pass whose rows differ in that.

    local, roles, ranks  each row's slot, counted by its sequence, its role and its rank
    """
    rows = frame.rows
    views, readers = _VIEW_OF_ROLE[roles], _READER_OF_ROLE[roles]
    codes = 2 * ranks + (readers == DRAFT_VIEW)
    if any(map(has_past_rows, asked)):
        # rows of past blocks of a block-causal model stand below all ranks, block by block
        before = _blocks_before(asked)
        codes = np.where(before > 0, -before, codes)
    at["row_code_R"][:rows] = codes
    (of_views,) = views.nonzero()
    place = frame.sequences_R[of_views], local[of_views]
    views, view_ranks = views[of_views], ranks[of_views]
    searched = _searched(asked)
    at["key_row_BK"][place] = of_views
    _write_rules(at, asked, place, views, view_ranks, searched)
    _write_replaced(at, frame, asked)
    if layout.is_dense:
        at["row_rank_R"][:rows] = ranks
        at["row_view_R"][:rows] = readers
        limits = [query.limit(row) for query in asked for row in range(query.rows)]
        at["row_limit_R"][:rows] = limits
        at["key_view_BK"][place] = views
        at["key_rank_BK"][place] = view_ranks
        sequences, slots, hidden_from = searched
        at["key_searched_BK"][sequences, slots] = hidden_from


def _searched(asked: Sequence[Query]) -> np.ndarray:
    """Sequence, slot and rank of every searched slot: [3, slots]."""
    slots = list(chain.from_iterable([query.searched for query in asked]))
    ranks = list(chain.from_iterable([query.searched.values() for query in asked]))
    numbers = [number for number, query in enumerate(asked) for _ in query.searched]
    return np.array([numbers, slots, ranks], np.int64)


def _write_mass(at: Mapping[str, np.ndarray], asked: Sequence[Query]) -> None:
    """The rows whose attention mass is averaged (the first predicted ones), and their weights."""
    start = 0
    for number, query in enumerate(asked):
        count = query.mass_count
        if count:
            at["mass_rows_BP"][number, :count] = at["predict"][start : start + count]
            at["mass_weight_BP"][number, :count] = 1.0 / count
        start += len(query.predict)


def _write_rules(
    at: Mapping[str, np.ndarray],
    asked: Sequence[Query],
    place: tuple[np.ndarray, np.ndarray],
    views: np.ndarray,
    ranks: np.ndarray,
    searched: np.ndarray,
) -> None:
    """Who sees a key, as an interval of row codes: (from, until, mixed) of `Schedule`.

    A slot searched at rank s is seen below code 2s, that is by rows of rank < s. The draft view of
    rank j is seen from code 2j + 1 on: by draft views of rank j and by all rows of higher rank.
    A mask view's interval is empty; only its own row sees it. A row of branch b is seen by the
    rows of code 2b, which no draft view has.
    """
    start, until, mixed = at["key_from_BK"], at["key_until_BK"], at["key_mixed_BT"]
    times, more = _INTERVALS[:, :, views]
    start[place], until[place] = times * ranks + more
    mixed[place[0], place[1] // MASK_TILE] = 1
    sequences, slots, hidden_from = searched
    until[sequences, slots] = 2 * hidden_from
    mixed[sequences, slots // MASK_TILE] = 1
    for number, query in enumerate(asked):
        size = query.block_size
        if size is not None and has_past_rows(query):
            # a slot of the b-th block from the last is seen by rows of code ≥ -b
            slots = np.arange(query.length)
            start[number, : query.length] = slots // size - (query.length - 1) // size
            mixed[number, : -(-query.length // MASK_TILE)] = 1


def _blocks_before(asked: Sequence[Query]) -> np.ndarray:
    """How many blocks each row's own stands before the last visible one; 0 if bidirectional."""
    parts = []
    for query in asked:
        size = query.block_size
        if size is None or not has_past_rows(query):
            parts.append(np.zeros(query.rows, np.int64))
            continue
        own = np.array(query.positions) // size
        parts.append((query.length - 1) // size - own)
    return np.concatenate(parts)


def _write_replaced(
    at: Mapping[str, np.ndarray], frame: Frame, asked: Sequence[Query]
) -> None:
    """The key that a row's own entry stands in for; its tile is mixed."""
    for number, query in enumerate(asked):
        for row, slot in query.replaced.items():
            at["row_replaces_R"][frame.starts[number] + row] = slot
            at["key_mixed_BT"][number, slot // MASK_TILE] = 1


def _joined(asked: Sequence[Query], *names: str) -> np.ndarray:
    """Fields with an entry a row, those of all queries end to end: [fields, R]."""
    # by way of lists, which cost half of what an iterator does
    fields = [[getattr(query, name) for query in asked] for name in names]
    return np.array([list(chain.from_iterable(field)) for field in fields], np.int64)

"""The numbers of a pass, written into views of its layout: rows, keys, blocks, who sees whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from flash_dllm.pass_layout import Layout
from flash_dllm.pass_sizes import has_past_rows
from flash_dllm.query import Query, Role
from kernels.schedule import ALWAYS, BRANCH_VIEW, DRAFT_VIEW, MASK_TILE, MASK_VIEW, PAGE, SLOT

_VIEWS = {
    Role.DRAFT_VIEW: DRAFT_VIEW, Role.MASK_VIEW: MASK_VIEW, Role.PREDECESSOR_VIEW: MASK_VIEW,
    Role.SHADOW: MASK_VIEW, Role.BRANCH: BRANCH_VIEW, Role.TRACKED_COPY: DRAFT_VIEW,
    Role.DECIDED_COPY: DRAFT_VIEW,
}  # fmt: skip
_VIEW_OF_ROLE = np.array([_VIEWS.get(role, SLOT) for role in Role])
# as a key a predecessor's view is a mask view; as a reader of rank r it knows the first r drafts
_READER_OF_ROLE = _VIEW_OF_ROLE.copy()
_READER_OF_ROLE[Role.PREDECESSOR_VIEW] = DRAFT_VIEW
NO_SLOT = -1  # the slot of a padding row: nothing is written


def write_pass(
    layout: Layout,
    at: Mapping[str, np.ndarray],
    queries: Sequence[tuple[int, Query]],
    table: np.ndarray,
) -> None:
    """Fill the host's views, padding included."""
    sizes = layout.sizes
    asked = [query for _, query in queries]
    handles = np.array([handle for handle, _ in queries])
    counts = np.array([query.rows for query in asked])
    starts = counts.cumsum() - counts
    batch, rows = len(asked), int(counts.sum())
    sequences = np.repeat(np.arange(batch), counts)
    positions = _joined(asked, "positions")
    if sizes.has_views:
        local, roles, ranks = (_joined(asked, name) for name in ("slots", "roles", "ranks"))
        views, readers = _VIEW_OF_ROLE[roles], _READER_OF_ROLE[roles]
    else:
        # every row writes to its position's own slot, and nobody needs a rank
        local = positions
        ranks = views = readers = np.zeros_like(positions)  # SLOT

    def put(name: str, values: Any, padding: int) -> None:
        at[name][: len(values)] = values
        at[name][len(values) :] = padding

    put("tokens", _joined(asked, "tokens"), 0)
    put("positions", positions, 0)
    put("slots", table[handles[sequences], local], NO_SLOT)
    codes = 2 * ranks + (readers == DRAFT_VIEW)
    if any(map(has_past_rows, asked)):
        # rows of past blocks of a block-causal model stand below all ranks, block by block
        before = _blocks_before(asked)
        codes = np.where(before > 0, -before, codes)
    put("row_code_R", codes, 0)
    predict = _joined(asked, "predict")
    predict += np.repeat(starts, [len(query.predict) for query in asked])
    put("predict", predict, 0)
    # keys are the positions' slots, then the scratch slots of this pass's views
    lengths = np.array([query.length for query in asked])
    put("key_count_B", lengths, 0)
    if sizes.has_views:
        is_scratch = local >= lengths[sequences]
        at["key_count_B"][:batch] += np.bincount(sequences[is_scratch], minlength=batch)
    put("page_table_BN", table[handles, : sizes.keys : PAGE] // PAGE, 0)
    # padding rows go with the last sequence: their results are never read, but they are numbers
    in_blocks = counts.copy()
    in_blocks[-1] += sizes.rows - rows
    blocks = len(at["block_rows"])
    at["block_sequence"][:], at["block_first"][:], at["block_rows"][:] = block_table(
        in_blocks, layout.block_size, blocks
    )
    if sizes.mass:
        _write_mass(at, asked, predict)
    if sizes.has_views:
        is_view = views != SLOT
        place = sequences[is_view], local[is_view]
        at["key_row_BK"].fill(-1)
        at["key_row_BK"][place] = np.flatnonzero(is_view)
        _write_rules(at, asked, place, views[is_view], ranks[is_view])
        put("row_replaces_R", _replaced(asked, rows), -1)
        _mix_replaced(at, asked)
    if layout.is_dense:
        numbers = np.arange(rows)
        within = numbers - starts[sequences]
        at["rows_BW"].fill(0)
        at["rows_BW"][sequences, within] = numbers
        put("row_count_B", counts, 0)
        # padding rows belong to no sequence: what they get is the first row's result
        put("padded_R", sequences * sizes.width + within, 0)
        put("key_slots_BK", table[handles, : sizes.keys], 0)
        put("row_rank_R", ranks, 0)
        put("row_view_R", readers, SLOT)
        if sizes.has_views:
            limits = [query.limit(row) for query in asked for row in range(query.rows)]
            put("row_limit_R", limits, 0)
    if layout.is_dense and sizes.has_views:
        for name in ("key_searched_BK", "key_view_BK", "key_rank_BK"):
            at[name].fill(0)
        at["key_view_BK"][place] = views[is_view]
        at["key_rank_BK"][place] = ranks[is_view]
        searching, slots, hidden_from = _searched(asked)
        at["key_searched_BK"][searching, slots] = hidden_from


def _searched(asked: Sequence[Query]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(sequence, slot, rank) of every searched slot."""
    counts = [len(query.searched) for query in asked]
    slots = list(chain.from_iterable(query.searched for query in asked))
    ranks = list(chain.from_iterable(query.searched.values() for query in asked))
    sequences = np.repeat(np.arange(len(asked)), counts)
    return sequences, np.array(slots, np.int64), np.array(ranks, np.int64)


def _write_mass(
    at: Mapping[str, np.ndarray], asked: Sequence[Query], predict: np.ndarray
) -> None:
    """The rows whose attention mass is averaged (the first predicted ones), and their weights.

    predict  the predicted rows of all queries, end to end
    """
    rows, weights = at["mass_rows_BP"], at["mass_weight_BP"]
    rows.fill(0)
    weights.fill(0.0)
    wanted = np.array([query.mass_count for query in asked])
    starts = np.array([len(query.predict) for query in asked]).cumsum()
    starts -= [len(query.predict) for query in asked]
    number = np.repeat(np.arange(len(asked)), wanted)
    within = np.arange(len(number)) - (wanted.cumsum() - wanted)[number]
    rows[number, within] = predict[starts[number] + within]
    weights[number, within] = (1.0 / np.maximum(wanted, 1))[number]


def _write_rules(
    at: Mapping[str, np.ndarray],
    asked: Sequence[Query],
    place: tuple[np.ndarray, np.ndarray],
    views: np.ndarray,
    ranks: np.ndarray,
) -> None:
    """Who sees a key, as an interval of row codes: (from, until, mixed) of `Schedule`.

    A slot searched at rank s is seen below code 2s, that is by rows of rank < s. The draft view of
    rank j is seen from code 2j + 1 on: by draft views of rank j and by all rows of higher rank.
    A mask view's interval is empty; only its own row sees it. A row of branch b is seen by the
    rows of code 2b, which no draft view has.
    """
    start, until, mixed = at["key_from_BK"], at["key_until_BK"], at["key_mixed_BT"]
    start.fill(0)
    until.fill(ALWAYS)
    is_draft, is_branch = views == DRAFT_VIEW, views == BRANCH_VIEW
    start[place] = np.where(is_draft, 2 * ranks + 1, np.where(is_branch, 2 * ranks, 0))
    until[place] = np.where(is_draft, ALWAYS, np.where(is_branch, 2 * ranks + 1, 0))
    # tiles that end behind the last key are mixed, like those that hold a view
    ends = np.arange(1, mixed.shape[1] + 1) * MASK_TILE
    mixed[:] = ends > at["key_count_B"][:, None]
    mixed[place[0], place[1] // MASK_TILE] = 1
    sequences, slots, hidden_from = _searched(asked)
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


def _replaced(asked: Sequence[Query], rows: int) -> np.ndarray:
    """The key that each row's own entry stands in for; -1: none."""
    replaced, start = np.full(rows, -1), 0
    for query in asked:
        for row, slot in query.replaced.items():
            replaced[start + row] = slot
        start += query.rows
    return replaced


def _mix_replaced(at: Mapping[str, np.ndarray], asked: Sequence[Query]) -> None:
    for number, query in enumerate(asked):
        for slot in query.replaced.values():
            at["key_mixed_BT"][number, slot // MASK_TILE] = 1


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


def _joined(asked: Sequence[Query], name: str) -> np.ndarray:
    """One field of all queries, end to end."""
    fields = [getattr(query, name) for query in asked]
    # by way of a list, which costs half of what an iterator does
    return np.array(list(chain.from_iterable(fields)), np.int64)

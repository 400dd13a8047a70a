"""Queries of all live sequences → one batch of tensors, in one copy to the device.

Every field of a pass is a stretch of one buffer, filled on the host with numpy and copied as a
whole. A pass may be padded to fixed sizes, so that a CUDA graph can replay it: padding rows belong
to no sequence, write to no slot and are never read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flash_dllm.pass_sizes import PassSizes, bucket_step, has_past_rows, view_count
from flash_dllm.query import Query, Role
from kernels.configs_attention import FEW_ROWS, copies_runs
from kernels.schedule import (
    ALWAYS,
    BRANCH_VIEW,
    DRAFT_VIEW,
    MASK_TILE,
    MASK_VIEW,
    PAGE,
    RUNS,
    SLOT,
    TAIL_ROWS,
    Schedule,
    best_block_size,
    most_blocks,
)

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
ALIGNMENT = 16  # bytes; kernels ask it of every pointer


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
    """Pack (handle, query) pairs into tensors of their own, without padding rows.

    table       maps a sequence's local slots to the buffer's
    group       query heads per key/value head, for the kernels' query blocks
    block_size  rows per query block (`kernels.schedule.block_sizes`), or None for the best
    """
    return PassBuffer(device, group).fill(queries, table, block_size=block_size)


class PassBuffer:
    """The host buffer (pinned where there is a GPU) that passes are packed into, and its copy.

    group     query heads per key/value head
    is_dense  whether to fill in what only the torch truth reads
    room      the largest sizes that will come, if the buffer must never move (CUDA graphs read
              from it); a buffer without it grows

    copies_runs  whether the kernels copy keys that stand in runs tile by tile
    """

    copies_runs = False

    def __init__(
        self,
        device: torch.device,
        group: int = 1,
        is_dense: bool = True,
        room: PassSizes | None = None,
    ) -> None:
        self._device = device
        self._group = group
        self._is_dense = is_dense
        self._layouts: dict[tuple[PassSizes, int], _Layout] = {}
        # the host's and the device's views of a layout, and the pass that the device's are: making
        # them costs more than filling them
        self._views: dict[tuple[PassSizes, int, bool, int], tuple[dict, dict, Packed]] = {}
        self._is_fixed = room is not None
        if device.type == "cuda":
            self.copies_runs = copies_runs(torch.cuda.get_device_capability(device))
        # says when the device has read the host's buffer
        self._copied = torch.cuda.Event() if device.type == "cuda" else None
        # the smallest blocks need the longest table
        self._allocate(_Layout(room, 1, room.rows, True).length if room is not None else 0)

    def _allocate(self, length: int) -> None:
        is_gpu = self._device.type == "cuda"
        self._host = torch.zeros(length, dtype=torch.uint8, pin_memory=is_gpu)
        is_host = self._device.type == "cpu"
        self._copy = self._host if is_host else torch.zeros_like(self._host, device=self._device)
        self._views.clear()

    def fill(
        self,
        queries: Sequence[tuple[int, Query]],
        table: Tensor,
        sizes: PassSizes | None = None,
        block_size: int | None = None,
    ) -> Packed:
        """Pack (handle, query) pairs; `table` maps a sequence's local slots to the buffer's.

        sizes   shapes to pad to; the pass then takes no short cut that depends on its contents

        What comes back are views of the device's copy: the next `fill` writes over them, behind
        whatever was launched to read them before. On CUDA it waits until the last copy was made.
        """
        is_padded = sizes is not None or _is_ragged(queries)
        sizes = sizes or PassSizes.of(queries)
        run_keys = shortest_run(queries, table.numpy())
        if block_size is None:
            narrow = run_keys and self.copies_runs and sizes.rows <= FEW_ROWS
            most = 64 if narrow else 128 + TAIL_ROWS
            block_size = best_block_size(sizes.width, self._group, most)
        layout = self._layouts.get((sizes, block_size))
        if layout is None:
            layout = _Layout(sizes, block_size, _blocks(sizes, block_size), self._is_dense)
            self._layouts[sizes, block_size] = layout
        if self._copied is not None:
            # the copy of the pass before may wait behind one that is still running
            self._copied.synchronize()
        if layout.length > len(self._host):
            if self._is_fixed:
                raise RuntimeError(f"the pass {sizes} needs more room than was set apart for it")
            self._allocate(layout.length)
        key = sizes, block_size, is_padded, run_keys
        if key not in self._views:
            on_device = layout.split(self._copy)
            packed = _packed(layout, on_device, is_padded, run_keys)
            self._views[key] = layout.split(self._host.numpy()), on_device, packed
        on_host, on_device, packed = self._views[key]
        _write(layout, on_host, queries, table.numpy())
        if self._copy is not self._host:
            self._copy[: layout.length].copy_(self._host[: layout.length], non_blocking=True)
        if self._copied is not None:
            self._copied.record(torch.cuda.current_stream(self._device))
        # the torch truth keeps its dense mask with the pass, which must then be a new one
        return _packed(layout, on_device, is_padded, run_keys) if self._is_dense else packed


def _blocks(sizes: PassSizes, block_size: int) -> int:
    """Room for the query blocks of any pass of these sizes, padding rows included."""
    of_sequences = sizes.sequences * -(-sizes.width // block_size)
    of_padding = -(-bucket_step(sizes.rows) // block_size)
    return min(most_blocks(sizes.rows, sizes.sequences, block_size), of_sequences + of_padding)


_TORCH: dict[Any, torch.dtype] = {
    np.int64: torch.int64,
    np.int32: torch.int32,
    np.float32: torch.float32,
}


class _Layout:
    """Where each field stands in the buffer."""

    def __init__(self, sizes: PassSizes, block_size: int, blocks: int, is_dense: bool) -> None:
        self.sizes, self.block_size, self.is_dense = sizes, block_size, is_dense
        R, P, B = sizes.rows, sizes.predicted, sizes.sequences
        K, W, M = sizes.keys, sizes.width, sizes.mass
        tiles = -(-K // (2 * MASK_TILE)) * 2
        fields: dict[str, tuple[type, tuple[int, ...]]] = {
            "tokens": (np.int64, (R,)),
            "positions": (np.int64, (R,)),
            "slots": (np.int64, (R,)),
            "predict": (np.int64, (P,)),
            "key_count_B": (np.int64, (B,)),
            "mass_rows_BP": (np.int64, (B, M)),
            "mass_weight_BP": (np.float32, (B, M)),
            "block_sequence": (np.int32, (blocks,)),
            "block_first": (np.int32, (blocks,)),
            "block_rows": (np.int32, (blocks,)),
            "page_table_BN": (np.int32, (B, -(-K // PAGE))),
            "row_code_R": (np.int32, (R,)),
        }
        if sizes.has_views:
            fields |= {
                "key_row_BK": (np.int64, (B, K)),
                "key_from_BK": (np.int32, (B, K)),
                "key_until_BK": (np.int32, (B, K)),
                "key_mixed_BT": (np.int32, (B, tiles)),
                "row_replaces_R": (np.int32, (R,)),
            }
        if is_dense:
            fields |= {
                "rows_BW": (np.int64, (B, W)),
                "row_count_B": (np.int64, (B,)),
                "padded_R": (np.int64, (R,)),
                "key_slots_BK": (np.int64, (B, K)),
                "row_rank_R": (np.int64, (R,)),
                "row_view_R": (np.int64, (R,)),
            }
        if is_dense and sizes.has_views:
            fields["row_limit_R"] = (np.int64, (R,))
        if is_dense and sizes.has_views:
            names = ("key_searched_BK", "key_view_BK", "key_rank_BK")
            fields |= dict.fromkeys(names, (np.int64, (B, K)))
        self._places = []
        self.length = 0
        for name, (dtype, shape) in fields.items():
            size = int(np.prod(shape)) * np.dtype(dtype).itemsize
            self._places.append((name, self.length, self.length + size, dtype, shape))
            self.length += -(-size // ALIGNMENT) * ALIGNMENT

    def split(self, buffer: Any) -> dict[str, Any]:
        """name → view, of a numpy array or a tensor of bytes."""
        is_tensor = isinstance(buffer, Tensor)
        return {
            name: buffer[start:end].view(_TORCH[dtype] if is_tensor else dtype).reshape(shape)
            for name, start, end, dtype, shape in self._places
        }


def _write(
    layout: _Layout,
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


def _packed(
    layout: _Layout, at: Mapping[str, Tensor], is_padded: bool, run_keys: int
) -> Packed:
    """The device's views as a pass."""
    sizes = layout.sizes
    R, B, W, K = sizes.rows, sizes.sequences, sizes.width, sizes.keys
    # what nobody reads has its shape and no memory of its own
    nothing = at["key_count_B"][:1]

    def dense(name: str, *shape: int) -> Tensor:
        return at[name] if name in at else nothing.expand(shape)

    schedule = Schedule(
        rows_BW=dense("rows_BW", B, W),
        row_count_B=dense("row_count_B", B),
        padded_R=dense("padded_R", R),
        key_slots_BK=dense("key_slots_BK", B, K),
        key_count_B=at["key_count_B"],
        row_rank_R=dense("row_rank_R", R),
        row_view_R=dense("row_view_R", R),
        key_searched_BK=dense("key_searched_BK", B, K),
        key_view_BK=dense("key_view_BK", B, K),
        key_rank_BK=dense("key_rank_BK", B, K),
        key_row_BK=dense("key_row_BK", B, K),
        has_views=sizes.has_views,
        is_padded=is_padded,
        run_keys=run_keys,
        block_size=layout.block_size,
        block_sequence=at["block_sequence"],
        block_first=at["block_first"],
        block_rows=at["block_rows"],
        page_table_BN=at["page_table_BN"],
        row_code_R=at["row_code_R"],
        key_from_BK=at.get("key_from_BK"),
        key_until_BK=at.get("key_until_BK"),
        key_mixed_BT=at.get("key_mixed_BT"),
        row_replaces_R=at.get("row_replaces_R"),
        row_limit_R=at.get("row_limit_R"),
        mass_rows_BP=at["mass_rows_BP"] if sizes.mass else None,
        mass_weight_BP=at["mass_weight_BP"] if sizes.mass else None,
    )
    return Packed(at["tokens"], at["positions"], at["slots"], at["predict"], schedule)


def shortest_run(queries: Sequence[tuple[int, Query]], table: np.ndarray) -> int:
    """`Schedule.run_keys` of a pass: 0 if the slots of a sequence's keys lie apart.

    >>> from flash_dllm.query import Query
    >>> table = np.array([[*range(32, 96)], [*range(0, 16), *range(96, 144)]])
    >>> run = lambda *pairs: shortest_run([(h, Query("draft", n)) for h, n in pairs], table)
    >>> run((0, 40)), run((0, 64), (1, 16)), run((1, 17)), run((0, 15))
    (32, 16, 0, 0)
    """
    handles = [handle for handle, _ in queries]
    counts = np.array([query.length + view_count(query) for _, query in queries])
    starts = table[handles, : counts.max() : PAGE]
    along = np.arange(starts.shape[1]) * PAGE
    is_next = (starts == starts[:, :1] + along) | (along >= counts[:, None])
    if not is_next.all():
        return 0
    return max(keys for keys in RUNS if keys <= counts.min())


def _is_ragged(queries: Sequence[tuple[int, Query]]) -> bool:
    shapes = {(query.rows, query.length + view_count(query)) for _, query in queries}
    return len(shapes) > 1


def _joined(asked: Sequence[Query], name: str) -> np.ndarray:
    """One field of all queries, end to end."""
    fields = [getattr(query, name) for query in asked]
    # by way of a list, which costs half of what an iterator does
    return np.array(list(chain.from_iterable(fields)), np.int64)

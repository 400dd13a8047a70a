"""Queries of all live sequences → one batch of tensors, in one copy to the device.

Every field of a pass is a stretch of one int64 buffer, filled on the host with numpy and copied
as a whole. A pass may be padded to fixed sizes, so that a CUDA graph can replay it: padding rows
belong to no sequence, write to no sequence's slot and are never read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from flash_dllm.query import Query, Role
from kernels.schedule import DRAFT_VIEW, MASK_VIEW, SLOT, Schedule

_VIEW_OF_ROLE = np.array(
    [{Role.DRAFT_VIEW: DRAFT_VIEW, Role.MASK_VIEW: MASK_VIEW}.get(role, SLOT) for role in Role]
)
NO_SLOT = -1  # the slot of a padding row: nothing is written


@dataclass(frozen=True)
class Packed:
    """One pass. tokens, positions, slots [R] int64; predict [P] int64 row numbers."""

    tokens: Tensor
    positions: Tensor
    slots: Tensor
    predict: Tensor
    schedule: Schedule


@dataclass(frozen=True)
class PassSizes:
    """The shapes of a packed pass: what a CUDA graph is captured for. The phase is data.

    rows, predicted, sequences  how many
    width      rows of the longest sequence
    keys       slots of the longest sequence, scratch included
    mass       rows of one sequence whose attention mass is wanted; 0: no mass
    has_views  whether rows differ in what they see
    """

    rows: int
    predicted: int
    sequences: int
    width: int
    keys: int
    mass: int
    has_views: bool

    @classmethod
    def of(cls, queries: Sequence[tuple[int, Query]]) -> PassSizes:
        """The exact sizes of these queries."""
        asked = [query for _, query in queries]
        views = [_views(query) for query in asked]
        return cls(
            rows=sum(query.rows for query in asked),
            predicted=sum(len(query.predict) for query in asked),
            sequences=len(asked),
            width=max(query.rows for query in asked),
            keys=max(query.length + count for query, count in zip(asked, views, strict=True)),
            mass=max(len(query.predict) if query.wants_mass else 0 for query in asked),
            has_views=any(views),
        )

    def padded(self, keys: int) -> PassSizes:
        """Rounded up to few different sizes, with room for `keys` keys a sequence."""
        return PassSizes(
            rows=bucket(self.rows),
            predicted=bucket(self.predicted),
            sequences=sequence_bucket(self.sequences),
            width=bucket(self.width),
            keys=keys,
            mass=bucket(self.mass) if self.mass else 0,
            has_views=self.has_views,
        )


def bucket(count: int) -> int:
    """Rows rounded up to a multiple of 16, and by at most an eighth above 128.

    >>> [bucket(n) for n in (1, 32, 100, 144, 145, 1152, 4608, 4609)]
    [16, 32, 112, 144, 160, 1152, 4608, 5120]
    """
    step = max(16, 1 << max(0, count.bit_length() - 4))
    return -(-count // step) * step


def sequence_bucket(count: int) -> int:
    """Sequences rounded up: powers of two to 8, then multiples of 8.

    >>> [sequence_bucket(n) for n in (1, 2, 3, 8, 9, 32)]
    [1, 2, 4, 8, 16, 32]
    """
    return 1 << (count - 1).bit_length() if count <= 8 else -(-count // 8) * 8


class PassBuffer:
    """The host buffer (pinned where there is a GPU) that passes are packed into, and its copy.

    What `fill` returns are views of the device's copy: the next `fill` writes over them. Grows
    when a pass needs more room, which is forbidden once a CUDA graph reads from it: give it the
    room that its largest pass needs.
    """

    def __init__(self, device: torch.device, room: PassSizes | None = None) -> None:
        self._device = device
        self._layouts: dict[PassSizes, _Layout] = {}
        self._is_fixed = room is not None
        self._allocate(_Layout(room).length if room is not None else 0)

    def _allocate(self, length: int) -> None:
        is_gpu = self._device.type == "cuda"
        self._host = torch.empty(length, dtype=torch.int64, pin_memory=is_gpu)
        is_host = self._device.type == "cpu"
        self._copy = self._host if is_host else torch.empty_like(self._host, device=self._device)

    def fill(
        self,
        queries: Sequence[tuple[int, Query]],
        table: Tensor,
        sizes: PassSizes | None = None,
    ) -> Packed:
        """Pack (handle, query) pairs; `table` maps a sequence's local slots to the buffer's.

        sizes   shapes to pad to; the pass then takes no short cut that depends on its contents
        """
        is_padded = sizes is not None or _is_ragged(queries)
        sizes = sizes or PassSizes.of(queries)
        layout = self._layouts.get(sizes) or self._layouts.setdefault(sizes, _Layout(sizes))
        if layout.length > len(self._host):
            if self._is_fixed:
                raise RuntimeError(f"the pass {sizes} needs more room than was set apart for it")
            self._allocate(layout.length)
        _write(layout.split(self._host.numpy()), queries, table.numpy(), sizes)
        if self._copy is not self._host:
            self._copy[: layout.length].copy_(self._host[: layout.length], non_blocking=True)
        return _packed(layout.split(self._copy), sizes, is_padded)


def pack(queries: Sequence[tuple[int, Query]], table: Tensor, device: torch.device) -> Packed:
    """Pack (handle, query) pairs into tensors of their own, without padding rows."""
    return PassBuffer(device).fill(queries, table)


# fields start at multiples of 16 bytes: kernels ask for that of every pointer
_ALIGNED = 2


class _Layout:
    """Where each field stands in the buffer."""

    def __init__(self, sizes: PassSizes) -> None:
        R, P, B = sizes.rows, sizes.predicted, sizes.sequences
        K, W, M = sizes.keys, sizes.width, sizes.mass
        self._shapes: dict[str, tuple[int, ...]] = {
            "tokens": (R,), "positions": (R,), "slots": (R,), "predict": (P,),
            "rows_BW": (B, W), "row_count_B": (B,), "padded_R": (R,),
            "key_slots_BK": (B, K), "key_count_B": (B,), "row_rank_R": (R,), "row_view_R": (R,),
            # fp32 numbers, two to an entry
            "mass_rows_BP": (B, M), "mass_weight_BP": (-(-B * M // 2),),
        }  # fmt: skip
        if sizes.has_views:
            names = ("key_searched_BK", "key_view_BK", "key_rank_BK", "key_row_BK")
            self._shapes |= dict.fromkeys(names, (B, K))
        self._lengths = [int(np.prod(shape)) for shape in self._shapes.values()]
        self._steps = [-(-length // _ALIGNED) * _ALIGNED for length in self._lengths]
        self.length = sum(self._steps)

    def split(self, buffer):
        """name → view, of a numpy array or a tensor."""
        views, start = {}, 0
        for (name, shape), length, step in zip(
            self._shapes.items(), self._lengths, self._steps, strict=True
        ):
            views[name] = buffer[start : start + length].reshape(shape)
            start += step
        return views


def _write(
    at: dict[str, np.ndarray],
    queries: Sequence[tuple[int, Query]],
    table: np.ndarray,
    sizes: PassSizes,
) -> None:
    """Fill the host's views, padding included."""
    asked = [query for _, query in queries]
    handles = np.array([handle for handle, _ in queries])
    counts = np.array([query.rows for query in asked])
    starts = counts.cumsum() - counts
    batch, rows = len(asked), int(counts.sum())
    sequences = np.repeat(np.arange(batch), counts)
    numbers = np.arange(rows)
    within = numbers - starts[sequences]

    local, roles = _joined(asked, "slots"), _joined(asked, "roles")
    ranks, views = _joined(asked, "ranks"), _VIEW_OF_ROLE[roles]
    for name, values, padding in (
        ("tokens", _joined(asked, "tokens"), 0),
        ("positions", _joined(asked, "positions"), 0),
        ("slots", table[handles[sequences], local], NO_SLOT),
        # padding rows belong to no sequence: what they get is the first row's result
        ("padded_R", sequences * sizes.width + within, 0),
        ("row_rank_R", ranks, 0),
        ("row_view_R", views, SLOT),
    ):
        at[name][:rows] = values
        at[name][rows:] = padding

    predict = [start + r for query, start in zip(asked, starts, strict=True) for r in query.predict]
    at["predict"][: len(predict)] = predict
    at["predict"][len(predict) :] = 0
    at["rows_BW"].fill(0)
    at["rows_BW"][sequences, within] = numbers
    at["row_count_B"][:batch] = counts
    at["row_count_B"][batch:] = 0

    # keys are the positions' slots, then the scratch slots of this pass's views
    is_view = views != SLOT
    lengths = np.array([query.length for query in asked])
    at["key_slots_BK"][:batch] = table[handles, : sizes.keys]
    at["key_slots_BK"][batch:] = 0
    at["key_count_B"][:batch] = lengths + np.bincount(sequences[is_view], minlength=batch)
    at["key_count_B"][batch:] = 0
    if sizes.has_views:
        for name, padding in (
            ("key_searched_BK", 0), ("key_view_BK", SLOT), ("key_rank_BK", 0), ("key_row_BK", -1),
        ):  # fmt: skip
            at[name].fill(padding)
        for number, query in enumerate(asked):
            for slot, rank in query.searched.items():
                at["key_searched_BK"][number, slot] = rank
        place = sequences[is_view], local[is_view]
        at["key_view_BK"][place] = views[is_view]
        at["key_rank_BK"][place] = ranks[is_view]
        at["key_row_BK"][place] = numbers[is_view]
    if sizes.mass:
        at["mass_rows_BP"].fill(0)
        weights = at["mass_weight_BP"].view(np.float32)
        weights.fill(0.0)
        weights = weights[: at["mass_rows_BP"].size].reshape(at["mass_rows_BP"].shape)
        for number, query in enumerate(asked):
            if query.wants_mass and (wanted := len(query.predict)):
                at["mass_rows_BP"][number, :wanted] = query.predict
                at["mass_rows_BP"][number, :wanted] += starts[number]
                weights[number, :wanted] = 1.0 / wanted


def _packed(at: dict[str, Tensor], sizes: PassSizes, is_padded: bool) -> Packed:
    """The device's views as a pass."""
    none = at["key_slots_BK"]  # stands for what nobody reads where there are no views
    mass_rows = weights = None
    if sizes.mass:
        mass_rows = at["mass_rows_BP"]
        weights = at["mass_weight_BP"].view(torch.float32)[: mass_rows.numel()]
        weights = weights.view(mass_rows.shape)
    schedule = Schedule(
        rows_BW=at["rows_BW"],
        row_count_B=at["row_count_B"],
        padded_R=at["padded_R"],
        key_slots_BK=at["key_slots_BK"],
        key_count_B=at["key_count_B"],
        row_rank_R=at["row_rank_R"],
        row_view_R=at["row_view_R"],
        key_searched_BK=at.get("key_searched_BK", none),
        key_view_BK=at.get("key_view_BK", none),
        key_rank_BK=at.get("key_rank_BK", none),
        key_row_BK=at.get("key_row_BK", none),
        has_views=sizes.has_views,
        is_padded=is_padded,
        mass_rows_BP=mass_rows,
        mass_weight_BP=weights,
    )
    return Packed(at["tokens"], at["positions"], at["slots"], at["predict"], schedule)


def _views(query: Query) -> int:
    """How many rows write to scratch slots."""
    return sum(slot >= query.length for slot in query.slots)


def _is_ragged(queries: Sequence[tuple[int, Query]]) -> bool:
    shapes = {(query.rows, query.length + _views(query)) for _, query in queries}
    return len(shapes) > 1


def _joined(asked: Sequence[Query], name: str) -> np.ndarray:
    """One field of all queries, end to end."""
    return np.fromiter(chain.from_iterable(getattr(query, name) for query in asked), np.int64)

"""Queries of all live sequences → one batch of tensors, in one copy to the device.

Every field of a pass is a stretch of one buffer, filled on the host with numpy and copied as a
whole. A pass may be padded to fixed sizes, so that a CUDA graph can replay it: padding rows belong
to no sequence, write to no slot and are never read.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from flash_dllm.pass_frame import Frames
from flash_dllm.pass_layout import Layout, Packed, blocks_for, packed_pass
from flash_dllm.pass_numbers import write_pass
from flash_dllm.pass_sizes import PassSizes, view_count
from flash_dllm.query import Query
from kernels.configs_attention import FEW_ROWS, copies_runs
from kernels.schedule import TAIL_ROWS, best_block_size


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
        self._layouts: dict[tuple[PassSizes, int], Layout] = {}
        self._frames = Frames()
        # the host's and the device's views of a layout, and the pass that the device's are: making
        # them costs more than filling them
        self._views: dict[tuple[PassSizes, int, bool, int], tuple[dict, dict, Packed]] = {}
        self._is_fixed = room is not None
        if device.type == "cuda":
            self.copies_runs = copies_runs(torch.cuda.get_device_capability(device))
        # says when the device has read the host's buffer
        self._copied = torch.cuda.Event() if device.type == "cuda" else None
        # the smallest blocks need the longest table
        self._allocate(Layout(room, 1, room.rows, True).length if room is not None else 0)

    def _allocate(self, length: int) -> None:
        is_gpu = self._device.type == "cuda"
        self._host = torch.zeros(length, dtype=torch.uint8, pin_memory=is_gpu)
        self._bytes = self._host.numpy()
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
        local = table.numpy()
        asked = [query for _, query in queries]
        key_counts = [query.length + view_count(query) for query in asked]
        is_padded = sizes is not None or _is_ragged(queries, key_counts)
        sizes = sizes or PassSizes.of(queries)
        frame = self._frames.of(queries, local)
        run_keys = frame.run_keys(key_counts)
        if block_size is None:
            narrow = run_keys and self.copies_runs and sizes.rows <= FEW_ROWS
            most = 64 if narrow else 128 + TAIL_ROWS
            block_size = best_block_size(sizes.width, self._group, most)
        layout = self._layouts.get((sizes, block_size))
        if layout is None:
            layout = Layout(sizes, block_size, blocks_for(sizes, block_size), self._is_dense)
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
            packed = packed_pass(layout, on_device, is_padded, run_keys)
            self._views[key] = layout.split(self._bytes), on_device, packed
        on_host, on_device, packed = self._views[key]
        frame.lay(layout, self._bytes[: layout.length], on_host, local)
        write_pass(layout, on_host, frame, asked, key_counts, local)
        if self._copy is not self._host:
            self._copy[: layout.length].copy_(self._host[: layout.length], non_blocking=True)
        if self._copied is not None:
            self._copied.record(torch.cuda.current_stream(self._device))
        # the torch truth keeps its dense mask with the pass, which must then be a new one
        return packed_pass(layout, on_device, is_padded, run_keys) if self._is_dense else packed


def _is_ragged(queries: Sequence[tuple[int, Query]], key_counts: Sequence[int]) -> bool:
    return len(set(key_counts)) > 1 or len({query.rows for _, query in queries}) > 1

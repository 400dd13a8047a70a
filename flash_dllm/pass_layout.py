"""Where each number of a pass stands in one buffer, and the pass that views of it make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flash_dllm.pass_sizes import PassSizes, bucket_step
from kernels.schedule import MASK_TILE, PAGE, Schedule, most_blocks

ALIGNMENT = 16  # bytes; kernels ask it of every pointer


@dataclass(frozen=True)
class Packed:
    """One pass. tokens, positions, slots [R] int64; predict [P] int64 row numbers."""

    tokens: Tensor
    positions: Tensor
    slots: Tensor
    predict: Tensor
    schedule: Schedule


def blocks_for(sizes: PassSizes, block_size: int) -> int:
    """Room for the query blocks of any pass of these sizes, padding rows included."""
    of_sequences = sizes.sequences * -(-sizes.width // block_size)
    of_padding = -(-bucket_step(sizes.rows) // block_size)
    return min(most_blocks(sizes.rows, sizes.sequences, block_size), of_sequences + of_padding)


_TORCH: dict[Any, torch.dtype] = {
    np.int64: torch.int64,
    np.int32: torch.int32,
    np.float32: torch.float32,
}


class Layout:
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


def packed_pass(
    layout: Layout, at: Mapping[str, Tensor], is_padded: bool, run_keys: int
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

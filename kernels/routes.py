"""Which kernel a product takes at its size: tables of what was measured.

Nothing is tried at run time. A row of a table is used only on the architecture class it was
measured on; everything else takes the library's product. Results of benchmarks/kernel_ops.py
decide what stands here.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from kernels.contract import INTERPRETER, architecture, power_of_two
from kernels.scaled import ScaledWeight, Weight

ROPE_CACHE, FUSED_QKV = "rope_cache", "fused_qkv"
QKV_ROUTES = ("auto", ROPE_CACHE, FUSED_QKV)
# most rows at which the single kernel won, by architecture class. H200, LLaDA-8B's shape: 28.9
# against 29.8 µs at 32 rows, 32.2 against 32.7 at 128, 38.3 against 33.7 at 144
FUSED_QKV_ROWS: dict[int, int] = {90: 128}


class Tile(NamedTuple):
    """A configuration of `skinny_gemm`; `block_n` counts weight rows (gated: of each half)."""

    block_n: int = 128
    block_k: int = 64
    splits: int = 1
    stages: int = 4
    warps: int = 8
    uses_tma: bool = False

    def share(self, k: int) -> int:
        """Columns of one split of K columns, whole blocks."""
        blocks = -(-k // self.block_k)
        return -(-blocks // self.splits) * self.block_k


# (most rows, N, K) → tile, by architecture class; rows above the last entry take the library
# H200, LLaDA-8B's shape: µs against the library's in the last column, adding up the parts included
PRODUCT_TILES: dict[int, dict[tuple[int, int, int], Tile]] = {
    90: {
        (32, 12288, 4096): Tile(64, 128, 1, 4, 4, True),  # qkv: 27.2, 28.9
        (32, 4096, 4096): Tile(64, 256, 2, 4, 4, True),  # attention output: 11.2, 13.8
        (128, 4096, 4096): Tile(64, 128, 2, 4, 4, True),  # 12.9, 14.0
        (144, 4096, 4096): Tile(64, 64, 2, 8, 4, True),  # 14.2, 16.1
        (32, 4096, 12288): Tile(64, 256, 2, 4, 4, True),  # down: 27.2, 30.8
        (128, 4096, 12288): Tile(64, 128, 2, 4, 4, True),  # 31.0, 33.9
        (144, 4096, 12288): Tile(64, 64, 2, 8, 4, True),  # 33.2, 36.7
        (16, 126464, 4096): Tile(128, 128, 1, 3, 8, True),  # head: 238, 251
        (64, 126464, 4096): Tile(128, 128, 1, 2, 8, True),  # 252, 262
    }
}
# the same for the gate-up product with SwiGLU inside; N counts both halves
GATED_TILES: dict[int, dict[tuple[int, int, int], Tile]] = {
    90: {
        (32, 24576, 4096): Tile(64, 64, 1, 5, 4, True),  # 52.6, 53.3
        (128, 24576, 4096): Tile(64, 64, 1, 3, 4, True),  # 57.9, 59.0
    }
}


def qkv_route(
    rows: int, head_dim: int, device: torch.device, route: str = "auto", is_scaled: bool = False
) -> str:
    """Which of the two kernels `project_and_cache` runs with impl="triton".

    `rope_cache` is one library product and one kernel behind it; `fused_qkv` is the paper's single
    kernel, for head sizes that are powers of two from 16 on and weights that are not fp8
    (`is_scaled`). Raises ValueError for another name or for a single kernel that can't be had.
    """
    if route not in QKV_ROUTES:
        raise ValueError(f"the QKV route must be one of {', '.join(QKV_ROUTES)}, got {route!r}")
    is_fusable = head_dim >= 16 and power_of_two(head_dim) == head_dim
    if route == FUSED_QKV and not is_fusable:
        raise ValueError(
            f"fused_qkv takes head sizes that are powers of two from 16 on, got {head_dim}; use "
            f"{ROPE_CACHE!r}"
        )
    if route == FUSED_QKV and is_scaled:
        raise ValueError(f"fused_qkv reads no fp8 weights; use {ROPE_CACHE!r}")
    if route != "auto":
        return route
    few = rows <= FUSED_QKV_ROWS.get(architecture(device), 0)
    return FUSED_QKV if few and is_fusable and not is_scaled else ROPE_CACHE


def product_tile(rows: int, weight: Weight, is_gated: bool = False) -> Tile | None:
    """The tile of `skinny_gemm` that beat the library for `rows` rows and a weight [N, K].

    None: take the library, as always for fp8. Looks at shapes, dtype and device only.
    """
    if isinstance(weight, ScaledWeight):
        return None
    arch = architecture(weight.device)
    if arch == INTERPRETER or weight.dtype == torch.float32 or not rows:
        return None
    table = (GATED_TILES if is_gated else PRODUCT_TILES).get(arch, {})
    fitting = [key for key in table if rows <= key[0] and key[1:] == tuple(weight.shape)]
    return table[min(fitting)] if fitting else None

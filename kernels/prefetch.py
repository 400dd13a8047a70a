"""Ask for the first columns of the next product's weights while a pointwise kernel runs.

With few rows a pass is bound by reading weights, yet between two products the memory stands idle:
norm, rotation and launches read next to nothing. On sm_90 one instruction asks for kilobytes to be
brought into the L2 and nobody waits for it, so those kernels issue it on the side. It is a hint: no
result depends on it. Every program of a product starts at the first columns of its rows (a split
product at those of its share), so it is these of all rows that are asked for.
"""

from __future__ import annotations

from typing import NamedTuple

import triton
import triton.language as tl
from torch import Tensor

from kernels.routes import prefetched_bytes, product_tile


@triton.jit
def prefetch(weight_ptr, chunks, splits, stride, share, size, program, programs,
             LANES: tl.constexpr):  # fmt: skip
    """Ask for `chunks` = rows · splits pieces of `size` bytes, shared out among the programs.

    `stride` and `share` are bytes between rows and between the splits of a row. LANES must be the
    program's number of threads, so that each piece is asked for once.
    """
    base = weight_ptr.to(tl.int64)
    for first in range(program * LANES, chunks, programs * LANES):
        chunk = first + tl.arange(0, LANES)
        row = chunk // splits
        address = base + row.to(tl.int64) * stride + (chunk - row * splits).to(tl.int64) * share
        tl.inline_asm_elementwise(
            """{
                .reg .pred p;
                setp.ne.s32 p, $2, 0;
                @p cp.async.bulk.prefetch.L2.global [$1], $3;
                mov.u32 $0, 0;
            }""",
            "=r,l,r,r",
            [address, (chunk < chunks).to(tl.int32), tl.full((LANES,), size, tl.int32)],
            dtype=tl.int32,
            is_pure=False,
            pack=1,
        )


class Hint(NamedTuple):
    """What to ask for; sizes in bytes, and size 0 asks for nothing."""

    weight: Tensor
    chunks: int = 0
    splits: int = 1
    stride: int = 0
    share: int = 0
    size: int = 0


def hint(weight: Tensor | None, rows: int) -> Hint | None:
    """What to ask of a weight [N, K] before its product with `rows` rows; None: nothing.

    Decided by shapes, dtype and device alone.
    """
    if weight is None or not rows:
        return None
    return first_columns(weight, rows, prefetched_bytes(rows, weight.device))


def first_columns(weight: Tensor, rows: int, wanted: int) -> Hint | None:
    """`wanted` bytes of the columns that the product's programs read first."""
    item = weight.element_size()
    n, k = weight.shape
    if weight.stride(0) * item % 16 or weight.stride(1) != 1:
        return None
    tile = product_tile(rows, weight)
    splits = 1 if tile is None else tile.splits
    share = k if tile is None else tile.share(k)
    # whole lines of the L2, and not more than there is
    size = min(wanted // (n * splits), share * item) // 128 * 128
    if share * splits != k or not size:
        return None
    return Hint(weight, n * splits, splits, weight.stride(0) * item, share * item, size)

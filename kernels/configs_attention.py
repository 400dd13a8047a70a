"""Tile sizes of the attention kernels: a small table by class of GPU, no search at run time.

Chosen from what the compiler reports (registers, shared memory, spills; `tests/kernels` asserts it)
and then by measurement on the classes we have; `benchmarks/kernel_attention.py --sweep` measures
the neighbours of an entry.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Tile:
    """How one program works.

    keys       per step
    warps      per program
    stages     of the software pipeline
    resident   programs that fit on one multiprocessor, for the number of key splits
    is_tail_transposed  whether the tail of a 144-row tile is computed keys × rows. A must where
               the main tile's products are wgmma, a loss elsewhere (`scheduled_attention.py`)
    most_rows  of one program; several share a larger block
    """

    keys: int
    warps: int
    stages: int
    resident: int = 1
    is_tail_transposed: bool = False
    most_rows: int = 144


# class → rows of the tile → tile, for 16-bit inputs and heads of at most 128
_HALF: dict[int, dict[int, Tile]] = {
    # 227 KB of shared memory; from 64 rows on the products are wgmma
    90: {
        16: Tile(64, 4, 3, 2),
        32: Tile(64, 4, 3, 2),
        64: Tile(64, 4, 3, 2),
        128: Tile(64, 8, 3),
        144: Tile(64, 8, 3, is_tail_transposed=True),
    },
    # 163 KB
    80: {
        16: Tile(64, 4, 3, 2),
        32: Tile(64, 4, 3, 2),
        64: Tile(64, 4, 3, 2),
        128: Tile(64, 8, 3),
        144: Tile(64, 8, 3),
    },
    # 99 KB: sm_86, sm_89, sm_12x
    86: {
        16: Tile(64, 4, 2),
        32: Tile(64, 4, 2),
        64: Tile(64, 4, 2),
        128: Tile(32, 8, 3),
        144: Tile(32, 8, 3),
    },
}
# rows of a pass up to which blocks of 64 are faster than wider ones, if keys stand in runs
# (H200: 288 rows of two sequences 30.6 against 32.9 µs, 576 of four 58.4 against 50.3)
FEW_ROWS = 288
# passes with views need more registers, which a tail doesn't leave: fewer keys instead of spills
_HALF_VIEWS = {80: {144: Tile(32, 8, 3)}}
# fp32 is for equality tests; sm_75 (64 KB) gets no tensor-core products from Triton: both run on
# plain multiply-adds, correct and slow
_FULL = Tile(16, 8, 1, most_rows=32)


def gpu_class(capability: tuple[int, int]) -> int:
    """The key of the table for a compute capability."""
    if capability[0] in (9, 10, 11):
        return 90
    if capability == (8, 0):
        return 80
    return 75 if capability < (8, 0) else 86


def attention_tile(
    capability: tuple[int, int],
    rows: int,
    head_dim: int,
    itemsize: int,
    has_views: bool = False,
) -> Tile:
    """The tile for 16, 32, 64, 128 or 144 (128 + 16) rows of `itemsize` bytes a number."""
    kind = gpu_class(capability)
    if itemsize > 2 or kind == 75:
        return _FULL
    tile = _HALF[kind][rows]
    if has_views:
        tile = _HALF_VIEWS.get(kind, {}).get(rows, tile)
    if head_dim > 128:  # twice the bytes per key
        return replace(tile, keys=max(16, tile.keys // 2), resident=1)
    return tile


def copies_runs(capability: tuple[int, int]) -> bool:
    """Whether the device has the engine that copies tiles of a run of slots (sm_90, sm_10x)."""
    return gpu_class(capability) == 90


def attention_plan(
    capability: tuple[int, int],
    processors: int,
    rows: int,
    head_dim: int,
    itemsize: int,
    has_views: bool,
    programs: int,
    keys: int,
    is_run: bool = False,
) -> tuple[Tile, int]:
    """(tile, number of key splits) of a pass, from its shapes alone.

    programs  query blocks × key/value heads; keys  of the longest sequence
    is_run    whether keys are copied as runs of slots (`copies_runs`); tiles are the same
    """
    tile = attention_tile(capability, rows, head_dim, itemsize, has_views)
    is_narrow = is_run and tile.warps == 4
    splits = (run_splits if is_narrow else key_splits)(programs, keys, tile, processors)
    return tile, splits


def mass_tile(capability: tuple[int, int], head_dim: int, itemsize: int) -> tuple[int, Tile]:
    """(rows per step, tile) of `attention_mass`."""
    if itemsize > 2 or gpu_class(capability) == 75:
        return 32, Tile(32, 8, 1)
    if gpu_class(capability) == 90 and head_dim <= 128:
        # 32 and 64 rows cost the same for one sequence, 6.2 and 7.1 ms for 32 of them
        return 32, Tile(128, 4, 2)
    return 64, Tile(64, 4, 2)


def run_splits(programs: int, keys: int, tile: Tile, processors: int) -> int:
    """The same for tiles of four warps and keys in runs; 1, 2 or 4.

    Two parts as long as every processor has room for all its programs at once, four only if one
    program each is enough: parts have to be joined. H200, µs of a layer by parts: 32 programs 31.8,
    19.4, 15.8, 14.7 for 1 to 4; 64 programs 20.5, 15.0, 16.5, 17.6; 96: 20.7, 19.5, 25.2, 25.2;
    128: 30.0 and 24.2; 192: 30.6 and 37.6.

    >>> [run_splits(n, 1536, Tile(64, 4, 3), 132) for n in (32, 64, 96, 128, 192)]
    [4, 2, 2, 2, 1]
    """
    for parts, resident in ((4, 1), (2, 2)):
        if programs * parts <= processors * resident and keys >= 2 * parts * tile.keys:
            return parts
    return 1


def key_splits(programs: int, keys: int, tile: Tile, processors: int) -> int:
    """How many programs share the keys of one query block; from shapes alone.

    No split once 80 % of the chip is busy; otherwise the fewest parts within 85 % of the best use
    of whole waves, with two steps a part at least (the rule of FlashAttention 3, our limits).
    """
    slots = processors * tile.resident
    most = min(8, keys // (2 * tile.keys))
    if programs >= 0.8 * slots or most < 2:
        return 1

    def use(parts: int) -> float:
        waves = programs * parts / slots
        return waves / -(-programs * parts // slots)

    best = max(use(parts) for parts in range(1, most + 1))
    return next(parts for parts in range(1, most + 1) if use(parts) >= 0.85 * best)

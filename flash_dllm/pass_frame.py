"""What passes of the same sequences, row counts and lengths have in common, made once.

Decoding asks the same sequences for as many rows step after step; only the rows' numbers change.
So a pass is written in two parts: the image of its frame, one stretch of bytes with everything
that stays and all padding in its place, and over it the pass's own numbers (`pass_numbers.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from flash_dllm.pass_layout import Layout
from flash_dllm.query import Query
from kernels.schedule import ALWAYS, MASK_TILE, PAGE, RUNS

NO_SLOT = -1  # the slot of a padding row: nothing is written
# what stands in a field before anything is written; 0 in all others
_BLANK = {"slots": NO_SLOT, "key_row_BK": -1, "key_until_BK": ALWAYS, "row_replaces_R": -1}
# frames kept by a buffer: two groups of sequences need a handful, of their draft and verify passes
FRAMES = 32

Asked = Sequence[tuple[int, Query]]
Key = tuple[tuple[int, int, int], ...]


def frame_key(queries: Asked) -> Key:
    """All that a frame depends on but the table: handle, rows and length of each sequence."""
    return tuple([(handle, query.rows, query.length) for handle, query in queries])


class Frame:
    """One entry a sequence (B) or row (R) of the passes with this key, padding left out.

    handles_B, counts_B, lengths_B, starts_B   handle, rows, length and first row, int64
    starts                                     the first rows once more, as numbers
    sequences_R, handles_R                     each row's sequence and its handle, int64
    runs                                       how many slots of each sequence, from its first on,
                                               stand side by side in the cache
    """

    def __init__(self, key: Key, table: np.ndarray) -> None:
        self.handles_B, self.counts_B, self.lengths_B = np.array(key, np.int64).T
        self.starts_B = self.counts_B.cumsum() - self.counts_B
        self.starts: list[int] = self.starts_B.tolist()
        self.rows = int(self.counts_B.sum())
        self.sequences_R = np.repeat(np.arange(len(key)), self.counts_B)
        self.handles_R = self.handles_B[self.sequences_R]
        self._pages = self._pages_in(table)
        starts = table[self.handles_B, ::PAGE]
        is_apart = starts != starts[:, :1] + np.arange(starts.shape[1]) * PAGE
        ends = np.where(is_apart.any(axis=1), is_apart.argmax(axis=1), starts.shape[1])
        self.runs: list[int] = (ends * PAGE).tolist()
        self._images: dict[Layout, np.ndarray | None] = {}

    def _pages_in(self, table: np.ndarray) -> bytes:
        return table[:, ::PAGE][self.handles_B].tobytes()

    def stands(self, table: np.ndarray) -> bool:
        """Whether the sequences have the pages that they had: a handle is given anew when its
        sequence has ended."""
        return self._pages == self._pages_in(table)

    def run_keys(self, key_counts: Sequence[int]) -> int:
        """`Schedule.run_keys` of a pass whose sequences have so many keys."""
        return shortest_run(self.runs, key_counts)

    def lay(
        self, layout: Layout, memory: np.ndarray, at: Mapping[str, np.ndarray], table: np.ndarray
    ) -> None:
        """Write the image of a pass of this layout: all that is not its own numbers.

        memory, at  the pass's bytes, and its fields as views of them
        """
        image = self._images.get(layout)
        if image is not None:
            memory[:] = image
            return
        memory.fill(0)
        self._write(layout, at, table)
        # what comes for the second time will come again; many, as full passes, come but once
        self._images[layout] = memory.copy() if layout in self._images else None

    def _write(self, layout: Layout, at: Mapping[str, np.ndarray], table: np.ndarray) -> None:
        sizes, batch = layout.sizes, len(self.counts_B)
        for name, value in _BLANK.items():
            if name in at:
                at[name].fill(value)
        at["key_count_B"][:batch] = self.lengths_B
        at["page_table_BN"][:batch] = table[self.handles_B, : sizes.keys : PAGE] // PAGE
        if sizes.has_views:
            # tiles that end behind the last position hold views, or no keys at all
            ends = np.arange(1, at["key_mixed_BT"].shape[1] + 1) * MASK_TILE
            at["key_mixed_BT"][:] = ends > at["key_count_B"][:, None]
        # padding rows go with the last sequence: their results are never read, but they are numbers
        in_blocks = self.counts_B.copy()
        in_blocks[-1] += sizes.rows - self.rows
        blocks = len(at["block_rows"])
        at["block_sequence"][:], at["block_first"][:], at["block_rows"][:] = block_table(
            in_blocks, layout.block_size, blocks
        )
        if layout.is_dense:
            numbers = np.arange(self.rows)
            within = numbers - self.starts_B[self.sequences_R]
            at["rows_BW"][self.sequences_R, within] = numbers
            at["row_count_B"][:batch] = self.counts_B
            # padding rows belong to no sequence: what they get is the first row's result
            at["padded_R"][: self.rows] = self.sequences_R * sizes.width + within
            at["key_slots_BK"][:batch] = table[self.handles_B, : sizes.keys]


class Frames:
    """The frames that were needed last."""

    def __init__(self) -> None:
        self._frames: dict[Key, Frame] = {}

    def of(self, queries: Asked, table: np.ndarray) -> Frame:
        """The frame of these queries; `table` maps a sequence's local slots to the buffer's."""
        key = frame_key(queries)
        frame = self._frames.pop(key, None)
        if frame is None or not frame.stands(table):
            frame = Frame(key, table)
        self._frames[key] = frame  # behind all others
        if len(self._frames) > FRAMES:
            del self._frames[next(iter(self._frames))]
        return frame


def shortest_run(runs: Sequence[int], key_counts: Sequence[int]) -> int:
    """`Schedule.run_keys` of a pass: 0 if the slots of a sequence's keys lie apart.

    runs  how many slots of each sequence, from its first on, stand side by side

    >>> shortest_run([64], [40]), shortest_run([64, 16], [64, 16]), shortest_run([16], [17])
    (32, 16, 0)
    >>> shortest_run([64], [15])
    0
    """
    if any([run < count for run, count in zip(runs, key_counts, strict=True)]):
        return 0
    return max([keys for keys in RUNS if keys <= min(key_counts)])


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

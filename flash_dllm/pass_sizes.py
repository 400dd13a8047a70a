"""The shapes of a pass: exact, or rounded up so that few CUDA graphs serve all passes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flash_dllm.query import Query


@dataclass(frozen=True)
class PassSizes:
    """What a CUDA graph is captured for. The phase is data: draft and verify may share a graph.

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
        views = [view_count(query) for query in asked]
        rows = [query.rows for query in asked]
        return cls(
            rows=sum(rows),
            predicted=sum([len(query.predict) for query in asked]),
            sequences=len(asked),
            width=max(rows),
            keys=max([query.length + count for query, count in zip(asked, views, strict=True)]),
            mass=max([query.mass_count for query in asked]),
            has_views=any(views) or any(map(has_past_rows, asked)),
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


def view_count(query: Query) -> int:
    """How many rows write to scratch slots."""
    if not query.searched and not query.replaced:
        return 0
    length = query.length
    return len([slot for slot in query.slots if slot >= length])


def has_past_rows(query: Query) -> bool:
    """Whether rows of a block-causal model stand in blocks before the last visible one."""
    size = query.block_size
    if size is None:
        return False
    last = (query.length - 1) // size * size
    return any(position < last for position in query.positions)


def bucket(count: int) -> int:
    """Rows rounded up to a multiple of 16, and by at most an eighth above 128.

    >>> [bucket(n) for n in (1, 32, 100, 144, 145, 1152, 4608, 4609)]
    [16, 32, 112, 144, 160, 1152, 4608, 5120]
    """
    step = bucket_step(count)
    return -(-count // step) * step


def bucket_step(count: int) -> int:
    """The distance between buckets at this size."""
    return max(16, 1 << max(0, count.bit_length() - 4))


def sequence_bucket(count: int) -> int:
    """Sequences rounded up: powers of two to 8, then multiples of 8.

    >>> [sequence_bucket(n) for n in (1, 2, 3, 8, 9, 32)]
    [1, 2, 4, 8, 16, 32]
    """
    return 1 << (count - 1).bit_length() if count <= 8 else -(-count // 8) * 8

"""Who attends to what in one pass, as small integers per row and per key.

Legend of shape letters: R rows of the pass, B sequences, W rows of the longest sequence, K keys
of the longest sequence, P rows whose attention mass is wanted (longest sequence), N query
blocks, T tiles of `MASK_TILE` keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property

import torch
from torch import Tensor

SLOT, DRAFT_VIEW, MASK_VIEW, BRANCH_VIEW = 0, 1, 2, 3
PAGE = 16  # slots that stand side by side in the cache
MASK_TILE = 64  # keys that share one entry of `key_mixed_BT`
RUNS = (0, 16, 32, 64)  # what `Schedule.run_keys` may be: few values, so that few graphs do
TAIL_ROWS = 16  # the part of a 144-row tile beyond its first 128
ALWAYS = 2**31 - 1  # the end of an interval that never ends
_TILE_ROWS = (16, 32, 64, 128, 128 + TAIL_ROWS)


def block_sizes(group: int) -> dict[int, int]:
    """Rows per query block → rows of the kernel's tile, for `group` query heads per kv head.

    The heads of a group stand in one tile, so a block holds fewer rows than its tile.

    >>> block_sizes(1)
    {16: 16, 32: 32, 64: 64, 128: 128, 144: 144}
    >>> block_sizes(7)
    {2: 16, 4: 32, 9: 64, 18: 128, 20: 144}
    """
    if not 1 <= group <= 128:
        raise ValueError(f"a kv head must serve 1 to 128 query heads, got {group}")
    sizes = {}
    for rows in _TILE_ROWS:
        if rows > 128 and group > TAIL_ROWS:
            continue  # the tail could not hold one row
        size = min(rows, 128) // group + max(rows - 128, 0) // group
        if size:
            sizes[size] = rows
    return sizes


@cache  # asked for every pass
def best_block_size(width: int, group: int, most: int = 128 + TAIL_ROWS) -> int:
    """Rows per query block for passes whose longest sequence has `width` rows.

    The smallest block that holds them; beyond 128 tile rows, blocks with or without the tail of
    16, which costs a quarter of a tile, whichever is cheaper.

    most  rows of the widest tile

    >>> [best_block_size(width, 1) for width in (1, 32, 63, 100, 144, 200, 272, 1536)]
    [16, 32, 64, 128, 144, 128, 144, 128]
    >>> [best_block_size(width, 1, most=64) for width in (1, 63, 100, 144)]
    [16, 64, 64, 64]
    """
    sizes = {size: rows for size, rows in block_sizes(group).items() if rows <= most}
    plain = [size for size, rows in sizes.items() if rows <= 128]
    fitting = [size for size in plain if width <= size]
    if fitting:
        return fitting[0]
    with_tail = max(sizes)
    is_cheaper = with_tail > plain[-1] and 5 * -(-width // with_tail) < 4 * -(-width // plain[-1])
    return with_tail if is_cheaper else plain[-1]


def tile_rows(block_size: int, group: int) -> int:
    """Rows of the kernel's tile for a block size; ValueError for one that no tile has."""
    sizes = block_sizes(group)
    if block_size not in sizes:
        raise ValueError(
            f"query blocks must hold one of {sorted(sizes)} rows when {group} query heads share "
            f"a kv head, got {block_size}; pack the queries with group={group}"
        )
    return sizes[block_size]


def most_blocks(rows: int, sequences: int, block_size: int) -> int:
    """The most query blocks that `rows` rows of `sequences` sequences can need.

    >>> most_blocks(144, 1, 144), most_blocks(145, 2, 144)
    (1, 2)
    """
    return sequences + (rows - sequences) // block_size


@dataclass(frozen=True)
class Schedule:
    """Ragged rows against a flat cache. Tensors are on the model's device, int64 at first.

    rows_BW      row numbers of each sequence, padded with 0
    row_count_B  how many of them are real
    padded_R     where each row stands in the padded [B * W] layout
    key_slots_BK cache slots of each sequence's keys, padded with its first slot
    key_count_B  how many of them are real
    row_rank_R, row_view_R     rank of each row; SLOT, DRAFT_VIEW, MASK_VIEW or BRANCH_VIEW
    key_searched_BK            rank that hides the slot, 0 for most
    key_view_BK, key_rank_BK   what a scratch slot holds, and its rank
    key_row_BK                 the row that writes a scratch slot, -1 for ordinary slots
    has_views                  whether any of the four lines above matters in this pass
    is_padded                  whether sequences differ in rows or keys
    run_keys     where each sequence's keys stand in one run of slots: one of `RUNS` that no
                 sequence with keys has fewer of. 0 elsewhere
    row_limit_R    how many leading keys a row may see (block-causal models), or None: all
    mass_rows_BP, mass_weight_BP  rows whose attention is averaged and their weights (0 = padding)

    For the kernels, all int32. The rows of a sequence stand side by side, in blocks:
    block_size   rows per query block, one of `block_sizes`
    block_sequence, block_first, block_rows [N]  its sequence, first row and number of rows;
                 blocks of 0 rows are padding. Every row of the pass stands in one block
    page_table_BN  pages of `PAGE` slots: key k is slot page[k // PAGE] · PAGE + k % PAGE
    row_code_R   2 · rank, and 1 more for a draft view; below 0 for rows of past blocks
    row_replaces_R the key that a row's own entry stands in for (shifted models; -1: none);
                 None in a pass without views
    key_from_BK, key_until_BK  a row sees a key if from <= code < until, or if it is key_row;
                 None in a pass without views
    key_mixed_BT 1 where one of `MASK_TILE` keys is hidden from some row or doesn't exist; an
                 even number of tiles; None in a pass without views
    """

    rows_BW: Tensor
    row_count_B: Tensor
    padded_R: Tensor
    key_slots_BK: Tensor
    key_count_B: Tensor
    row_rank_R: Tensor
    row_view_R: Tensor
    key_searched_BK: Tensor
    key_view_BK: Tensor
    key_rank_BK: Tensor
    key_row_BK: Tensor
    has_views: bool
    is_padded: bool
    block_size: int
    block_sequence: Tensor
    block_first: Tensor
    block_rows: Tensor
    page_table_BN: Tensor
    row_code_R: Tensor
    key_from_BK: Tensor | None = None
    key_until_BK: Tensor | None = None
    key_mixed_BT: Tensor | None = None
    mass_rows_BP: Tensor | None = None
    mass_weight_BP: Tensor | None = None
    row_limit_R: Tensor | None = None
    row_replaces_R: Tensor | None = None
    run_keys: int = 0

    @cached_property
    def visible_BWK(self) -> Tensor | None:
        """The dense form, boolean; None when every row sees every key of its sequence.

        The rule is `flash_dllm.query.sees_slot` and `sees_view`; a test holds the two together.
        """
        if not self.has_views and not self.is_padded and self.row_limit_R is None:
            return None
        keys = torch.arange(self.key_slots_BK.shape[1], device=self.key_slots_BK.device)
        is_key = (keys < self.key_count_B[:, None])[:, None, :]
        if self.row_limit_R is not None:
            limit = self.row_limit_R[self.rows_BW][:, :, None]
            is_key = is_key & ((keys < limit) | (self.key_view_BK != SLOT)[:, None, :])
        if self.row_replaces_R is not None:
            is_key = is_key & (keys != self.row_replaces_R[self.rows_BW][:, :, None])
        if not self.has_views:
            return is_key.expand(-1, self.rows_BW.shape[1], -1)
        rank = self.row_rank_R[self.rows_BW][:, :, None]
        view = self.row_view_R[self.rows_BW][:, :, None]
        searched = self.key_searched_BK[:, None, :]
        hidden = (searched > 0) & (searched <= rank)
        last = torch.where(view == DRAFT_VIEW, rank, rank - 1)
        sees_draft = self.key_rank_BK[:, None, :] <= last
        is_own = self.key_row_BK[:, None, :] == self.rows_BW[:, :, None]
        kind = self.key_view_BK[:, None, :]
        # a mask view in a searched slot is seen like any searched slot
        sees_mask = is_own | ((searched > 0) & ~hidden)
        sees_branch = (view == BRANCH_VIEW) & (self.key_rank_BK[:, None, :] == rank)
        seen = torch.where(
            kind == SLOT, ~hidden, torch.where(kind == DRAFT_VIEW, sees_draft, sees_mask)
        )
        seen = torch.where(kind == BRANCH_VIEW, sees_branch, seen)
        return seen & is_key

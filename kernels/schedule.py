"""Who attends to what in one pass, as small integers per row and per key.

Legend of shape letters: R rows of the pass, B sequences, W rows of the longest sequence, K keys
of the longest sequence, P rows whose attention mass is wanted (longest sequence).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

SLOT, DRAFT_VIEW, MASK_VIEW = 0, 1, 2


@dataclass(frozen=True)
class Schedule:
    """Ragged rows against a flat cache. All tensors are int64 on the model's device.

    rows_BW      row numbers of each sequence, padded with 0
    row_count_B  how many of them are real
    padded_R     where each row stands in the padded [B * W] layout
    key_slots_BK cache slots of each sequence's keys, padded with its first slot
    key_count_B  how many of them are real
    row_rank_R, row_view_R     rank of each row; SLOT, DRAFT_VIEW or MASK_VIEW
    key_searched_BK            rank that hides the slot, 0 for most
    key_view_BK, key_rank_BK   what a scratch slot holds, and its rank
    key_row_BK                 the row that writes a scratch slot, -1 for ordinary slots
    has_views                  whether any of the four lines above matters in this pass
    is_padded                  whether sequences differ in rows or keys
    row_limit_R    how many leading keys a row may see (block-causal models), or None: all
    row_replaces_R the key that a row's own entry stands in for (shifted models; -1: none), or None
    mass_rows_BP, mass_weight_BP  rows whose attention is averaged and their weights (0 = padding)
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
    mass_rows_BP: Tensor | None = None
    mass_weight_BP: Tensor | None = None
    row_limit_R: Tensor | None = None
    row_replaces_R: Tensor | None = None

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
        seen = torch.where(
            kind == SLOT, ~hidden, torch.where(kind == DRAFT_VIEW, sees_draft, is_own)
        )
        return seen & is_key

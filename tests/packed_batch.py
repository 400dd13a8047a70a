"""Sequences one behind the other, as the trainer packs them."""

from __future__ import annotations

import torch


def packed(lengths: list[int]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """positions, cu_seqlens (with two empty places at the end), segments."""
    total = sum(lengths)
    bounds = [0, *torch.tensor(lengths).cumsum(0).tolist(), total, total]
    positions = torch.cat([torch.arange(length) for length in lengths]).int()
    segments = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths)).int()
    return positions, torch.tensor(bounds, dtype=torch.int32), segments

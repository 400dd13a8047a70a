"""How far a position's token probabilities have moved since the last draft pass.

For strategies that trust a steady answer more than a sure one (Dynamic-dLLM, arXiv 2606.26120).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels.reference import wide


class Movement:
    """Keeps each sequence's probabilities of its last draft pass."""

    def __init__(self, mask_token_id: int) -> None:
        self._mask_token_id = mask_token_id
        self._kept: dict[int, tuple[dict[int, int], Tensor]] = {}

    def forget(self, handle: int) -> None:
        """The sequence has ended."""
        self._kept.pop(handle, None)

    def since_last(self, handle: int, positions: Sequence[int], logits_PV: Tensor) -> Tensor:
        """1 − cosine of the softmax with that of the last call, [P] in 0…1; 0 where there was none.

        The mask token has no probability. fp32, or fp64 where the logits are.
        """
        logits = logits_PV.to(wide(logits_PV.dtype), copy=True)
        logits[:, self._mask_token_id] = -torch.inf
        law = logits.softmax(-1)
        moved = law.new_zeros(len(law))
        places, before = self._kept.get(handle, ({}, law))
        known = [(row, places[p]) for row, p in enumerate(positions) if p in places]
        if known:
            now, then = (torch.tensor(rows, device=law.device) for rows in zip(*known, strict=True))
            cosine = F.cosine_similarity(law[now], before[then], dim=-1)
            # of equal laws it may be rounded above 1; a record holds no negative movement
            moved[now] = (1 - cosine).clamp(0.0, 1.0)
        self._kept[handle] = {p: row for row, p in enumerate(positions)}, law
        return moved

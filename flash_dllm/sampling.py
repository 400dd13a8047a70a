"""Logits → token and confidence per asking row, in one transfer to the host."""

from __future__ import annotations

import torch
from torch import Tensor

from kernels import ops

# decisions are made on rounded numbers, so that a saved trace replays to the same decisions
DIGITS = 6


class GumbelField:
    """One noise vector per (sequence, position), the same for draft and mask view.

    Sharing it keeps their agreement meaningful at temperature > 0 (docs/decisions.md). Drawn on
    the host from (seed, position), so that a sequence's noise depends neither on its batch nor
    on the device.
    """

    def __init__(self, vocab_size: int, temperature: float, device: torch.device) -> None:
        self._vocab_size = vocab_size
        self._temperature = temperature
        self._device = device
        self._rows: dict[tuple[int, int], Tensor] = {}

    def rows(self, seed: int, positions: list[int]) -> Tensor:
        """temperature × Gumbel noise, [positions, V] fp32."""
        return torch.stack([self._row(seed, position) for position in positions])

    def _row(self, seed: int, position: int) -> Tensor:
        key = (seed, position)
        if key not in self._rows:
            generator = torch.Generator().manual_seed(seed * 1_000_003 + position)
            uniform = torch.rand(self._vocab_size, generator=generator, dtype=torch.float64)
            gumbel = -torch.log(-torch.log(uniform.clamp(1e-300, 1 - 1e-16)))
            self._rows[key] = (self._temperature * gumbel).float().to(self._device)
        return self._rows[key]


def choose(
    logits: Tensor,
    mask_token_id: int,
    noise: Tensor | None,
    alternatives: int,
    mass: Tensor | None,
    impl: str,
) -> tuple[list[int], list[float], list[tuple[tuple[int, float], ...]], list[list[float]]]:
    """Tokens, confidences, alternatives per row and mass per sequence, as plain numbers.

    logits [P, V]; noise [P, V] or None; mass [B, K] or None. Numbers are rounded to 6 digits.
    """
    tokens, confidences, other, other_p = ops.confidence(
        logits, mask_token_id, noise, alternatives, impl
    )
    # one flat tensor, one copy to the host; ids below 2^53 are exact in fp64
    parts = [tokens.double(), confidences.double(), other.flatten().double(),
             other_p.flatten().double()]
    if mass is not None:
        parts.append(mass.flatten().double())
    flat = torch.cat(parts).cpu()
    rows, width = other.shape
    sizes = [rows, rows, rows * width, rows * width, mass.numel() if mass is not None else 0]
    chosen, sure, ids, probabilities, masses = flat.split(sizes)
    ids_list = ids.long().view(rows, width).tolist()
    probability_list = _rounded(probabilities).view(rows, width).tolist()
    pairs = [
        tuple(zip(row, row_p, strict=True))
        for row, row_p in zip(ids_list, probability_list, strict=True)
    ]
    mass_lists = _rounded(masses).view(mass.shape).tolist() if mass is not None else []
    return chosen.long().tolist(), _rounded(sure).tolist(), pairs, mass_lists


def _rounded(values: Tensor) -> Tensor:
    return values.clamp(0.0, 1.0).round(decimals=DIGITS)

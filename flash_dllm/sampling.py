"""Logits → token and confidence per asking row, in one transfer to the host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
import torch
from torch import Tensor

from flash_dllm.query import Mass, Query
from kernels import ops
from kernels.reference import wide

# decisions are made on rounded numbers, so that a saved trace replays to the same decisions
DIGITS = 6
# a score and a place as one number, and room for one row of such numbers
_PLACES, _ROW = 1 << 24, 1 << 46


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


@torch.inference_mode()
def choose(
    logits: Tensor,
    mask_token_id: int,
    noise: Tensor | None,
    alternatives: int,
    mass: Tensor | None,
    impl: str,
    changes: Tensor | None = None,
    confidences: Tensor | None = None,
) -> Tensor:
    """Everything the host wants of a pass in one flat tensor, still on the device.

    logits [P, V]; noise [P, V] or None; mass [B, K] or None; changes [P] or None; confidences [P]
    in place of the chosen tokens' probabilities, or None. Returns tokens
    [P], confidences [P], alternative tokens and probabilities [P, A] each, mass [B, K], changes
    [P], end to end in fp32 (fp64 if the model is): ids are exact there, no vocabulary has 2^24
    tokens.
    """
    tokens, chosen, *others = ops.confidence(logits, mask_token_id, noise, alternatives, impl)
    if confidences is not None:
        chosen = confidences
    parts = [part.flatten() for part in (tokens, chosen, *others)]
    if mass is not None:
        parts.append(mass.flatten())
    if changes is not None:
        parts.append(changes)
    dtype = wide(logits.dtype)
    return torch.cat([part.to(dtype) for part in parts])


@torch.inference_mode()
def guided(logits: Tensor, queries: Sequence[Query]) -> Tensor:
    """Classifier-free guidance: logits [P, V] of the predicted rows → of the answers [A, V].

    u + (s + 1)(c − u), where the first half of a guided query's rows gives c and the second u.
    Returns `logits` itself where nothing is guided. Source: LLaDA's `generate` (cfg_scale).
    """
    if not any(query.guidance for query in queries):
        return logits
    parts, start = [], 0
    for query in queries:
        end = start + len(query.predict)
        own, start = logits[start:end], end
        if query.guidance:
            conditional, unconditional = own.chunk(2)
            own = unconditional + (query.guidance + 1) * (conditional - unconditional)
        parts.append(own)
    return torch.cat(parts)


@torch.inference_mode()
def scores(logits: Tensor, queries: Sequence[Query], mask_token_id: int) -> Tensor:
    """Probability of each scored token at its row: logits [A, V] → [S], without noise."""
    rows: list[int] = []
    tokens: list[int] = []
    end = 0
    for query in queries:
        end += query.answers
        rows += range(end - len(query.scored), end)
        tokens += query.scored
    chosen = logits[torch.tensor(rows, device=logits.device)].to(wide(logits.dtype))
    chosen[:, mask_token_id] = -torch.inf
    wanted = torch.tensor(tokens, device=logits.device)[:, None]
    return chosen.softmax(-1).gather(1, wanted)[:, 0]


@dataclass(frozen=True)
class Choice:
    """What `choose` put together, taken apart on the host.

    tokens [P] and confidences [P] as lists; alternatives [P] tuples of (token, probability);
    mass [B, K] as it came; changes [P], or empty where not asked; scores [S] as a list. Numbers
    but mass are rounded to 6 digits.
    """

    tokens: list[int]
    confidences: list[float]
    alternatives: list[tuple[tuple[int, float], ...]]
    mass: np.ndarray
    changes: list[float]
    scores: list[float]


def read_choice(
    flat: np.ndarray,
    rows: int,
    alternatives: int,
    mass: tuple[int, int],
    has_changes: bool = False,
) -> Choice:
    """Take `choose`'s tensor apart, with the scores behind it; `mass` is the mass's shape, (0, 0)
    where none was asked."""
    shown = rows * alternatives
    sizes = (rows, rows, shown, shown, mass[0] * mass[1], rows if has_changes else 0)
    ends = (0, *accumulate(sizes), len(flat))
    tokens, confidences, other, other_p, masses, changes, scored = (
        flat[start:end] for start, end in pairwise(ends)
    )
    pairs: list[tuple[tuple[int, float], ...]] = [()] * rows
    if alternatives:
        ids = other.astype(np.int64).reshape(rows, alternatives).tolist()
        shares = _rounded(other_p).reshape(rows, alternatives).tolist()
        pairs = [tuple(zip(*both, strict=True)) for both in zip(ids, shares, strict=True)]
    return Choice(
        tokens.astype(np.int64).tolist(),
        _rounded(confidences).tolist(),
        pairs,
        masses.reshape(mass),
        _rounded(changes).tolist(),
        _rounded(scored).tolist(),
    )


def rank_mass(mass: np.ndarray, queries: Sequence[Query]) -> list[Mass | None]:
    """What each query wants of the mass [B, K], rounded and as `Mass.of` would rank it.

    Ranked as whole numbers: millionths, then the position, so that ties are settled exactly.
    """
    if not mass.size:
        return [None] * len(queries)
    count, keys = len(queries), mass.shape[1]
    # what `round` does, and keeps for itself
    millionths = np.rint(mass[:count].astype(np.float64).clip(0.0, 1.0) * 10**DIGITS)
    rounded = millionths / 10**DIGITS
    is_decided = np.zeros((count, keys), bool)
    for number, query in enumerate(queries):
        is_decided[number, : len(query.decided)] = np.frombuffer(query.decided, np.uint8)
    scores = np.where(is_decided, millionths, -1.0).astype(np.int64)
    top = min(keys, max(1, *(query.top for query in queries)))
    positions = _largest(scores, top)
    shares = np.take_along_axis(rounded, positions, axis=1).tolist()
    totals = (np.where(is_decided, millionths, 0.0).sum(axis=1) / 10**DIGITS).tolist()
    counts, places = is_decided.sum(axis=1).tolist(), positions.tolist()
    ranked: list[Mass | None] = []
    for number, query in enumerate(queries):
        if not query.wants_mass:
            ranked.append(None)
            continue
        own = min(query.top, counts[number])
        values = rounded[number, : query.length].data
        total = round(min(1.0, totals[number]), DIGITS)
        ranked.append(Mass(values, places[number][:own], shares[number][:own], total))
    return ranked


def _largest(scores: np.ndarray, top: int) -> np.ndarray:
    """Positions [B, top] of each row's largest scores, falling, ties to the lower position.

    scores  [B, K] int64, at least -1 and below 2^20; K below 2^24
    """
    count, keys = scores.shape
    ranks = scores * _PLACES + np.arange(keys)[::-1]  # no two of a row are equal
    # the top-th largest of the peaks of groups is no more than that of all: few pass it, and only
    # they are sorted
    size = max(1, keys // (2 * top))
    groups = keys // size
    peaks = ranks[:, : groups * size].reshape(count, size, groups).max(axis=1)
    bound = np.partition(peaks, groups - top, axis=1)[:, groups - top, None]
    passed = np.flatnonzero(ranks >= bound)
    row = passed // keys
    # one sort for all rows: row by row, falling ranks
    falling = np.sort(row * _ROW - ranks.ravel()[passed])
    passing = np.bincount(row, minlength=count)
    first = passing.cumsum() - passing
    chosen = np.arange(count)[:, None] * _ROW - falling[first[:, None] + np.arange(top)]
    return keys - 1 - chosen % _PLACES


def _rounded(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float64).clip(0.0, 1.0).round(DIGITS)

"""Logits → token and confidence per asking row, in one transfer to the host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from flash_dllm.query import Mass, Query
from kernels import ops
from kernels.reference import wide

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
    shown, size = rows * alternatives, mass[0] * mass[1]
    mass_at = 2 * (rows + shown)
    changes_at = mass_at + size
    scores_at = changes_at + (rows if has_changes else 0)
    pairs: list[tuple[tuple[int, float], ...]] = [()] * rows
    if alternatives:
        other, other_p = flat[2 * rows : mass_at].reshape(2, rows, alternatives)
        ids, shares = other.astype(np.int64).tolist(), _rounded(other_p)
        pairs = [tuple(zip(*both, strict=True)) for both in zip(ids, shares, strict=True)]
    return Choice(
        flat[:rows].astype(np.int64).tolist(),
        _rounded(flat[rows : 2 * rows]),
        pairs,
        flat[mass_at:changes_at].reshape(mass),
        _rounded(flat[changes_at:scores_at]),
        _rounded(flat[scores_at:]),
    )


def rank_mass(mass: np.ndarray, queries: Sequence[Query]) -> list[Mass | None]:
    """What each query wants of the mass [B, K], rounded and as `Mass.of` would rank it.

    Ranked as whole numbers, millionths, so that ties are settled exactly.
    """
    if not mass.size:
        return [None] * len(queries)
    count, keys = len(queries), mass.shape[1]
    scores = _millionths(mass[:count])
    rounded = scores / 10**DIGITS
    flags = b"".join([query.decided.ljust(keys, b"\0") for query in queries])
    is_undecided = np.frombuffer(flags, np.uint8).reshape(count, keys) == 0
    np.copyto(scores, -1.0, where=is_undecided)
    totals = scores.sum(axis=1).tolist()
    places = _largest(scores, min(keys, max(1, *[query.top for query in queries])))
    ranked: list[Mass | None] = []
    for number, query in enumerate(queries):
        if not query.wants_mass:
            ranked.append(None)
            continue
        decided = query.decided.count(1)
        own, values = places[number][: min(query.top, decided)], rounded[number]
        # each undecided position has taken 1 from the sum
        total = round(min(1.0, (totals[number] + keys - decided) / 10**DIGITS), DIGITS)
        shares = values[own].tolist()
        ranked.append(Mass(values[: query.length].data, own.tolist(), shares, total))
    return ranked


def _largest(scores: np.ndarray, top: int) -> list[np.ndarray]:
    """Positions [top] of each row's largest scores [B, K], falling, ties to the lower position."""
    keys = scores.shape[1]
    # the top-th largest of the peaks of groups is no more than that of all: few pass it, and only
    # they are sorted
    size = max(1, keys // (2 * top))
    groups = keys // size
    peaks = scores[:, : groups * size].reshape(-1, size, groups).max(axis=1)
    bounds = np.partition(peaks, groups - top, axis=1)[:, groups - top]
    positions = []
    for row, bound in zip(scores, bounds, strict=True):
        (passed,) = (row >= bound).nonzero()
        falling = (-row[passed]).argsort(kind="stable")[:top]
        positions.append(passed[falling])
    return positions


def _millionths(shares: np.ndarray) -> np.ndarray:
    """Probabilities as whole numbers of 10^-6, fp64: what `round` does, and keeps for itself."""
    scaled = shares.astype(np.float64)
    # not `clip`, which takes longer than all the rest; none is below 0
    np.minimum(scaled, 1.0, out=scaled)
    scaled *= 10**DIGITS
    return np.rint(scaled, out=scaled)


def _rounded(shares: np.ndarray) -> list:
    """Probabilities rounded to 6 digits, as nested lists."""
    return (_millionths(shares) / 10**DIGITS).tolist() if shares.size else []

"""Token and confidence from logits in one pass over the vocabulary, without probabilities.

The vocabulary is cut into tiles of fixed size, one program each, so that few rows still fill the
GPU and a row's result never depends on how many rows there are. A second, tiny kernel combines the
tiles of a row in order. p(chosen) = exp(logit - log-sum-exp).
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.contract import INTERPRETER, architecture, check, power_of_two
from kernels.overlap import begin, overlap

TILE = 4096
# small, so that the interpreter's short vocabularies have borders inside
INTERPRETER_TILE = 512
MAX_ALTERNATIVES = 32
NO_TOKEN = tl.constexpr(2**31 - 1)


@triton.jit
def _tile_kernel(
    logits_ptr,
    noise_ptr,
    peak_ptr,
    total_ptr,
    best_ptr,
    token_ptr,
    chosen_ptr,
    other_value_ptr,
    other_token_ptr,
    logits_stride,
    noise_stride,
    vocab_size,
    tiles,
    excluded_id,
    HAS_NOISE: tl.constexpr,
    ALTERNATIVES: tl.constexpr,
    TILE: tl.constexpr,
    OVERLAPS: tl.constexpr,
):
    begin(OVERLAPS)
    row = tl.program_id(0).to(tl.int64)
    tile = tl.program_id(1)
    ids = tile * TILE + tl.arange(0, TILE)
    is_real = ids < vocab_size
    x = tl.load(logits_ptr + row * logits_stride + ids, mask=is_real, other=-float("inf"))
    x = tl.where(ids == excluded_id, -float("inf"), x.to(tl.float32))

    peak = tl.max(x, 0)
    # a tile that is wholly -inf would give exp(-inf + inf)
    floor = tl.where(peak == -float("inf"), 0.0, peak)
    total = tl.sum(tl.exp(x - floor), 0)

    noised = x
    if HAS_NOISE:
        noise = tl.load(noise_ptr + row * noise_stride + ids, mask=is_real, other=0.0)
        noised = x + noise.to(tl.float32)
    best = tl.max(noised, 0)
    token = tl.min(tl.where(is_real & (noised == best), ids, NO_TOKEN), 0)
    chosen = tl.max(tl.where(ids == token, x, -float("inf")), 0)

    at = row * tiles + tile
    tl.store(peak_ptr + at, peak)
    tl.store(total_ptr + at, total)
    tl.store(best_ptr + at, best)
    tl.store(token_ptr + at, token)
    tl.store(chosen_ptr + at, chosen)

    is_left = is_real
    for rank in tl.static_range(ALTERNATIVES):
        value = tl.max(tl.where(is_left, x, -float("inf")), 0)
        other = tl.min(tl.where(is_left & (x == value), ids, NO_TOKEN), 0)
        tl.store(other_value_ptr + at * ALTERNATIVES + rank, value)
        tl.store(other_token_ptr + at * ALTERNATIVES + rank, other)
        is_left = is_left & (ids != other)


@triton.jit
def _combine_kernel(
    peak_ptr,
    total_ptr,
    best_ptr,
    token_ptr,
    chosen_ptr,
    other_value_ptr,
    other_token_ptr,
    out_token_ptr,
    out_confidence_ptr,
    out_other_ptr,
    out_probability_ptr,
    tiles,
    ALTERNATIVES: tl.constexpr,
    TILES: tl.constexpr,
    CANDIDATES: tl.constexpr,
    OVERLAPS: tl.constexpr,
):
    begin(OVERLAPS)
    row = tl.program_id(0).to(tl.int64)
    tile = tl.arange(0, TILES)
    is_real = tile < tiles
    at = row * tiles + tile
    peaks = tl.load(peak_ptr + at, mask=is_real, other=-float("inf"))
    totals = tl.load(total_ptr + at, mask=is_real, other=0.0)
    peak = tl.max(peaks, 0)
    floor = tl.where(peak == -float("inf"), 0.0, peak)
    total = tl.sum(totals * tl.exp(peaks - floor), 0)

    bests = tl.load(best_ptr + at, mask=is_real, other=-float("inf"))
    tokens = tl.load(token_ptr + at, mask=is_real, other=NO_TOKEN)
    best = tl.max(bests, 0)
    # tiles hold rising ids, so the lowest id among equal tiles is the lowest of all
    token = tl.min(tl.where(bests == best, tokens, NO_TOKEN), 0)
    chosen = tl.load(chosen_ptr + at, mask=is_real, other=-float("inf"))
    logit = tl.max(tl.where(tokens == token, chosen, -float("inf")), 0)
    tl.store(out_token_ptr + row, token.to(tl.int64))
    tl.store(out_confidence_ptr + row, tl.exp(logit - floor) / total)

    if ALTERNATIVES > 0:
        candidate = tl.arange(0, CANDIDATES)
        is_candidate = candidate < tiles * ALTERNATIVES
        at = row * tiles * ALTERNATIVES + candidate
        values = tl.load(other_value_ptr + at, mask=is_candidate, other=-float("inf"))
        ids = tl.load(other_token_ptr + at, mask=is_candidate, other=NO_TOKEN)
        is_left = ids != NO_TOKEN
        for rank in tl.static_range(ALTERNATIVES):
            value = tl.max(tl.where(is_left, values, -float("inf")), 0)
            other = tl.min(tl.where(is_left & (values == value), ids, NO_TOKEN), 0)
            tl.store(out_other_ptr + row * ALTERNATIVES + rank, other.to(tl.int64))
            probability = tl.exp(value - floor) / total
            tl.store(out_probability_ptr + row * ALTERNATIVES + rank, probability)
            is_left = is_left & (ids != other)


def confidence(
    logits: Tensor, excluded_id: int, noise: Tensor | None, alternatives: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """See `reference.confidence`; likeliest tokens in falling order, lowest id first on ties."""
    check("confidence", logits=logits, noise=noise)
    rows, vocab_size = logits.shape
    device = logits.device
    kept = min(alternatives, vocab_size)
    if kept > MAX_ALTERNATIVES:
        raise ValueError(
            f"confidence: at most {MAX_ALTERNATIVES} alternatives with impl='triton', got {kept}"
        )
    tokens = torch.empty(rows, dtype=torch.int64, device=device)
    confidences = torch.empty(rows, dtype=torch.float32, device=device)
    others = torch.empty(rows, kept, dtype=torch.int64, device=device)
    probabilities = torch.empty(rows, kept, dtype=torch.float32, device=device)
    if rows == 0:
        return tokens, confidences, others, probabilities

    tile = INTERPRETER_TILE if architecture(device) == INTERPRETER else TILE
    tiles = triton.cdiv(vocab_size, tile)
    peak, total, best, chosen = torch.empty(4, rows, tiles, device=device).unbind(0)
    token = torch.empty(rows, tiles, dtype=torch.int32, device=device)
    other_value = torch.empty(rows, tiles, kept, device=device)
    other_token = torch.empty(rows, tiles, kept, dtype=torch.int32, device=device)
    parts = (peak, total, best, token, chosen, other_value, other_token)
    _tile_kernel[(rows, tiles)](
        logits, logits if noise is None else noise, *parts,
        logits.stride(0), 0 if noise is None else noise.stride(0), vocab_size, tiles, excluded_id,
        HAS_NOISE=noise is not None, ALTERNATIVES=kept, TILE=tile, num_warps=4,
        **overlap(logits),
    )
    _combine_kernel[(rows,)](
        *parts, tokens, confidences, others, probabilities, tiles,
        ALTERNATIVES=kept, TILES=power_of_two(tiles),
        CANDIDATES=power_of_two(tiles * max(kept, 1)), num_warps=1, **overlap(logits),
    )
    return tokens, confidences, others, probabilities

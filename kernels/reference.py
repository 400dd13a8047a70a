"""The torch truth of every operation; read this first. Kernels are tested against it.

Shape letters: R rows, D d_model, H query heads, G key/value heads, E head_dim, B sequences,
W rows of the longest sequence, K keys of the longest sequence, V vocabulary.
Statistics are taken in fp32, or in fp64 when the input is fp64.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels.scaled import Weight
from kernels.scaled import linear as any_linear
from kernels.schedule import Schedule


class HeadNorms(NamedTuple):
    """RMS norm of queries and keys before the rotation: weights q, k [E] for every head by itself
    (Qwen3), or [H·E] and [G·E] for all heads together (OLMoE)."""

    q: Tensor
    k: Tensor
    eps: float


def wide(dtype: torch.dtype) -> torch.dtype:
    """The dtype for statistics: at least fp32."""
    return torch.promote_types(dtype, torch.float32)


def rms_norm(hidden: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Root-mean-square norm: square mean in fp32, cast back, then times the weight (LLaDA).

    hidden [..., D] any float; weight [D]. Returns hidden's shape and dtype.
    """
    x = hidden.to(wide(hidden.dtype))
    x = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
    return x.to(hidden.dtype) * weight


def add_rms_norm(
    hidden: Tensor,
    branch: Tensor,
    weight: Tensor,
    eps: float,
    rows: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The residual addition and the norm behind it: (hidden + branch, its rms_norm).

    hidden  [R, D] any float
    branch  [R, D], or [S, R, D] in at least fp32: parts whose sum it is (of a split product)
    weight  [D]
    rows    [P] int64; only these rows, in this order, or None for all
    The sum is rounded to hidden's dtype before it is normed.
    """
    if branch.ndim > hidden.ndim:
        branch = branch.sum(0).to(hidden.dtype)
    if rows is not None:
        hidden, branch = hidden[rows], branch[rows]
    total = hidden + branch
    return total, rms_norm(total, weight, eps)


def rotate(x_RHE: Tensor, cos_RE: Tensor, sin_RE: Tensor) -> Tensor:
    """Rotary embedding, half-split (rotate_half), in fp32, cast back.

    cos_RE, sin_RE [R, T/2] in fp32 or fp64: the leading T of the E dimensions are turned, the
    rest (partial RoPE) is left as it is.
    """
    turned_dims = 2 * cos_RE.shape[-1]
    x, rest = x_RHE[..., :turned_dims].to(cos_RE.dtype), x_RHE[..., turned_dims:]
    left, right = x.chunk(2, dim=-1)
    cos, sin = cos_RE[:, None, :], sin_RE[:, None, :]
    turned = torch.cat((left * cos - right * sin, right * cos + left * sin), dim=-1)
    return torch.cat((turned.to(x_RHE.dtype), rest), dim=-1)


def project_and_cache(
    hidden_RD: Tensor,
    weight: Weight,
    bias: Tensor | None,
    head_norms: HeadNorms | None,
    cos: Tensor,
    sin: Tensor,
    positions_R: Tensor,
    slots_R: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    n_heads: int,
) -> Tensor:
    """Project, norm, rotate and store K and V of the queried rows (paper Alg. 1).

    hidden_RD    [R, D]            normed
    weight       [(H + 2G)·E, D]   q, k and v stacked; bias likewise or None
    head_norms   weights of the norms of queries and keys, or None
    cos, sin     [positions, T/2]  rotary tables in fp32 or fp64
    positions_R  [R] int64         each row's place in the text
    slots_R      [R] int64         where each row's K and V go; -1 drops the row
    key_cache, value_cache  [slots, G, E]   written in place
    Returns      q [R, H, E], rotated, in hidden's dtype.
    """
    n_kv_heads, head_dim = key_cache.shape[1:]
    all_heads = n_heads + 2 * n_kv_heads
    qkv = any_linear(hidden_RD, weight, bias).view(len(hidden_RD), all_heads, head_dim)
    q, k, v = qkv.split((n_heads, n_kv_heads, n_kv_heads), dim=1)
    if head_norms is not None:
        q = head_norm(q, head_norms.q, head_norms.eps)
        k = head_norm(k, head_norms.k, head_norms.eps)
    cos_RE, sin_RE = cos[positions_R], sin[positions_R]
    q, k = rotate(q, cos_RE, sin_RE), rotate(k, cos_RE, sin_RE)
    if len(slots_R):
        _store(slots_R, (key_cache, k), (value_cache, v))
    return q


def _store(slots_R: Tensor, *caches_and_rows: tuple[Tensor, Tensor]) -> None:
    """Write rows to their slots, dropping those of slot -1, without waiting for the device.

    A dropped row repeats the row of the highest slot, so no slot is written with two values. If
    every row is dropped, slot 0 is written with what it holds.
    """
    highest, row = slots_R.max(0, keepdim=True)
    is_dropped = slots_R < 0
    slots = torch.where(is_dropped, highest.clamp(min=0), slots_R)
    for cache, rows_RGE in caches_and_rows:
        stand_in = torch.where(highest < 0, cache[0], rows_RGE.index_select(0, row))
        rows = torch.where(is_dropped[:, None, None], stand_in, rows_RGE)
        cache.index_copy_(0, slots, rows)


def head_norm(x_RHE: Tensor, weight: Tensor, eps: float) -> Tensor:
    """RMS norm of every head by itself (weight [E]) or of all heads together (weight [H·E])."""
    if len(weight) == x_RHE.shape[-1]:
        return rms_norm(x_RHE, weight, eps)
    return rms_norm(x_RHE.flatten(1), weight, eps).view(x_RHE.shape)


def scheduled_attention(
    q_RHE: Tensor, key_cache: Tensor, value_cache: Tensor, schedule: Schedule
) -> tuple[Tensor, Tensor]:
    """Softmax attention of ragged rows over the flat cache.

    q_RHE        [R, H, E]
    key_cache, value_cache  [slots, G, E]
    Returns      (out [R, H, E] in q's dtype, log-sum-exp of the scaled scores [R, H] in fp32).
    """
    n_heads, head_dim = q_RHE.shape[1:]
    n_kv_heads = key_cache.shape[1]
    scores = _scores(q_RHE, key_cache, schedule, schedule.rows_BW)  # [B, G, H/G * W, K]
    visible = schedule.visible_BWK
    if visible is not None:
        repeated = visible.repeat(1, n_heads // n_kv_heads, 1)[:, None]
        scores.masked_fill_(~repeated, -math.inf)
    peak = scores.amax(-1, keepdim=True)
    weights = scores.sub_(peak).exp_()
    total = weights.sum(-1, keepdim=True)
    values = value_cache[schedule.key_slots_BK].transpose(1, 2)  # [B, G, K, E]
    out = torch.matmul(weights.to(values.dtype), values) / total.to(values.dtype)
    lse = peak + total.log()
    return _unpad(out, schedule, n_heads), _unpad(lse, schedule, n_heads)[..., 0]


def attention_mass(
    q_RHE: Tensor, lse_RH: Tensor, key_cache: Tensor, schedule: Schedule
) -> Tensor:
    """Attention probability per key, mean over heads and the wanted rows: [B, K] in fp32.

    Probabilities come back from the saved log-sum-exp. Each sequence's row sums to 1 (the mass
    rows of a draft pass see every slot), or to 0 where it wants none.
    """
    return _mass_by_kv_head(q_RHE, lse_RH, key_cache, schedule).sum(1) / q_RHE.shape[1]


def add_attention_mass(
    q_RHE: Tensor, lse_RH: Tensor, key_cache: Tensor, schedule: Schedule, total_BGK: Tensor
) -> None:
    """Add one layer's mass to `total_BGK` (fp32, or fp64 as q), summed over a kv head's queries.

    After L layers, `total.sum(1) / (H · L)` is the mean of their `attention_mass`.
    """
    total_BGK += _mass_by_kv_head(q_RHE, lse_RH, key_cache, schedule)


def _mass_by_kv_head(
    q_RHE: Tensor, lse_RH: Tensor, key_cache: Tensor, schedule: Schedule
) -> Tensor:
    """[B, G, K]: weighted over the wanted rows, summed over the query heads of a kv head."""
    assert schedule.mass_rows_BP is not None and schedule.mass_weight_BP is not None
    n_kv_heads = key_cache.shape[1]
    rows_BP = schedule.mass_rows_BP
    batch, wanted = rows_BP.shape
    scores = _scores(q_RHE, key_cache, schedule, rows_BP)
    grouped = lse_RH[rows_BP].view(batch, wanted, n_kv_heads, -1).permute(0, 2, 3, 1)
    lse = grouped.reshape(batch, n_kv_heads, -1, 1)
    keys = torch.arange(scores.shape[-1], device=scores.device)
    is_key = keys < schedule.key_count_B[:, None]
    probability = (scores - lse).exp_().masked_fill_(~is_key[:, None, None, :], 0.0)
    by_row = probability.view(batch, n_kv_heads, -1, wanted, scores.shape[-1]).sum(2)
    return torch.einsum("bgpk,bp->bgk", by_row, schedule.mass_weight_BP.to(by_row.dtype))


def _scores(q_RHE: Tensor, key_cache: Tensor, schedule: Schedule, rows_BW: Tensor) -> Tensor:
    """Scaled scores [B, G, (H/G)·W, K] in fp32 of the padded rows."""
    head_dim = q_RHE.shape[-1]
    n_kv_heads = key_cache.shape[1]
    batch, width = rows_BW.shape
    q = q_RHE[rows_BW] * (head_dim**-0.5)  # [B, W, H, E]
    q = q.view(batch, width, n_kv_heads, -1, head_dim).permute(0, 2, 3, 1, 4)
    q = q.reshape(batch, n_kv_heads, -1, head_dim)
    keys = key_cache[schedule.key_slots_BK].permute(0, 2, 3, 1)  # [B, G, E, K]
    return torch.matmul(q, keys).to(wide(q.dtype))


def _unpad(x: Tensor, schedule: Schedule, n_heads: int) -> Tensor:
    """[B, G, (H/G)·W, X] of the padded layout → [R, H, X]."""
    batch, width = schedule.rows_BW.shape
    x = x.view(batch, n_heads, width, -1).transpose(1, 2).reshape(batch * width, n_heads, -1)
    return x[schedule.padded_R] if schedule.is_padded else x


def linear(hidden_RD: Tensor, weight: Weight) -> Tensor:
    """hidden [R, K] times weight [N, K] transposed: [R, N]."""
    return any_linear(hidden_RD, weight)


def swiglu(hidden_RD: Tensor, gate_up: Weight, down: Weight) -> Tensor:
    """The gated feed-forward: down(silu(gate(x)) * up(x)); gate_up [2F, D], down [D, F]."""
    gate, up = linear(hidden_RD, gate_up).chunk(2, dim=-1)
    return linear(F.silu(gate) * up, down)


def confidence(
    logits_RV: Tensor,
    excluded_id: int,
    noise_RV: Tensor | None = None,
    alternatives: int = 0,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Chosen token and its un-noised softmax probability, in fp32.

    logits_RV     [R, V] any float; left as they are
    excluded_id   never chosen and given no probability (the mask token)
    noise_RV      added before the choice (temperature × Gumbel), or None
    alternatives  how many of the likeliest tokens to return besides
    Returns       tokens [R] int64 (lowest id on ties), confidences [R],
                  alternative tokens [R, A] and their probabilities [R, A].
    """
    logits = logits_RV.to(wide(logits_RV.dtype), copy=True)
    logits[:, excluded_id] = -math.inf
    lse = logits.logsumexp(-1, keepdim=True)
    noised = logits if noise_RV is None else logits + noise_RV
    best = noised.amax(-1, keepdim=True)
    ids = torch.arange(logits.shape[1], device=logits.device)
    tokens = torch.where(noised == best, ids, logits.shape[1]).amin(-1)
    chosen = (logits.gather(1, tokens[:, None]) - lse).exp()[:, 0]
    if alternatives:
        values, other = logits.topk(min(alternatives, logits.shape[1]), dim=-1)
        return tokens, chosen, other, (values - lse).exp()
    none = logits.new_empty(len(logits), 0)
    return tokens, chosen, none.long(), none

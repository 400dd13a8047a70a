"""Mixture-of-experts feed-forward: a router picks a few gated feed-forwards for each row.

R rows, D d_model, N experts, F width of one expert, k experts a row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels.dense import dense
from kernels.scaled import Weight, linear


@dataclass(frozen=True)
class Experts:
    """Weights and rule of one layer.

    router        [N, D]
    bias          [N], added to the scores for the choice only, or None
    gate_up       N of [2F, D]; down N of [D, F]
    top_k         experts a row
    score         "softmax" over all experts (OLMoE, LLaDA-MoE) or "sigmoid" of each (LLaDA2)
    renormalise   whether the chosen weights are divided by their sum
    scale         factor on the chosen weights
    groups        experts stand in so many groups of equal size, and only the best `top_groups`
                  of them (by the sum of their two best choice scores) are open; 1: no groups
    """

    router: Tensor
    bias: Tensor | None
    gate_up: Sequence[Weight]
    down: Sequence[Weight]
    top_k: int
    score: str
    renormalise: bool
    scale: float = 1.0
    groups: int = 1
    top_groups: int = 1


def route(hidden_RD: Tensor, experts: Experts) -> tuple[Tensor, Tensor]:
    """Chosen experts [R, k] int64 and their weights [R, k], scored in fp32 (fp64 for fp64)."""
    dtype = torch.promote_types(hidden_RD.dtype, torch.float32)
    logits = dense(hidden_RD.to(dtype), experts.router.to(dtype))
    scores = logits.softmax(-1) if experts.score == "softmax" else logits.sigmoid()
    choice = scores if experts.bias is None else scores + experts.bias.to(dtype)
    if experts.groups > 1:
        grouped = choice.view(len(choice), experts.groups, -1)
        best = grouped.topk(2, dim=-1).values.sum(-1).topk(experts.top_groups, dim=-1).indices
        is_open = torch.zeros_like(grouped[..., 0], dtype=torch.bool).scatter_(1, best, True)
        choice = grouped.masked_fill(~is_open[..., None], -math.inf).flatten(1)
    chosen = choice.topk(experts.top_k, dim=-1).indices
    weights = scores.gather(1, chosen)
    if experts.renormalise:
        weights = weights / weights.sum(-1, keepdim=True)
    return chosen, weights * experts.scale


def expert_swiglu(hidden_RD: Tensor, experts: Experts) -> Tensor:
    """Σ weight · down(silu(gate(x)) · up(x)) over each row's experts: [R, D].

    Rows are sorted by expert, so that each expert in use is two matrix products.
    """
    chosen, weights = route(hidden_RD, experts)
    order = chosen.flatten().argsort(stable=True)
    rows = order // experts.top_k
    counts = torch.bincount(chosen.flatten(), minlength=len(experts.router)).tolist()
    parts, start = [], 0
    for number, count in enumerate(counts):
        if count:
            x = hidden_RD[rows[start : start + count]]
            gate, up = linear(x, experts.gate_up[number]).chunk(2, dim=-1)
            parts.append(linear(F.silu(gate) * up, experts.down[number]))
            start += count
    out = torch.cat(parts) * weights.flatten()[order, None].to(hidden_RD.dtype)
    # back to each row's own order before summing: the sum must not depend on the batch
    return out[order.argsort()].view(len(hidden_RD), experts.top_k, -1).sum(1)

"""A pass of one sequence, layer by layer: each layer computes the positions that its plan names.

What a layer adds to the residual stream is kept, its attention branch and its feed-forward branch
apart, beside the entries of the flat cache. A position that a layer leaves out goes on with what
was kept. So every position has a hidden state at every layer, however old, and all four of
dLLM-Cache's features are there (arXiv 2506.06295); Elastic-Cache's kept hidden states are their
sum. Torch only: the numbers that plans ask for come to the host in every layer.

Shape letters: T positions, R rows of a layer, D d_model, H query heads, G key/value heads, E
head_dim, L layers, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from flash_dllm.cache import FlatKVCache
from flash_dllm.layer_plan import LayerPlan, LayerReport
from flash_dllm.models.transformer import BlockWeights, Transformer
from flash_dllm.query import Query, Role
from kernels import ops
from kernels.reference import wide
from kernels.scaled import linear


@dataclass
class LayerFeatures:
    """What one sequence's layers computed last, position by position.

    inputs        [T, D]     the embedded tokens
    attention     [L, T, D]  what the attention branch added; feed_forward [L, T, D] likewise
    weights       layer → [T, T], the heads' mean attention of each position's own row; only layers
                  whose plan watches attention
    """

    inputs: Tensor
    attention: Tensor
    feed_forward: Tensor
    weights: dict[int, Tensor] = field(default_factory=dict)

    @classmethod
    def of(cls, model: Transformer, length: int) -> LayerFeatures:
        """Room for a sequence; its first pass must compute everything."""
        spec = model.spec
        shape = (spec.n_layers, length, spec.d_model)
        make = lambda *shape: torch.zeros(shape, dtype=model.dtype, device=model.device)  # noqa: E731
        return cls(make(length, spec.d_model), make(*shape), make(*shape))


@torch.inference_mode()
def forward_by_layer(
    model: Transformer,
    query: Query,
    slots_T: Tensor,
    cache: FlatKVCache,
    features: LayerFeatures,
) -> tuple[Tensor, tuple[LayerReport, ...]]:
    """Run the query's plan; writes `features`, and K and V of what is computed to `cache`.

    slots_T  [T] int64 on the model's device: each position's slot of the cache
    Returns  (logits of the predicted rows [P, V], what each layer did).
    """
    plan = query.plan
    assert plan is not None, "only queries with a plan are answered layer by layer"
    weights, eps, impl = model.weights, model.spec.rms_norm_eps, model.impl
    device = model.device
    positions = torch.tensor(query.positions, device=device)
    tokens = torch.tensor(query.tokens, device=device)
    features.inputs[positions] = F.embedding(tokens, weights.embedding)
    # rows that a shifted model needs besides: nobody plans for them, all layers compute them
    added = [p for p, r in zip(query.positions, query.roles, strict=True) if r == Role.PREDECESSOR]
    window = [p for p, r in zip(query.positions, query.roles, strict=True) if r == Role.WINDOW]
    hidden = features.inputs
    reports: list[LayerReport] = []
    for number, block in enumerate(weights.blocks):
        step = _Layer(model, block, number, slots_T, cache, features)
        normed = ops.rms_norm(hidden, block.attn_norm, eps, impl)
        compared = list(plan.compared(number))
        similarity = step.compare(normed, compared)
        rows = sorted({*plan.rows(number, similarity, reports), *added})
        attention = step.attend(normed, rows)
        hidden = hidden + features.attention[number]
        normed = ops.rms_norm(hidden, block.ffn_norm, eps, impl)
        step.feed_forward(normed, rows)
        hidden = hidden + features.feed_forward[number]
        moved = [1.0 - cosine for cosine in similarity]
        reports.append(
            LayerReport(
                tuple(rows),
                len(compared),
                sum(moved) / len(moved) if moved else None,
                _turned(plan, number, rows, attention, features),
                _leader(query, rows, window, attention) if plan.wants_leaders else None,
            )
        )
        if plan.wants_leaders:
            _keep_weights(features, number, rows, attention)
    asked = positions[query.predict]
    deciding = ops.rms_norm(hidden[asked], weights.final_norm, eps, impl)
    return ops.linear(deciding, weights.head, impl), tuple(reports)


@dataclass(frozen=True)
class _Layer:
    """One layer of one pass."""

    model: Transformer
    block: BlockWeights
    number: int
    slots_T: Tensor
    cache: FlatKVCache
    features: LayerFeatures

    def compare(self, normed_TD: Tensor, positions: list[int]) -> list[float]:
        """Write the values of these positions; cosine of each with the value before."""
        if not positions:
            return []
        block, values = self.block, self.cache.values[self.number]
        at = torch.tensor(positions, device=normed_TD.device)
        slots = self.slots_T[at]
        new = _values(self.model, block, normed_TD[at]).view(len(positions), *values.shape[1:])
        dtype = wide(new.dtype)
        old = values[slots]
        cosine = F.cosine_similarity(new.flatten(1).to(dtype), old.flatten(1).to(dtype), dim=1)
        values[slots] = new
        return cosine.tolist()

    def attend(self, normed_TD: Tensor, rows: list[int]) -> Tensor:
        """Entries and attention branch of these rows; their heads' mean attention [R, T]."""
        model, block, number = self.model, self.block, self.number
        at = torch.tensor(rows, dtype=torch.int64, device=normed_TD.device)
        keys, values = self.cache.keys[number], self.cache.values[number]
        cos, sin = model.rotary
        q = ops.project_and_cache(
            normed_TD[at], block.qkv, block.qkv_bias, block.head_norms, cos, sin, at,
            self.slots_T[at], keys, values, model.spec.n_heads, model.impl,
        )  # fmt: skip
        out, attention = row_attention(q, keys[self.slots_T], values[self.slots_T])
        branch = ops.linear(out.flatten(1), block.attn_out, model.impl)
        self.features.attention[number, at] = branch
        return attention

    def feed_forward(self, normed_TD: Tensor, rows: list[int]) -> None:
        """Feed-forward branch of these rows."""
        if rows:
            branch = self.model.feed_forward(normed_TD[rows], self.block)
            self.features.feed_forward[self.number, rows] = branch


def row_attention(q_RHE: Tensor, keys_TGE: Tensor, values_TGE: Tensor) -> tuple[Tensor, Tensor]:
    """Softmax attention of rows that see every key: (out [R, H, E] in q's dtype, the heads' mean
    of the attention probabilities [R, T] in fp32, or fp64 where q is)."""
    rows, heads, size = q_RHE.shape
    groups = keys_TGE.shape[1]
    grouped = (q_RHE * size**-0.5).view(rows, groups, heads // groups, size)
    scores = torch.einsum("rgne,tge->rgnt", grouped, keys_TGE)
    probability = scores.to(wide(scores.dtype)).softmax(-1)
    out = torch.einsum("rgnt,tge->rgne", probability.to(values_TGE.dtype), values_TGE)
    return out.reshape(rows, heads, size), probability.flatten(1, 2).mean(1)


def _values(model: Transformer, block: BlockWeights, normed_RD: Tensor) -> Tensor:
    """The value projection alone: [R, G·E]."""
    spec = model.spec
    first = (spec.n_heads + spec.n_kv_heads) * spec.head_dim
    if type(block.qkv) is Tensor:
        bias = None if block.qkv_bias is None else block.qkv_bias[first:]
        return linear(normed_RD, block.qkv[first:], bias)
    # a quantised weight is one product and can't be cut
    return linear(normed_RD, block.qkv, block.qkv_bias)[:, first:]


def _turned(
    plan: LayerPlan, number: int, rows: Sequence[int], attention_RT: Tensor, kept: LayerFeatures
) -> float | None:
    """Cosine of the watched position's attention, now and when this layer last computed it."""
    watched = plan.watched(number)
    if watched is None or watched not in rows or number not in kept.weights:
        return None
    now, before = attention_RT[rows.index(watched)], kept.weights[number][watched]
    return float(F.cosine_similarity(now, before, dim=0))


def _leader(
    query: Query, rows: Sequence[int], window: Sequence[int], attention_RT: Tensor
) -> int | None:
    """The decided position with most attention from the window's rows, the leftmost of equals."""
    place = {position: row for row, position in enumerate(rows)}
    asking = [place[position] for position in window if position in place]
    decided = [position for position, flag in enumerate(query.decided) if flag]
    if not asking or not decided:
        return None
    mass = attention_RT[asking].sum(0)[decided].tolist()
    return decided[max(range(len(mass)), key=mass.__getitem__)]


def _keep_weights(
    features: LayerFeatures, number: int, rows: list[int], attention_RT: Tensor
) -> None:
    """Remember the rows' attention for the next pass's test."""
    if number not in features.weights:
        length = attention_RT.shape[1]
        features.weights[number] = attention_RT.new_zeros(length, length)
    features.weights[number][rows] = attention_RT

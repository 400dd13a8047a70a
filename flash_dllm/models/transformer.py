"""The bidirectional transformer that all families share: embed → block × L → head.

It computes only the rows that were asked and the logits of the rows that decide; everything else
it needs is in the flat cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from flash_dllm.cache import FlatKVCache
from flash_dllm.models.base import ModelSpec
from flash_dllm.packing import Packed
from kernels import ops
from kernels.experts import Experts
from kernels.reference import HeadNorms, wide

if TYPE_CHECKING:
    from flash_dllm.models.parallel import Ranks


@dataclass(frozen=True)
class BlockWeights:
    """One layer; projections stacked so that each is one matrix product.

    qkv [(H + 2G)·E, D]; attn_out [D, H·E]; norms [D]; head_norms: those
    of queries and keys, or None. The feed-forward is gate_up [2F, D] with down [D, F],
    or `experts`, or both (a shared expert).
    """

    attn_norm: Tensor
    qkv: Tensor
    qkv_bias: Tensor | None
    attn_out: Tensor
    ffn_norm: Tensor
    gate_up: Tensor | None = None
    down: Tensor | None = None
    head_norms: HeadNorms | None = None
    experts: Experts | None = None


@dataclass(frozen=True)
class ModelWeights:
    """embedding [V, D], final_norm [D], head [V, D]."""

    embedding: Tensor
    blocks: tuple[BlockWeights, ...]
    final_norm: Tensor
    head: Tensor


class Transformer:
    """The mask predictor (LLaDA's word for the network)."""

    def __init__(
        self, spec: ModelSpec, weights: ModelWeights, impl: str, ranks: Ranks | None = None
    ) -> None:
        """ranks: the devices that share the model; `spec` and `weights` are this one's share."""
        self.spec = spec
        self._ranks = ranks if ranks is not None and ranks.size > 1 else None
        self.weights = weights
        self.impl = impl
        self.dtype = weights.embedding.dtype
        self.device = weights.embedding.device
        turned = spec.rotary_dim or spec.head_dim
        exponent = torch.arange(0, turned, 2, dtype=torch.float64) / turned
        angle = torch.outer(
            torch.arange(spec.max_length, dtype=torch.float64), spec.rope_theta**-exponent
        )
        table_dtype = wide(self.dtype)
        self._cos = angle.cos().to(self.device, table_dtype)
        self._sin = angle.sin().to(self.device, table_dtype)

    @torch.inference_mode()
    def forward(
        self,
        packed: Packed,
        cache: FlatKVCache,
        mass_layers: tuple[int, int] | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Run the rows, write their K and V to their slots.

        Returns (logits [P, V] of `packed.predict`, attention mass [B, K] or None): the mean over
        the layers `mass_layers` (first, last; None: all) if the schedule asks for it.
        """
        spec, schedule, impl = self.spec, packed.schedule, self.impl
        cos, sin = self._cos[packed.positions], self._sin[packed.positions]
        first, last = mass_layers or (0, spec.n_layers - 1)
        masses = []
        hidden = F.embedding(packed.tokens, self.weights.embedding)
        for number, block in enumerate(self.weights.blocks):
            keys, values = cache.keys[number], cache.values[number]
            normed = ops.rms_norm(hidden, block.attn_norm, spec.rms_norm_eps, impl)
            q = ops.project_and_cache(
                normed, block.qkv, block.qkv_bias, block.head_norms, cos, sin, packed.slots,
                keys, values, spec.n_heads, impl,
            )
            out, lse = ops.scheduled_attention(q, keys, values, schedule, impl)
            if schedule.mass_rows_BP is not None and first <= number <= last:
                masses.append(ops.attention_mass(q, lse, keys, schedule, impl))
            hidden = hidden + self._joined(
                F.linear(out.reshape(len(hidden), -1), block.attn_out)
            )
            normed = ops.rms_norm(hidden, block.ffn_norm, spec.rms_norm_eps, impl)
            hidden = hidden + self._joined(self._feed_forward(normed, block))
        deciding = ops.rms_norm(
            hidden[packed.predict], self.weights.final_norm, spec.rms_norm_eps, impl
        )
        logits = F.linear(deciding, self.weights.head)
        mass = torch.stack(masses).mean(0) if masses else None
        if mass is not None and self._ranks is not None:
            # each device has the mean over its own heads
            mass = self._joined(mass) / self._ranks.size
        return logits, mass

    def _joined(self, partial: Tensor) -> Tensor:
        """The sum over the devices that share the model."""
        return partial if self._ranks is None else self._ranks.joined(partial)

    def _feed_forward(self, normed: Tensor, block: BlockWeights) -> Tensor:
        """The dense one, the chosen experts, or the sum of both."""
        if block.gate_up is None or block.down is None:
            assert block.experts is not None, "a layer has a feed-forward"
            return ops.expert_swiglu(normed, block.experts, self.impl)
        dense = ops.swiglu(normed, block.gate_up, block.down, self.impl)
        if block.experts is None:
            return dense
        return ops.expert_swiglu(normed, block.experts, self.impl) + dense

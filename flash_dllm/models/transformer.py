"""The bidirectional transformer that all families share: embed → block × L → head.

It computes only the rows that were asked and the logits of the rows that decide; everything else
it needs is in the flat cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

from flash_dllm.cache import FlatKVCache
from flash_dllm.models.base import ModelSpec
from flash_dllm.packing import Packed
from kernels import ops
from kernels.reference import wide
from kernels.schedule import Schedule


@dataclass(frozen=True)
class BlockWeights:
    """One layer; projections stacked so that each is one matrix product.

    qkv [(H + 2G)·E, D]; attn_out [D, H·E]; gate_up [2F, D]; down [D, F]; norms [D].
    """

    attn_norm: Tensor
    qkv: Tensor
    qkv_bias: Tensor | None
    attn_out: Tensor
    ffn_norm: Tensor
    gate_up: Tensor
    down: Tensor


@dataclass(frozen=True)
class ModelWeights:
    """embedding [V, D], final_norm [D], head [V, D]."""

    embedding: Tensor
    blocks: tuple[BlockWeights, ...]
    final_norm: Tensor
    head: Tensor

    @property
    def tensors(self) -> list[Tensor]:
        """All of them, once each."""
        tensors = [self.embedding, self.final_norm, self.head]
        for block in self.blocks:
            tensors += [tensor for tensor in vars(block).values() if isinstance(tensor, Tensor)]
        return tensors

    @cached_property
    def count(self) -> int:
        """How many numbers they hold."""
        return sum(tensor.numel() for tensor in self.tensors)


class Transformer:
    """The mask predictor (LLaDA's word for the network).

    qkv_route  with impl="triton": how Q, K and V are projected (`kernels/routes.py::qkv_route`)
    """

    def __init__(
        self, spec: ModelSpec, weights: ModelWeights, impl: str, qkv_route: str = "auto"
    ) -> None:
        self.spec = spec
        self.weights = weights
        self.impl = impl
        self.qkv_route = qkv_route
        self.dtype = weights.embedding.dtype
        self.device = weights.embedding.device
        exponent = torch.arange(0, spec.head_dim, 2, dtype=torch.float64) / spec.head_dim
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
        eps, blocks = spec.rms_norm_eps, self.weights.blocks
        first, last = mass_layers or (0, spec.n_layers - 1)
        total = self._no_mass(schedule)
        hidden = F.embedding(packed.tokens, self.weights.embedding)
        normed = ops.rms_norm(hidden, blocks[0].attn_norm, eps, impl, upcoming=blocks[0].qkv)
        for number, block in enumerate(blocks):
            keys, values = cache.keys[number], cache.values[number]
            q = ops.project_and_cache(
                normed, block.qkv, block.qkv_bias, None, self._cos, self._sin,
                packed.positions, packed.slots, keys, values, spec.n_heads, impl,
                self.qkv_route, upcoming=block.attn_out,
            )
            out, lse = ops.scheduled_attention(q, keys, values, schedule, impl)
            if total is not None and first <= number <= last:
                ops.add_attention_mass(q, lse, keys, schedule, total, impl)
            branch = ops.linear(
                out.reshape(len(hidden), -1), block.attn_out, impl, may_split=True
            )
            hidden, normed = ops.add_rms_norm(
                hidden, branch, block.ffn_norm, eps, impl, upcoming=block.gate_up
            )
            branch = ops.swiglu(normed, block.gate_up, block.down, impl, may_split=True)
            if number + 1 < len(blocks):
                following = blocks[number + 1]
                hidden, normed = ops.add_rms_norm(
                    hidden, branch, following.attn_norm, eps, impl, upcoming=following.qkv
                )
        # only the deciding rows go on to the head
        _, deciding = ops.add_rms_norm(
            hidden, branch, self.weights.final_norm, eps, impl, rows=packed.predict,
            upcoming=self.weights.head,
        )
        logits = ops.linear(deciding, self.weights.head, impl)
        if total is None:
            return logits, None
        return logits, total.sum(1) / (spec.n_heads * (last - first + 1))

    def _no_mass(self, schedule: Schedule) -> Tensor | None:
        """Zeros [B, G, K] that the layers add their attention mass to, if it is asked for."""
        if schedule.mass_rows_BP is None:
            return None
        batch, keys = schedule.key_slots_BK.shape
        shape = batch, self.spec.n_kv_heads, keys
        return torch.zeros(shape, dtype=wide(self.dtype), device=self.device)

"""The bidirectional transformer that all families share: embed → block × L → head.

It computes only the rows that were asked and the logits of the rows that decide; everything else
it needs is in the flat cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from flash_dllm.beside import Beside
from flash_dllm.cache import FlatKVCache
from flash_dllm.models.base import ModelSpec
from flash_dllm.pass_layout import Packed
from kernels import ops
from kernels.experts import Experts
from kernels.reference import HeadNorms, wide
from kernels.scaled import ScaledWeight, Weight
from kernels.schedule import Schedule

if TYPE_CHECKING:
    from flash_dllm.models.parallel import Ranks


@dataclass(frozen=True)
class BlockWeights:
    """One layer; projections stacked so that each is one matrix product, in fp8 if they are
    `ScaledWeight`.

    qkv [(H + 2G)·E, D]; attn_out [D, H·E]; norms [D]; head_norms: those
    of queries and keys, or None. The feed-forward is gate_up [2F, D] with down [D, F],
    or `experts`, or both (a shared expert).
    """

    attn_norm: Tensor
    qkv: Weight
    qkv_bias: Tensor | None
    attn_out: Weight
    ffn_norm: Tensor
    gate_up: Weight | None = None
    down: Weight | None = None
    head_norms: HeadNorms | None = None
    experts: Experts | None = None


@dataclass(frozen=True)
class ModelWeights:
    """embedding [V, D], final_norm [D], head [V, D]."""

    embedding: Tensor
    blocks: tuple[BlockWeights, ...]
    final_norm: Tensor
    head: Tensor

    @property
    def parts(self) -> list[Weight]:
        """All of them, once each: a head that is the embedding does not count again."""
        found = _weights((self.embedding, self.blocks, self.final_norm, self.head))
        return list({id(weight): weight for weight in found}.values())

    @property
    def tensors(self) -> list[Tensor]:
        """What they are stored in, scales of fp8 weights included."""
        pairs = ([w.values, w.scales] if isinstance(w, ScaledWeight) else [w] for w in self.parts)
        return [tensor for pair in pairs for tensor in pair]

    @cached_property
    def count(self) -> int:
        """How many parameters they hold."""
        return sum(weight.numel() for weight in self.parts)

    @property
    def is_scaled(self) -> bool:
        """Whether products are taken in fp8."""
        return isinstance(self.blocks[0].qkv, ScaledWeight)


def _weights(part: object) -> Iterator[Weight]:
    """The weights inside tuples, blocks, norms of heads and experts."""
    if isinstance(part, (Tensor, ScaledWeight)):
        yield part
    elif isinstance(part, tuple):
        for one in part:
            yield from _weights(one)
    elif isinstance(part, (BlockWeights, Experts)):
        yield from _weights(tuple(vars(part).values()))


class Transformer:
    """The mask predictor (LLaDA's word for the network).

    ranks      the devices that share the model; `spec` and `weights` are this one's share
    qkv_route  with impl="triton": how Q, K and V are projected (`kernels/routes.py::qkv_route`)
    """

    def __init__(
        self,
        spec: ModelSpec,
        weights: ModelWeights,
        impl: str,
        ranks: Ranks | None = None,
        qkv_route: str = "auto",
    ) -> None:
        self.spec = spec
        self._ranks = ranks if ranks is not None and ranks.size > 1 else None
        self.weights = weights
        self.impl = impl
        self.qkv_route = qkv_route
        self.dtype = weights.embedding.dtype
        self.device = weights.embedding.device
        self._beside = Beside(self.device)
        turned = spec.rotary_dim or spec.head_dim
        exponent = torch.arange(0, turned, 2, dtype=torch.float64) / turned
        angle = torch.outer(
            torch.arange(spec.max_length, dtype=torch.float64), spec.rope_theta**-exponent
        )
        table_dtype = wide(self.dtype)
        self._cos = angle.cos().to(self.device, table_dtype)
        self._sin = angle.sin().to(self.device, table_dtype)

    @property
    def is_shared(self) -> bool:
        """Whether other devices hold parts of it."""
        return self._ranks is not None

    @property
    def rotary(self) -> tuple[Tensor, Tensor]:
        """Cosines and sines of the rotary embedding, [positions, T/2] each."""
        return self._cos, self._sin

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
        # parts are summed on a device before they are summed over devices
        may_split = self._ranks is None
        first, last = mass_layers or (0, spec.n_layers - 1)
        total = self._no_mass(schedule)
        hidden = F.embedding(packed.tokens, self.weights.embedding)
        normed = ops.rms_norm(hidden, blocks[0].attn_norm, eps, impl)
        for number, block in enumerate(blocks):
            keys, values = cache.keys[number], cache.values[number]
            q = ops.project_and_cache(
                normed, block.qkv, block.qkv_bias, block.head_norms, self._cos, self._sin,
                packed.positions, packed.slots, keys, values, spec.n_heads, impl,
                self.qkv_route,
            )
            out, lse = ops.scheduled_attention(q, keys, values, schedule, impl)
            if total is not None and first <= number <= last:
                with self._beside.after(q, lse, rows=len(hidden)):
                    ops.add_attention_mass(q, lse, keys, schedule, total, impl)
            branch = self._joined(
                ops.linear(
                    out.reshape(len(hidden), -1), block.attn_out, impl, may_split=may_split
                )
            )
            hidden, normed = ops.add_rms_norm(hidden, branch, block.ffn_norm, eps, impl)
            branch = self._joined(self.feed_forward(normed, block, may_split))
            if number + 1 < len(blocks):
                following = blocks[number + 1].attn_norm
                hidden, normed = ops.add_rms_norm(hidden, branch, following, eps, impl)
        # only the deciding rows go on to the head
        _, deciding = ops.add_rms_norm(
            hidden, branch, self.weights.final_norm, eps, impl, rows=packed.predict
        )
        logits = ops.linear(deciding, self.weights.head, impl)
        self._beside.join()
        if total is None:
            return logits, None
        mass = total.sum(1) / (spec.n_heads * (last - first + 1))
        if self._ranks is not None:
            # each device has the mean over its own heads
            mass = self._joined(mass) / self._ranks.size
        return logits, mass

    def _no_mass(self, schedule: Schedule) -> Tensor | None:
        """Zeros [B, G, K] that the layers add their attention mass to, if it is asked for."""
        if schedule.mass_rows_BP is None:
            return None
        batch, keys = schedule.key_slots_BK.shape
        shape = batch, self.spec.n_kv_heads, keys
        return torch.zeros(shape, dtype=wide(self.dtype), device=self.device)

    def _joined(self, partial: Tensor) -> Tensor:
        """The sum over the devices that share the model."""
        return partial if self._ranks is None else self._ranks.joined(partial)

    def feed_forward(
        self, normed: Tensor, block: BlockWeights, may_split: bool = False
    ) -> Tensor:
        """The dense one, the chosen experts, or the sum of both."""
        if block.gate_up is None or block.down is None:
            assert block.experts is not None, "a layer has a feed-forward"
            return ops.expert_swiglu(normed, block.experts, self.impl)
        if block.experts is None:
            return ops.swiglu(normed, block.gate_up, block.down, self.impl, may_split=may_split)
        dense = ops.swiglu(normed, block.gate_up, block.down, self.impl)
        return ops.expert_swiglu(normed, block.experts, self.impl) + dense

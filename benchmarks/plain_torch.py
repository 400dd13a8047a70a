"""The bars: a plain torch forward over a cache of fixed length, and torch's packed attention.

What a competent user writes without kernels of their own: one QKV product, rotary embedding, an
indexed write into the cache, scaled_dot_product_attention, one gate-up product, F.rms_norm, logits
of the window. No confidences, no attention mass, no ragged batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.random_llada import Shape
from benchmarks.timing import captured, device_times
from flash_dllm.models.transformer import Transformer
from flash_dllm.packing import pack
from flash_dllm.query import Query
from flash_dllm.session import ModelSession
from kernels import ops


def norm(hidden: Tensor, weight: Tensor, eps: float) -> Tensor:
    return F.rms_norm(hidden, weight.shape, weight, eps)


def add_norm(hidden: Tensor, branch: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    total = hidden + branch
    return total, F.rms_norm(total, weight.shape, weight, eps)


def rotate(qk: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """qk [B, heads, rows, E]; cos, sin [rows, E/2]."""
    left, right = qk.chunk(2, dim=-1)
    return torch.cat((left * cos - right * sin, right * cos + left * sin), dim=-1)


def gated(gate_up: Tensor) -> Tensor:
    gate, up = gate_up.chunk(2, dim=-1)
    return F.silu(gate) * up


def _as_it_is(function: Callable) -> Callable:
    return function


class PlainForward:
    """A draft pass of `rows` rows a sequence: `window` undecided ones and decided ones before."""

    def __init__(
        self, model: Transformer, batch: int, rows: int, shape: Shape, is_compiled: bool
    ) -> None:
        spec = model.spec
        self._spec, self._weights = spec, model.weights
        self._batch, self._rows, self._window = batch, rows, shape.window
        device, dtype = model.device, model.dtype
        keys = shape.prompt + shape.answer
        cache = (spec.n_layers, batch, spec.n_kv_heads, keys, spec.head_dim)
        self._keys = torch.empty(cache, dtype=dtype, device=device).normal_()
        self._values = torch.empty(cache, dtype=dtype, device=device).normal_()
        first = shape.prompt + shape.answer // 8
        tracked = torch.arange(0, 4 * (rows - shape.window), 4)
        self._slots = torch.cat((tracked, torch.arange(first, first + shape.window))).to(device)
        angle = torch.outer(
            self._slots.cpu().double(),
            spec.rope_theta ** -(torch.arange(0, spec.head_dim, 2).double() / spec.head_dim),
        )
        self._cos, self._sin = angle.cos().to(device, dtype), angle.sin().to(device, dtype)
        self._tokens = torch.randint(10, 1000, (batch, rows), device=device)
        maker: Callable = partial(torch.compile, dynamic=False) if is_compiled else _as_it_is
        if is_compiled:
            torch.compiler.reset()  # each shape is compiled for itself
        self._norm, self._add_norm = maker(norm), maker(add_norm)
        self._rotate, self._gated = maker(rotate), maker(gated)

    @torch.inference_mode()
    def run(self) -> Tensor:
        """Logits of the window, [batch, window, V]."""
        spec, weights = self._spec, self._weights
        batch, rows, size, eps = self._batch, self._rows, spec.head_dim, spec.rms_norm_eps
        heads, kv = spec.n_heads, spec.n_kv_heads
        hidden = F.embedding(self._tokens, weights.embedding)
        normed = self._norm(hidden, weights.blocks[0].attn_norm, eps)
        for number, block in enumerate(weights.blocks):
            qkv = F.linear(normed, block.qkv).view(batch, rows, heads + 2 * kv, size)
            qkv = qkv.transpose(1, 2)
            turned = self._rotate(qkv[:, : heads + kv], self._cos, self._sin)
            keys, values = self._keys[number], self._values[number]
            keys.index_copy_(2, self._slots, turned[:, heads:])
            values.index_copy_(2, self._slots, qkv[:, heads + kv :])
            out = F.scaled_dot_product_attention(
                turned[:, :heads], keys, values, enable_gqa=heads != kv
            )
            branch = F.linear(out.transpose(1, 2).reshape(batch, rows, -1), block.attn_out)
            hidden, normed = self._add_norm(hidden, branch, block.ffn_norm, eps)
            branch = F.linear(self._gated(F.linear(normed, block.gate_up)), block.down)
            is_last = number + 1 == len(weights.blocks)
            weight = weights.final_norm if is_last else weights.blocks[number + 1].attn_norm
            hidden, normed = self._add_norm(hidden, branch, weight, eps)
        return F.linear(normed[:, -self._window :], weights.head)

    def captured(self) -> Callable[[], object]:
        """The same as a CUDA graph."""
        return captured(self.run)


@torch.inference_mode()
def varlen_times(
    session: ModelSession, handles: list[int], query: Query, repeats: int
) -> Iterator[tuple[str, list[float]]]:
    """(name, ms of one layer's attention, mean over the layers' caches), ours first."""
    cache, model = session.cache, session.model
    spec, device = model.spec, model.device
    group = spec.n_heads // spec.n_kv_heads
    packed = pack([(handle, query) for handle in handles], cache.table, device, group)
    rows = len(handles) * query.rows
    q = torch.randn(rows, spec.n_heads, spec.head_dim, dtype=model.dtype, device=device)

    def ours() -> None:
        for keys, values in zip(cache.keys, cache.values, strict=True):
            ops.scheduled_attention(q, keys, values, packed.schedule, model.impl)

    layers = spec.n_layers
    yield model.impl, [t / layers for t in device_times(captured(ours), device, repeats)]
    if device.type != "cuda":
        return

    from torch.nn.attention.varlen import varlen_attn

    def starts(length: int) -> Tensor:
        ends = [number * length for number in range(len(handles) + 1)]
        return torch.tensor(ends, dtype=torch.int32, device=device)

    # sequences that were admitted one after another stand end to end in the cache
    length = query.length
    total = len(handles) * length
    assert cache.table[handles[-1], length - 1] == total - 1, "the cache is not packed"
    cu_rows, cu_keys = starts(query.rows), starts(length)

    def torchs() -> None:
        for keys, values in zip(cache.keys, cache.values, strict=True):
            varlen_attn(q, keys[:total], values[:total], cu_rows, cu_keys, query.rows, length)

    try:
        times = device_times(captured(torchs), device, repeats)
    except RuntimeError as error:  # not every version and GPU has it
        print(f"varlen_attn does not run here: {error}")
        return
    yield "varlen_attn", [t / layers for t in times]

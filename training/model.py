"""LLaDA as a plain torch module for training on packed batches without padding.

Names and shapes of `state_dict()` are LLaDA's own, so the export is the state dict itself.

A packed batch is many segments laid end to end in one row of T tokens; attention never crosses a
segment. Shapes: T tokens, M masked tokens, S segments, H heads, D head size, V vocabulary.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

log = logging.getLogger(__name__)

Attention = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, bool], Tensor]

# no segment is longer; also the size of a block in `local_attention`
MAX_SEGMENT = 512


@dataclass(frozen=True)
class ModelConfig:
    """Shape of the model; the names are LLaDA's."""

    d_model: int = 384
    n_layers: int = 8
    n_heads: int = 6
    n_kv_heads: int = 6
    mlp_hidden_size: int = 1024
    vocab_size: int = 4096
    max_sequence_length: int = 512
    rope_theta: float = 500000.0
    rms_norm_eps: float = 1e-5
    mask_token_id: int = 5
    eos_token_id: int = 0

    @property
    def head_dim(self) -> int:
        return self.d_model // self.n_heads

    def to_llada(self) -> dict[str, Any]:
        """The `config.json` of a LLaDA checkpoint: every key, since missing ones mean GPT-2's."""
        return {
            **asdict(self),
            "architectures": ["LLaDAModelLM"],
            "model_type": "llada",
            "mlp_ratio": 4,
            "activation_type": "silu",
            "block_type": "llama",
            "block_group_size": 1,
            "layer_norm_type": "rms",
            "layer_norm_with_affine": True,
            "bias_for_layer_norm": False,
            "attention_layer_norm": False,
            "attention_layer_norm_with_affine": True,
            "input_emb_norm": False,
            "multi_query_attention": None,
            "rope": True,
            "rope_full_precision": True,
            "alibi": False,
            "alibi_bias_max": 8.0,
            "embedding_size": self.vocab_size,
            "weight_tying": False,
            "include_bias": False,
            "include_qkv_bias": False,
            "scale_logits": False,
            "attention_dropout": 0.0,
            "residual_dropout": 0.0,
            "embedding_dropout": 0.0,
            "flash_attention": False,
            "init_device": "cpu",
            "init_fn": "normal",
            "init_std": 0.02,
            "init_cutoff_factor": None,
            "precision": "bf16",
            "torch_dtype": "bfloat16",
            "pad_token_id": self.eos_token_id,
            "use_cache": False,
        }


def local_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens: Tensor,
    segments: Tensor,
    is_causal: bool = False,
) -> Tensor:
    """Segment attention through SDPA: each block of tokens sees its own and both neighbour blocks.

    Exact, since a segment is at most one block long and so touches at most two. The CPU's way, and
    the last resort on a GPU (about nine times the arithmetic of the variable-length kernels).

    q, k, v    [T, H, D]
    segments   [T]         int32; number of the token's segment
    is_causal  whether a token sees only itself and earlier ones of its segment
    Returns    [T, H, D]
    """
    total, heads, size = q.shape
    block = min(MAX_SEGMENT, total)
    blocks = -(-total // block)
    missing = blocks * block - total

    def split(x: Tensor, fill: int) -> Tensor:
        pad = x.new_full((missing, *x.shape[1:]), fill)
        return torch.cat([x, pad]).view(blocks, block, *x.shape[1:])

    def neighbours(x: Tensor, fill: int) -> Tensor:
        edge = x.new_full((1, *x.shape[1:]), fill)
        return torch.cat([torch.cat([edge, x[:-1]]), x, torch.cat([x[1:], edge])], dim=1)

    q_blocks = split(q, 0).transpose(1, 2)
    k_blocks = neighbours(split(k, 0), 0).transpose(1, 2)
    v_blocks = neighbours(split(v, 0), 0).transpose(1, 2)
    # -1 marks padding inside a block and -2 missing neighbours; padded queries still see padding
    own = split(segments, -1)
    seen = own[:, :, None] == neighbours(own, -2)[:, None, :]
    if is_causal:
        places = torch.arange(block, device=q.device)
        keys = torch.arange(-block, 2 * block, device=q.device)
        seen &= keys <= places[:, None]
    out = F.scaled_dot_product_attention(q_blocks, k_blocks, v_blocks, attn_mask=seen[:, None])
    return out.transpose(1, 2).reshape(blocks * block, heads, size)[:total]


def varlen_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens: Tensor,
    segments: Tensor,
    is_causal: bool = False,
) -> Tensor:
    """Segment attention through torch's public variable-length interface (FlashAttention)."""
    from torch.nn.attention.varlen import varlen_attn

    longest = MAX_SEGMENT, MAX_SEGMENT
    if is_causal:
        return varlen_attn(q, k, v, cu_seqlens, cu_seqlens, *longest, window_size=(-1, 0))
    return varlen_attn(q, k, v, cu_seqlens, cu_seqlens, *longest)


def aten_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens: Tensor,
    segments: Tensor,
    is_causal: bool = False,
) -> Tensor:
    """Segment attention through the operator under `varlen_attention`, for other torch versions."""
    return torch.ops.aten._flash_attention_forward(
        q, k, v, cu_seqlens, cu_seqlens, MAX_SEGMENT, MAX_SEGMENT, 0.0, is_causal, False
    )[0]


ATTENTIONS: dict[str, Attention] = {
    "varlen": varlen_attention,
    "aten": aten_attention,
    "local": local_attention,
}


def choose_attention(
    device: torch.device, heads: int, head_dim: int, is_causal: bool = False
) -> str:
    """The fastest attention that works here: tried forward and backward against `local`.

    Says on the log why one was not taken.
    """
    if device.type != "cuda":
        return "local"
    generator = torch.Generator().manual_seed(0)
    lengths = [5, 300, 1, 130, 76]
    # two empty segments at the end, as in real batches
    cu_seqlens = torch.tensor([0, 5, 305, 306, 436, 512, 512, 512], dtype=torch.int32)
    segments = torch.repeat_interleave(torch.arange(5), torch.tensor(lengths)).to(torch.int32)
    qkv = torch.randn(3, 512, heads, head_dim, generator=generator).to(device, torch.bfloat16)

    def run(attention: Attention) -> tuple[Tensor, Tensor]:
        leaf = qkv.clone().requires_grad_()
        out = attention(*leaf.unbind(0), cu_seqlens.to(device), segments.to(device), is_causal)
        out.float().square().sum().backward()
        assert leaf.grad is not None
        return out.detach().float(), leaf.grad.float()

    expected = run(local_attention)
    for name in ("varlen", "aten"):
        try:
            errors = [
                float((got - want).norm() / want.norm())
                for got, want in zip(run(ATTENTIONS[name]), expected, strict=True)
            ]
        # any failure of a kernel we cannot test here only means the next one is taken, and said
        except Exception as error:  # noqa: BLE001
            log.warning("attention %s not taken: %s: %s", name, type(error).__name__, error)
            continue
        if max(errors) < 0.03:
            log.info("attention %s, relative errors %s", name, errors)
            return name
        log.warning("attention %s not taken: relative errors %s", name, errors)
    return "local"


class RMSNorm(nn.Module):
    """Square mean in fp32, cast back, then times the weight (LLaDA's order)."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        normed = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        return normed.to(x.dtype) * self.weight.to(x.dtype)


def matrix(rows: int, columns: int) -> nn.Linear:
    return nn.Linear(columns, rows, bias=False)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """RoPE, half-split, in fp32, cast back. x [T, H, D]; cos, sin [T, 1, D / 2] fp32."""
    first, second = x.float().chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1).to(x.dtype)


class Block(nn.Module):
    """One layer. Weights are kept apart as LLaDA names them and joined where one product does."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        kv_size = config.n_kv_heads * config.head_dim
        self.attn_norm = RMSNorm(config.d_model, config.rms_norm_eps)
        self.ff_norm = RMSNorm(config.d_model, config.rms_norm_eps)
        self.q_proj = matrix(config.d_model, config.d_model)
        self.k_proj = matrix(kv_size, config.d_model)
        self.v_proj = matrix(kv_size, config.d_model)
        self.attn_out = matrix(config.d_model, config.d_model)
        self.ff_proj = matrix(config.mlp_hidden_size, config.d_model)
        self.up_proj = matrix(config.mlp_hidden_size, config.d_model)
        self.ff_out = matrix(config.d_model, config.mlp_hidden_size)

    def forward(
        self,
        x: Tensor,
        cos: Tensor,
        sin: Tensor,
        cu_seqlens: Tensor,
        segments: Tensor,
        attention: Attention,
        is_causal: bool = False,
    ) -> Tensor:
        config, dtype = self.config, x.dtype
        kv_size = config.n_kv_heads * config.head_dim
        qkv_weight = torch.cat([self.q_proj.weight, self.k_proj.weight, self.v_proj.weight])
        qkv = F.linear(self.attn_norm(x), qkv_weight.to(dtype))
        q, k, v = qkv.split([config.d_model, kv_size, kv_size], dim=-1)
        q = rotate(q.view(-1, config.n_heads, config.head_dim), cos, sin)
        k = rotate(k.view(-1, config.n_kv_heads, config.head_dim), cos, sin)
        v = v.view(-1, config.n_kv_heads, config.head_dim).contiguous()
        if config.n_kv_heads != config.n_heads:
            repeats = config.n_heads // config.n_kv_heads
            k, v = k.repeat_interleave(repeats, 1), v.repeat_interleave(repeats, 1)
        mixed = attention(q, k, v, cu_seqlens, segments, is_causal).reshape(-1, config.d_model)
        x = x + F.linear(mixed, self.attn_out.weight.to(dtype))
        gate_up_weight = torch.cat([self.ff_proj.weight, self.up_proj.weight])
        gate, up = F.linear(self.ff_norm(x), gate_up_weight.to(dtype)).chunk(2, dim=-1)
        return x + F.linear(F.silu(gate) * up, self.ff_out.weight.to(dtype))


class GatherRows(torch.autograd.Function):
    """`hidden[rows]` for distinct rows, whose gradient is a plain copy: no atomic additions."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, rows: Tensor) -> Tensor:
        ctx.save_for_backward(rows)
        ctx.total = hidden.shape[0]
        return hidden.index_select(0, rows)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (rows,) = ctx.saved_tensors
        out = gradient.new_zeros(ctx.total, gradient.shape[1])
        return out.index_copy(0, rows, gradient), None


class LLaDA(nn.Module):
    """The model. Activations are in `compute_dtype`; parameters stay fp32 for the optimisers."""

    is_causal: ClassVar[bool] = False

    def __init__(
        self,
        config: ModelConfig,
        compute_dtype: torch.dtype = torch.float32,
        attention: str = "local",
    ) -> None:
        super().__init__()
        self.config = config
        self.compute_dtype = compute_dtype
        self.attention = attention
        self.model = nn.ModuleDict(
            {
                "transformer": nn.ModuleDict(
                    {
                        "wte": nn.Embedding(config.vocab_size, config.d_model),
                        "blocks": nn.ModuleList(Block(config) for _ in range(config.n_layers)),
                        "ln_f": RMSNorm(config.d_model, config.rms_norm_eps),
                        "ff_out": matrix(config.vocab_size, config.d_model),
                    }
                )
            }
        )
        exponents = torch.arange(0, config.head_dim, 2, dtype=torch.float32) / config.head_dim
        angles = torch.outer(
            torch.arange(config.max_sequence_length, dtype=torch.float32),
            1.0 / config.rope_theta**exponents,
        )
        self.register_buffer("rope_cos", angles.cos(), persistent=False)
        self.register_buffer("rope_sin", angles.sin(), persistent=False)

    @property
    def transformer(self) -> Any:
        return self.model["transformer"]

    @torch.no_grad()
    def initialize(self, seed: int) -> None:
        """Normal 0.02; the two matrices that write to the residual stream start at zero."""
        generator = torch.Generator().manual_seed(seed)
        for name, parameter in self.named_parameters():
            if parameter.ndim != 2:
                continue
            writes = name.endswith(("attn_out.weight", "ff_out.weight")) and ".blocks." in name
            values = torch.randn(parameter.shape, generator=generator) * (0.0 if writes else 0.02)
            parameter.copy_(values)

    def hidden(
        self, tokens: Tensor, positions: Tensor, cu_seqlens: Tensor, segments: Tensor
    ) -> Tensor:
        """Last hidden states [T, d_model], normed.

        tokens, positions, segments   [T]      int32
        cu_seqlens                    [S + 1]  int32; starts of the segments, then T, repeated
        """
        attention = ATTENTIONS[self.attention]
        x = F.embedding(tokens, self.transformer["wte"].weight).to(self.compute_dtype)
        cos, sin = self.rope_cos[positions][:, None], self.rope_sin[positions][:, None]
        for block in self.transformer["blocks"]:
            x = block(x, cos, sin, cu_seqlens, segments, attention, self.is_causal)
        return self.transformer["ln_f"](x)

    def logits(self, hidden: Tensor) -> Tensor:
        """[..., V] in the compute dtype."""
        return F.linear(hidden, self.transformer["ff_out"].weight.to(hidden.dtype))

    def losses(
        self,
        tokens: Tensor,
        positions: Tensor,
        cu_seqlens: Tensor,
        segments: Tensor,
        rows: Tensor,
        targets: Tensor,
    ) -> Tensor:
        """Cross-entropy [M], fp32, at the distinct `rows` [M] int64 against `targets` [M] int64.

        Logits exist only for these rows, never for all T.
        """
        hidden = self.hidden(tokens, positions, cu_seqlens, segments)
        chosen = GatherRows.apply(hidden, rows)
        return F.cross_entropy(self.logits(chosen).float(), targets, reduction="none")

    def forward(
        self,
        tokens: Tensor,
        positions: Tensor,
        cu_seqlens: Tensor,
        segments: Tensor,
        rows: Tensor,
        targets: Tensor,
        weights: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Weighted mean loss [] and the single losses [M] without gradient, for the log."""
        losses = self.losses(tokens, positions, cu_seqlens, segments, rows, targets)
        loss = (losses * weights).sum() / weights.sum().clamp_min(1e-6)
        return loss, losses.detach()

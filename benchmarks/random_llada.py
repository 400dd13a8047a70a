"""LLaDA-8B's shape with random weights, made on the device itself; a small shape for tests.

Random weights decode nonsense: only times and bytes mean anything.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from flash_dllm.engine import ModelEngine
from flash_dllm.models.base import ModelSpec
from flash_dllm.models.parallel import Ranks
from flash_dllm.models.transformer import BlockWeights, ModelWeights, Transformer
from flash_dllm.trace import ModelInfo
from kernels.scaled import Weight, quantize_weight

# LLaDA's initial deviation; with it the residual stream stays finite through all layers
DEVIATION = 0.02


@dataclass(frozen=True)
class Shape:
    """A model's sizes and the sizes that it is measured at.

    tracked_128, tracked_144  rows beside the window in the two draft passes
    """

    name: str
    spec: ModelSpec
    prompt: int
    answer: int
    window: int
    decide: int
    search: int
    tracked_128: int
    tracked_144: int


LLADA = Shape(
    name="LLaDA-8B shape, random weights",
    spec=ModelSpec(
        d_model=4096, n_layers=32, n_heads=32, n_kv_heads=32, head_dim=128, ffn_size=12288,
        vocab_size=126464, rms_norm_eps=1e-5, rope_theta=500000.0, max_length=4096,
        mask_token_id=126336, eos_token_ids=(126081, 126348),
    ),
    prompt=1024, answer=512, window=64, decide=16, search=8, tracked_128=64, tracked_144=80,
)  # fmt: skip
TINY = Shape(
    name="tiny shape, random weights",
    spec=ModelSpec(
        d_model=64, n_layers=2, n_heads=2, n_kv_heads=2, head_dim=32, ffn_size=128,
        vocab_size=2048, rms_norm_eps=1e-5, rope_theta=500000.0, max_length=512,
        mask_token_id=5, eos_token_ids=(0,),
    ),
    prompt=64, answer=128, window=16, decide=8, search=4, tracked_128=16, tracked_144=20,
)  # fmt: skip
SHAPES = {"llada": LLADA, "tiny": TINY}


class NoText:
    """The tokenizer of a model without words."""

    def encode(self, prompt: str, raw: bool = False) -> list[int]:
        raise ValueError("a random model has no tokenizer; give token ids")

    def token_text(self, token: int) -> str:
        return f" {token}"


def random_weights(
    spec: ModelSpec, dtype: torch.dtype, device: torch.device, is_fp8: bool = False
) -> ModelWeights:
    """Normal weights of LLaDA's initial deviation, norms of 1; the blocks' matrices in fp8 if
    wanted."""
    generator = torch.Generator(device).manual_seed(0)

    def draw(*shape: int) -> Tensor:
        tensor = torch.empty(shape, dtype=dtype, device=device)
        return tensor.normal_(0.0, DEVIATION, generator=generator)

    def matrix(*shape: int) -> Weight:
        return quantize_weight(draw(*shape)) if is_fp8 else draw(*shape)

    def ones() -> Tensor:
        return torch.ones(spec.d_model, dtype=dtype, device=device)

    width, kv_width = spec.n_heads * spec.head_dim, spec.n_kv_heads * spec.head_dim
    blocks = tuple(
        BlockWeights(
            attn_norm=ones(),
            qkv=matrix(width + 2 * kv_width, spec.d_model),
            qkv_bias=None,
            attn_out=matrix(spec.d_model, width),
            ffn_norm=ones(),
            gate_up=matrix(2 * spec.ffn_size, spec.d_model),
            down=matrix(spec.d_model, spec.ffn_size),
        )
        for _ in range(spec.n_layers)
    )
    return ModelWeights(
        draw(spec.vocab_size, spec.d_model), blocks, ones(), draw(spec.vocab_size, spec.d_model)
    )


def random_engine(
    shape: Shape,
    impl: str,
    device: str,
    has_graphs: bool,
    is_fp8: bool = False,
    ranks: Ranks | None = None,
) -> ModelEngine:
    """An engine in bf16 on a GPU, fp32 elsewhere; with fp8 products (W8A8) if wanted.

    ranks  devices that share the model: each draws a share of its own (random either way), with
           embedding and head alike on all
    """
    place = torch.device(device) if ranks is None else ranks.device
    dtype = torch.bfloat16 if place.type == "cuda" else torch.float32
    spec = shape.spec if ranks is None else ranks.local(shape.spec)
    model = Transformer(spec, random_weights(spec, dtype, place, is_fp8), impl, ranks)
    info = ModelInfo(
        name=shape.name, vocab_size=spec.vocab_size, n_layers=spec.n_layers,
        mask_token_id=spec.mask_token_id, eos_token_ids=spec.eos_token_ids,
        impl=impl, device=place.type, dtype=str(dtype).removeprefix("torch."),
    )  # fmt: skip
    return ModelEngine(model, info, NoText(), has_graphs=has_graphs)

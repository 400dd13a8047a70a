"""LLaDA (model_type `llada`): LLaDA-8B-Base, -Instruct, LLaDA-1.5, iLLaDA and the embedded model.

Config keys and tensor names are those of the official checkpoints; no remote code is needed.
"""

from __future__ import annotations

from typing import Any

from flash_dllm.models.base import ModelSpec
from flash_dllm.models.checkpoint import ConfigReader, TensorReader
from flash_dllm.models.transformer import BlockWeights, ModelWeights


def read_spec(config: dict[str, Any], eos_token_ids: tuple[int, ...]) -> ModelSpec:
    """The spec from config.json. Raises ValueError naming a missing or unsupported key."""
    read = ConfigReader(config)
    for key, wanted in (
        ("rope", True),
        ("alibi", False),
        ("include_bias", False),
        ("attention_layer_norm", False),
        ("input_emb_norm", False),
        ("scale_logits", False),
        ("layer_norm_type", "rms"),
        ("activation_type", "silu"),
        ("block_type", "llama"),
    ):
        read.require(key, wanted)
    d_model, n_heads = read.whole("d_model"), read.whole("n_heads")
    n_kv_heads = read.whole("n_kv_heads") if read.has("n_kv_heads") else n_heads
    if d_model % n_heads or n_heads % n_kv_heads:
        raise ValueError(
            f"config.json: d_model {d_model}, n_heads {n_heads} and n_kv_heads {n_kv_heads} do "
            "not divide"
        )
    vocab_size = read.whole("embedding_size")
    return ModelSpec(
        d_model=d_model,
        n_layers=read.whole("n_layers"),
        n_heads=n_heads,
        n_kv_heads=n_kv_heads,
        head_dim=d_model // n_heads,
        ffn_size=read.whole("mlp_hidden_size"),
        vocab_size=vocab_size,
        rms_norm_eps=read.number("rms_norm_eps"),
        rope_theta=read.number("rope_theta"),
        max_length=read.whole("max_sequence_length"),
        mask_token_id=read.whole("mask_token_id", 0, vocab_size - 1),
        eos_token_ids=eos_token_ids,
    )


def read_weights(spec: ModelSpec, config: dict[str, Any], tensors: TensorReader) -> ModelWeights:
    """Weights by LLaDA's names. Raises ValueError naming a missing or misshapen tensor."""
    width, kv_width = spec.n_heads * spec.head_dim, spec.n_kv_heads * spec.head_dim
    read, blocks = ConfigReader(config), []
    for number in range(spec.n_layers):
        base = f"model.transformer.blocks.{number}."
        sizes = (("q_proj", width), ("k_proj", kv_width), ("v_proj", kv_width))
        bias = None
        if read.flag("include_qkv_bias"):
            bias = tensors.stacked(*((f"{base}{leaf}.bias", (size,)) for leaf, size in sizes))
        ffn = (spec.ffn_size, spec.d_model)
        blocks.append(
            BlockWeights(
                attn_norm=tensors.take(f"{base}attn_norm.weight", (spec.d_model,)),
                qkv=tensors.column_parallel(
                    *((f"{base}{leaf}.weight", (size, spec.d_model)) for leaf, size in sizes)
                ),
                qkv_bias=bias,
                attn_out=tensors.row_parallel(f"{base}attn_out.weight", (spec.d_model, width)),
                ffn_norm=tensors.take(f"{base}ff_norm.weight", (spec.d_model,)),
                gate_up=tensors.column_parallel(
                    (f"{base}ff_proj.weight", ffn), (f"{base}up_proj.weight", ffn)
                ),
                down=tensors.row_parallel(f"{base}ff_out.weight", (spec.d_model, spec.ffn_size)),
            )
        )
    table = (spec.vocab_size, spec.d_model)
    embedding = tensors.take("model.transformer.wte.weight", table)
    is_tied = read.flag("weight_tying")
    return ModelWeights(
        embedding=embedding,
        blocks=tuple(blocks),
        final_norm=tensors.take("model.transformer.ln_f.weight", (spec.d_model,)),
        head=embedding if is_tied else tensors.take("model.transformer.ff_out.weight", table),
    )

"""Config keys and tensor names that families share: those of transformers' Llama and Qwen.

`model.layers.N.self_attn.q_proj` and so on. A family file says what is its own: biases, norms of
queries and keys, shift, block, experts.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from flash_dllm.models.base import ModelSpec
from flash_dllm.models.checkpoint import ConfigReader, TensorReader
from flash_dllm.models.transformer import BlockWeights, ModelWeights
from kernels.experts import Experts
from kernels.reference import HeadNorms


def read_common_spec(
    read: ConfigReader,
    eos_token_ids: tuple[int, ...],
    shift: int = 0,
    causal_block: int | None = None,
    ffn_key: str = "intermediate_size",
) -> ModelSpec:
    """The spec by the usual keys. Raises ValueError naming a missing or unsupported one."""
    read.require("hidden_act", "silu")
    read.refuse("use_sliding_window")
    d_model, n_heads = read.whole("hidden_size"), read.whole("num_attention_heads")
    n_kv_heads = read.whole("num_key_value_heads")
    if read.has("head_dim"):
        head_dim = read.whole("head_dim")
    elif d_model % n_heads:
        raise ValueError(
            f"config.json: hidden_size {d_model} and num_attention_heads {n_heads} do not divide"
        )
    else:
        head_dim = d_model // n_heads
    if n_heads % n_kv_heads or head_dim % 2:
        raise ValueError(
            f"config.json: num_attention_heads {n_heads} must be a multiple of "
            f"num_key_value_heads {n_kv_heads}, and head_dim {head_dim} even"
        )
    vocab_size = read.whole("vocab_size")
    return ModelSpec(
        d_model=d_model,
        n_layers=read.whole("num_hidden_layers"),
        n_heads=n_heads,
        n_kv_heads=n_kv_heads,
        head_dim=head_dim,
        ffn_size=read.whole(ffn_key),
        vocab_size=vocab_size,
        rms_norm_eps=read.number("rms_norm_eps"),
        rope_theta=read.rope_theta(),
        max_length=read.whole("max_position_embeddings"),
        mask_token_id=read.whole("mask_token_id", 0, vocab_size - 1),
        eos_token_ids=eos_token_ids,
        shift=shift,
        causal_block=causal_block,
    )


def read_attention(
    spec: ModelSpec, tensors: TensorReader, base: str, has_bias: bool, has_norm: bool
) -> dict:
    """The attention fields of BlockWeights, from `base`self_attn and the two norms."""
    width, kv_width = spec.n_heads * spec.head_dim, spec.n_kv_heads * spec.head_dim
    sizes = (("q_proj", width), ("k_proj", kv_width), ("v_proj", kv_width))
    own = f"{base}self_attn."
    fields: dict[str, Any] = {
        "attn_norm": tensors.take(f"{base}input_layernorm.weight", (spec.d_model,)),
        "ffn_norm": tensors.take(f"{base}post_attention_layernorm.weight", (spec.d_model,)),
        "qkv": tensors.column_parallel(
            *((f"{own}{leaf}.weight", (size, spec.d_model)) for leaf, size in sizes)
        ),
        "qkv_bias": None,
        "attn_out": tensors.row_parallel(f"{own}o_proj.weight", (spec.d_model, width)),
    }
    if has_bias:
        fields["qkv_bias"] = tensors.stacked(
            *((f"{own}{leaf}.bias", (size,)) for leaf, size in sizes)
        )
    if has_norm:
        q = _read_norm(spec, tensors, f"{own}q_norm.weight", width)
        k = _read_norm(spec, tensors, f"{own}k_norm.weight", kv_width)
        fields["head_norms"] = HeadNorms(q, k, spec.rms_norm_eps)
    return fields


def _read_norm(spec: ModelSpec, tensors: TensorReader, name: str, width: int) -> Tensor:
    """One weight for each head (Qwen3) or one over all heads (OLMoE): the file says which."""
    is_wide = tensors.shape(name) == (width,)
    return tensors.take(name, (width if is_wide else spec.head_dim,))


def read_dense(tensors: TensorReader, base: str, d_model: int, ffn_size: int) -> dict:
    """The dense feed-forward fields of BlockWeights."""
    shape = (ffn_size, d_model)
    return {
        "gate_up": tensors.column_parallel(
            (f"{base}gate_proj.weight", shape), (f"{base}up_proj.weight", shape)
        ),
        "down": tensors.row_parallel(f"{base}down_proj.weight", (d_model, ffn_size)),
    }


def read_experts(
    tensors: TensorReader, base: str, d_model: int, ffn_size: int, count: int, **rule
) -> Experts:
    """`base`gate.weight and `base`experts.N; `rule` are the other fields of Experts."""
    dense = [read_dense(tensors, f"{base}experts.{n}.", d_model, ffn_size) for n in range(count)]
    return Experts(
        router=tensors.take(f"{base}gate.weight", (count, d_model), is_wide=True),
        gate_up=tuple(expert["gate_up"] for expert in dense),
        down=tuple(expert["down"] for expert in dense),
        **rule,
    )


def read_ends(
    spec: ModelSpec,
    read: ConfigReader,
    tensors: TensorReader,
    blocks: list[BlockWeights],
    embedding_name: str = "model.embed_tokens.weight",
) -> ModelWeights:
    """Embedding, final norm and head around the blocks."""
    table = (spec.vocab_size, spec.d_model)
    embedding = tensors.take(embedding_name, table)
    is_tied = read.flag("tie_word_embeddings")
    return ModelWeights(
        embedding=embedding,
        blocks=tuple(blocks),
        final_norm=tensors.take("model.norm.weight", (spec.d_model,)),
        head=embedding if is_tied else tensors.take("lm_head.weight", table),
    )


def read_dense_model(
    spec: ModelSpec, read: ConfigReader, tensors: TensorReader, has_bias: bool, has_norm: bool
) -> ModelWeights:
    """A whole model of dense layers."""
    blocks = []
    for number in range(spec.n_layers):
        base = f"model.layers.{number}."
        attention = read_attention(spec, tensors, base, has_bias, has_norm)
        dense = read_dense(tensors, f"{base}mlp.", spec.d_model, spec.ffn_size)
        blocks.append(BlockWeights(**attention, **dense))
    return read_ends(spec, read, tensors, blocks)

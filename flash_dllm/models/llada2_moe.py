"""LLaDA2.x (model_type `llada2_moe`): block-causal, many experts, partial RoPE, not shifted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flash_dllm.models.base import ModelSpec
from flash_dllm.models.checkpoint import ConfigReader, TensorReader
from flash_dllm.models.layout import read_common_spec, read_dense, read_ends, read_experts
from flash_dllm.models.transformer import BlockWeights, ModelWeights
from kernels.reference import HeadNorms


def read_spec(config: dict[str, Any], eos_token_ids: tuple[int, ...]) -> ModelSpec:
    """The spec from config.json. Raises ValueError naming a missing or unsupported key."""
    read = ConfigReader(config)
    # expert_capacity: the routing by block of LLaDA2.2
    for key in ("use_bias", "use_qkv_bias", "norm_head", "expert_capacity"):
        read.refuse(key)
    read.require("score_function", "sigmoid")
    read.require("moe_router_enable_expert_bias", True)
    if read.has("use_qk_norm"):
        read.require("use_qk_norm", True)
    spec = read_common_spec(read, eos_token_ids, causal_block=read.whole("block_size"))
    if read.has("rotary_dim") and not read.has("partial_rotary_factor"):
        rotary_dim = read.whole("rotary_dim")
    else:
        rotary_dim = int(spec.head_dim * read.number("partial_rotary_factor"))
    if rotary_dim > spec.head_dim or rotary_dim % 2:
        raise ValueError(
            f"config.json: partial_rotary_factor must leave an even part of head_dim "
            f"{spec.head_dim}, got {rotary_dim}"
        )
    return replace(spec, rotary_dim=rotary_dim)


def read_weights(spec: ModelSpec, config: dict[str, Any], tensors: TensorReader) -> ModelWeights:
    """Weights by name. Raises ValueError naming a missing or misshapen tensor."""
    read, blocks = ConfigReader(config), []
    d_model, width = spec.d_model, spec.n_heads * spec.head_dim
    qkv_width = width + 2 * spec.n_kv_heads * spec.head_dim
    first_sparse = read.whole("first_k_dense_replace", 0)
    count, expert_size = read.whole("num_experts"), read.whole("moe_intermediate_size")
    groups = read.whole("n_group", 1, count)
    if count % groups or count // groups < 2:
        raise ValueError(f"config.json: n_group {groups} must divide num_experts {count}")
    for number in range(spec.n_layers):
        base = f"model.layers.{number}."
        own, mlp = f"{base}attention.", f"{base}mlp."
        feed_forward: dict[str, Any]
        if number < first_sparse:
            feed_forward = read_dense(tensors, mlp, d_model, spec.ffn_size)
        else:
            feed_forward = {
                "experts": read_experts(
                    tensors, mlp, d_model, expert_size, count,
                    bias=tensors.take(f"{mlp}gate.expert_bias", (count,), is_wide=True),
                    top_k=read.whole("num_experts_per_tok", 1, count),
                    score="sigmoid",
                    renormalise=read.flag("norm_topk_prob"),
                    scale=read.number("routed_scaling_factor"),
                    groups=groups,
                    top_groups=read.whole("topk_group", 1, groups),
                )
            }
            if shared := read.whole("num_shared_experts", 0):
                key = "moe_shared_expert_intermediate_size"
                size = read.whole(key) if read.has(key) else expert_size
                feed_forward |= read_dense(
                    tensors, f"{mlp}shared_experts.", d_model, shared * size
                )
        blocks.append(
            BlockWeights(
                attn_norm=tensors.take(f"{base}input_layernorm.weight", (d_model,)),
                qkv=tensors.column_parallel((f"{own}query_key_value.weight", (qkv_width, d_model))),
                qkv_bias=None,
                attn_out=tensors.row_parallel(f"{own}dense.weight", (d_model, width)),
                ffn_norm=tensors.take(f"{base}post_attention_layernorm.weight", (d_model,)),
                head_norms=HeadNorms(
                    tensors.take(f"{own}query_layernorm.weight", (spec.head_dim,)),
                    tensors.take(f"{own}key_layernorm.weight", (spec.head_dim,)),
                    spec.rms_norm_eps,
                ),
                **feed_forward,
            )
        )
    return read_ends(spec, read, tensors, blocks, "model.word_embeddings.weight")

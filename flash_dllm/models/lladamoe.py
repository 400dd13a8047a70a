"""LLaDA-MoE (model_type `lladamoe`): OLMoE's layout, bidirectional, logits not shifted."""

from __future__ import annotations

from typing import Any

from flash_dllm.models.base import ModelSpec
from flash_dllm.models.checkpoint import ConfigReader, TensorReader
from flash_dllm.models.layout import read_attention, read_common_spec, read_ends, read_experts
from flash_dllm.models.transformer import BlockWeights, ModelWeights


def read_spec(config: dict[str, Any], eos_token_ids: tuple[int, ...]) -> ModelSpec:
    """The spec from config.json. Raises ValueError naming a missing or unsupported key."""
    read = ConfigReader(config)
    for key in ("attention_bias", "clip_qkv", "shared_expert_intermediate_size"):
        read.refuse(key)
    if read.has("partial_rotary_factor"):
        read.require("partial_rotary_factor", 1)
    if read.has("moe_router_score_function"):
        read.require("moe_router_score_function", "softmax")
    read.refuse("moe_router_enable_expert_bias")
    return read_common_spec(read, eos_token_ids, ffn_key="expert_intermediate_size")


def read_weights(spec: ModelSpec, config: dict[str, Any], tensors: TensorReader) -> ModelWeights:
    """Weights by OLMoE's names. Raises ValueError naming a missing or misshapen tensor."""
    read, blocks = ConfigReader(config), []
    count = read.whole("num_experts")
    for number in range(spec.n_layers):
        base = f"model.layers.{number}."
        experts = read_experts(
            tensors, f"{base}mlp.", spec.d_model, spec.ffn_size, count,
            bias=None,
            top_k=read.whole("num_experts_per_tok", 1, count),
            score="softmax",
            renormalise=bool(read.has("norm_topk_prob") and read.flag("norm_topk_prob")),
        )
        has_norm = not read.has("qk_layernorm") or read.flag("qk_layernorm")
        attention = read_attention(spec, tensors, base, has_bias=False, has_norm=has_norm)
        blocks.append(BlockWeights(**attention, experts=experts))
    return read_ends(spec, read, tensors, blocks)

"""Llama (model_type `llama`) as a guide: a causal model, whose row at p answers p + 1.

It can't fill in masks, so no strategy decodes with it; `strategies/guided.py` asks it about
drafts. The embedded guide is one of these.
"""

from __future__ import annotations

from typing import Any

from flash_dllm.models.base import ModelSpec
from flash_dllm.models.checkpoint import ConfigReader, TensorReader
from flash_dllm.models.layout import read_common_spec, read_dense_model
from flash_dllm.models.transformer import ModelWeights


def read_spec(config: dict[str, Any], eos_token_ids: tuple[int, ...]) -> ModelSpec:
    """The spec from config.json. Raises ValueError naming a missing or unsupported key."""
    read = ConfigReader(config)
    read.refuse("attention_bias")
    read.refuse("mlp_bias")
    return read_common_spec(read, eos_token_ids, shift=1, causal_block=1)


def read_weights(spec: ModelSpec, config: dict[str, Any], tensors: TensorReader) -> ModelWeights:
    """Weights by name. Raises ValueError naming a missing or misshapen tensor."""
    return read_dense_model(spec, ConfigReader(config), tensors, has_bias=False, has_norm=False)

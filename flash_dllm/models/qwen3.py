"""Qwen3 (model_type `qwen3`) as a guide: the vocabulary of SDAR and of dllm's small models.

A causal model like `llama.py`, with norms on queries and keys.
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
    return read_common_spec(read, eos_token_ids, shift=1, causal_block=1)


def read_weights(spec: ModelSpec, config: dict[str, Any], tensors: TensorReader) -> ModelWeights:
    """Weights by name. Raises ValueError naming a missing or misshapen tensor."""
    return read_dense_model(spec, ConfigReader(config), tensors, has_bias=False, has_norm=True)

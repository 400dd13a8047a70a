"""Qwen2 and Qwen2.5 (model_type `qwen2`) as a guide: the vocabulary that Dream was made from.

A causal model like `llama.py`, with biases on queries, keys and values.
"""

from __future__ import annotations

from typing import Any

from flash_dllm.models.base import ModelSpec
from flash_dllm.models.checkpoint import ConfigReader, TensorReader
from flash_dllm.models.layout import read_common_spec, read_dense_model
from flash_dllm.models.transformer import ModelWeights


def read_spec(config: dict[str, Any], eos_token_ids: tuple[int, ...]) -> ModelSpec:
    """The spec from config.json. Raises ValueError naming a missing or unsupported key."""
    return read_common_spec(ConfigReader(config), eos_token_ids, shift=1, causal_block=1)


def read_weights(spec: ModelSpec, config: dict[str, Any], tensors: TensorReader) -> ModelWeights:
    """Weights by name. Raises ValueError naming a missing or misshapen tensor."""
    return read_dense_model(spec, ConfigReader(config), tensors, has_bias=True, has_norm=False)

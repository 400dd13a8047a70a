"""The small dllm models (model_type `a2d-qwen3`): Qwen3 made bidirectional, logits not shifted.

With `block_size` in config.json the same layout is block-causal (the `bd3lm` variants).
"""

from __future__ import annotations

from typing import Any

from flash_dllm.models.base import ModelSpec
from flash_dllm.models.checkpoint import ConfigReader, TensorReader
from flash_dllm.models.layout import read_common_spec, read_dense_model
from flash_dllm.models.transformer import ModelWeights

# these models were tuned without thinking
TEMPLATE_OPTIONS = {"enable_thinking": False}


def read_spec(config: dict[str, Any], eos_token_ids: tuple[int, ...]) -> ModelSpec:
    """The spec from config.json. Raises ValueError naming a missing or unsupported key."""
    read = ConfigReader(config)
    read.refuse("attention_bias")
    block = read.whole("block_size") if read.has("block_size") else None
    return read_common_spec(read, eos_token_ids, causal_block=block)


def read_weights(spec: ModelSpec, config: dict[str, Any], tensors: TensorReader) -> ModelWeights:
    """Weights by name. Raises ValueError naming a missing or misshapen tensor."""
    return read_dense_model(spec, ConfigReader(config), tensors, has_bias=False, has_norm=True)

"""Dream (model_type `Dream`): Dream-7B, Dream-Coder, DiffuCoder.

Qwen2.5's layout (biases on q, k and v, grouped heads), bidirectional, with the logits of
position i at row i − 1: the head kept the shift of the autoregressive model it started from.
"""

from __future__ import annotations

from typing import Any

from flash_dllm.models.base import ModelSpec
from flash_dllm.models.checkpoint import ConfigReader, TensorReader
from flash_dllm.models.layout import read_common_spec, read_dense_model
from flash_dllm.models.transformer import ModelWeights


def read_spec(config: dict[str, Any], eos_token_ids: tuple[int, ...]) -> ModelSpec:
    """The spec from config.json. Raises ValueError naming a missing or unsupported key."""
    return read_common_spec(ConfigReader(config), eos_token_ids, shift=1)


def read_weights(spec: ModelSpec, config: dict[str, Any], tensors: TensorReader) -> ModelWeights:
    """Weights by name. Raises ValueError naming a missing or misshapen tensor."""
    return read_dense_model(spec, ConfigReader(config), tensors, has_bias=True, has_norm=False)

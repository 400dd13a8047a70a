"""The matrices of the blocks in 8 bits, the rest as it is.

Weight-only by torchao ("int8", "fp8"): its tensors, which torch's own linear layer multiplies. In
fp8 throughout ("fp8_w8a8", `kernels/scaled.py`): products of 8-bit weights and 8-bit rows.
Embedding, head, norms, routers and the cache keep the model's dtype.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from flash_dllm.models import QUANTIZATIONS
from kernels.scaled import Weight, quantize_weight, why_no_fp8

W8A8 = "fp8_w8a8"
# of one weight; a row's scale is a rounding error beside it
BYTES = {"int8": 1, "fp8": 1, W8A8: 1}


def is_quantized(name: str, shape: tuple[int, ...]) -> bool:
    """Whether a checkpoint's tensor is one of the matrices that are quantised."""
    is_block = ".layers." in name or ".blocks." in name
    return is_block and len(shape) == 2 and not name.endswith("mlp.gate.weight")


def quantizer(kind: str, device: torch.device, dtype: torch.dtype) -> Callable[[Tensor], Weight]:
    """A function from a linear layer's weight to its quantised form.

    device, dtype  what the model is loaded on and in
    Raises ValueError for an unknown kind, ImportError if torchao is missing, RuntimeError if the
    device can't multiply so.
    """
    if kind not in QUANTIZATIONS:
        raise ValueError(f"quantize must be one of {', '.join(QUANTIZATIONS)}, got {kind!r}")
    if kind == "none":
        return lambda weight: weight
    if kind == W8A8:
        if reason := why_no_fp8(device, dtype):
            raise RuntimeError(f"quantize={kind!r} {reason}; use quantize='int8' or 'none'")
        return quantize_weight
    return _weight_only(kind)


def _weight_only(kind: str) -> Callable[[Tensor], Tensor]:
    try:
        from torchao.quantization import (
            Float8WeightOnlyConfig,
            Int8WeightOnlyConfig,
            quantize_,
        )
    except ImportError as error:
        raise ImportError(
            f"quantize={kind!r} needs torchao; run pip install -r requirements-quantize.txt"
        ) from error
    config = {"int8": Int8WeightOnlyConfig, "fp8": Float8WeightOnlyConfig}[kind]

    def quantized(weight: Tensor) -> Tensor:
        outputs, inputs = weight.shape
        layer = nn.Linear(inputs, outputs, bias=False, device="meta")
        layer.weight = nn.Parameter(weight, requires_grad=False)
        # torchao changes the layers inside a module, not the module itself
        holder = nn.Sequential(layer)
        quantize_(holder, config(set_inductor_config=False))
        return layer.weight.detach()

    return quantized

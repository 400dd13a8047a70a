"""Weight-only quantisation by torchao: the matrices of the blocks in 8 bits, the rest as it is.

Embedding, head, norms, routers and the cache keep the model's dtype. The weights become torchao
tensors, which torch's own linear layer multiplies.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from flash_dllm.models import QUANTIZATIONS

# of one weight; a row's scale is a rounding error beside it
BYTES = {"int8": 1, "fp8": 1}


def is_quantized(name: str, shape: tuple[int, ...]) -> bool:
    """Whether a checkpoint's tensor is one of the matrices that are quantised."""
    is_block = ".layers." in name or ".blocks." in name
    return is_block and len(shape) == 2 and not name.endswith("mlp.gate.weight")


def quantizer(kind: str) -> Callable[[Tensor], Tensor]:
    """A function from a linear layer's weight to its quantised form.

    Raises ValueError for an unknown kind, ImportError if torchao is missing.
    """
    if kind not in QUANTIZATIONS:
        raise ValueError(f"quantize must be one of {', '.join(QUANTIZATIONS)}, got {kind!r}")
    if kind == "none":
        return lambda weight: weight
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

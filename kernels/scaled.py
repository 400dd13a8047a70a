"""Products in fp8 (W8A8): weights and rows in e4m3, each with a scale of its own.

A weight keeps one scale for each output, set when it is loaded; a row gets its scale when it is
multiplied, from its largest number. The product of the two is scaled back. GPUs from compute
capability 8.9 on multiply fp8 themselves (`torch._scaled_mm`); elsewhere the same numbers are
multiplied in fp32, which is what the hardware is an approximation of.

R rows, K inputs, N outputs.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.dense import dense

FP8 = torch.float8_e4m3fn
LARGEST = 448.0  # of e4m3
# a row of zeros has this for its largest number, so that nothing is divided by zero
SMALLEST = 1e-12
# sides of a weight that the hardware's product takes
MULTIPLE = 16
SCALED_MM, EMULATED = "fp8_scaled_mm", "fp8_emulated"


@dataclass(frozen=True)
class ScaledWeight:
    """The weight of a linear layer: `values * scales[:, None]`.

    values  [N, K] e4m3, rows contiguous
    scales  [N] fp32
    """

    values: Tensor
    scales: Tensor

    @property
    def shape(self) -> torch.Size:
        return self.values.shape

    @property
    def device(self) -> torch.device:
        return self.values.device

    def numel(self) -> int:
        return self.values.numel()


# what a linear layer multiplies by
Weight = Tensor | ScaledWeight


def quantize_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    """x [R, K] any float → (values [R, K] e4m3, scales [R] fp32), x ≈ values * scales[:, None].

    The largest number of a row becomes 448, e4m3's largest; ties round to even. The torch truth of
    `kernels/quantize_rows.py`.
    """
    wide = x.float()
    largest = wide.abs().amax(-1) if x.shape[-1] else wide.new_zeros(len(x))
    # by a tensor: a division by a number is a product with its reciprocal on CUDA
    scales = largest.clamp(min=SMALLEST) / largest.new_full((), LARGEST)
    # a quotient may round above the largest
    return (wide / scales[:, None]).clamp(-LARGEST, LARGEST).to(FP8), scales


def quantize_weight(weight: Tensor) -> ScaledWeight:
    """weight [N, K] any float → one scale an output. Raises ValueError, on a GPU, for sides that
    its product can't take."""
    if weight.device.type == "cuda" and any(side % MULTIPLE for side in weight.shape):
        raise ValueError(
            f"fp8 products take weights whose sides are multiples of {MULTIPLE} on a GPU, got "
            f"{tuple(weight.shape)}; use another quantisation"
        )
    return ScaledWeight(*quantize_rows(weight))


def product_route(device: torch.device) -> str:
    """How `scaled_product` multiplies on a device."""
    return SCALED_MM if device.type == "cuda" else EMULATED


def scaled_product(
    values: Tensor, scales: Tensor, weight: ScaledWeight, dtype: torch.dtype
) -> Tensor:
    """Quantised rows times a quantised weight transposed: [R, N] in `dtype`.

    values  [R, K] e4m3; scales [R] fp32
    On a GPU `dtype` is bfloat16 and the sum is the hardware's; elsewhere it is taken in fp32, in
    fp64 where `dtype` is fp64.
    """
    if product_route(values.device) == SCALED_MM:
        return hardware_product(values, scales, weight)
    wide = torch.promote_types(dtype, torch.float32)
    product = dense(values.to(wide), weight.values.to(wide))
    return (product * scales[:, None] * weight.scales).to(dtype)


def hardware_product(values: Tensor, scales: Tensor, weight: ScaledWeight) -> Tensor:
    """`torch._scaled_mm` with a scale for each row and each output: [R, N] bfloat16."""
    if not len(values):
        return torch.empty(0, len(weight.values), dtype=torch.bfloat16, device=values.device)
    return torch._scaled_mm(
        values, weight.values.t(), scale_a=scales[:, None], scale_b=weight.scales[None, :],
        out_dtype=torch.bfloat16,
    )  # fmt: skip


def linear(x: Tensor, weight: Weight, bias: Tensor | None = None) -> Tensor:
    """x [R, K] times weight [N, K] transposed, plus bias [N] or None: [R, N] in x's dtype."""
    if isinstance(weight, Tensor):
        return dense(x, weight, bias)
    out = scaled_product(*quantize_rows(x), weight, x.dtype)
    return out if bias is None else out + bias


def why_no_fp8(device: torch.device, dtype: torch.dtype) -> str | None:
    """Why a device can't multiply in fp8, or None if it can. Runs a small product on a GPU."""
    if device.type == "cpu":
        return None
    if device.type != "cuda":
        return f"needs a CUDA device or the CPU, and this is {device.type}"
    capability = torch.cuda.get_device_capability(device)
    if capability < (8, 9):
        return f"needs compute capability 8.9 or more, and this GPU has {capability}"
    if dtype != torch.bfloat16:
        return f"needs dtype='bfloat16' on a GPU, got {str(dtype).removeprefix('torch.')!r}"
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if capability < (9, 0) and version < (2, 12):
        # its row-wise product ignored the stream there (pytorch#177651)
        return f"needs torch 2.12 or newer on this GPU, and this is {torch.__version__}"
    return _why_wrong(device)


def _why_wrong(device: torch.device) -> str | None:
    """A product of small whole numbers, which fp8 holds exactly, against its known result."""
    rows = torch.arange(16 * 32, device=device).remainder(5).sub(2).view(16, 32).to(FP8)
    weight = ScaledWeight(rows, torch.full((16,), 0.5, device=device))
    scales = torch.full((16,), 2.0, device=device)
    try:
        got = hardware_product(rows, scales, weight)
    except RuntimeError as error:
        return f"is not computed by torch here ({str(error).splitlines()[0]})"
    # sums of 32 products of at most 4: whole numbers that bfloat16 holds exactly
    if not torch.equal(got.float(), rows.float() @ rows.float().T):
        return "is computed wrongly by torch on this GPU"
    return None

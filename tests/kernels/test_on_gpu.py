"""What only a GPU shows: launches in a CUDA graph, and that nothing waits for the device."""

import pytest
import torch

from kernels import ops
from kernels.quantize_rows import quantize_rows
from kernels.scaled import quantize_weight, scaled_product, why_no_fp8
from tests.kernels.truth import HAS_GPU, random

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not HAS_GPU, reason="needs a CUDA device"),
]
D, HEADS, SIZE, FFN, VOCAB, ROWS = 256, 4, 64, 512, 1000, 48


class Layer:
    """One layer's operations but attention, on inputs that can be changed in place."""

    def __init__(self, is_fp8=False):
        def dense(*shape, seed):
            return random(*shape, seed=seed, dtype=torch.bfloat16, scale=shape[-1] ** -0.5)

        def weight(*shape, seed):
            matrix = dense(*shape, seed=seed)
            return quantize_weight(matrix) if is_fp8 else matrix

        self.hidden = random(ROWS, D, seed=0, dtype=torch.bfloat16)
        self.norm = random(D, seed=1, dtype=torch.bfloat16)
        self.qkv, self.head = weight(3 * D, D, seed=2), dense(VOCAB, D, seed=3)
        self.gate_up, self.down = weight(2 * FFN, D, seed=4), weight(D, FFN, seed=5)
        angle = torch.rand(100, SIZE // 2, device="cuda")
        self.cos, self.sin = angle.cos(), angle.sin()
        self.positions = torch.arange(ROWS, device="cuda")
        self.slots = torch.arange(ROWS, device="cuda")
        self.keys = torch.zeros(ROWS, HEADS, SIZE, dtype=torch.bfloat16, device="cuda")
        self.values = torch.zeros_like(self.keys)

    def run(self, impl, route="auto"):
        normed = ops.rms_norm(self.hidden, self.norm, 1e-5, impl)
        q = ops.project_and_cache(
            normed, self.qkv, None, None, self.cos, self.sin, self.positions, self.slots,
            self.keys, self.values, HEADS, impl, route,
        )
        hidden, normed = ops.add_rms_norm(self.hidden, q.reshape(ROWS, D), self.norm, 1e-5, impl)
        branch = ops.swiglu(normed, self.gate_up, self.down, impl, may_split=True)
        _, normed = ops.add_rms_norm(hidden, branch, self.norm, 1e-5, impl)
        return ops.confidence(ops.linear(normed, self.head, impl), VOCAB - 1, None, 3, impl)


def needs_fp8():
    if (reason := why_no_fp8(torch.device("cuda"), torch.bfloat16)) is not None:
        pytest.skip(f"fp8 {reason}")


@pytest.mark.parametrize(
    ("route", "is_fp8"), [("rope_cache", False), ("fused_qkv", False), ("auto", True)]
)
def test_a_captured_layer_answers_for_new_inputs_like_a_launched_one(route, is_fp8):
    if is_fp8:
        needs_fp8()
    layer = Layer(is_fp8)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        layer.run("triton", route)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = layer.run("triton", route)
    layer.hidden.copy_(random(ROWS, D, seed=9, dtype=torch.bfloat16))
    layer.positions.copy_(layer.positions.flip(0))
    # padding rows: their K and V are not written
    layer.slots[7:] = -1
    layer.keys.fill_(torch.nan)
    graph.replay()
    got = [part.clone() for part in captured]
    keys = layer.keys.clone()
    layer.keys.fill_(torch.nan)
    for part, expected in zip(got, layer.run("triton", route), strict=True):
        assert torch.equal(part, expected)
    assert keys[:7].isfinite().all() and keys[7:].isnan().all()
    assert torch.equal(keys[:7], layer.keys[:7])


@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
@pytest.mark.parametrize("is_fp8", [False, True])
def test_no_operation_waits_for_the_device(is_fp8):
    if is_fp8:
        needs_fp8()
    layer = Layer(is_fp8)
    layer.run("triton")
    torch.cuda.set_sync_debug_mode("error")
    try:
        for impl in ("triton", "torch"):
            layer.run(impl)
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_the_hardware_multiplies_fp8_as_exactly_as_bf16_can_say():
    needs_fp8()
    layer = Layer(is_fp8=True)
    values, scales = quantize_rows(layer.hidden)
    got = scaled_product(values, scales, layer.gate_up, torch.bfloat16).double()
    weight = layer.gate_up.values.double() * layer.gate_up.scales[:, None]
    exact = (values.double() * scales[:, None]) @ weight.T
    # one rounding to bf16, and the multiplier's own sum, which keeps 14 bits
    assert (got - exact).norm() <= 2**-8 * exact.norm()

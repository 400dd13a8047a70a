"""Products in fp8: a row's scale and its numbers, and what is multiplied with them."""

import pytest
import torch

from kernels import ops, scaled
from kernels.quantize_rows import quantize_rows
from kernels.routes import qkv_route
from kernels.scaled import ScaledWeight, hardware_product, quantize_weight, scaled_product
from tests.kernels.truth import DEVICE, DTYPES, HAS_GPU, random

CPU = torch.device("cpu")


def both(x):
    """The kernel's answer and the torch truth's, as numbers."""
    (values, scales), (true, true_scales) = quantize_rows(x), scaled.quantize_rows(x)
    assert values.dtype == true.dtype == torch.float8_e4m3fn
    return (values.float(), scales), (true.float(), true_scales)


@pytest.mark.parametrize("quantize", [quantize_rows, scaled.quantize_rows])
def test_a_row_is_scaled_by_its_largest_number_and_rounded_to_even(quantize):
    # 896 becomes 448, so the scale is 2. Between 16 and 32 e4m3 holds even numbers: 34 / 2 = 17 and
    # 38 / 2 = 19 are ties, to 16 and 20; -70 / 2 = -35 lies nearer to -36 than to -32
    x = torch.tensor([[896.0, 34.0, 38.0, -70.0], [0.0, 0.0, 0.0, 0.0]], device=DEVICE)
    values, scales = quantize(x)
    assert values.float().tolist() == [[448.0, 16.0, 20.0, -36.0], [0.0, 0.0, 0.0, 0.0]]
    assert scales[0].item() == 2.0 and scales[1].item() > 0


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("rows, size", [(0, 8), (1, 1), (63, 100), (3, 1025)])
def test_the_kernel_equals_the_truth_to_the_bit(rows, size, dtype):
    x = random(rows, size, seed=0, dtype=dtype, scale=3.0)
    x[: rows // 2] *= 1e-4
    got, truth = both(x)
    assert torch.equal(got[0], truth[0]) and torch.equal(got[1], truth[1])


def test_every_number_of_e4m3_every_tie_and_its_neighbours_are_rounded_like_torch():
    grid = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn).float()
    grid = grid[grid.isfinite()].unique()
    ties = (grid[1:] + grid[:-1]) / 2
    big = torch.tensor(1e9)
    # the largest is 448, so the scale is 1 and the numbers stay what they are
    x = torch.cat([grid, ties, ties.nextafter(big), ties.nextafter(-big)])[None].to(DEVICE)
    got, truth = both(x)
    assert got[1].item() == 1.0 and torch.equal(got[0], truth[0])


def test_rows_may_be_a_part_of_wider_rows():
    wide = random(5, 48, seed=0, dtype=torch.float32)
    got, truth = both(wide[:, 16:32])
    assert torch.equal(got[0], truth[0])


def test_a_row_behind_two_billion_numbers_is_found():
    # 4 GiB of addresses of which two rows are ever touched
    storage = torch.UntypedStorage(2 * (2**31 + 16), device=DEVICE)
    x = torch.empty(0, dtype=torch.float16, device=DEVICE).set_(storage, 0, (2, 16), (2**31, 1))
    x[0], x[1] = 1.0, torch.arange(16, device=DEVICE)
    assert quantize_rows(x)[0].float()[1].tolist() == both(x[1:].clone())[1][0][0].tolist()


def test_the_emulation_is_a_product_of_the_quantised_numbers():
    # rows [448, 112] with scale 1/4 and [64, 0] with 1/7 hold 112, 28 and 9.142857…
    x = torch.tensor([[112.0, 28.0], [64.0 / 7, 0.0]])
    weight = quantize_weight(torch.tensor([[2.0, 1.0], [0.0, -3.0]]))
    assert weight.values.float().tolist() == [[448.0, 224.0], [0.0, -448.0]]
    got = scaled.linear(x, weight, torch.tensor([0.5, 0.0]))
    torch.testing.assert_close(
        got, torch.tensor([[112 * 2 + 28 + 0.5, -84.0], [128 / 7 + 0.5, 0.0]])
    )


@pytest.mark.parametrize("rows", [0, 1, 63])
def test_the_hardware_is_asked_for_the_product_that_is_emulated(rows):
    # without a GPU torch has the operation too, with a loop of its own
    x = random(rows, 96, seed=0, dtype=torch.bfloat16)
    weight = quantize_weight(random(48, 96, seed=1, dtype=torch.bfloat16, scale=0.1))
    values, scales = scaled.quantize_rows(x)
    asked = hardware_product(values, scales, weight).cpu()
    weight = ScaledWeight(weight.values.cpu(), weight.scales.cpu())
    emulated = scaled_product(values.cpu(), scales.cpu(), weight, torch.bfloat16)
    assert asked.shape == (rows, 48) and asked.dtype == torch.bfloat16
    # both round once; a CPU sums in fp32 in another order, the hardware with some bits less
    torch.testing.assert_close(asked, emulated, rtol=2**-7, atol=4e-3 if HAS_GPU else 1e-6)


def layer(dtype):
    """Weights of two layers in fp8, of a size that GPUs take."""
    sizes = ((96, 48), (48, 80))
    dense = [random(*size, seed=n, dtype=dtype, scale=0.2) for n, size in enumerate(sizes)]
    return [quantize_weight(weight) for weight in dense], dense


# on a GPU fp8 products are in bfloat16
@pytest.mark.parametrize("dtype", [torch.bfloat16] if HAS_GPU else [torch.float32])
def test_both_implementations_multiply_the_same_numbers(dtype):
    (gate_up, _), _ = layer(dtype)
    down = quantize_weight(random(32, 48, seed=5, dtype=dtype, scale=0.2))
    hidden = random(63, 48, seed=3, dtype=dtype)
    linear = [ops.linear(hidden, gate_up, impl, may_split=True) for impl in ("torch", "triton")]
    assert torch.equal(*linear)
    # SwiGLU in between is good to a rounding, which may move numbers by a step of e4m3
    found = [ops.swiglu(hidden, gate_up, down, impl) for impl in ("torch", "triton")]
    torch.testing.assert_close(*found, rtol=0.02, atol=0.04 * float(found[0].abs().max()))


def test_eight_bits_cost_a_twentieth_of_a_number_at_most():
    (weight, _), (dense, _) = layer(torch.float32)
    x = random(63, 48, seed=3, dtype=torch.float32)
    exact = x.double() @ dense.double().T
    error = (ops.linear(x, weight, "torch").double() - exact).norm() / exact.norm()
    # two roundings of at most 1/16 each, whose signs differ: far less over 48 products
    assert 0.005 < error < 0.05


def test_fp8_weights_take_the_library_and_one_kernel_behind_it(monkeypatch):
    monkeypatch.setattr("kernels.routes.architecture", lambda device: 90)
    assert qkv_route(32, 128, CPU) == "fused_qkv"
    assert qkv_route(32, 128, CPU, is_scaled=True) == "rope_cache"
    with pytest.raises(ValueError, match="fused_qkv reads no fp8 weights; use 'rope_cache'"):
        qkv_route(32, 128, CPU, "fused_qkv", is_scaled=True)
    from kernels.routes import product_tile

    weight = ScaledWeight(torch.empty(4096, 4096, dtype=torch.float8_e4m3fn, device="meta"),
                          torch.empty(4096, device="meta"))  # fmt: skip
    assert product_tile(32, weight) is None


@pytest.mark.parametrize(
    ("device", "dtype", "capability", "version", "says"),
    [
        ("mps", "bfloat16", None, "2.13.0", "needs a CUDA device or the CPU, and this is mps"),
        ("cuda", "bfloat16", (8, 0), "2.13.0", "needs compute capability 8.9 or more, and this "
         "GPU has (8, 0)"),
        ("cuda", "float16", (9, 0), "2.13.0", "needs dtype='bfloat16' on a GPU, got 'float16'"),
        ("cuda", "bfloat16", (8, 9), "2.11.0+cu130", "needs torch 2.12 or newer on this GPU, and "
         "this is 2.11.0+cu130"),
        ("cuda", "bfloat16", (9, 0), "2.11.0", None),
        ("cuda", "bfloat16", (8, 9), "2.12.0", None),
        ("cpu", "float64", None, "2.11.0", None),
    ],
)  # fmt: skip
def test_where_fp8_is_not_multiplied_one_sentence_says_why(
    monkeypatch, device, dtype, capability, version, says
):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device=None: capability)
    monkeypatch.setattr(torch, "__version__", version)
    # the trial product runs where the tests run
    monkeypatch.setattr(scaled, "_why_wrong", lambda device, why=scaled._why_wrong: why(DEVICE))
    assert scaled.why_no_fp8(torch.device(device), getattr(torch, dtype)) == says


def test_a_product_that_is_wrong_or_missing_is_found_at_the_start(monkeypatch):
    def missing(*_, **__):
        raise RuntimeError("not compiled\nat a line")

    monkeypatch.setattr(torch, "_scaled_mm", missing)
    assert scaled._why_wrong(CPU) == "is not computed by torch here (not compiled)"
    zeros = lambda a, b, **_: torch.zeros(16, 16, dtype=torch.bfloat16)  # noqa: E731
    monkeypatch.setattr(torch, "_scaled_mm", zeros)
    assert scaled._why_wrong(CPU) == "is computed wrongly by torch on this GPU"


def test_sides_that_a_gpu_can_not_take_are_refused():
    class OnGpu:
        device, shape = torch.device("cuda"), torch.Size((48, 40))

    with pytest.raises(ValueError, match=r"multiples of 16 on a GPU, got \(48, 40\)"):
        quantize_weight(OnGpu())

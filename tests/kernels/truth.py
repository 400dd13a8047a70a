"""Inputs and the one comparison of the kernel tests: fp64 is the truth, plain torch the yardstick.

Without a GPU the kernels run in Triton's interpreter, which never sees bf16 (it computes with its
raw bits); on a GPU the same tests run the compiled kernels, bf16 included.
"""

import torch

from kernels.ops import tolerated_error

HAS_GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if HAS_GPU else "cpu")
# descriptors are for sm_90; the interpreter knows them too
HAS_HOPPER = HAS_GPU and torch.cuda.get_device_capability() >= (9, 0)
DTYPES = [torch.float32, torch.float16] + ([torch.bfloat16] if HAS_GPU else [])


def random(*shape, seed, dtype, scale=1.0):
    """Standard normal numbers that `dtype` holds exactly, on the kernels' device."""
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(*shape, generator=generator) * scale).to(dtype).to(DEVICE)


def fp64(*tensors):
    """The same numbers for the truth, on the CPU."""
    return [None if t is None else t.cpu().double() for t in tensors]


def assert_as_good_as_torch(got, plain, truth):
    """‖got - truth‖ within `tolerated_error` of ‖plain - truth‖, and nothing unwritten."""
    assert got.shape == truth.shape and got.dtype == plain.dtype
    exact = truth.double().cpu()
    error = (got.double().cpu() - exact).norm()
    yardstick = (plain.double().cpu() - exact).norm()
    bound = tolerated_error(float(yardstick), float(exact.norm()), got.dtype)
    assert error <= bound, f"error {error:.3e}, torch {yardstick:.3e}, allowed {bound:.3e}"

"""What every Triton wrapper asks of its tensors, checked once at the door of the kernel.

A base pointer that is not 16-byte aligned silently turns off wide loads and software pipelining,
and a kernel that assumes a stride reads wrong memory silently; so both are errors here.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

FLOATS = (torch.float32, torch.float16, torch.bfloat16)
ALIGNMENT = 16
# the architecture classes that have their own row in the tables of configurations
ARCHITECTURES = (90, 89, 86, 80, 75)
INTERPRETER = 0


def check(operation: str, **tensors: Tensor | None) -> None:
    """Floating tensors on one device, rows contiguous, base pointers 16-byte aligned.

    Raises ValueError naming the tensor. Nothing here reads the device.
    """
    device = None
    for name, tensor in tensors.items():
        if tensor is None:
            continue
        device = device or tensor.device
        if tensor.dtype not in FLOATS:
            raise ValueError(
                f"{operation}: {name} must be float32, float16 or bfloat16 for impl='triton', "
                f"got {tensor.dtype}; use impl='torch'"
            )
        if tensor.device != device:
            raise ValueError(f"{operation}: {name} is on {tensor.device}, expected {device}")
        if tensor.numel() == 0:
            continue
        if tensor.ndim and tensor.stride(-1) != 1:
            raise ValueError(
                f"{operation}: the last dimension of {name} must have stride 1, got strides "
                f"{tensor.stride()}; pass {name}.contiguous()"
            )
        if tensor.data_ptr() % ALIGNMENT:
            raise ValueError(
                f"{operation}: {name} must start at a multiple of {ALIGNMENT} bytes (its storage "
                f"offset is {tensor.storage_offset()} elements); pass {name}.clone()"
            )


def check_rows(operation: str, count: int, /, **tensors: Tensor | None) -> None:
    """Integer tensors [count], contiguous. Raises ValueError naming the tensor."""
    for name, tensor in tensors.items():
        if tensor is None:
            continue
        if tensor.dtype not in (torch.int32, torch.int64) or tensor.shape != (count,):
            raise ValueError(
                f"{operation}: {name} must be {count} int32 or int64, got {tuple(tensor.shape)} "
                f"{tensor.dtype}"
            )
        if count > 1 and tensor.stride(0) != 1:
            raise ValueError(f"{operation}: {name} must be contiguous; pass {name}.contiguous()")


def architecture(device: torch.device) -> int:
    """The table row of a device: 90, 89, 86, 80 or 75; `INTERPRETER` where there is no GPU.

    Consumer Blackwell (12.x) has the memory and instructions of 89, data-centre Blackwell those of
    90 as far as these kernels go. Raises RuntimeError below compute capability 7.5.
    """
    return INTERPRETER if device.type == "cpu" else _capability(device.index or 0)


@lru_cache
def _capability(index: int) -> int:
    major, minor = torch.cuda.get_device_capability(index)
    found = 89 if major >= 12 else 10 * major + minor
    for known in ARCHITECTURES:
        if found >= known:
            return known
    raise RuntimeError(
        f"impl='triton' needs compute capability 7.5 or newer, this device has {major}.{minor}; "
        "use impl='torch'"
    )


def power_of_two(size: int) -> int:
    """The smallest power of two that holds `size` (Triton's tiles are powers of two)."""
    return 1 << max(size - 1, 0).bit_length()

"""How much memory is free, and whether something fits into a GPU's, said before it is tried."""

from __future__ import annotations

from pathlib import Path

import torch

from flash_dllm.models.base import ModelSpec

GB = 1e9


def slot_bytes(spec: ModelSpec, itemsize: int) -> int:
    """Bytes of one cache slot over all layers: a key and a value."""
    return 2 * spec.n_layers * spec.n_kv_heads * spec.head_dim * itemsize


def pass_bytes(spec: ModelSpec, rows: int, predicted: int, itemsize: int) -> int:
    """About what a pass holds at most: the feed-forward's rows, or the logits.

    hidden and normed, gate and up with their product; logits with what the choice needs of them.
    """
    width = max(2 * spec.d_model + 3 * spec.ffn_size, 4 * spec.d_model)
    return max(rows * width, 2 * predicted * spec.vocab_size) * itemsize


def check_fits(what: str, parts: dict[str, int], free: int, total: int, advice: str) -> None:
    """Raise RuntimeError in one sentence if the parts together exceed the free bytes.

    >>> check_fits("loading", {"weights": 16 * 10**9}, 10**10, 24 * 10**9, "free some")
    Traceback (most recent call last):
        ...
    RuntimeError: loading needs 16.0 GB (weights 16.0), but 10.0 of the GPU's 24.0 GB are free; \
free some
    """
    need = sum(parts.values())
    if need <= free:
        return
    listed = ", ".join(f"{name} {size / GB:.1f}" for name, size in parts.items())
    raise RuntimeError(
        f"{what} needs {need / GB:.1f} GB ({listed}), but {free / GB:.1f} of the GPU's "
        f"{total / GB:.1f} GB are free; {advice}"
    )


def free_bytes(device: torch.device) -> int | None:
    """Memory of a device that could be used, or None where the system doesn't tell."""
    if device.type == "cuda":
        # what torch holds but no tensor uses is free for us
        idle = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + idle
    if device.type == "mps":
        return torch.mps.recommended_max_memory() - torch.mps.driver_allocated_memory()
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def check_gpu(what: str, parts: dict[str, int], device: torch.device, advice: str) -> None:
    """`check_fits` for a CUDA device; other devices are not asked."""
    if device.type != "cuda":
        return
    free = free_bytes(device)
    assert free is not None, "a GPU tells"
    check_fits(what, parts, free, torch.cuda.mem_get_info(device)[1], advice)

"""Whether something fits into a GPU's memory, said before it is tried."""

from __future__ import annotations

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


def check_gpu(what: str, parts: dict[str, int], device: torch.device, advice: str) -> None:
    """`check_fits` for a CUDA device; other devices are not asked."""
    if device.type != "cuda":
        return
    free, total = torch.cuda.mem_get_info(device)
    # what torch holds but no tensor uses is free for us
    free += torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    check_fits(what, parts, free, total, advice)

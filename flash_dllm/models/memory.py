"""How much memory a checkpoint will need, before any of it is loaded."""

from __future__ import annotations

import gc
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, is_dataclass
from typing import Any

import torch

from flash_dllm.memory import free_bytes, slot_bytes
from flash_dllm.models.base import ModelSpec
from flash_dllm.models.quantize import BYTES, is_quantized

# positions for which the estimate counts the cache: one sequence of a long prompt and answer
POSITIONS = 4096


@dataclass(frozen=True)
class Need:
    """parameters; inside: those in matrices that quantisation covers; per_position: elements of
    the cache for one position of one sequence, all layers."""

    parameters: int
    inside: int
    per_position: int

    def weights(self, dtype: torch.dtype, quantize: str) -> int:
        """Bytes of the weights."""
        width = dtype.itemsize
        if quantize == "none":
            return self.parameters * width
        return (self.parameters - self.inside) * width + self.inside * BYTES[quantize]

    def total(self, dtype: torch.dtype, quantize: str, positions: int = POSITIONS) -> int:
        """Bytes of the weights and of the cache for that many positions."""
        return self.weights(dtype, quantize) + positions * self.per_position * dtype.itemsize

    def sentence(self, name: str, dtype: torch.dtype, quantize: str) -> str:
        """What is printed before loading."""
        cache = self.per_position * dtype.itemsize
        kind = _name(dtype) + ("" if quantize == "none" else f" with {quantize} weights")
        return (
            f"{name}: {count(self.parameters)} parameters, about "
            f"{size(self.weights(dtype, quantize))} in {kind}, and {cache / 1024:g} KiB of "
            f"cache a position ({size(POSITIONS * cache)} for {POSITIONS})"
        )


def estimate(shapes: Mapping[str, tuple[int, ...]], spec: ModelSpec, devices: int = 1) -> Need:
    """The need of one of `devices` that share the matrices of the blocks."""
    inside = sum(math.prod(s) for tensor, s in shapes.items() if is_quantized(tensor, s))
    parameters = sum(math.prod(s) for s in shapes.values())
    per_position = slot_bytes(spec, itemsize=1)
    return Need(
        parameters - inside + inside // devices, inside // devices, per_position // devices
    )


def check_room(name: str, need: Need, dtype: str, quantize: str, device: torch.device) -> None:
    """Raise RuntimeError if the weights and a cache can't fit, saying what would."""
    free = free_bytes(device)
    wanted = need.total(getattr(torch, dtype), quantize)
    if free is None or wanted <= free:
        return
    smaller = [(kind, "none") for kind in ("bfloat16",) if getattr(torch, kind).itemsize
               < getattr(torch, dtype).itemsize] + [("bfloat16", "int8")]
    fitting = [
        f"--dtype {kind}" + ("" if q == "none" else f" --quantize {q}")
        + f" ({size(need.total(getattr(torch, kind), q))})"
        for kind, q in smaller
        if need.total(getattr(torch, kind), q) <= free
    ]
    advice = f"what would fit: {' or '.join(fitting)}" if fitting else "no smaller choice would fit"
    raise RuntimeError(
        f"{name} needs about {size(wanted)}, but {size(free)} are free on "
        f"{device.type}; {advice}"
    )


def held(engine: Any) -> int:
    """Bytes that a loaded engine holds: its weights, and the cache kept for the next session."""
    cache = engine.kept_cache
    parts = [engine.model.weights] if cache is None else [engine.model.weights, cache]
    # views of one storage count once
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes()
                for part in parts for t in _tensors(part)}  # fmt: skip
    return sum(storages.values())


def give_back() -> None:
    """Give memory that no tensor uses any more to the system."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _tensors(part: object) -> Iterable[torch.Tensor]:
    """All tensors inside dataclasses, lists and plain objects with tensors as attributes."""
    if isinstance(part, torch.Tensor):
        # a quantised tensor is a wrapper around plain ones
        inner = [getattr(part, name, None) for name in getattr(part, "tensor_data_names", ())]
        plain = [tensor for tensor in inner if isinstance(tensor, torch.Tensor)]
        yield from plain or [part]
    elif isinstance(part, (list, tuple)):
        for one in part:
            yield from _tensors(one)
    elif is_dataclass(part) or hasattr(part, "__dict__"):
        for one in vars(part).values():
            if isinstance(one, (torch.Tensor, list, tuple)) or is_dataclass(one):
                yield from _tensors(one)


def count(number: int) -> str:
    """A number of parameters in words.

    >>> count(8_015_581_184), count(17_300_000)
    ('8.02 billion', '17.30 million')
    """
    return f"{number / 1e9:.2f} billion" if number >= 1e9 else f"{number / 1e6:.2f} million"


def size(number: float) -> str:
    """Bytes in words.

    >>> size(16_031_162_368), size(34_600_000)
    ('16.0 GB', '34.6 MB')
    """
    return f"{number / 1e9:.1f} GB" if number >= 1e9 else f"{number / 1e6:.1f} MB"


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")

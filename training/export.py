"""Writes the trained model as a LLaDA checkpoint in small parts, and reads it back."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from training.model import LLaDA

# a file must be under 16 MiB to come back from the device machine
PART_BYTES_MAX = 15 * 1024 * 1024


def split_parts(sizes: dict[str, int], limit: int) -> list[list[str]]:
    """Names in order, cut so that no part is over `limit` bytes (one larger tensor goes alone).

    >>> split_parts({"a": 4, "b": 4, "c": 3}, limit=8)
    [['a', 'b'], ['c']]
    """
    parts: list[list[str]] = [[]]
    used = 0
    for name, size in sizes.items():
        if parts[-1] and used + size > limit:
            parts.append([])
            used = 0
        parts[-1].append(name)
        used += size
    return parts


def export(model: LLaDA, output: Path, dtype: torch.dtype = torch.bfloat16) -> list[Path]:
    """Write config.json, model-0000i-of-0000n.safetensors and their index; the files written."""
    output.mkdir(parents=True, exist_ok=True)
    for old in output.glob("model-*.safetensors"):
        old.unlink()
    tensors = {
        name: tensor.detach().to("cpu", dtype).contiguous()
        for name, tensor in model.state_dict().items()
    }
    sizes = {name: tensor.numel() * tensor.element_size() for name, tensor in tensors.items()}
    # room for the header of the file
    parts = split_parts(sizes, PART_BYTES_MAX - 65536)
    files: list[Path] = []
    weight_map: dict[str, str] = {}
    for number, names in enumerate(parts, start=1):
        path = output / f"model-{number:05d}-of-{len(parts):05d}.safetensors"
        save_file({name: tensors[name] for name in names}, path, metadata={"format": "pt"})
        weight_map.update(dict.fromkeys(names, path.name))
        files.append(path)
    index = {"metadata": {"total_size": sum(sizes.values())}, "weight_map": weight_map}
    for name, content in (
        ("model.safetensors.index.json", index),
        ("config.json", model.config.to_llada()),
    ):
        path = output / name
        path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        files.append(path)
    return files


def load_weights(folder: Path) -> dict[str, Tensor]:
    """All tensors of an export, in parts or as one file."""
    if (single := folder / "model.safetensors").exists():
        return load_file(single)
    index = json.loads((folder / "model.safetensors.index.json").read_text(encoding="utf-8"))
    tensors: dict[str, Tensor] = {}
    for name in sorted(set(index["weight_map"].values())):
        tensors.update(load_file(folder / name))
    return tensors

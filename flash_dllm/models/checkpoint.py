"""A checkpoint folder: config.json and safetensors, read with errors that name the culprit."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from flash_dllm.files import read_json
from kernels.scaled import Weight


class ConfigReader:
    """config.json, where a missing key is named instead of defaulted."""

    def __init__(self, config: dict[str, Any]) -> None:
        self._config = config

    def _get(self, key: str) -> Any:
        if key not in self._config:
            raise ValueError(f"config.json has no {key!r}; add the value of the checkpoint")
        return self._config[key]

    def whole(self, key: str, low: int = 1, high: int = 1 << 24) -> int:
        """A whole number in a range."""
        value = self._get(key)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise ValueError(
                f"config.json: {key} must be a whole number from {low} to {high}, got {value!r}"
            )
        return value

    def has(self, key: str) -> bool:
        """Whether the key is there and not null."""
        return self._config.get(key) is not None

    def number(self, key: str) -> float:
        """A positive number."""
        value = self._get(key)
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or not math.isfinite(value) or value <= 0:
            raise ValueError(f"config.json: {key} must be a positive number, got {value!r}")
        return float(value)

    def flag(self, key: str) -> bool:
        """true or false."""
        value = self._get(key)
        if not isinstance(value, bool):
            raise ValueError(f"config.json: {key} must be true or false, got {value!r}")
        return value

    def rope_theta(self) -> float:
        """The base of RoPE, where transformers 4 and 5 put it. Refuses scaled variants."""
        for key in ("rope_parameters", "rope_scaling"):
            value = self._config.get(key) or {}
            if not isinstance(value, dict):
                raise ValueError(f"config.json: {key} must be an object or null, got {value!r}")
            kind = value.get("rope_type", value.get("type", "default"))
            if kind != "default":
                raise ValueError(f"config.json: {key} {kind!r} is not supported, only default")
            if key == "rope_parameters" and "rope_theta" in value:
                return ConfigReader(value).number("rope_theta")
        return self.number("rope_theta")

    def refuse(self, key: str) -> None:
        """Refuse a feature that this code does not implement: absent, null, 0 or false is fine."""
        if value := self._config.get(key):
            raise ValueError(f"config.json: {key}={value!r} is not supported, only null or false")

    def require(self, key: str, wanted: object) -> None:
        """Refuse a value that this code does not implement."""
        if (value := self._get(key)) != wanted:
            raise ValueError(f"config.json: {key}={value!r} is not supported, only {wanted!r}")


class TensorReader:
    """Tensors by name from one or several safetensors files, in the wanted dtype and place.

    One tensor at a time goes from the file to the device; `quantize` then shrinks the matrices
    of linear layers, so that the whole model is never there in full size. `shard` picks this
    device's share of a weight along a dimension.
    """

    def __init__(
        self,
        folder: Path,
        dtype: torch.dtype,
        device: torch.device,
        quantize: Callable[[Tensor], Weight] = lambda weight: weight,
        shard: Callable[[Tensor, int], Tensor] = lambda weight, dim: weight,
    ) -> None:
        self._folder, self._dtype, self._device = folder, dtype, device
        self._quantize, self._shard = quantize, shard
        self._files = self._locate()
        self._open: dict[str, Any] = {}

    def _locate(self) -> dict[str, str]:
        """tensor name → file name."""
        index = self._folder / "model.safetensors.index.json"
        if index.exists():
            weight_map = read_json(index).get("weight_map")
            if not isinstance(weight_map, dict) or not all(
                isinstance(file, str) and Path(file).name == file for file in weight_map.values()
            ):
                raise ValueError(f"{index.name} must map tensors to file names in a weight_map")
            return weight_map
        single = self._folder / "model.safetensors"
        if single.exists():
            with self._reader(single.name) as reader:
                return dict.fromkeys(reader.keys(), single.name)
        pickles = [p.name for p in self._folder.glob("*") if p.suffix in (".bin", ".pt", ".pth")]
        if pickles:
            raise ValueError(
                f"{pickles[0]} is a pickle and is not read, because it can run code; convert it "
                "with safetensors.torch.save_file"
            )
        raise FileNotFoundError(
            f"no weights in {self._folder}: expected model.safetensors or "
            "model.safetensors.index.json"
        )

    def _reader(self, name: str):
        path = self._folder / name
        if not path.is_file():
            raise FileNotFoundError(
                f"the weight file {name} is missing in {self._folder}; copy it there again"
            )
        try:
            return safe_open(path, framework="pt", device="cpu")
        except (SafetensorError, OSError) as error:
            raise ValueError(
                f"the weight file {name} is damaged or truncated ({error}); copy it again"
            ) from None

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Every tensor's shape, from the heads of the files."""
        return {name: self.shape(name) for name in self._files}

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor as the file has it. Raises ValueError if it is missing."""
        return tuple(self._slice(name).get_shape())

    def take(self, name: str, shape: tuple[int, ...], is_wide: bool = False) -> Tensor:
        """One tensor, whole. Raises ValueError if it is missing or has another shape.

        is_wide  at least float32: for routers, whose choice hangs on small differences
        """
        return self._read(name, shape, None, is_wide)

    def column_parallel(self, *parts: tuple[str, tuple[int, ...]]) -> Weight:
        """Stacked weights of a linear layer; with several devices each part's outputs are
        divided among them."""
        return self._quantize(self.stacked(*parts))

    def stacked(self, *parts: tuple[str, tuple[int, ...]]) -> Tensor:
        """The same of biases, which nobody quantises."""
        return torch.cat([self._read(name, shape, 0) for name, shape in parts])

    def row_parallel(self, name: str, shape: tuple[int, int]) -> Weight:
        """The weight of a linear layer whose inputs are divided among the devices."""
        return self._quantize(self._read(name, shape, 1))

    def _read(
        self, name: str, shape: tuple[int, ...], divided: int | None, is_wide: bool = False
    ) -> Tensor:
        """divided: the dimension that is split among devices, or None."""
        view = self._slice(name)
        if tuple(view.get_shape()) != shape:
            raise ValueError(
                f"the tensor {name} has shape {tuple(view.get_shape())}, but config.json asks for "
                f"{shape}"
            )
        # converted where it will live: the file's bytes cross over as they are
        whole = view[:]
        mine = whole if divided is None else self._shard(whole, divided)
        dtype = torch.promote_types(self._dtype, torch.float32) if is_wide else self._dtype
        return mine.to(self._device).to(dtype)

    def _slice(self, name: str) -> Any:
        file = self._files.get(name)
        if file is None:
            raise ValueError(f"the checkpoint has no tensor {name}; is it complete?")
        if file not in self._open:
            self._open[file] = self._reader(file)
        try:
            return self._open[file].get_slice(name)
        except SafetensorError:
            raise ValueError(f"{file} does not hold the tensor {name}; is it complete?") from None


def fingerprint(folder: Path) -> str:
    """A short hash over config and weight files: sizes, heads and tails, so it stays instant."""
    digest = hashlib.sha256()
    for path in sorted([*folder.glob("*.safetensors"), folder / "config.json"]):
        size = path.stat().st_size
        digest.update(f"{path.name}:{size};".encode())
        with path.open("rb") as file:
            digest.update(file.read(1 << 16))
            file.seek(max(0, size - (1 << 16)))
            digest.update(file.read())
    return digest.hexdigest()[:12]

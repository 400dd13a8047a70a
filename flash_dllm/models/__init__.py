"""`load_model`: a checkpoint folder → an engine. A family is a file named by `model_type`."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flash_dllm.files import read_json

if TYPE_CHECKING:
    from flash_dllm.engine import ModelEngine
    from flash_dllm.models.tokenizer import Tokenizer

EMBEDDED = Path(__file__).resolve().parents[2] / "assets" / "tiny"
_NOT_FAMILIES = {"base", "transformer", "checkpoint", "layout", "tokenizer"}
_ALIASES = {"llada_moe": "lladamoe"}
DTYPES = ("auto", "float32", "bfloat16", "float16", "float64")


def families() -> list[str]:
    """The supported model families, by file."""
    names = [module.name for module in pkgutil.iter_modules(__path__)]
    return sorted(name for name in names if name not in _NOT_FAMILIES)


def load_model(
    folder: str | Path | None = None,
    impl: str = "auto",
    device: str = "auto",
    dtype: str = "auto",
    overrides: Mapping[str, Any] | None = None,
) -> ModelEngine:
    """Load a checkpoint folder (None: the embedded model).

    device  "auto" takes CUDA, then Apple's MPS, then the CPU
    dtype   "auto" is float32 on CPU and MPS, bfloat16 on CUDA
    overrides  keys of config.json that it lacks or has wrong, e.g. {"block_size": 4}
    Raises FileNotFoundError, ValueError or RuntimeError in one sentence: missing or damaged files,
    unsupported model_type or values, an implementation or device that this machine lacks.
    """
    import torch

    from flash_dllm.engine import ModelEngine
    from flash_dllm.models.checkpoint import TensorReader, fingerprint
    from flash_dllm.models.tokenizer import Tokenizer
    from flash_dllm.models.transformer import Transformer
    from flash_dllm.trace import ModelInfo
    from kernels.ops import resolve_impl

    path = Path(folder) if folder is not None else EMBEDDED
    if not path.is_dir():
        raise FileNotFoundError(f"{path} is not a folder; give the folder of a checkpoint")
    place = _device(device)
    impl = resolve_impl(impl, place.type)
    config = read_json(path / "config.json") | dict(overrides or {})
    family = _family(config, path)
    tokenizer = Tokenizer(path)
    if config.get("mask_token_id") is None:
        config["mask_token_id"] = _mask_token_id(path, tokenizer)
    if dtype not in DTYPES:
        raise ValueError(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")
    if dtype == "auto":
        dtype = "bfloat16" if place.type == "cuda" else "float32"
    end_ids = tuple(dict.fromkeys([*_config_end_ids(config), *tokenizer.end_token_ids]))
    spec = family.read_spec(config, end_ids)
    for token in end_ids:
        if not 0 <= token < spec.vocab_size or token == spec.mask_token_id:
            raise ValueError(f"config.json: {token} can't be an end token; correct eos_token_id")
    tensors = TensorReader(path, getattr(torch, dtype), place)
    model = Transformer(spec, family.read_weights(spec, config, tensors), impl)
    info = ModelInfo(
        name=path.resolve().name,
        vocab_size=spec.vocab_size,
        n_layers=spec.n_layers,
        mask_token_id=spec.mask_token_id,
        eos_token_ids=spec.eos_token_ids,
        fingerprint=fingerprint(path),
        impl=impl,
        device=place.type,
        dtype=dtype,
        shift=spec.shift,
        causal_block=spec.causal_block,
    )
    return ModelEngine(model, info, tokenizer, load_preset(path))


def leave_one_core() -> None:
    """Compute on all cores but one, which stays for the page, the terminal, everybody else.

    Torch's threads wait for the slowest of them: with one other busy process on two cores a pass
    took 532 ms on two threads and 36 ms on one. For programs with a person in front of them; a
    library must not change it, and benchmarks say how many threads they used.
    """
    import os

    import torch

    torch.set_num_threads(max(1, (os.cpu_count() or 2) - 1))


def load_preset(folder: Path | None = None) -> dict:
    """The swept default settings that a model folder carries, or {} (no torch needed)."""
    path = (folder or EMBEDDED) / "preset.json"
    if not path.is_file():
        return {}
    from flash_dllm.settings import from_preset

    preset = read_json(path)
    try:
        from_preset(preset, {})
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"preset.json in {path.parent} is no preset ({error})") from None
    return preset


def _config_end_ids(config: dict) -> list[int]:
    value = config.get("eos_token_id")
    ids = value if isinstance(value, list) else [] if value is None else [value]
    if not all(isinstance(token, int) and not isinstance(token, bool) for token in ids):
        raise ValueError(f"config.json: eos_token_id must hold whole numbers, got {value!r}")
    return ids


def _mask_token_id(path: Path, tokenizer: Tokenizer) -> int:
    """Where config.json does not name it: generation_config.json, then the tokenizer."""
    extra = path / "generation_config.json"
    named = read_json(extra).get("mask_token_id") if extra.is_file() else None
    if named is None:
        named = tokenizer.mask_token_id
    if named is None:
        raise ValueError(
            f"neither config.json nor the tokenizer in {path} names the mask token; add "
            "'mask_token_id' to config.json or give it as an override"
        )
    return named


def _family(config: dict, path: Path):
    name = str(config.get("model_type", "")).lower().replace("-", "_")
    name = _ALIASES.get(name, name)
    if name not in families():
        raise ValueError(
            f"model_type {config.get('model_type')!r} in {path} is not supported; supported are "
            f"{', '.join(families())}"
        )
    return importlib.import_module(f"{__name__}.{name}")


def _device(name: str):
    import torch

    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(f"device must be auto, cpu, cuda or mps, got {name!r}") from None
    if device.type not in ("cpu", "cuda", "mps"):
        raise ValueError(f"device must be auto, cpu, cuda or mps, got {name!r}")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise RuntimeError("device='cuda' needs a CUDA GPU; use device='cpu' on this machine")
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise RuntimeError("device='mps' needs Apple's Metal; use device='cpu' on this machine")
    return device

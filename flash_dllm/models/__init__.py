"""`load_model`: a checkpoint folder or hub name → an engine.

A family is a file named by `model_type`.
"""

from __future__ import annotations

import importlib
import logging
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from flash_dllm.files import read_json
from flash_dllm.models.presets import PRESETS, ModelPreset, preset_of, presets_for

if TYPE_CHECKING:
    from flash_dllm.engine import ModelEngine
    from flash_dllm.guide import GuideModel
    from flash_dllm.models.parallel import Ranks

log = logging.getLogger(__name__)

EMBEDDED = Path(__file__).resolve().parents[2] / "assets" / "tiny"
EMBEDDED_GUIDE = EMBEDDED.parent / "guide"
_NOT_FAMILIES = {
    "base", "checkpoint", "hub", "layout", "loading", "memory", "parallel", "presets",
    "quantize", "tokenizer", "transformer",
}  # fmt: skip
# causal models that can guide, but not decode
_GUIDES = {"llama", "qwen2", "qwen3"}
# named in the error, so that nobody takes one for a file that is broken
_CAUSAL = {"gpt2", "llama", "mistral", "gemma", "qwen2", "qwen3", "qwen3_moe", "olmoe", "phi3"}
_ALIASES = {"llada_moe": "lladamoe"}
QUANTIZATIONS = ("none", "int8", "fp8", "fp8_w8a8")
DTYPES = ("auto", "float32", "bfloat16", "float16", "float64")


def families() -> list[str]:
    """The supported model families, by file."""
    names = [module.name for module in pkgutil.iter_modules(__path__)]
    return sorted(name for name in names if name not in _NOT_FAMILIES | _GUIDES)


def guide_families() -> list[str]:
    """The supported families of autoregressive guides, by file."""
    return sorted(_GUIDES)


def load_model(
    folder: str | Path | None = None,
    impl: str = "auto",
    device: str = "auto",
    dtype: str = "auto",
    graphs: bool = True,
    quantize: str = "none",
    overrides: Mapping[str, Any] | None = None,
    revision: str | None = None,
    offline: bool = False,
    say: Callable[[str], None] | None = None,
    ranks: Ranks | None = None,
    guide: str | Path | None = None,
) -> ModelEngine:
    """Load a checkpoint: a folder, a hub name (`owner/model`), or None for the embedded model.

    device     "auto" takes CUDA, then Apple's MPS, then the CPU
    dtype      "auto" is float32 on CPU and MPS, bfloat16 on CUDA
    graphs     replay passes as CUDA graphs; without effect where there is no CUDA
    quantize   "none", or for the matrices of the blocks "int8" or "fp8" (weights only, needs
               torchao) or "fp8_w8a8" (weights and rows, compute capability 8.9 or more)
    overrides  keys of config.json that it lacks or has wrong, e.g. {"block_size": 4}
    revision   branch, tag or commit of a hub name
    offline    read the hub library's local cache only
    say        gets one sentence per stage: what is downloaded, how much memory is needed, …
    ranks      the processes of torchrun (`parallel.start_ranks`), which then also fix the device
    guide      folder or hub name of the autoregressive guide for strategies that ask one; None is
               the embedded model's. It is loaded when a strategy first asks
    Raises FileNotFoundError, ValueError, RuntimeError, ImportError, PermissionError or
    ConnectionError in one sentence: missing or damaged files, unsupported model_type or values,
    no room, an implementation or device that this machine lacks, no network, a licence gate.
    """
    from flash_dllm.models.loading import LoadOptions, load

    options = LoadOptions(
        impl, device, dtype, graphs, quantize, overrides or {}, revision, offline, say, ranks
    )
    engine = load(folder, options)

    def find() -> GuideModel:
        place = str(engine.model.device)
        return load_guide(engine, guide, impl, place, dtype, offline, say)

    return replace(engine, find_guide=find)


def load_guide(
    engine: ModelEngine,
    folder: str | Path | None = None,
    impl: str = "auto",
    device: str = "auto",
    dtype: str = "auto",
    offline: bool = False,
    say: Callable[[str], None] | None = None,
) -> GuideModel:
    """Load a causal model as the guide of `engine`: a folder, a hub name, or None for the
    embedded one. Arguments and errors are those of `load_model`.

    Raises ValueError also where the two don't share their tokens.
    """
    from flash_dllm.guide import GuideModel
    from flash_dllm.models.loading import LoadOptions, load

    path = EMBEDDED_GUIDE if folder is None else folder
    info = engine.info
    options = LoadOptions(
        impl, device, dtype, graphs=False, offline=offline, say=say,
        overrides={"mask_token_id": info.mask_token_id},
    )  # fmt: skip
    try:
        causal = load(path, options, is_guide=True)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"the guide could not be loaded: {error}") from None
    own, other = (getattr(found.codec, "vocabulary", None) for found in (engine, causal))
    if own is None or own != other:
        raise ValueError(
            f"the guide {causal.info.name} has other tokens than {info.name}; give one with the "
            "same vocabulary as guide, or choose a strategy without one"
        )
    return GuideModel(causal, info.vocab_size, info.mask_token_id)


def locate(
    folder: str | Path | None,
    revision: str | None = None,
    offline: bool = False,
    say: Callable[[str], None] | None = None,
) -> Path:
    """The folder with a checkpoint's small files; a hub name's are fetched. Errors as above."""
    path = Path(folder) if folder is not None else EMBEDDED
    if path.is_dir():
        return path
    from flash_dllm.models import hub

    if isinstance(folder, str) and hub.is_hub_name(folder):
        (say or log.info)(f"asking the hub for {folder}")
        return hub.fetch(folder, revision, offline, has_weights=False)
    raise FileNotFoundError(
        f"the path {path} is not a folder; give one with a checkpoint, or a hub name (owner/model)"
    )


def is_source(name: str) -> bool:
    """Whether this is a folder here, or reads as a hub name (no network is asked)."""
    from flash_dllm.models import hub

    return Path(name).is_dir() or hub.is_hub_name(name)


def presets_of(folder: Path) -> dict[str, ModelPreset]:
    """All settings that a checkpoint can start from by name, its own preset.json apart; {} for a
    folder that can't be loaded anyway."""
    config_path = folder / "config.json"
    config = read_json(config_path) if config_path.is_file() else {}
    family = _family_name(config)
    return presets_for(family, config.get("block_size") is not None) if family in PRESETS else {}


def leave_one_core() -> None:
    """Compute on all cores but one, which stays for the page, the terminal, everybody else.

    Torch's threads wait for the slowest of them: with one other busy process on two cores a pass
    took 532 ms on two threads and 36 ms on one. For programs with a person in front of them; a
    library must not change it, and benchmarks say how many threads they used.
    """
    import os

    import torch

    torch.set_num_threads(max(1, (os.cpu_count() or 2) - 1))


def load_preset(folder: Path | None = None, name: str | None = None) -> dict:
    """Settings to start from (no torch needed).

    name  one of the family's presets (`presets.py`); None: the swept settings that the folder
          carries, else the family's first, else {} for a folder that can't be loaded anyway
    Raises ValueError for an unknown name or a preset.json that is none.
    """
    path = (folder or EMBEDDED) / "preset.json"
    if name is not None or not path.is_file():
        config_path = path.parent / "config.json"
        config = read_json(config_path) if config_path.is_file() else {}
        if (family := _family_name(config)) not in PRESETS:
            return {}
        return preset_of(family, name, config.get("block_size") is not None).settings
    from flash_dllm.settings import from_preset

    preset = read_json(path)
    try:
        from_preset(preset, {})
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"preset.json in {path.parent} is no preset ({error})") from None
    return preset


def _family_name(config: dict) -> str:
    """The file name that belongs to a config's model_type."""
    name = str(config.get("model_type", "")).lower().replace("-", "_")
    return _ALIASES.get(name, name)


def family_of(config: dict, path: Path, is_guide: bool) -> ModuleType:
    """The file of a config's model_type. Raises ValueError naming what is supported."""
    name, known = _family_name(config), guide_families() if is_guide else families()
    if is_guide and name not in known:
        raise ValueError(
            f"model_type {config.get('model_type')!r} in {path} can't be a guide; supported are "
            f"{', '.join(known)}"
        )
    if name not in known:
        kinds = config.get("architectures")
        is_causal = name in _CAUSAL or (
            isinstance(kinds, list) and any(str(kind).endswith("ForCausalLM") for kind in kinds)
        )
        what = " (a causal language model, which can't fill in masks)" if is_causal else ""
        raise ValueError(
            f"model_type {config.get('model_type')!r} in {path}{what} is not supported; supported "
            f"are {', '.join(known)}"
        )
    return importlib.import_module(f"{__name__}.{name}")

"""A folder or a hub name → an engine: config, tokenizer, room, weights, implementation."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch

from flash_dllm.engine import ModelEngine
from flash_dllm.files import read_json
from flash_dllm.models import DTYPES, family_of, load_preset, locate
from flash_dllm.models.base import ModelSpec
from flash_dllm.models.checkpoint import TensorReader, fingerprint
from flash_dllm.models.memory import check_room, estimate
from flash_dllm.models.quantize import quantizer
from flash_dllm.models.tokenizer import Tokenizer
from flash_dllm.models.transformer import ModelWeights, Transformer
from flash_dllm.trace import ModelInfo
from kernels.ops import resolve_impl

if TYPE_CHECKING:
    from flash_dllm.models.parallel import Ranks

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LoadOptions:
    """How a checkpoint is loaded; `flash_dllm.models.load_model` says what each means."""

    impl: str = "auto"
    device: str = "auto"
    dtype: str = "auto"
    graphs: bool = True
    quantize: str = "none"
    overrides: Mapping[str, Any] = field(default_factory=dict)
    revision: str | None = None
    offline: bool = False
    say: Callable[[str], None] | None = None
    ranks: Ranks | None = None

    @property
    def place(self) -> torch.device:
        """The device. Raises ValueError or RuntimeError where there is none of that kind."""
        return _device(self.device) if self.ranks is None else self.ranks.device

    @property
    def devices(self) -> int:
        """How many share the model."""
        return 1 if self.ranks is None else self.ranks.size

    def dtype_name(self) -> str:
        """The dtype with "auto" filled in. Raises ValueError for an unknown one."""
        if self.dtype not in DTYPES:
            raise ValueError(f"dtype must be one of {', '.join(DTYPES)}, got {self.dtype!r}")
        if self.dtype != "auto":
            return self.dtype
        return "bfloat16" if self.place.type == "cuda" else "float32"


def load(
    folder: str | Path | None, options: LoadOptions, is_guide: bool = False
) -> ModelEngine:
    """A model without its guide, or a guide itself. Errors as in `load_model`."""
    say, ranks, quantize = options.say or log.info, options.ranks, options.quantize
    place, devices = options.place, options.devices
    impl = resolve_impl(options.impl, place.type)
    dtype_name = options.dtype_name()
    dtype = getattr(torch, dtype_name)
    shrink = quantizer(quantize, place, dtype)
    path = locate(folder, options.revision, options.offline, say)
    is_remote = folder is not None and not Path(folder).is_dir()
    name = str(folder) if is_remote else path.resolve().name

    config, family, tokenizer, spec = _read(path, options, is_guide)
    local = spec if ranks is None else ranks.local(spec)
    if devices > 1 and config.get("num_experts"):
        raise ValueError(f"{name} has experts, which tensor_parallel can't share; leave it out")

    def check(shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Say what these weights need, and whether they fit."""
        need = estimate(shapes, spec, devices)
        label = name if devices == 1 else f"{name}, each of {devices} devices"
        say(need.sentence(label, dtype, quantize))
        check_room(name, need, dtype_name, quantize, place)

    is_checked = False
    if is_remote:
        from flash_dllm.models import hub

        # the weights are many gigabytes: say so, and whether they would fit, before they come
        shapes = None if options.offline else hub.remote_shapes(name, options.revision)
        if shapes is not None:
            check(shapes)
            is_checked = True
        say(f"fetching the weights of {name}")
        path = hub.fetch(name, options.revision, options.offline, has_weights=True)
    tensors = TensorReader(path, dtype, place, shrink)
    if ranks is not None and devices > 1:
        tensors = TensorReader(path, dtype, place, shrink, ranks.shard)
    if not is_checked:
        check(tensors.shapes())
    weights = family.read_weights(spec, config, tensors)
    if impl == "triton" and (reason := _why_no_kernels(spec, weights, quantize)):
        if options.impl == "triton":
            raise RuntimeError(f"impl='triton' can't compute {name}: {reason}; use impl='torch'")
        impl = "torch"
    model = Transformer(local, weights, impl, ranks)
    info = ModelInfo(
        name=name,
        vocab_size=spec.vocab_size,
        n_layers=spec.n_layers,
        mask_token_id=spec.mask_token_id,
        eos_token_ids=spec.eos_token_ids,
        fingerprint=fingerprint(path),
        impl=impl,
        device=place.type if devices == 1 else f"{devices} x {place.type}",
        dtype=dtype_name if quantize == "none" else f"{dtype_name}, {quantize} weights",
        shift=spec.shift,
        causal_block=spec.causal_block,
    )
    say(f"{name} is loaded on {place} in {info.dtype}, computed by {impl}")
    # routing to experts reads counts on the host, and layers of 8-bit weights are torchao's
    can_record = not config.get("num_experts") and quantize not in ("int8", "fp8")
    has_graphs = options.graphs and place.type == "cuda" and can_record
    return ModelEngine(model, info, tokenizer, load_preset(path), has_graphs)


def _read(
    path: Path, options: LoadOptions, is_guide: bool
) -> tuple[dict[str, Any], ModuleType, Tokenizer, ModelSpec]:
    """What the small files say: config, family, tokenizer and spec."""
    config = read_json(path / "config.json") | dict(options.overrides)
    family = family_of(config, path, is_guide)
    tokenizer = Tokenizer(path, getattr(family, "TEMPLATE_OPTIONS", None))
    if config.get("mask_token_id") is None:
        config["mask_token_id"] = _mask_token_id(path, tokenizer)
    spec = family.read_spec(config, _end_ids(config, tokenizer))
    _check_vocabulary(spec, tokenizer)
    return config, family, tokenizer, spec


def _end_ids(config: dict, tokenizer: Tokenizer) -> tuple[int, ...]:
    """The end tokens that config.json and the tokenizer name."""
    return tuple(dict.fromkeys([*_config_end_ids(config), *tokenizer.end_token_ids]))


def _check_vocabulary(spec: ModelSpec, tokenizer: Tokenizer) -> None:
    """Raise ValueError where model and tokenizer can't belong together."""
    for token in spec.eos_token_ids:
        if not 0 <= token < spec.vocab_size or token == spec.mask_token_id:
            raise ValueError(f"config.json: {token} can't be an end token; correct eos_token_id")
    if tokenizer.size > spec.vocab_size:
        raise ValueError(
            f"the tokenizer has {tokenizer.size} tokens, but the model's vocabulary only "
            f"{spec.vocab_size}; these files don't belong together"
        )


def _config_end_ids(config: dict) -> list[int]:
    value = config.get("eos_token_id")
    ids = value if isinstance(value, list) else [] if value is None else [value]
    if not all(isinstance(token, int) and not isinstance(token, bool) for token in ids):
        raise ValueError(f"config.json: eos_token_id must hold whole numbers, got {value!r}")
    return ids


def _why_no_kernels(spec: ModelSpec, weights: ModelWeights, quantize: str) -> str | None:
    """What of a model the Triton kernels don't compute, or None."""
    if quantize in ("int8", "fp8"):
        return "they don't read weights of torchao"
    if spec.rotary_dim not in (None, spec.head_dim):
        return "they turn whole heads, and its RoPE only a part"
    norms = weights.blocks[0].head_norms
    if norms is not None and len(norms.q) != spec.head_dim:
        return "they norm every head by itself, and it all heads together"
    return None


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


def _device(name: str) -> torch.device:
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

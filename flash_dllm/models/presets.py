"""Settings to start from, by family: ours, and the published ones of each checkpoint.

A checkpoint folder's own preset.json (swept on that model) comes before these. Plain data; the
form is that of `flash_dllm.settings.from_preset`. Published settings name their source; what of
them this program has no knob for is said in `differs`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flash_dllm.peers import PEERS


@dataclass(frozen=True)
class ModelPreset:
    """settings: strategy, cache and config; source: where the numbers stand; differs: how a run
    with them departs from the source, or ""."""

    settings: dict[str, Any]
    source: str
    differs: str = ""


def _flash(cache: str, **config: Any) -> ModelPreset:
    """The decoder of this project at the paper's thresholds."""
    return ModelPreset(
        {
            "strategy": {"name": "flash_verify", "epsilon": 0.9, "gamma": 0.8},
            "cache": {"name": cache},
            "config": config,
        },
        "Flash-dLLM (arXiv 2609.26796): ε .9, γ .8; lengths: our choice",
    )


def _llada(gen_length: int, block_length: int, ends_last: bool, source: str) -> ModelPreset:
    """LLaDA's loop: one token a step, the surest of the block."""
    return ModelPreset(
        {
            "strategy": {"name": "greedy"},
            "cache": {"name": "none"},
            "config": {
                "gen_length": gen_length,
                "block_length": block_length,
                "window_size": block_length,
                "rank_ends_last": ends_last,
            },
        },
        source,
    )


def _confidence(epsilon: float, source: str, differs: str, **config: Any) -> ModelPreset:
    """A threshold, all tokens above it in one step."""
    return ModelPreset(
        {
            "strategy": {"name": "confidence", "epsilon": epsilon},
            "cache": {"name": "block"},
            "config": config,
        },
        source,
        differs,
    )


_EVAL = "LLaDA EVAL.md, LLaDA-1.5"
_SEMI = "LLaDA EVAL.md, LLaDA-8B-Instruct, semi-autoregressive"
_DIALOGUE = {"gen_length": 256, "block_length": 32, "window_size": 32}

# the first of each family is used where nothing is named
PRESETS: dict[str, dict[str, ModelPreset]] = {
    "llada": {
        "flash": _flash("flash", **_DIALOGUE),
        "llada": _llada(128, 128, False, "LLaDA README: generate.py's defaults"),
        "llada-1.5-gsm8k": _llada(256, 16, True, _EVAL),
        "llada-1.5-math": _llada(1024, 128, True, _EVAL),
        "llada-1.5-humaneval": _llada(512, 32, True, _EVAL),
        "llada-1.5-mbpp": _llada(512, 32, True, _EVAL),
        "llada-1.5-gpqa": _llada(256, 16, False, _EVAL),
        "llada-1.5-ifeval": _llada(256, 16, True, _EVAL),
        "llada-instruct-gsm8k": _llada(256, 8, False, _SEMI),
        "llada-instruct-math": _llada(512, 64, False, _SEMI),
    },
    "dream": {
        "flash": _flash("flash", **_DIALOGUE),
        "dream-chat": ModelPreset(
            {
                "strategy": {"name": "llada", "measure": "entropy", "top_p": 0.95},
                "cache": {"name": "none"},
                "config": {"gen_length": 512, "window_size": 512, "temperature": 0.2},
            },
            "Dream README: diffusion_generate, 512 steps, temperature .2, top_p .95, entropy",
            "a token in every step, where the source's rounding leaves out the first one and "
            "catches up; noise is drawn once a position; of equal entropies (a nucleus of one "
            "token has none) the leftmost comes first",
        ),
    },
    "lladamoe": {
        "flash": _flash("flash", **_DIALOGUE),
        "llada": _llada(128, 32, False, "LLaDA-MoE model card: LLaDA's loop"),
    },
    "a2d_qwen3": {"flash": _flash("flash", **_DIALOGUE)},
    "sdar": {
        "flash": _flash("block", gen_length=256, window_size=64),
        "sdar": _confidence(
            0.85, "SDAR generate.py: low_confidence_dynamic .85, temperature 1",
            "noise is Gumbel on the logits, the same law", gen_length=256, window_size=64,
            temperature=1.0,
        ),
    },
    "llada2_moe": {
        "flash": _flash("block", gen_length=512, window_size=32),
        "llada2": _confidence(
            0.95, "LLaDA2.0 model card: threshold .95, 32 steps a block, temperature 0",
            "c ≥ .95 instead of c > .95; no editing (2.1)", gen_length=512, window_size=32,
        ),
    },
    "fast_dllm_qwen": {
        "flash": _flash("block", gen_length=512, block_length=8, window_size=8),
        "fast-dllm-v2": _confidence(
            0.95, "Fast-dLLM v2 generate: threshold .95, sub-blocks of 8",
            "sub-blocks are counted from the end of the prompt; a block's first token is judged "
            "like every other", gen_length=512, block_length=8, window_size=8,
        ),
    },
}  # fmt: skip


def presets_for(family: str, has_blocks: bool) -> dict[str, ModelPreset]:
    """A family's presets, then the peers' settings (they are for bidirectional attention).

    has_blocks  whether this checkpoint is block-causal (a2d-qwen3 comes in both kinds)
    """
    known = PRESETS[family]
    is_causal = has_blocks or next(iter(known.values())).settings["cache"]["name"] == "block"
    peers = {} if is_causal else PEERS
    return known | {
        name: ModelPreset(peer.settings, f"{peer.paper}, {peer.source}", peer.reading)
        for name, peer in peers.items()
        if name not in known
    }


def preset_of(family: str, name: str | None, has_blocks: bool) -> ModelPreset:
    """A family's preset or a peer's settings by name; None: the family's first one.

    Raises ValueError naming the known ones.

    has_blocks  as in `presets_for`
    """
    known = presets_for(family, has_blocks)
    if name is None:
        first = next(iter(known.values()))
        if has_blocks and first.settings["cache"]["name"] == "flash":
            return ModelPreset({**first.settings, "cache": {"name": "block"}}, first.source)
        return first
    if name in known:
        return known[name]
    raise ValueError(f"preset must be one of {', '.join(known)}, got {name!r}")

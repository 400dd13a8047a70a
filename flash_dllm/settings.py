"""Settings by name: {"name": …, knob: value} ↔ strategy and cache objects, and model presets."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from flash_dllm.caches import CACHES, CachePolicy
from flash_dllm.config import DecodeConfig
from flash_dllm.strategies import STRATEGIES, DecodingStrategy

# what is used where a model folder carries no preset: the paper's thresholds
PAPER: dict[str, dict[str, Any]] = {
    "strategy": {"name": "flash_verify", "epsilon": 0.9, "gamma": 0.8},
    "cache": {"name": "flash"},
    "config": {},
}


@dataclass(frozen=True)
class Settings:
    """The three independent choices of a run (the implementation belongs to the engine)."""

    strategy: DecodingStrategy
    cache: CachePolicy
    config: DecodeConfig


def build(kinds: dict[str, type], what: str, name: str, knobs: dict[str, Any]) -> Any:
    """An object of a shelf by name, with those of `knobs` that it has.

    Raises ValueError for an unknown name (naming the known ones) or an impossible value.
    """
    if name not in kinds:
        raise ValueError(f"{what} must be one of {', '.join(kinds)}, got {name!r}")
    own = {item.name for item in fields(kinds[name])}
    return kinds[name](**{key: value for key, value in knobs.items() if key in own})


def from_preset(preset: dict[str, Any], given: dict[str, Any]) -> Settings:
    """A model's preset, overridden by `given`.

    given  "strategy" and "cache" name other ones; every other key is a knob of the strategy, the
           cache or the config. The preset's knobs apply wherever the chosen objects have them.
    Raises ValueError in one sentence.
    """
    preset = preset or PAPER
    given = {key: value for key, value in given.items() if value is not None}
    strategy, cache = dict(preset.get("strategy", {})), dict(preset.get("cache", {}))
    strategy_name = given.pop("strategy", strategy.get("name", "flash_verify"))
    cache_name = given.pop("cache", cache.get("name", "flash"))
    names = {item.name for item in fields(DecodeConfig)}
    config = {**preset.get("config", {}), **{k: v for k, v in given.items() if k in names}}
    if "gen_length" in given and "block_length" not in given:
        # a preset's blocks must not forbid another length
        block = config.get("block_length")
        if block and given["gen_length"] % block:
            config["block_length"] = None
    return Settings(
        build(STRATEGIES, "strategy", strategy_name, {**strategy, **given}),
        build(CACHES, "cache", cache_name, {**cache, **given}),
        DecodeConfig(**config),
    )

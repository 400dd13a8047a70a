"""Settings by name: {"name": …, knob: value} ↔ strategy and cache objects, and model presets."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
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

    def __post_init__(self) -> None:
        self.strategy.check(self.config)
        check_cache(self.strategy, self.cache)

    def described(self) -> dict[str, Any]:
        """Names and knobs as plain data: the form of a trace's header and of a preset."""
        return {
            "strategy": {"name": self.strategy.name, **asdict(self.strategy)},
            "cache": {"name": self.cache.name, **asdict(self.cache)},
            "config": asdict(self.config),
        }


def check_cache(strategy: DecodingStrategy, cache: CachePolicy) -> None:
    """Raise ValueError, naming the caches that fit, if this one can't do what is asked of it."""
    if missing := strategy.needs - cache.takes:
        fitting = [name for name, kind in CACHES.items() if strategy.needs <= kind.takes]
        raise ValueError(
            f"strategy {strategy.name} as set needs a cache that takes "
            f"{', '.join(sorted(missing))}, got {cache.name}; use {' or '.join(fitting)}"
        )


def build(kinds: dict[str, type], what: str, name: str, knobs: dict[str, Any]) -> Any:
    """An object of a shelf by name, with those of `knobs` that it has.

    Raises ValueError for an unknown name (naming the known ones) or an impossible value.
    """
    kind = kind_of(kinds, what, name)
    own = knobs_of(kind)
    return kind(**{key: value for key, value in knobs.items() if key in own})


def kind_of(kinds: dict[str, type], what: str, name: str) -> type:
    """The class of a shelf by name. Raises ValueError that names the known ones."""
    if not isinstance(name, str) or name not in kinds:
        raise ValueError(f"{what} must be one of {', '.join(kinds)}, got {name!r}")
    return kinds[name]


def knobs_of(*kinds: type) -> set[str]:
    """The knobs of these settings classes."""
    return {item.name for kind in kinds for item in fields(kind)}


def from_preset(preset: dict[str, Any], given: dict[str, Any]) -> Settings:
    """A model's preset, overridden by `given`.

    given  "strategy" and "cache" name other ones; every other key is a knob of the strategy, the
           cache or the config. The preset's knobs apply wherever the chosen objects have them.
    Raises ValueError in one sentence, also for a given knob that would have no effect.
    """
    preset = preset or PAPER
    given = {key: value for key, value in given.items() if value is not None}
    strategy = _section(preset, "strategy", knobs_of(*STRATEGIES.values()) | {"name"})
    cache = _section(preset, "cache", knobs_of(*CACHES.values()) | {"name"})
    config = _section(preset, "config", knobs_of(DecodeConfig))
    strategy_name = given.pop("strategy", strategy.get("name", "flash_verify"))
    cache_name = given.pop("cache", cache.get("name", "flash"))
    config |= {key: value for key, value in given.items() if key in knobs_of(DecodeConfig)}
    block = config.get("block_length")
    if "gen_length" in given and "block_length" not in given and isinstance(block, int):
        # a preset's blocks must not forbid another length
        length = given["gen_length"]
        # what is no number is refused with the others
        config["block_length"] = block if isinstance(length, int) and not length % block else None
    settings = Settings(
        build(STRATEGIES, "strategy", strategy_name, {**strategy, **given}),
        build(CACHES, "cache", cache_name, {**cache, **given}),
        DecodeConfig(**config),
    )
    idle = set(given) - knobs_of(*(type(part) for part in vars(settings).values()))
    if idle:
        raise ValueError(
            f"{', '.join(sorted(idle))} has no effect with strategy {strategy_name} and cache "
            f"{cache_name}; leave it out"
        )
    return settings


def _section(preset: dict[str, Any], name: str, known: set[str]) -> dict[str, Any]:
    """One part of a preset. Raises ValueError if it is no object or holds a foreign key."""
    section = preset.get(name, {})
    if not isinstance(section, dict):
        raise ValueError(f"{name} must be an object, got {section!r}")
    if foreign := set(section) - known:
        raise ValueError(f"{name} has no {', '.join(sorted(foreign))}")
    return dict(section)

"""A run in one line: its settings, and the model that answered."""

from __future__ import annotations

from app.said import counted
from flash_dllm.trace import DecodeTrace


def settings_line(trace: DecodeTrace) -> str:
    """The settings in one line, symbols as in the paper."""
    strategy, cache, config = trace.strategy, trace.cache, trace.config
    parts = [str(strategy.get("name", "")).replace("_", "-")]
    for symbol, value in (("ε", strategy.get("epsilon")), ("γ", strategy.get("gamma"))):
        if value is not None:
            parts.append(f"{symbol} {value:g}")
    if strategy.get("name") == "flash_verify":
        parts.append(f"by {strategy.get('order', 'confidence')}")
        if strategy.get("correct"):
            parts.append("with correction")
        if strategy.get("acceptance", "each") != "each":
            parts.append(strategy["acceptance"])
    parts.append(f"βₘ {config['window_size']}")
    if cache.get("track_size") is not None:
        parts.append(f"βₜ {cache['track_size']}")
    if cache.get("name") == "none":
        parts.append("no cache")
    if config.get("block_length") is not None:
        parts.append(f"blocks of {config['block_length']}")
    if config.get("temperature"):
        parts.append(f"temperature {config['temperature']:g} · seed {config['seed']}")
    return " · ".join(parts)


def model_line(trace: DecodeTrace) -> str:
    """Who answered, and how its passes ran where there was a choice.

    The header of a run that has just begun has no passes yet.
    """
    model = trace.model
    ways = [f"{counted(count, 'pass')} {route}" for route, count in trace.routes.items()]
    parts = (model.name, model.impl, model.device, model.dtype, "; ".join(ways))
    return " · ".join(part for part in parts if part)

"""Presets and traces → the values of the page's controls, side by side without nesting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flash_dllm.trace import DecodeTrace


def flat(preset: Mapping[str, Any]) -> dict[str, Any]:
    """A model's preset as control values; nested strategy, cache and config are laid flat."""
    values: dict[str, Any] = {}
    for key, value in preset.items():
        if isinstance(value, Mapping):
            values |= {name: v for name, v in value.items() if name != "name"}
            if "name" in value:
                values[key] = value["name"]
        else:
            values[key] = value
    return values


def values_of(trace: DecodeTrace) -> dict[str, Any]:
    """The control values that a trace was made with."""
    return flat({"strategy": trace.strategy, "cache": trace.cache, "config": trace.config})

"""Settings for measuring: nothing is recorded that only the explorer shows."""

from __future__ import annotations

from typing import Any

from flash_dllm.settings import Settings, from_preset


def lean_settings(preset: dict[str, Any], given: dict[str, Any]) -> Settings:
    """`from_preset` without runner-up tokens, unless the strategy itself compares them.

    Errors as `from_preset`.
    """
    try:
        return from_preset(preset, {"alternatives": 0, **given})
    except ValueError:
        # whatever else is wrong is wrong again
        return from_preset(preset, given)

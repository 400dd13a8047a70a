"""Settings for measuring: nothing is recorded that only the explorer shows."""

from __future__ import annotations

from typing import Any

from flash_dllm.peers import PEERS
from flash_dllm.settings import Settings, from_preset


def lean_settings(preset: dict[str, Any], given: dict[str, Any]) -> Settings:
    """`from_preset` without runner-up tokens, unless the strategy itself compares them.

    given  may also hold "preset", the name of a peer, whose settings then take the preset's place
    Errors as `from_preset`.
    """
    given = dict(given)
    name = given.pop("preset", None)
    if name is not None:
        if not isinstance(name, str) or name not in PEERS:
            raise ValueError(f"preset must be one of {', '.join(PEERS)}, got {name!r}")
        preset = PEERS[name].settings
    try:
        return from_preset(preset, {"alternatives": 0, **given})
    except ValueError:
        # whatever else is wrong is wrong again
        return from_preset(preset, given)

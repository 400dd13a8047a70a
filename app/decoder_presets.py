"""Settings to start from: a model's own, the published ones of its family, and the peers.

All are read from the registries (`flash_dllm/models/presets.py`, `flash_dllm/peers.py`), and their
knobs from the dataclass fields: a new peer or knob needs no line here.
"""

from __future__ import annotations

from typing import Any

from app.control_values import flat
from app.controls import MAX_GEN_LENGTH, controls
from app.models import OWN, Models
from app.presets import TOY, TOY_SETTINGS
from app.said import said
from app.store import RunError
from flash_dllm.peers import PEERS
from flash_dllm.settings import from_preset

# what a visitor's run keeps when another decoder is chosen
KEPT = ("seed", "alternatives")


def choices(models: Models, model: str) -> list[tuple[str, str]]:
    """(label, key), the model's own settings first, the peers last."""
    found = [("The model's own settings", OWN)]
    for key, preset in models.presets(model).items() if model != TOY else ():
        if key in PEERS and preset.settings == PEERS[key].settings:
            found.append((f"{PEERS[key].title} ({PEERS[key].year})", key))
        else:
            found.append((f"{key.replace('_', ' ')}: {preset.source.partition(':')[0]}", key))
    return found


def values(models: Models, model: str, key: str, defaults: dict[str, Any]) -> dict[str, Any]:
    """The control values of a preset; `defaults` are the model's own. Raises RunError.

    Answers on this page are bounded: longer published lengths are cut, which `about` says.
    """
    if model == TOY:
        return {**defaults, **TOY_SETTINGS}
    if key == OWN:
        chosen = dict(defaults)
    else:
        settings = _settings(models, model, key)
        knobs = flat(from_preset(settings, {}).described())
        known = {"strategy", "cache", *controls()}
        chosen = {name: value for name, value in knobs.items() if name in known}
    for name in KEPT:
        chosen.pop(name, None)
    if (chosen.get("gen_length") or 0) > MAX_GEN_LENGTH:
        chosen["gen_length"] = MAX_GEN_LENGTH
        for name in ("window_size", "block_length"):
            if chosen.get(name) is not None:
                chosen[name] = min(chosen[name], MAX_GEN_LENGTH)
    if "window_size" in chosen and "gen_length" in chosen:
        chosen["window_size"] = min(chosen["window_size"], chosen["gen_length"])
    return chosen


def about(models: Models, model: str, key: str) -> str:
    """What a preset is, in sentences."""
    if key == OWN or model == TOY:
        return ""
    settings = _settings(models, model, key)
    if key in PEERS and PEERS[key].settings == settings:
        peer = PEERS[key]
        words = f"{peer.idea} Exact: {peer.exact}. Approximate: {peer.approximate}."
    else:
        preset = models.presets(model)[key]
        words = f"{preset.source}." + (f" Differs: {preset.differs}." if preset.differs else "")
    length = settings.get("config", {}).get("gen_length", 0)
    if length > MAX_GEN_LENGTH:
        words += f" Answers on this page end at {MAX_GEN_LENGTH} tokens, not {length}."
    return words


def _settings(models: Models, model: str, key: str) -> dict[str, Any]:
    found = models.presets(model)
    if key not in found:
        raise RunError(said("no_settings", key=repr(key)))
    return found[key].settings

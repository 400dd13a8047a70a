"""Dataclass fields → descriptions of controls, and the values of controls → settings objects.

Plain data: the knobs of strategies, cache policies and DecodeConfig describe themselves in their
field metadata, so a new knob appears on the page without a line here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any

from flash_dllm.caches import CACHES
from flash_dllm.caches.base import CachePolicy
from flash_dllm.config import DecodeConfig
from flash_dllm.settings import kind_of
from flash_dllm.strategies import STRATEGIES
from flash_dllm.strategies.base import DecodingStrategy

MAIN = ("epsilon", "gamma", "window_size", "track_size", "gen_length", "seed")
MAX_GEN_LENGTH = 512
MAX_PROMPT_CHARACTERS = 4000


@dataclass(frozen=True)
class Control:
    """One knob.

    kind      "slider" (a share), "number", "choice", "check" or "text"
    is_whole  whether a number has no fraction
    optional  a blank value means None
    owners    names of the strategies or caches that have it; ("config",) for DecodeConfig
    """

    name: str
    kind: str
    label: str
    help: str
    default: Any
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    optional: bool = False
    is_whole: bool = False
    owners: tuple[str, ...] = ()


def controls() -> dict[str, Control]:
    """All knobs by name; a knob that several strategies share appears once."""
    found: dict[str, Control] = {}
    kinds: list[tuple[str, type]] = [*STRATEGIES.items(), *CACHES.items(), ("config", DecodeConfig)]
    for owner, kind in kinds:
        for item in fields(kind):  # type: ignore[arg-type]
            control = _control(item, owner)
            if item.name in found:
                owners = (*found[item.name].owners, owner)
                control = Control(**{**vars(found[item.name]), "owners": owners})
            found[item.name] = control
    return found


def settings(
    strategy: str, cache: str, values: Mapping[str, Any]
) -> tuple[DecodingStrategy, CachePolicy, DecodeConfig]:
    """Settings objects from control values; values of other strategies' knobs are ignored.

    Raises ValueError in one sentence for an unknown name or an impossible value.
    """
    strategy_kind = kind_of(STRATEGIES, "strategy", strategy)
    cache_kind = kind_of(CACHES, "cache", cache)
    length = values.get("gen_length", 1)
    if isinstance(length, (int, float)) and not 1 <= length <= MAX_GEN_LENGTH:
        raise ValueError(
            f"gen_length must lie between 1 and {MAX_GEN_LENGTH} on this page, got {length}"
        )
    config = _build(DecodeConfig, values)
    if config.window_size > config.gen_length:
        raise ValueError(
            f"window_size must not exceed gen_length, got {config.window_size} and "
            f"{config.gen_length}"
        )
    return _build(strategy_kind, values), _build(cache_kind, values), config


def value_of(control: Control, raw: Any) -> Any:
    """What a control's raw value means: blanks are None, lists are written with commas.

    >>> value_of(controls()["search_size"], None) is None
    True
    >>> value_of(controls()["track_layers"], "2, 5"), value_of(controls()["refresh"], "16")
    ((2, 5), 16)
    """
    if raw is None or (isinstance(raw, str) and not raw.strip()):
        if control.optional:
            return None
        raise ValueError(f"{control.name} must not be blank")
    if control.is_whole and isinstance(raw, float) and raw.is_integer():
        return int(raw)
    if control.kind == "text" and isinstance(raw, str):
        parts = [part.strip() for part in raw.split(",")]
        numbers = tuple(int(part) if part.lstrip("-").isdigit() else part for part in parts)
        return numbers[0] if len(numbers) == 1 else numbers
    return raw


def raw_of(control: Control, value: Any) -> Any:
    """The raw value that shows a setting; the reverse of `value_of`."""
    if isinstance(value, (tuple, list)):
        return ", ".join(str(part) for part in value)
    if control.kind == "text":
        return "" if value is None else str(value)
    return value


def _build(kind: type, values: Mapping[str, Any]):
    known = controls()
    chosen = {}
    for item in fields(kind):
        if item.name in values:
            value = value_of(known[item.name], values[item.name])
            if item.name == "track_layers" and value is not None:
                is_pair = isinstance(value, tuple) and len(value) == 2
                if not is_pair or not all(isinstance(part, int) for part in value):
                    raise ValueError(
                        f"track_layers must be two layer numbers like 0, 3, got {value!r}"
                    )
            chosen[item.name] = value
    return kind(**chosen)


def _control(item, owner: str) -> Control:
    types = {part.strip() for part in str(item.type).split("|")}
    metadata = item.metadata
    choices = tuple(metadata.get("choices", ()))
    if types & {"int", "float"} and (choices or "None" in types):
        kind = "text"  # gradio turns a number field that is blank into 0
    elif any("tuple" in name for name in types):
        kind = "text"
    elif choices:
        kind = "choice"
    elif "bool" in types:
        kind = "check"
    else:
        kind = "slider" if "float" in types and metadata.get("high") == 1.0 else "number"
    symbol = metadata.get("symbol", "").replace("_m", "ₘ").replace("_t", "ₜ")
    name = item.name.replace("_", " ")
    return Control(
        name=item.name,
        kind=kind,
        label=f"{symbol} · {name}" if symbol else name,
        help=metadata.get("help", ""),
        default=None if item.default is MISSING else item.default,
        low=metadata.get("low"),
        high=metadata.get("high"),
        choices=choices,
        optional="None" in types,
        is_whole="float" not in types,
        owners=(owner,),
    )

"""What the Sweep tab's fields say → a checked sweep; the reverse for a study that is opened."""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from app.controls import MAX_GEN_LENGTH, MAX_PROMPT_CHARACTERS, controls
from app.said import said
from app.store import RunError
from app.sweep_words import knob_text
from flash_dllm.caches import CACHES
from flash_dllm.evaluation.lean import lean_settings
from flash_dllm.evaluation.sweep_file import SweepFile, checked
from flash_dllm.evaluation.tasks import OWN_TASKS
from flash_dllm.strategies import STRATEGIES

MAX_TRIALS, MAX_ITEMS = 256, 128
MAX_BATCH = 32
SEARCH = "epsilon: 0.8, 0.9, 0.95\ngamma: 0.5, 0.6, 0.7, 0.8"
QUALITIES = ("accuracy", "agreement", "both")


def read_lines(text: str, what: str) -> dict[str, Any]:
    """Lines of `knob: value, value` or `knob: low to high`. Raises RunError.

    >>> read_lines("gamma: 0.5, 0.6\\nseed: 0 to 9\\ncache: none", "search")
    {'gamma': [0.5, 0.6], 'seed': {'low': 0, 'high': 9}, 'cache': ['none']}
    """
    found: dict[str, Any] = {}
    for line in filter(None, (line.strip() for line in text.splitlines())):
        name, colon, values = line.partition(":")
        name = name.strip().replace(" ", "_")
        if not colon or not values.strip():
            raise RunError(said("line_form", line=line, what=what))
        if name in found:
            raise RunError(said("line_twice", name=name, what=what))
        low, is_range, high = values.partition(" to ")
        if is_range:
            found[name] = {"low": _value(low), "high": _value(high)}
            if not all(isinstance(v, (int, float)) for v in found[name].values()):
                raise RunError(said("line_numbers", line=line, what=what))
        else:
            found[name] = [_value(part) for part in values.split(",")]
    return found


def lines_of(knobs: Mapping[str, Any]) -> str:
    """The reverse of `read_lines`."""
    lines = []
    for name, values in knobs.items():
        if isinstance(values, Mapping):
            words = f"{_word(values['low'])} to {_word(values['high'])}"
        else:
            several = values if isinstance(values, (list, tuple)) else [values]
            words = ", ".join(_word(value) for value in several)
        lines.append(f"{name}: {words}")
    return "\n".join(lines)


def suggestion(name: str) -> str:
    """A line for a knob with values to begin with.

    >>> suggestion("gamma"), suggestion("track_size"), suggestion("cache")
    ('gamma: 0.6, 0.7, 0.8', 'track_size: 16, 32, 64', 'cache: flash, none')
    """
    if name == "strategy":
        return f"strategy: {', '.join(list(STRATEGIES)[:3])}"
    if name == "cache":
        return f"cache: {', '.join(list(CACHES)[:2])}"
    control = controls().get(name)
    if control is None:
        return ""
    if control.choices:
        return f"{name}: {', '.join(control.choices)}"
    if control.kind == "check":
        return f"{name}: true, false"
    if name == "seed":
        return "seed: 0, 1, 2"
    usual = control.default if isinstance(control.default, (int, float)) else 16
    is_share = control.high == 1.0 and not control.is_whole
    if is_share and usual >= 0.5:
        return f"{name}: 0.6, 0.7, 0.8"
    values = [usual / 2, usual, usual * 2] if usual else [0, 1, 2]
    if control.is_whole:
        values = list(dict.fromkeys(int(value) for value in values))
    low, high = control.low, control.high
    fitting = [v for v in values if (low is None or v >= low) and (high is None or v <= high)]
    return f"{name}: {', '.join(knob_text(value) for value in fitting)}"


def planned(
    preset: Mapping[str, Any],
    storage: str,
    search: Mapping[str, Any],
    fixed: Mapping[str, Any],
    tasks: Sequence[str] = (),
    prompts: Sequence[str] = (),
    limit: int = 8,
    sampler: str = "grid",
    trials: int | None = None,
    seed: int = 0,
    quality: str = "accuracy",
    objectives: Mapping[str, str] | None = None,
    **model: Any,
) -> SweepFile:
    """A sweep that this page runs; its name follows from its content, so that the same sweep goes
    on where it was left. Raises RunError.

    preset   the model's settings, which `fixed` and `search` override
    quality  a key of QUALITIES
    model    keys of SweepFile: model, dtype, quantize, device, impl
    """
    foreign = set(tasks) - set(OWN_TASKS)
    if foreign:
        known = ", ".join(OWN_TASKS)
        raise RunError(said("tasks_here", known=known, name=repr(foreign.pop())))
    if not tasks and not prompts:
        raise RunError(said("choose_a_task"))
    items = len(tasks) * limit + len(prompts)
    if limit < 1 or items > MAX_ITEMS:
        raise RunError(said(
            "items_bound", most=MAX_ITEMS, items=items, tasks=len(tasks), limit=limit,
            prompts=len(prompts),
        ))  # fmt: skip
    if any(len(prompt) > MAX_PROMPT_CHARACTERS for prompt in prompts):
        raise RunError(said("own_prompt_long", most=MAX_PROMPT_CHARACTERS))
    if quality not in QUALITIES:
        known = ", ".join(QUALITIES)
        raise RunError(said("quality_one_of", known=known, name=repr(quality)))
    wanted = ["accuracy", "agreement"] if quality == "both" else [quality]
    if not tasks and "accuracy" in wanted and objectives is None:
        wanted = ["agreement"]  # prompts of one's own have no answer to be right
    content: dict[str, Any] = {
        "study": "-", "storage": storage, "search": dict(search), "fixed": dict(fixed),
        "tasks": list(tasks), "prompts": list(prompts), "limit": limit, "sampler": sampler,
        "seed": seed, "batch": min(items, MAX_BATCH), **model,
        "objectives": dict(objectives) if objectives is not None
        else dict.fromkeys((*wanted, "tokens_per_pass"), "maximize"),
    }  # fmt: skip
    if sampler != "grid":
        content["trials"] = trials
    try:
        sweep = checked(content)
    except (ValueError, TypeError) as error:
        raise RunError(f"{str(error)[:1].upper()}{str(error)[1:]}.") from error
    _check_points(sweep, preset)
    described = {k: v for k, v in asdict(sweep).items() if k not in ("study", "storage", "trials")}
    number = hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()[:6]
    checked_content = content | {"study": f"{' × '.join(sweep.search)} · {number}"}
    return checked(checked_content)


def _check_points(sweep: SweepFile, preset: Mapping[str, Any]) -> None:
    """Raise RunError if there are too many points, or none of them can be."""
    if sweep.total > MAX_TRIALS:
        raise RunError(said("points_bound", most=MAX_TRIALS, count=sweep.total))
    points = sweep.combinations() if sweep.sampler == "grid" else [_corner(sweep.search)]
    problems = []
    for knobs in points:
        try:
            made = lean_settings(dict(preset), {**sweep.fixed, **knobs})
        except (ValueError, TypeError) as error:
            problems.append(str(error))
            continue
        if made.config.gen_length > MAX_GEN_LENGTH:
            raise RunError(said("length_bound", most=MAX_GEN_LENGTH))
    if len(problems) == len(points):
        raise RunError(said("no_point", problem=problems[0]))


def _corner(search: Mapping[str, Any]) -> dict[str, Any]:
    """One point of a random search."""
    return {n: v["low"] if isinstance(v, Mapping) else v[0] for n, v in search.items()}


def _value(text: str) -> Any:
    """A word of a line: a number, true, false, none or a name."""
    text = text.strip()
    words = {"true": True, "false": False, "none": "none"}
    if text.lower() in words:
        return words[text.lower()]
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
    return value if isinstance(value, (int, float)) else text


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

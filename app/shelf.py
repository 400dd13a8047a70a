"""The runs that a visitor can choose from: recorded ones, and those made or loaded here."""

from __future__ import annotations

from collections.abc import Sequence

from app import presets
from app.opening import recorded
from app.run_lines import settings_line
from app.runs import Runs
from app.said import said, within
from app.store import RunError
from app.token_text import visible
from flash_dllm.trace import DecodeTrace

BUNDLED = "bundled:"
MINE_KEPT = 32


def remembered(mine: Sequence[str], name: str) -> list[str]:
    """A visitor's runs, the newest first, with this one."""
    return [name, *(other for other in mine if other != name)][:MINE_KEPT]


def choices(runs: Runs, mine: Sequence[str], language: str = "") -> list[tuple[str, str]]:
    """(label, value) of a visitor's kept runs and of all recorded ones; "" is English."""
    found = []
    for name in mine:
        if value_of(runs, name) != name:
            continue  # an example's own run stands further down
        try:
            found.append((f"{run_label(runs.store.trace(name))} · {name[:6]}", name))
        except RunError:
            continue  # no longer kept
    return found + [
        (within(preset.label, language or "en"), BUNDLED + preset.key) for preset in bundled()
    ]


def value_of(runs: Runs, name: str) -> str:
    """The choice that stands for a kept run: the example's, if it is a recorded one."""
    path = runs.store.file_behind(name)
    return name if path is None else BUNDLED + path.stem


def bundled() -> list[presets.Preset]:
    """Examples and their variants that have a recorded run."""
    every = (*presets.presets(), *presets.variants())
    return [preset for preset in every if preset.trace_path is not None]


def resolve(runs: Runs, value: str) -> str:
    """The kept run that a choice stands for. Raises RunError."""
    if not value.startswith(BUNDLED):
        runs.store.trace(value)
        return value
    key = value.removeprefix(BUNDLED)
    for preset in bundled():
        if preset.key == key and (name := recorded(runs, preset)):
            return name
    raise RunError(said("no_recorded_name"))


def run_label(trace: DecodeTrace) -> str:
    """A run in a line: its prompt's beginning and its settings."""
    prompt = " ".join(visible(trace.prompt).replace("⏎", " ").split())
    head = prompt if len(prompt) <= 28 else prompt[:27] + "…"
    return f"{head} · {settings_line(trace)}"

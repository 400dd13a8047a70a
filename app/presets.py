"""Example prompts, the recorded runs that go with them, and the toy example's model."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from app.said import said, within
from flash_dllm.scripted import Script, ScriptedEngine, toy_engine

ASSETS = Path(__file__).resolve().parents[1] / "assets"
TRACES = ASSETS / "traces"
TASKS = ASSETS / "tasks"
EMBEDDED, TOY = "language model", "toy example"

# which lines of assets/tasks/<kind>.jsonl are offered
ITEMS = {"word": (2, 0), "algebra": (4, 0), "code": (3, 0), "story": (1, 0)}
FALLBACK = {
    "word": (
        "Anna has 12 apples. She gives 5 to Ben and buys 8 more. How many apples does she have?",
        "A box holds 6 eggs. How many eggs are in 4 boxes?",
    ),
    "algebra": ("Solve for $x$: $3x + 5 = 20$.", "Compute $7^2 - 4 \\cdot 5$."),
    "code": (
        "Write a function `largest` that returns the largest number of a list.",
        "Write a function `count_vowels` that counts the vowels of a string.",
    ),
    "story": (
        "Tell a short story about a fox that finds a red kite.",
        "Tell a short story about a lost key.",
    ),
}
TOY_NOTE = said("toy_note")
TOY_SETTINGS = {
    "strategy": "flash_verify",
    "cache": "flash",
    "epsilon": 0.9,
    "gamma": 0.8,
    "gen_length": 4,
    "window_size": 2,
    "track_size": 1,
    "search_size": None,
    "decide_size": None,
    "block_length": None,
}


VARIANTS: dict[str, dict[str, Any]] = {
    "confidence": {"strategy": "confidence"},
    "careless": {"strategy": "confidence", "epsilon": 0.6},
    "no-cache": {"cache": "none"},
    "greedy": {"strategy": "greedy", "alternatives": 1},
    "paper": {"epsilon": 0.9, "gamma": 0.8, "order": "confidence", "correct": False},
}


@dataclass(frozen=True)
class Preset:
    """key names the recorded run assets/traces/<key>.json; settings only where they matter.

    note  what the example is, where its prompt doesn't say it
    """

    key: str
    label: str
    prompt: str
    model: str = EMBEDDED
    settings: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""

    @property
    def trace_path(self) -> Path | None:
        """The recorded run, if there is one."""
        path = TRACES / f"{self.key}.json"
        return path if path.is_file() else None


@lru_cache(maxsize=1)
def presets() -> tuple[Preset, ...]:
    """Two of each kind, then the toy example; the first one opens the page."""
    found = []
    for kind in ITEMS:
        for number, prompt in enumerate(_prompts(kind), 1):
            label = said(f"example_{kind}", number=number)
            found.append(Preset(f"{kind}-{number}", label, prompt))
    toy = Preset("toy", said("example_toy"), "^", TOY, TOY_SETTINGS, TOY_NOTE)
    return (*found, toy)


@lru_cache(maxsize=1)
def variants() -> tuple[Preset, ...]:
    """The first example at other settings: what there is to compare before any model is loaded."""
    first = presets()[0]
    return tuple(
        replace(
            first, key=f"{first.key}-{key}", settings=settings,
            label=said("variant", label=first.label, words=said(f"variant_{key}")),
        )
        for key, settings in VARIANTS.items()
    )  # fmt: skip


def offered(language: str = "en") -> list[tuple[str, str]]:
    """(label in a language, label that `preset` knows) of the examples."""
    return [(within(found.label, language), str(found.label)) for found in presets()]


def preset(label: str) -> Preset:
    """A preset by the label that the page shows. Raises ValueError."""
    for candidate in presets():
        if candidate.label == label:
            return candidate
    raise ValueError(f"there is no example named {label!r}")


def _prompts(kind: str) -> tuple[str, ...]:
    path = TASKS / f"{kind}.jsonl"
    if not path.is_file():
        return FALLBACK[kind]
    lines = path.read_text(encoding="utf-8").splitlines()
    return tuple(json.loads(lines[n])["prompt"] for n in ITEMS[kind] if n < len(lines))


def complete_toy() -> ScriptedEngine:
    """The toy example with an answer for every text, so that every threshold can be tried.

    The states of the worked example keep its numbers; elsewhere the model would write A A B B,
    surer the more of the text is there.
    """
    toy = toy_engine()
    answers: dict[tuple[str, int], tuple[str, float]] = {}
    mass: dict[str, dict[int, float]] = {}
    for words in itertools.product("_AB", repeat=4):
        state = " ".join(("^", *words))
        decided = [0, *(p for p, word in enumerate(words, 1) if word != "_")]
        shares = [len(decided) - n for n in range(len(decided))]
        mass[state] = {p: round(s / sum(shares), 3) for p, s in zip(decided, shares, strict=True)}
        for position in range(1, 5):
            confidence = 0.5 + 0.1 * (len(decided) - 1) + (0.12 if position - 1 in decided else 0)
            answers[state, position] = ("AABB"[position - 1], round(confidence, 2))
    script = toy.script
    return ScriptedEngine(
        Script(
            script.vocabulary,
            {**answers, **script.answers},
            {**mass, **script.mass},
            script.views,
        ),
        name=toy.name,
    )

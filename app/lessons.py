"""The lessons: which run and step each one shows, and how its challenge is checked from the trace.

The words stand in assets/lessons/<language>.json, one file per language, all complete.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from app.words import LANGUAGES, check
from flash_dllm.rejudge import rejudge
from flash_dllm.trace import DecodeTrace, Verdict

FOLDER = Path(__file__).resolve().parents[1] / "assets" / "lessons"
Check = Callable[[DecodeTrace, int, float | None], bool]


@dataclass(frozen=True)
class Lesson:
    """One lesson.

    example  key of the example whose recorded run is shown
    before   the step (counted from 1) that is shown with the question
    after    the step that is shown with the answer; -1 for the last one
    focus    the part of the player that the lesson is about
    right    index of the right option
    check    (trace, step, γ that was dragged to, or None) → whether the challenge is met
    """

    key: str
    example: str
    before: int
    after: int
    focus: str
    right: int
    check: Check


def _writes_past_a_blank(trace: DecodeTrace, step: int, gamma: float | None) -> bool:
    canvas = trace.canvas_at(step)
    blanks = [offset for offset, token in enumerate(canvas) if token is None]
    furthest = max(p for p, _ in trace.steps[step - 1].accepted) - trace.prompt_length
    return bool(blanks) and blanks[0] < furthest


def _draft_changed(trace: DecodeTrace, step: int, gamma: float | None) -> bool:
    if step < 2:
        return False
    before = {p.position: p.draft_token for p in trace.steps[step - 2].proposals}
    now = trace.steps[step - 1].proposals
    return any(before.get(p.position, p.draft_token) != p.draft_token for p in now)


def _is_forced(trace: DecodeTrace, step: int, gamma: float | None) -> bool:
    return any(p.verdict is Verdict.FORCED for p in trace.steps[step - 1].proposals)


def _views_differ(trace: DecodeTrace, step: int, gamma: float | None) -> bool:
    return any(p.verdict is Verdict.MISMATCH for p in trace.steps[step - 1].proposals)


def _lost_behind_the_stop(trace: DecodeTrace, step: int, gamma: float | None) -> bool:
    least = trace.strategy["gamma"]
    return any(
        p.verdict is Verdict.AFTER_STOP
        and p.verify_token == p.draft_token
        and (p.verify_confidence or 0) >= least
        for p in trace.steps[step - 1].proposals
    )


def _tracked_hold_much(trace: DecodeTrace, step: int, gamma: float | None) -> bool:
    record = trace.steps[step - 1]
    return sum(mass for position, mass in record.attention if position in record.tracked) > 0.4


def _gamma_refuses(trace: DecodeTrace, step: int, gamma: float | None) -> bool:
    if gamma is None:
        return False
    return len(rejudge(trace, gamma=gamma).steps[0].accepted) < len(trace.steps[0].accepted)


def _three_a_pass(trace: DecodeTrace, step: int, gamma: float | None) -> bool:
    record = trace.steps[step - 1]
    return len(record.accepted) >= 3 * len(record.counted)


def _two_passes_for_one(trace: DecodeTrace, step: int, gamma: float | None) -> bool:
    record = trace.steps[step - 1]
    return len(record.accepted) == 1 and len(record.counted) == 2


def _half_is_written(trace: DecodeTrace, step: int, gamma: float | None) -> bool:
    counts = [len(record.accepted) for record in trace.steps]
    return 2 * sum(counts[: step - 1]) < sum(counts) <= 2 * sum(counts[:step])


LESSONS = (
    Lesson("mask", "word-1-paper", 1, -1, "text", 2, _writes_past_a_blank),
    Lesson("clash", "word-2", 1, 1, "ladder", 2, _draft_changed),
    Lesson("epsilon", "word-1-paper", 1, 2, "ladder", 0, _is_forced),
    Lesson("views", "toy", 1, 1, "ladder", 2, _views_differ),
    Lesson("stop", "word-1", 1, 1, "ladder", 1, _lost_behind_the_stop),
    Lesson("tracked", "word-1-paper", 2, 2, "attention", 2, _tracked_hold_much),
    Lesson("gamma", "toy", 1, 1, "ladder", 2, _gamma_refuses),
    Lesson("cost", "code-1", 2, 2, "progress", 2, _three_a_pass),
    Lesson("limits", "story-1", 1, 2, "map", 1, _two_passes_for_one),
    Lesson("tables", "word-1-paper", -1, -1, "progress", 2, _half_is_written),
)


def lesson(key: str) -> Lesson:
    """A lesson by its key. Raises ValueError."""
    for candidate in LESSONS:
        if candidate.key == key:
            return candidate
    raise ValueError(f"there is no lesson named {key!r}")


def at_step(trace: DecodeTrace, step: int) -> int:
    """A lesson's step in a trace: -1 is the last one."""
    return len(trace.steps) if step < 0 else min(step, len(trace.steps))


@lru_cache(maxsize=len(LANGUAGES))
def words(language: str) -> dict[str, Any]:
    """All texts of a language: name, ui, lessons by key, glossary. Raises ValueError."""
    check(language)
    return json.loads((FOLDER / f"{language}.json").read_text(encoding="utf-8"))


def preferred(accepted: str) -> str:
    """The first language of an Accept-Language header that there are lessons in.

    >>> preferred("fr-FR,zh-CN;q=0.8,en;q=0.5"), preferred("")
    ('zh', 'en')
    """
    for part in accepted.split(","):
        language = part.split(";")[0].strip().lower().split("-")[0]
        if language in LANGUAGES:
            return language
    return "en"

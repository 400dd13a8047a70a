"""Metrics, knobs and points of a study in words and numbers."""

from __future__ import annotations

from typing import Any

from app.said import counted, said
from app.words import Says
from flash_dllm.evaluation.study_table import Row, StudyTable
from flash_dllm.trace import DecodeTrace

# metric → (digits behind the point, whether less is better)
METRICS: dict[str, tuple[int, bool]] = {
    "accuracy": (3, False),
    "agreement": (3, False),
    "tokens_per_pass": (2, False),
    "tokens_per_step": (2, False),
    "rows_per_token": (1, True),
    "tokens_per_second": (1, False),
    "seconds": (1, True),
}
ENGLISH = Says("sweep", "en")
QUALITY = ("accuracy", "agreement")
SYMBOLS = {"epsilon": "ε", "gamma": "γ", "window_size": "βₘ", "track_size": "βₜ"}


def words_of(metric: str, say: Says = ENGLISH) -> str:
    """A metric's name as the page writes it; one of another program's stays as it is."""
    return say.raw("metrics").get(metric, metric.replace("_", " "))


def axis_words(metric: str, say: Says = ENGLISH) -> str:
    return say("agreement") if metric == "agreement" else words_of(metric, say)


def number_of(count: int, noun: str, say: Says) -> str:
    """A number with its noun."""
    return counted(count, noun).within(say.language)


def is_low(metric: str) -> bool:
    """Whether less of it is better."""
    return metric in METRICS and METRICS[metric][1]


def shown_value(row: Row, metric: str) -> str:
    """A measured number as text, or a dash.

    >>> shown_value(Row(0, "COMPLETE", {}, {"tokens_per_pass": 2.3456}), "tokens_per_pass")
    '2.35'
    """
    value = row.measured.get(metric)
    if not isinstance(value, (int, float)):
        return "–"
    return number_text(value, metric)


def number_text(value: float, metric: str) -> str:
    """A number with the digits that its metric has."""
    return f"{value:.{METRICS[metric][0]}f}" if metric in METRICS else f"{value:.4g}"


def symbol(knob: str) -> str:
    """A knob's symbol, or its name as words."""
    return SYMBOLS.get(knob, knob.replace("_", " "))


def knob_line(row: Row, table: StudyTable) -> str:
    """The knobs of a point that differ within the study.

    >>> row = Row(0, "COMPLETE", {"epsilon": 0.9, "seed": 1})
    >>> knob_line(row, StudyTable("s", (row,), {}))
    'ε 0.9, seed 1'
    """
    values = table.knob_values()
    names = [name for name in row.knobs if len(values.get(name, ())) > 1] or list(row.knobs)
    return ", ".join(f"{symbol(name)} {knob_text(row.knobs[name])}" for name in names)


def knob_text(value: Any) -> str:
    """A knob's value as text."""
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)


def compared(trace: DecodeTrace, row: Row, item: int) -> str:
    """Whether a run is what the sweep measured, in words."""
    if row.measured.get("model") not in (None, trace.model.fingerprint):
        return said("other_weights")
    found = trace.tokens, trace.passes
    kept = [row.measured.get(key) for key in ("tokens_by_item", "passes_by_item")]
    if not all(isinstance(values, (list, tuple)) and item < len(values) for values in kept):
        return ""
    before = tuple(values[item] for values in kept if values is not None)
    if found == before:
        return said("as_measured", tokens=found[0], passes=found[1])
    return said(
        "not_as_measured", tokens=found[0], passes=found[1], tokens_before=before[0],
        passes_before=before[1],
    )  # fmt: skip

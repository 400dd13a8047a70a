"""Metrics, knobs and points of a study in words and numbers."""

from __future__ import annotations

from typing import Any

from flash_dllm.evaluation.study_table import Row, StudyTable
from flash_dllm.trace import DecodeTrace

# metric → (words, digits behind the point, whether less is better)
METRICS: dict[str, tuple[str, int, bool]] = {
    "accuracy": ("accuracy", 3, False),
    "agreement": ("agreement with one token a step", 3, False),
    "tokens_per_pass": ("tokens per pass", 2, False),
    "tokens_per_step": ("tokens per step", 2, False),
    "rows_per_token": ("rows per token", 1, True),
    "tokens_per_second": ("tokens per second", 1, False),
    "seconds": ("seconds", 1, True),
}
QUALITY = ("accuracy", "agreement")
SYMBOLS = {"epsilon": "ε", "gamma": "γ", "window_size": "βₘ", "track_size": "βₜ"}


def words_of(metric: str) -> str:
    """A metric's name as the page writes it."""
    return METRICS[metric][0] if metric in METRICS else metric.replace("_", " ")


def axis_words(metric: str) -> str:
    return "agreement" if metric == "agreement" else words_of(metric)


def is_low(metric: str) -> bool:
    """Whether less of it is better."""
    return metric in METRICS and METRICS[metric][2]


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
    return f"{value:.{METRICS[metric][1]}f}" if metric in METRICS else f"{value:.4g}"


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
        return "Its model has other weights than the one that was measured."
    found = trace.tokens, trace.passes
    kept = [row.measured.get(key) for key in ("tokens_by_item", "passes_by_item")]
    if not all(isinstance(values, (list, tuple)) and item < len(values) for values in kept):
        return ""
    before = tuple(values[item] for values in kept if values is not None)
    if found == before:
        return f"{found[0]} tokens in {found[1]} passes, as measured."
    return (
        f"{found[0]} tokens in {found[1]} passes; the sweep measured {before[0]} in {before[1]} "
        "(another machine, or a batch whose sums round otherwise)."
    )

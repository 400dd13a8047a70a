"""A study in tables: its points, and the items of one point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app import board
from app.board import Block
from app.sweep_choice import View, costs, qualities
from app.sweep_words import (
    ENGLISH,
    axis_words,
    is_low,
    knob_line,
    knob_text,
    shown_value,
    symbol,
)
from app.words import Says
from flash_dllm.evaluation.study_table import Row, StudyTable, front

PROMPT_CHARACTERS = 90
BY_ITEM = ("agreement_by_item", "tokens_by_item", "passes_by_item")


def point_block(
    table: StudyTable, view: View, prompts: Sequence[str], say: Says
) -> list[Block]:
    """The items of the chosen point."""
    row = next((row for row in table.rows if row.number == view.trial), None)
    if row is None or not row.is_complete:
        return [
            board.text("point", say("point"), say("point_hint"), tag="h3", tone="quiet")
        ]
    measured = row.measured
    title = say("point_named", number=row.number, knobs=knob_line(row, table))
    columns, cells, picks = item_table(measured, prompts, say)
    if not cells:
        return [board.text("point", title, say("point_empty"), tag="h3", tone="quiet")]
    return [
        board.table(
            "point", columns, cells, title=title, note=say("point_note"), words=(1, 2),
            event="item", picks=picks, pick_help=say("point_help"),
        )
    ]  # fmt: skip


def item_table(
    measured: Mapping[str, Any], prompts: Sequence[str], say: Says = ENGLISH
) -> tuple[list[str], list[list[str]], list[int]]:
    """(columns, rows of texts, what a click on a row sends) of a point's items."""
    correct = str(measured.get("correct", ""))
    item, prompt_word, answer, *numbers = say.raw("item_columns")
    kept = [
        (words, key, measured[key])
        for words, key in zip(numbers, BY_ITEM, strict=True)
        if isinstance(measured.get(key), (list, tuple))
    ]
    has_verdicts = "0" in correct or "1" in correct
    columns = [item, prompt_word, *([answer] if has_verdicts else []), *(name for name, *_ in kept)]
    rows = []
    for n, prompt in enumerate(prompts):
        words = " ".join(prompt.split())
        head = words if len(words) <= PROMPT_CHARACTERS else words[: PROMPT_CHARACTERS - 1] + "…"
        cells = [str(n + 1), head]
        if has_verdicts:
            verdict = correct[n : n + 1]
            cells.append({"1": say("right"), "0": say("wrong")}.get(verdict, "–"))
        for _, key, values in kept:
            value = values[n] if n < len(values) else None
            cells.append("–" if value is None else f"{value:.0%}" if key == BY_ITEM[0]
                         else str(value))  # fmt: skip
        rows.append(cells)
    return columns, rows, list(range(len(rows)))


def points_block(table: StudyTable, view: View, say: Says) -> list[Block]:
    knobs = list(table.knob_values())
    metrics = [*qualities(table), *costs(table)]
    metrics = metrics or table.metrics()
    best = {r.number for r in front(table.complete, view.cost, view.quality, is_low(view.cost))}
    is_odd = any(row.state in ("PRUNED", "FAIL") and row.measured.get("reason")
                 for row in table.rows)  # fmt: skip
    rows, picks = [], []
    for row in sorted(table.rows, key=lambda r: _by_quality(r, view)):
        if row.state == "WAITING" or (row.state == "FAIL" and not row.measured.get("reason")):
            continue  # not begun, or given back to be measured later
        cells = [str(row.number), *(knob_text(row.knobs.get(k, "–")) for k in knobs)]
        cells += [shown_value(row, m) for m in metrics]
        cells.append("◆" if row.number in best else "")
        if is_odd:
            cells.append("" if row.is_complete else str(row.measured.get("reason", row.state)))
        rows.append(cells)
        picks.append(row.number if row.is_complete else None)
    number, on_front, why_not = say.raw("points_columns")
    names = [*(symbol(k) for k in knobs), *(axis_words(m, say) for m in metrics)]
    columns = [number, *names, on_front, *([why_not] if is_odd else [])]
    return [
        board.table(
            "points", columns, rows, title=say("points"), note=say("points_note"),
            words=(len(columns) - 1,) if is_odd else (), empty=say("points_empty"),
            event="trial", picks=picks, pick_help=say("points_help"),
        )
    ]  # fmt: skip


def _by_quality(row: Row, view: View) -> tuple:
    if not row.is_complete:
        return 1, 0.0, 0.0, row.number
    cost = row.measured.get(view.cost, 0.0)
    sign = 1 if is_low(view.cost) else -1
    return 0, -row.measured.get(view.quality, 0.0), sign * cost, row.number

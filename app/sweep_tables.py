"""A study in tables: its points, and the items of one point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app import board
from app.board import Block
from app.sweep_choice import View, costs, qualities
from app.sweep_words import axis_words, is_low, knob_line, knob_text, shown_value, symbol
from flash_dllm.evaluation.study_table import Row, StudyTable, front

PROMPT_CHARACTERS = 90


def point_block(table: StudyTable, view: View, prompts: Sequence[str]) -> list[Block]:
    """The items of the chosen point."""
    row = next((row for row in table.rows if row.number == view.trial), None)
    if row is None or not row.is_complete:
        return [
            board.text(
                "point", "One point",
                "Click a point in a picture, or its number in the table: its items are listed "
                "here, and each opens as a run in Watch.", tag="h3", tone="quiet",
            )
        ]  # fmt: skip
    measured = row.measured
    title = f"Point {row.number}: {knob_line(row, table)}"
    columns, cells, picks = item_table(measured, prompts)
    if not cells:
        return [board.text("point", title, "This study kept no items.", tag="h3", tone="quiet")]
    return [
        board.table(
            "point", columns, cells, title=title,
            note="A click on an item decodes it with this point's settings and opens the run in "
            "Watch.",
            words=(1, 2), event="item", picks=picks, pick_help="open this run in Watch",
        )
    ]  # fmt: skip


def item_table(
    measured: Mapping[str, Any], prompts: Sequence[str]
) -> tuple[list[str], list[list[str]], list[int]]:
    """(columns, rows of texts, what a click on a row sends) of a point's items."""
    correct = str(measured.get("correct", ""))
    columns = ["item", "prompt"]
    by_item = {
        words: measured[key]
        for key, words in (("agreement_by_item", "agreement"), ("tokens_by_item", "tokens"),
                           ("passes_by_item", "passes"))
        if isinstance(measured.get(key), (list, tuple))
    }  # fmt: skip
    has_verdicts = "0" in correct or "1" in correct
    columns += (["answer"] if has_verdicts else []) + list(by_item)
    rows = []
    for n, prompt in enumerate(prompts):
        words = " ".join(prompt.split())
        head = words if len(words) <= PROMPT_CHARACTERS else words[: PROMPT_CHARACTERS - 1] + "…"
        cells = [str(n + 1), head]
        if has_verdicts:
            verdict = correct[n : n + 1]
            cells.append({"1": "✓ right", "0": "✗ wrong"}.get(verdict, "–"))
        for name, values in by_item.items():
            value = values[n] if n < len(values) else None
            cells.append("–" if value is None else f"{value:.0%}" if name == "agreement"
                         else str(value))  # fmt: skip
        rows.append(cells)
    return columns, rows, list(range(len(rows)))


def points_block(table: StudyTable, view: View) -> list[Block]:
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
    columns = ["point", *(symbol(k) for k in knobs), *(axis_words(m) for m in metrics), "front"]
    columns += ["why not"] if is_odd else []
    return [
        board.table(
            "points", columns, rows, title="Points",
            note="The best first. Seconds are those of the machine that measured.",
            words=(len(columns) - 1,) if is_odd else (), empty="No point is measured yet.",
            event="trial", picks=picks, pick_help="show this point's items",
        )
    ]  # fmt: skip


def _by_quality(row: Row, view: View) -> tuple:
    if not row.is_complete:
        return 1, 0.0, 0.0, row.number
    cost = row.measured.get(view.cost, 0.0)
    sign = 1 if is_low(view.cost) else -1
    return 0, -row.measured.get(view.quality, 0.0), sign * cost, row.number

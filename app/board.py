"""Blocks of a board as plain data: what the lab, the comparison and the lessons are made of.

A board is one JSON string (`board`) that `assets/board.js` draws. Texts are plain texts; only
labels inside a chart go through `theme.escape`, because plotly reads markup. Colours are names
of the palette with an @ in front ("@gamma"), so that light and dark need no second message.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.view_tables import dump

Block = dict[str, Any]


def board(key: str, blocks: Sequence[Block]) -> str:
    """The value of a board; `key` names what it shows."""
    names = [block["id"] for block in blocks]
    assert len(set(names)) == len(names), "blocks need names of their own"
    return dump({"key": key, "blocks": list(blocks)})


def text(name: str, *lines: str, tag: str = "", tone: str = "", span: int = 12) -> Block:
    """Paragraphs; `tag` is the first one's element (h2, h3), `tone` lead, note or quiet."""
    return {"id": name, "kind": "text", "text": lines, "tag": tag, "tone": tone, "span": span}


def code(name: str, title: str, lines: str, note: str = "", span: int = 12) -> Block:
    """Something to copy."""
    return {
        "id": name, "kind": "code", "title": title, "note": note, "code": lines, "span": span
    }  # fmt: skip


def badge(name: str, words: str, explain: str, span: int = 12) -> Block:
    """How much is known, and why."""
    return {"id": name, "kind": "badge", "badge": words, "explain": explain, "span": span}


def stats(name: str, items: Sequence[tuple[str, str, str]], title: str = "", span: int = 12):
    """A few numbers: (label, value, note)."""
    return {"id": name, "kind": "stats", "items": items, "title": title, "span": span}


def bars(
    name: str, title: str, note: str, items: Sequence[Block], beyond: str, span: int = 12
) -> Block:
    """Shares on a common scale from 0 to 1; items have label, value, shown, colour, note.

    beyond  what stands in a bar whose value is larger than 1
    """
    return {
        "id": name, "kind": "bars", "title": title, "note": note, "bars": items,
        "beyond": beyond, "span": span,
    }  # fmt: skip


def choices(
    name: str,
    event: str,
    options: Sequence[Block],
    current: str | None = None,
    title: str = "",
    is_stacked: bool = False,
    is_locked: bool = False,
    span: int = 12,
) -> Block:
    """Buttons; a click sends the event with the option's value."""
    return {
        "id": name, "kind": "choices", "name": event, "options": options, "current": current,
        "title": title, "stacked": is_stacked, "locked": is_locked, "span": span,
    }  # fmt: skip


def table(
    name: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    title: str = "",
    note: str = "",
    words: Sequence[int] = (0,),
    empty: str = "",
    event: str = "",
    picks: Sequence[Any] | None = None,
    pick_help: str = "",
    span: int = 12,
) -> Block:
    """Rows of texts. words: columns that hold words; picks: what a click on row k sends."""
    return {
        "id": name, "kind": "table", "columns": columns, "rows": rows, "title": title,
        "note": note, "words": words, "empty": empty, "name": event, "picks": picks,
        "pickHelp": pick_help, "span": span,
    }  # fmt: skip


def chart(
    name: str,
    title: str,
    note: str,
    marks: Sequence[Block],
    layout: Block,
    lines: Sequence[Block] = (),
    height: int = 300,
    event: str = "",
    spoken: str = "",
    span: int = 12,
) -> Block:
    """Plotly marks; `lines` are thresholds above them: axis, value, name, colour, drag."""
    return {
        "id": name, "kind": "chart", "title": title, "note": note, "marks": marks,
        "layout": layout, "lines": lines, "height": height, "name": event, "spoken": spoken,
        "span": span,
    }  # fmt: skip


def threshold(axis: str, value: float | None, which: str) -> list[Block]:
    """A line for ε or γ that can be dragged; none where the run has no such threshold."""
    if value is None:
        return []
    symbol = {"epsilon": "ε", "gamma": "γ"}[which]
    return [{"axis": axis, "value": value, "name": symbol, "colour": which, "drag": which}]

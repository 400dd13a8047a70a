"""A study as a board: what came of it in a sentence, its pictures and tables. From a
`StudyTable` alone."""

from __future__ import annotations

from collections.abc import Sequence

from app import board
from app.board import Block
from app.sentences import counted
from app.sweep_choice import View, costs, qualities
from app.sweep_pictures import front_chart, heatmap, parallel
from app.sweep_tables import point_block, points_block
from app.sweep_words import is_low, knob_line, shown_value, symbol, words_of
from flash_dllm.evaluation.study_table import Row, StudyTable, front


def sweep_board(table: StudyTable, view: View, prompts: Sequence[str] = ()) -> str:
    """The board of a study. `prompts` are those of its items, for the list of one point."""
    view = view.within(table)
    if not table.complete:
        head = board.text("say", table.name, lead(table, view), tag="h2")
        empty = board.text("empty", "Points appear here as they are measured.", tone="quiet")
        return board.board(f"{table.name}/empty", [head, empty, *points_block(table, view)])
    blocks = [
        board.text("say", table.name, lead(table, view), tag="h2"),
        *_choices(table, view),
        *heatmap(table, view),
        front_chart(table, view),
        *point_block(table, view, prompts),
        parallel(table, view),
        *points_block(table, view),
    ]
    return board.board(f"{table.name}/{view}", blocks)


def lead(table: StudyTable, view: View) -> str:
    """What was measured and what came of it, in sentences."""
    done, sweep = len(table.complete), table.sweep
    parts = []
    if sweep is None:
        parts.append(f"{counted(done, 'point')} of a study that another program made.")
    else:
        missing = sweep.total - table.settled
        of = f" of {sweep.total}" if missing > 0 else ""
        pruned = sum(row.state == "PRUNED" for row in table.rows)
        beside = f" ({counted(pruned, 'point')} can't be)" if pruned else ""
        words = [*sweep.tasks, *(["own prompts"] if sweep.prompts else [])]
        items = next((row.measured.get("items") for row in table.complete), None)
        on = f" on {counted(items, 'item')}" if isinstance(items, int) else ""
        parts.append(f"{done}{of} points{beside}{on} of {', '.join(words)}.")
        if table.is_cancelled:
            parts.append("Cancelled: the rest will not be measured.")
    if table.complete and view.quality and view.cost:
        best = front(table.complete, view.cost, view.quality, is_low(view.cost))
        if best:
            top = max(best, key=lambda row: row.measured[view.quality])
            quick = best[0] if is_low(view.cost) else best[-1]
            parts.append(
                f"The front goes from {_pair(top, view)} ({knob_line(top, table)}) to "
                f"{_pair(quick, view)} ({knob_line(quick, table)})."
                if top is not quick
                else f"One point is best in both: {_pair(top, view)} ({knob_line(top, table)})."
            )
    return " ".join(parts)


def _pair(row: Row, view: View) -> str:
    return f"{words_of(view.quality)} {shown_value(row, view.quality)} at {_short(row, view.cost)}"


def _short(row: Row, metric: str) -> str:
    return f"{shown_value(row, metric)} {words_of(metric)}"


def _choices(table: StudyTable, view: View) -> list[Block]:
    knobs = list(table.knob_values())
    found = []
    metrics = {"quality": qualities(table), "cost": costs(table)}
    titles = {"quality": "How good", "cost": "What it takes"}
    for name, names in metrics.items():
        if len(names) > 1:
            options = [{"value": m, "label": words_of(m)} for m in names]
            found.append(
                board.choices(name, name, options, getattr(view, name), titles[name], span=6)
            )
    if len(knobs) > 2:
        options = [{"value": knob, "label": symbol(knob)} for knob in knobs]
        found.append(board.choices("x", "x", options, view.x, "Heatmap, across", span=6))
        found.append(board.choices("y", "y", options, view.y, "Heatmap, up", span=6))
    return found

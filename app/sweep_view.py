"""A study as a board: what came of it in a sentence, its pictures and tables. From a
`StudyTable` alone."""

from __future__ import annotations

from collections.abc import Sequence

from app import board
from app.board import Block
from app.sweep_choice import View, costs, qualities
from app.sweep_pictures import front_chart, heatmap, parallel
from app.sweep_tables import point_block, points_block
from app.sweep_words import (
    ENGLISH,
    is_low,
    knob_line,
    number_of,
    shown_value,
    symbol,
    words_of,
)
from app.words import Says
from flash_dllm.evaluation.study_table import Row, StudyTable, front


def sweep_board(
    table: StudyTable, view: View, prompts: Sequence[str] = (), language: str = "en"
) -> str:
    """The board of a study. `prompts` are those of its items, for the list of one point."""
    view, say = view.within(table), Says("sweep", language)
    if not table.complete:
        head = board.text("say", table.name, lead(table, view, say), tag="h2")
        empty = board.text("empty", say("empty"), tone="quiet")
        key = f"{table.name}/empty/{language}"
        return board.board(key, [head, empty, *points_block(table, view, say)])
    blocks = [
        board.text("say", table.name, lead(table, view, say), tag="h2"),
        *_choices(table, view, say),
        *heatmap(table, view, say),
        front_chart(table, view, say),
        *point_block(table, view, prompts, say),
        parallel(table, view, say),
        *points_block(table, view, say),
    ]
    return board.board(f"{table.name}/{view}/{language}", blocks)


def lead(table: StudyTable, view: View, say: Says = ENGLISH) -> str:
    """What was measured and what came of it, in sentences."""
    done, sweep = len(table.complete), table.sweep
    parts = []
    if sweep is None:
        parts.append(say("lead_foreign", points=number_of(done, "point", say)))
    else:
        missing = sweep.total - table.settled
        pruned = sum(row.state == "PRUNED" for row in table.rows)
        beside = say("lead_beside", points=number_of(pruned, "point", say)) if pruned else ""
        words = [*sweep.tasks, *([say("own_prompts")] if sweep.prompts else [])]
        items = next((row.measured.get("items") for row in table.complete), None)
        on = ""
        if isinstance(items, int):
            on = say("lead_on", items=number_of(items, "item", say))
        points = number_of(sweep.total if missing > 0 else done, "point", say)
        key = "lead_part" if missing > 0 else "lead"
        parts.append(
            say(key, done=done, points=points, beside=beside, on=on, words=", ".join(words))
        )
        if table.is_cancelled:
            parts.append(say("cancelled"))
    if table.complete and view.quality and view.cost:
        best = front(table.complete, view.cost, view.quality, is_low(view.cost))
        if best:
            top = max(best, key=lambda row: row.measured[view.quality])
            quick = best[0] if is_low(view.cost) else best[-1]
            parts.append(
                say(
                    "front_one" if top is quick else "front_from",
                    top=_pair(top, view, say), top_knobs=knob_line(top, table),
                    quick=_pair(quick, view, say), quick_knobs=knob_line(quick, table),
                )
            )  # fmt: skip
    return ("" if say.language == "zh" else " ").join(parts)


def _pair(row: Row, view: View, say: Says) -> str:
    return say(
        "pair",
        quality=words_of(view.quality, say), value=shown_value(row, view.quality),
        cost=words_of(view.cost, say), cost_value=shown_value(row, view.cost),
    )  # fmt: skip


def _choices(table: StudyTable, view: View, say: Says) -> list[Block]:
    knobs = list(table.knob_values())
    found = []
    metrics = {"quality": qualities(table), "cost": costs(table)}
    titles = {"quality": say("how_good"), "cost": say("what_it_takes")}
    for name, names in metrics.items():
        if len(names) > 1:
            options = [{"value": m, "label": words_of(m, say)} for m in names]
            found.append(
                board.choices(name, name, options, getattr(view, name), titles[name], span=6)
            )
    if len(knobs) > 2:
        options = [{"value": knob, "label": symbol(knob)} for knob in knobs]
        found.append(board.choices("x", "x", options, view.x, say("across"), span=6))
        found.append(board.choices("y", "y", options, view.y, say("up"), span=6))
    return found

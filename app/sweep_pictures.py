"""A study in three pictures: heatmap of two knobs, Pareto front, parallel lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app import board
from app.board import Block
from app.sweep_choice import View, costs, qualities
from app.sweep_words import (
    axis_words,
    is_low,
    knob_line,
    knob_text,
    number_of,
    number_text,
    shown_value,
    symbol,
    words_of,
)
from app.theme import escape
from app.words import Says
from flash_dllm.evaluation.study_table import Row, StudyTable, front

SCALE = [[0, "@sweep-low"], [1, "@sweep-high"]]


def heatmap(table: StudyTable, view: View, say: Says) -> list[Block]:
    if not view.y:
        return []
    cells = grid(table, view)
    values = table.knob_values()
    across, up = values[view.x], values[view.y]
    word = words_of(view.shown, say)
    z: list[list[float | None]] = []
    text, hover, numbers = [], [], []
    for up_value in up:
        rows = [cells.get((x, up_value), []) for x in across]
        means = [_mean(found, view.shown) for found in rows]
        z.append(means)
        text.append(["" if m is None else number_text(m, view.shown) for m in means])
        hover.append([_cell_words(table, found, view, say) for found in rows])
        numbers.append([found[0].number if found else None for found in rows])
    marks: list[Block] = [
        {"type": "heatmap", "x": list(range(len(across))), "y": list(range(len(up))), "z": z,
         "text": text, "texttemplate": "%{text}", "textfont": {"color": "@ink", "size": 12},
         "customdata": numbers, "hoverinfo": "text", "hovertext": hover, "colorscale": SCALE,
         "reversescale": is_low(view.shown), "showscale": False, "xgap": 2, "ygap": 2},
    ]  # fmt: skip
    empty = [
        (x, y)
        for y, line in enumerate(z)
        for x, value in enumerate(line)
        if value is None
    ]
    marks.append(
        {"type": "scatter", "mode": "markers", "x": [x for x, _ in empty],
         "y": [y for _, y in empty], "hoverinfo": "text",
         "hovertext": [say("not_measured")] * len(empty),
         "marker": {"symbol": "square-open", "size": 16, "color": "@line"}}
    )  # fmt: skip
    chosen = next((row for row in table.complete if row.number == view.trial), None)
    if chosen is not None:
        marks.append(
            {"type": "scatter", "mode": "markers", "x": [across.index(chosen.knobs[view.x])],
             "y": [up.index(chosen.knobs[view.y])], "hoverinfo": "skip",
             "customdata": [chosen.number],
             "marker": {"symbol": "square-open", "size": 30, "color": "@ink",
                        "line": {"width": 2}}}
        )  # fmt: skip
    best = say("stronger_less" if is_low(view.shown) else "stronger")
    layout = {
        "margin": {"l": _left(up), "r": 8, "t": 8, "b": 44},
        "xaxis": {"title": symbol(view.x), "tickvals": list(range(len(across))), "showgrid": False,
                  "ticktext": [knob_text(v) for v in across], "range": [-0.5, len(across) - 0.5]},
        "yaxis": {"title": symbol(view.y), "tickvals": list(range(len(up))), "showgrid": False,
                  "ticktext": [knob_text(v) for v in up], "range": [-0.5, len(up) - 0.5]},
    }  # fmt: skip
    many = max((len(found) for found in cells.values()), default=1)
    note = say("cell_note", word=word, best=best)
    if many > 1:
        note += say("means", many)
    options = [
        {"value": m, "label": words_of(m, say)}
        for m in dict.fromkeys((view.cost, view.quality, *qualities(table)))
        if m
    ]
    return [
        board.choices("shown", "shown", options, view.shown, say("shown"), span=12),
        board.chart(
            "heatmap", f"{symbol(view.y)} × {symbol(view.x)}", note, marks, layout,
            height=max(220, min(460, 90 + 42 * len(up))), event="trial", span=6,
            spoken=say("heat_spoken", word=word, up=symbol(view.y), across=symbol(view.x)),
        ),
    ]  # fmt: skip


def grid(table: StudyTable, view: View) -> dict[tuple[Any, Any], list[Row]]:
    """Measured points by their values of the heatmap's two knobs."""
    cells: dict[tuple[Any, Any], list[Row]] = {}
    for row in table.complete:
        if view.x in row.knobs and view.y in row.knobs:
            cells.setdefault((row.knobs[view.x], row.knobs[view.y]), []).append(row)
    return cells


def _mean(rows: Sequence[Row], metric: str) -> float | None:
    values = [row.measured[metric] for row in rows if metric in row.measured]
    return sum(values) / len(values) if values else None


def _cell_words(table: StudyTable, rows: Sequence[Row], view: View, say: Says) -> str:
    if not rows:
        return say("not_measured")
    if len(rows) == 1:
        return _hover(table, rows[0], say)
    mean = _mean(rows, view.shown)
    shown = "–" if mean is None else number_text(mean, view.shown)
    points = number_of(len(rows), "point", say)
    return say("cell_mean", word=words_of(view.shown, say), value=shown, points=points)


def _hover(table: StudyTable, row: Row, say: Says) -> str:
    """A point in lines."""
    lines = [f"<b>{escape(knob_line(row, table))}</b>"]
    for metric in (*qualities(table), *costs(table)):
        if metric in ("seconds", "tokens_per_second"):
            continue  # of the machine, not of the point
        line = f"{words_of(metric, say)} {shown_value(row, metric)}"
        interval = row.measured.get("accuracy_ci95")
        if metric == "accuracy" and isinstance(interval, (list, tuple)) and len(interval) == 2:
            low, high = (f"{end:.2f}" for end in interval)
            line += say("interval", low=low, high=high)
        lines.append(escape(line))
    return "<br>".join(lines)


def front_chart(table: StudyTable, view: View, say: Says) -> Block:
    rows = [r for r in table.complete if view.cost in r.measured and view.quality in r.measured]
    best = front(rows, view.cost, view.quality, is_low(view.cost))
    on_front = {row.number for row in best}
    colour_by = view.x if view.y else next(iter(table.knob_values()), "")
    values = table.knob_values().get(colour_by, [])
    shade = [values.index(r.knobs[colour_by]) if colour_by in r.knobs else 0 for r in rows]
    xs, ys = ([r.measured[m] for r in rows] for m in (view.cost, view.quality))
    marks: list[Block] = [
        {"type": "scatter", "mode": "lines", "x": [r.measured[view.cost] for r in best],
         "y": [r.measured[view.quality] for r in best], "hoverinfo": "skip",
         "line": {"color": "@axis", "width": 1.5, "dash": "dot"}},
        {"type": "scatter", "mode": "markers", "x": xs, "y": ys, "hoverinfo": "text",
         "hovertext": [_hover(table, r, say) for r in rows], "customdata": [r.number for r in rows],
         "marker": {"color": shade, "colorscale": SCALE, "cmin": 0,
                    "cmax": max(1, len(values) - 1),
                    "symbol": ["diamond" if r.number in on_front else "circle" for r in rows],
                    "size": [14 if r.number in on_front else 9 for r in rows],
                    "line": {"width": [1.5 if r.number in on_front else 0.75 for r in rows],
                             "color": "@ink"}}},
    ]  # fmt: skip
    chosen = [r for r in rows if r.number == view.trial]
    marks.append(
        {"type": "scatter", "mode": "markers", "x": [r.measured[view.cost] for r in chosen],
         "y": [r.measured[view.quality] for r in chosen], "hoverinfo": "skip",
         "customdata": [r.number for r in chosen],
         "marker": {"symbol": "circle-open", "size": 24, "color": "@ink", "line": {"width": 2}}}
    )  # fmt: skip
    layout = {
        "margin": {"l": 52, "r": 12, "t": 8, "b": 44},
        "xaxis": {"title": words_of(view.cost, say), "range": _range(xs)},
        "yaxis": {"title": words_of(view.quality, say), "range": _range(ys)},
    }
    by = say("front_by", knob=symbol(colour_by)) if len(values) > 1 else ""
    lower = say("front_lower") if is_low(view.cost) else ""
    return board.chart(
        "front", say("front"), say("front_note", lower=lower, by=by),
        marks, layout, height=_front_height(table, view), event="trial",
        span=6 if view.y else 12,
        spoken=say(
            "front_spoken", quality=words_of(view.quality, say), cost=words_of(view.cost, say),
            points=number_of(len(best), "point", say),
        ),
    )  # fmt: skip


def _front_height(table: StudyTable, view: View) -> int:
    if not view.y:
        return 340
    return max(220, min(460, 90 + 42 * len(table.knob_values()[view.y])))


def parallel(table: StudyTable, view: View, say: Says) -> Block:
    """Knobs and metrics as parallel axes, one line a point."""
    values = table.knob_values()
    knobs = [name for name, found in values.items() if len(found) > 1]
    metrics = [m for m in dict.fromkeys((view.cost, *costs(table)[:3], *qualities(table)))
               if m and m not in ("seconds", "tokens_per_second")]  # fmt: skip
    best = {r.number for r in front(table.complete, view.cost, view.quality, is_low(view.cost))}
    spans = {
        m: _span([r.measured[m] for r in table.complete if m in r.measured]) for m in metrics
    }
    marks: list[Block] = []
    # what is on the front is drawn last, over the others
    for row in sorted(table.complete, key=lambda r: (r.number == view.trial, r.number in best)):
        if not all(m in row.measured for m in metrics):
            continue
        heights = [_place(values[k], row.knobs.get(k)) for k in knobs]
        heights += [_share(row.measured[m], spans[m]) for m in metrics]
        is_chosen, is_best = row.number == view.trial, row.number in best
        colour = "@ink" if is_chosen else "@sweep-high" if is_best else "@line"
        marks.append(
            {"type": "scatter", "mode": "lines+markers", "x": list(range(len(heights))),
             "y": heights, "customdata": [row.number] * len(heights), "hoverinfo": "text",
             "hovertext": [_hover(table, row, say)] * len(heights),
             "line": {"color": colour, "width": 3 if is_chosen else 2 if is_best else 1},
             "marker": {"color": colour, "size": 7 if is_chosen or is_best else 4,
                        "symbol": "diamond" if is_best else "circle"}}
        )  # fmt: skip
    names = [escape(symbol(k)) for k in knobs]
    names += [escape(axis_words(m, say)).replace(" per ", "<br>per ") for m in metrics]
    notes = []
    for place, knob in enumerate(knobs):
        found = values[knob]
        shown = found if len(found) <= 8 else [found[0], found[-1]]
        notes += [_tick(place, _place(found, v), knob_text(v)) for v in shown]
    for place, metric in enumerate(metrics, len(knobs)):
        low, high = spans[metric]
        notes += [
            _tick(place, share, number_text(low + share * (high - low), metric))
            for share in (0, 0.5, 1)
        ]
    count = len(names)
    layout = {
        "margin": {"l": 20, "r": 30, "t": 10, "b": 64},
        "annotations": notes,
        "xaxis": {"autotickangles": [0, -40], "tickvals": list(range(count)), "ticktext": names,
                  "gridcolor": "@axis", "range": [-0.15, count - 1 + 0.35]},
        "yaxis": {"visible": False, "range": [-0.08, 1.08]},
    }  # fmt: skip
    return board.chart(
        "parallel", say("parallel"), say("parallel_note"), marks, layout, height=312, event="trial",
        spoken=say("parallel_spoken"),
    )  # fmt: skip


def _tick(x: float, y: float, text: str) -> Block:
    return {"x": x, "y": y, "text": escape(text), "showarrow": False, "xanchor": "left",
            "xshift": 7, "bgcolor": "@page", "borderpad": 1,
            "font": {"size": 11, "color": "@quiet"}}  # fmt: skip


def _place(values: Sequence[Any], value: Any) -> float:
    """A knob's value on its axis: steps of equal height, in order."""
    if value not in values or len(values) < 2:
        return 0.5
    return list(values).index(value) / (len(values) - 1)


def _share(value: float, span: tuple[float, float]) -> float:
    low, high = span
    return 0.5 if high == low else (value - low) / (high - low)


def _span(values: Sequence[float]) -> tuple[float, float]:
    return (min(values), max(values)) if values else (0.0, 1.0)


def _range(values: Sequence[float]) -> list[float]:
    """An axis' range with room for the marks."""
    low, high = _span(values)
    room = (high - low) * 0.08 or max(abs(high) * 0.05, 0.01)
    return [low - room, high + room]


def _left(values: Sequence[Any]) -> int:
    """The room that an axis' labels need, in pixels."""
    return 40 + 7 * max(len(knob_text(value)) for value in values)

"""A study as a board: heatmap of two knobs, Pareto front, parallel lines, the points as a table,
and the items of one point. From a `StudyTable` alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from app import board
from app.board import Block
from app.sentences import counted
from app.theme import escape
from flash_dllm.evaluation.study_table import Row, StudyTable, front

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
SCALE = [[0, "@sweep-low"], [1, "@sweep-high"]]
PROMPT_CHARACTERS = 90


@dataclass(frozen=True)
class View:
    """What of a study is shown; blanks are chosen for it.

    quality, cost  the front's axes
    x, y, shown    the heatmap's knobs and its metric
    trial          number of the point whose items are listed
    """

    quality: str = ""
    cost: str = ""
    x: str = ""
    y: str = ""
    shown: str = ""
    trial: int | None = None

    def within(self, table: StudyTable) -> View:
        """The same with what this study lacks chosen anew."""
        metrics = table.metrics()
        knobs = list(table.knob_values())
        quality = _one_of(self.quality, qualities(table), metrics)
        cost = _one_of(self.cost, costs(table), [m for m in metrics if m != quality] or metrics)
        # γ reads from left to right, like the sliders
        x = _one_of(self.x, ["gamma"] if "gamma" in knobs else knobs[-1:], knobs)
        x = self.x if self.x in knobs else x
        others = [name for name in knobs if name != x]
        y = self.y if self.y in others else (others[0] if others else "")
        shown = _one_of(self.shown, [cost, quality, *metrics], metrics)
        known = {row.number for row in table.rows}
        trial = self.trial if self.trial in known else None
        return View(quality, cost, x, y, shown, trial)

    def with_choice(self, name: str, value: str) -> View:
        """The view after a click on one of the board's choices."""
        if name not in ("quality", "cost", "x", "y", "shown"):
            return self
        if name == "x" and value == self.y:
            return replace(self, x=value, y=self.x)
        if name == "y" and value == self.x:
            return replace(self, y=value, x=self.y)
        changes: dict[str, Any] = {name: value}
        return replace(self, **changes)


def qualities(table: StudyTable) -> list[str]:
    """Metrics that say how good the answers are."""
    return [name for name in table.metrics() if name in QUALITY]


def costs(table: StudyTable) -> list[str]:
    """Metrics that say what they took."""
    return [name for name in table.metrics() if name in METRICS and name not in QUALITY]


def sweep_board(table: StudyTable, view: View, prompts: Sequence[str] = ()) -> str:
    """The board of a study. `prompts` are those of its items, for the list of one point."""
    view = view.within(table)
    if not table.complete:
        head = board.text("say", table.name, lead(table, view), tag="h2")
        empty = board.text("empty", "Points appear here as they are measured.", tone="quiet")
        return board.board(f"{table.name}/empty", [head, empty, *_rows(table, view)])
    blocks = [
        board.text("say", table.name, lead(table, view), tag="h2"),
        *_choices(table, view),
        *_heatmap(table, view),
        _front(table, view),
        *_point(table, view, prompts),
        _parallel(table, view),
        *_rows(table, view),
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


def words_of(metric: str) -> str:
    """A metric's name as the page writes it."""
    return METRICS[metric][0] if metric in METRICS else metric.replace("_", " ")


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


def _heatmap(table: StudyTable, view: View) -> list[Block]:
    if not view.y:
        return []
    cells = grid(table, view)
    values = table.knob_values()
    across, up = values[view.x], values[view.y]
    word = words_of(view.shown)
    z: list[list[float | None]] = []
    text, hover, numbers = [], [], []
    for up_value in up:
        rows = [cells.get((x, up_value), []) for x in across]
        means = [_mean(found, view.shown) for found in rows]
        z.append(means)
        text.append(["" if m is None else number_text(m, view.shown) for m in means])
        hover.append(
            [_cell_words(table, found, word, view) for found in rows]
        )
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
         "hovertext": ["not measured"] * len(empty),
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
    best = "stronger is better" if not is_low(view.shown) else "stronger is less, and better"
    layout = {
        "margin": {"l": _left(up), "r": 8, "t": 8, "b": 44},
        "xaxis": {"title": symbol(view.x), "tickvals": list(range(len(across))), "showgrid": False,
                  "ticktext": [knob_text(v) for v in across], "range": [-0.5, len(across) - 0.5]},
        "yaxis": {"title": symbol(view.y), "tickvals": list(range(len(up))), "showgrid": False,
                  "ticktext": [knob_text(v) for v in up], "range": [-0.5, len(up) - 0.5]},
    }  # fmt: skip
    many = max((len(found) for found in cells.values()), default=1)
    note = f"Each cell: {word}; {best}."
    if many > 1:
        note += f" Means of up to {many} points, which differ in the other knobs."
    options = [
        {"value": m, "label": words_of(m)}
        for m in dict.fromkeys((view.cost, view.quality, *qualities(table)))
        if m
    ]
    return [
        board.choices("shown", "shown", options, view.shown, "Heatmap shows", span=12),
        board.chart(
            "heatmap", f"{symbol(view.y)} × {symbol(view.x)}", note, marks, layout,
            height=max(220, min(460, 90 + 42 * len(up))), event="trial", span=6,
            spoken=f"{word} for each {symbol(view.y)} and {symbol(view.x)}; the table below has "
            "the numbers",
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


def _cell_words(table: StudyTable, rows: Sequence[Row], word: str, view: View) -> str:
    if not rows:
        return "not measured"
    if len(rows) == 1:
        return _hover(table, rows[0])
    mean = _mean(rows, view.shown)
    shown = "–" if mean is None else number_text(mean, view.shown)
    return f"{word} {shown}: the mean of {counted(len(rows), 'point')}; a click opens the first"


def _hover(table: StudyTable, row: Row) -> str:
    """A point in lines."""
    lines = [f"<b>{escape(knob_line(row, table))}</b>"]
    for metric in (*qualities(table), *costs(table)):
        if metric in ("seconds", "tokens_per_second"):
            continue  # of the machine, not of the point
        line = f"{words_of(metric)} {shown_value(row, metric)}"
        interval = row.measured.get("accuracy_ci95")
        if metric == "accuracy" and isinstance(interval, (list, tuple)) and len(interval) == 2:
            line += f" (95 % interval {interval[0]:.2f} to {interval[1]:.2f})"
        lines.append(escape(line))
    return "<br>".join(lines)


def _front(table: StudyTable, view: View) -> Block:
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
         "hovertext": [_hover(table, r) for r in rows], "customdata": [r.number for r in rows],
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
        "xaxis": {"title": words_of(view.cost), "range": _range(xs)},
        "yaxis": {"title": words_of(view.quality), "range": _range(ys)},
    }
    by = f"; a stronger colour is a larger {symbol(colour_by)}" if len(values) > 1 else ""
    lower = ", less is better" if is_low(view.cost) else ""
    return board.chart(
        "front", "Pareto front",
        f"Diamonds: no other point is better in both{lower}{by}. A click opens a point.",
        marks, layout, height=_front_height(table, view), event="trial",
        span=6 if view.y else 12,
        spoken=f"{words_of(view.quality)} against {words_of(view.cost)}: "
        f"{counted(len(best), 'point')} on the front, listed in the table below",
    )  # fmt: skip


def _front_height(table: StudyTable, view: View) -> int:
    if not view.y:
        return 340
    return max(220, min(460, 90 + 42 * len(table.knob_values()[view.y])))


def _parallel(table: StudyTable, view: View) -> Block:
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
             "hovertext": [_hover(table, row)] * len(heights),
             "line": {"color": colour, "width": 3 if is_chosen else 2 if is_best else 1},
             "marker": {"color": colour, "size": 7 if is_chosen or is_best else 4,
                        "symbol": "diamond" if is_best else "circle"}}
        )  # fmt: skip
    names = [escape(symbol(k)) for k in knobs]
    names += [escape(_axis_words(m)).replace(" per ", "<br>per ") for m in metrics]
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
        "margin": {"l": 20, "r": 30, "t": 10, "b": 52},
        "annotations": notes,
        "xaxis": {"tickangle": 0, "tickvals": list(range(count)), "ticktext": names,
                  "gridcolor": "@axis", "range": [-0.15, count - 1 + 0.35]},
        "yaxis": {"visible": False, "range": [-0.08, 1.08]},
    }  # fmt: skip
    return board.chart(
        "parallel", "All points at once",
        "One line a point, from its knobs to what came of it; the coloured ones are the front.",
        marks, layout, height=300, event="trial",
        spoken="Parallel lines from knobs to metrics; the table below has the numbers",
    )  # fmt: skip


def _point(table: StudyTable, view: View, prompts: Sequence[str]) -> list[Block]:
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


def _rows(table: StudyTable, view: View) -> list[Block]:
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
    columns = ["point", *(symbol(k) for k in knobs), *(_axis_words(m) for m in metrics), "front"]
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


def _axis_words(metric: str) -> str:
    return "agreement" if metric == "agreement" else words_of(metric)


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


def _one_of(value: str, known: Sequence[str], otherwise: Sequence[str]) -> str:
    if value in known:
        return value
    return known[0] if known else otherwise[0] if otherwise else ""

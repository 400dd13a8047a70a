"""The whole run as one animated figure: the text filling in, step by step.

A grid with one cell per answer position, coloured by its state, a purple mark under tokens that
the step re-reads; one frame per step, play buttons and a slider. Pure plotly, so it works in a
notebook and in a file (`app/embed.py`).
"""

from __future__ import annotations

import textwrap
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from app import theme
from app.sentences import number, step_sentence, texts_of
from app.theme import COMMITTED, MASKED, REVOKED, STATE_OF, STATES
from app.token_text import label
from app.views import telling_step
from flash_dllm.trace import DecodeTrace, Verdict

TITLE = "The whole run, animated"
COLUMNS = 16
CELL_HEIGHT = 34
LABEL_LENGTH = 9


def table(trace: DecodeTrace) -> pd.DataFrame:
    """One row per step and answer position.

    position    from 0, the first generated one
    state       key of the state (`app/theme.py`)
    token       the token in it: written, drafted, or "" where blank
    confidence  c of the draft, verify_confidence c̃ of the mask view (NaN where not asked)
    mass        attention mass if the step re-reads the position, else 0
    """
    rows: list[tuple] = []
    text_of = texts_of(trace)
    written: dict[int, tuple] = {}
    for step in trace.steps:
        proposals = {p.position: p for p in step.proposals}
        mass = dict(step.attention)
        for offset in range(trace.gen_length):
            position = trace.prompt_length + offset
            held = mass.get(position, 0.0) if position in step.tracked else 0.0
            if position in written:
                state = REVOKED if position in step.revoked else COMMITTED
                facts = (state.key, *written[position])
            elif (p := proposals.get(position)) is not None:
                is_other = p.verdict is Verdict.CORRECTED and p.verify_token is not None
                token = p.verify_token if is_other else p.draft_token
                facts = (
                    STATE_OF[p.verdict].key,
                    text_of(token),  # type: ignore[arg-type]
                    p.confidence,
                    p.verify_confidence,
                )
            else:
                facts = (MASKED.key, "", None, None)
            rows.append((step.index, offset, *facts, held))
        for position, token in step.accepted:
            p = proposals[position]
            written[position] = (text_of(token), p.confidence, p.verify_confidence)
        for position in step.revoked:
            del written[position]
    names = ["step", "position", "state", "token", "confidence", "verify_confidence", "mass"]
    frame = pd.DataFrame(rows, columns=names)
    return frame.astype({"confidence": float, "verify_confidence": float, "mass": float})


def figure(trace: DecodeTrace, is_dark: bool = False) -> go.Figure:
    """The animation; it opens on a telling step. A trace without steps gives an empty grid."""
    columns = min(COLUMNS, trace.gen_length)
    rows = -(-trace.gen_length // columns)
    frames = [
        _frame(trace, number_, part, columns, rows)
        for number_, (_, part) in enumerate(table(trace).groupby("step"))
    ]
    start = telling_step(trace)
    blank = [[MASKED.code] * columns for _ in range(rows)]
    first: dict = frames[start] if frames else {"data": [{"z": blank}, {}], "layout": {}}
    cells = {
        "type": "heatmap",
        "zmin": -0.5,
        "zmax": len(STATES) - 0.5,
        "colorscale": theme.cell_colorscale(is_dark),
        "showscale": False,
        "xgap": 2,
        "ygap": 2,
        "texttemplate": "%{text}",
        "textfont": {"size": 12},
        "hovertemplate": "%{hovertext}<extra></extra>",
        **first["data"][0],
    }
    marks = {
        "type": "scatter",
        "mode": "markers",
        "hoverinfo": "skip",
        "marker": {"symbol": "line-ew", "line": {"width": 3, "color": theme.TRACKED[is_dark]}},
        **first["data"][1],
    }
    return go.Figure(
        {
            "data": [cells, marks],
            "frames": frames,
            "layout": _layout(trace, first["layout"], columns, rows, start, is_dark),
        }
    )


def _frame(trace: DecodeTrace, index: int, part: pd.DataFrame, columns: int, rows: int) -> dict:
    code = {state.key: state.code for state in STATES}
    z: list[list[int | None]] = [[None] * columns for _ in range(rows)]
    text = [[""] * columns for _ in range(rows)]
    hover = [[""] * columns for _ in range(rows)]
    x, y = [], []
    for cell in part.itertuples():
        row, column = divmod(cell.position, columns)
        z[row][column] = code[cell.state]
        text[row][column] = theme.escape(_short(cell.token)) if cell.token else "·"
        hover[row][column] = _hover(cell)
        if cell.mass > 0:
            x.append(column)
            y.append(row + 0.4)
    step = trace.steps[index]
    return {
        "name": str(step.index),
        "traces": [0, 1],
        "data": [
            {"type": "heatmap", "z": z, "text": text, "hovertext": hover},
            {"type": "scatter", "x": x, "y": y},
        ],
        "layout": {"title": {"text": _title(trace, index)}},
    }


def _title(trace: DecodeTrace, index: int) -> str:
    step = trace.steps[index]
    sentence = step_sentence(trace, step)
    lines = textwrap.wrap(theme.escape(sentence), 110) + [""]
    head = f"Step {step.index} of {len(trace.steps)}"
    return "<br>".join([f"<b>{head}</b>", *lines[:2]])


def _short(token: str) -> str:
    name = label(token)
    return name if len(name) <= LABEL_LENGTH else name[: LABEL_LENGTH - 1] + "…"


def _hover(cell: Any) -> str:
    state = next(state for state in STATES if state.key == cell.state)
    lines = [f"position {cell.position}: {state.label}"]
    if cell.token:
        lines.append(f"“{theme.escape(label(cell.token))}”, c {number(cell.confidence)}")
    if cell.verify_confidence == cell.verify_confidence:  # not NaN
        lines.append(f"mask view c̃ {number(cell.verify_confidence)}")
    if cell.mass > 0:
        lines.append(f"re-read, {cell.mass:.1%} of the attention")
    return "<br>".join(lines)


def _layout(
    trace: DecodeTrace, first: dict, columns: int, rows: int, start: int, is_dark: bool
) -> dict:
    layout = theme.layout(is_dark)
    ink = theme.GREYS["ink"][is_dark]
    still = {"frame": {"duration": 0, "redraw": True}, "mode": "immediate"}
    moving = {"frame": {"duration": 700, "redraw": True}, "fromcurrent": True}
    height = rows * CELL_HEIGHT + 230
    axis = {"showgrid": False, "showticklabels": False, "linecolor": "rgba(0,0,0,0)"}
    button = {"method": "animate"}
    return layout | {
        "title": {
            "x": 0,
            "xanchor": "left",
            "xref": "paper",
            "y": 1 - 16 / height,
            "yanchor": "top",
            "yref": "container",
            "font": {"size": 15, "color": ink},
            **first.get("title", {"text": "Nothing was decoded"}),
        },
        "height": height,
        "margin": {"l": 12, "r": 12, "t": 92, "b": 118},
        "xaxis": layout["xaxis"] | axis | {"range": [-0.5, columns - 0.5]},
        "yaxis": layout["yaxis"] | axis | {"range": [rows - 0.5, -0.5]},
        "updatemenus": [
            {
                "type": "buttons",
                "direction": "left",
                "x": 0,
                "xanchor": "left",
                "y": 0,
                "yanchor": "top",
                "pad": {"t": 44},
                "showactive": False,
                "bgcolor": theme.GREYS["panel"][is_dark],
                "bordercolor": theme.GREYS["line"][is_dark],
                "buttons": [
                    button | {"label": "Play", "args": [None, moving]},
                    button | {"label": "Pause", "args": [[None], still]},
                ],
            }
        ],
        "sliders": [
            {
                "active": start,
                "x": 0.16,
                "len": 0.84,
                "pad": {"t": 24},
                "currentvalue": {"prefix": "step ", "xanchor": "left"},
                "steps": [
                    button | {"label": str(step.index), "args": [[str(step.index)], still]}
                    for step in trace.steps
                ],
            }
        ],
    }

"""One step's check: how sure draft and mask view are, draft by draft, and where it stops."""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go

from app import theme
from app.sentences import stop_label, texts_of
from app.theme import STATE_OF
from app.token_text import label
from app.views import telling_step
from flash_dllm.trace import COMMITTED, DecodeTrace

TITLE = "The check, draft by draft"


def table(trace: DecodeTrace) -> pd.DataFrame:
    """One row per step and window position, in acceptance order.

    order              place in the acceptance order, from 0
    rank               0 decided before verifying, k the k-th searched, NaN not searched
    confidence         c; view_confidence is c̃ (NaN where no mask view was asked)
    is_kept            whether the step wrote it
    """
    text_of = texts_of(trace)
    rows = [
        (
            step.index,
            order,
            p.position - trace.prompt_length,
            p.rank,
            text_of(p.draft_token),
            p.confidence,
            "" if p.verify_token is None else text_of(p.verify_token),
            p.verify_confidence,
            str(p.verdict),
            p.verdict in COMMITTED,
        )
        for step in trace.steps
        for order, p in enumerate(step.proposals)
    ]
    names = "step order position rank token confidence view_token view_confidence verdict is_kept"
    frame = pd.DataFrame(rows, columns=names.split())
    return frame.astype({"rank": float, "view_confidence": float})


def figure(trace: DecodeTrace, step: int | None = None, is_dark: bool = False) -> go.Figure:
    """The ladder of one step (counted from 1; by default a telling one)."""
    layout = theme.layout(is_dark)
    ink = theme.GREYS["ink"][is_dark]
    if not trace.steps:
        return go.Figure({"data": [], "layout": layout})
    record = trace.steps[telling_step(trace) if step is None else step - 1]
    part = table(trace).query("step == @record.index")
    height = part.view_confidence.fillna(part.confidence.where(part["rank"] == 0))
    other = part[(part.view_token != "") & (part.view_token != part.token)]
    colours = [STATE_OF[p.verdict].cell[is_dark] for p in record.proposals]
    names = [theme.escape(label(token)) for token in part.token]
    marks = [
        {"type": "bar", "x": list(part.order), "y": height, "marker": {"color": colours},
         "hovertext": names, "name": "mask view c̃"},
        {"type": "scatter", "mode": "markers", "x": list(part.order), "y": list(part.confidence),
         "marker": {"symbol": "line-ew", "size": 14, "line": {"width": 2, "color": ink}},
         "hovertext": names, "name": "draft c"},
        {"type": "scatter", "mode": "markers", "x": list(other.order),
         "y": list(other.view_confidence + 0.04), "name": "another token", "hoverinfo": "skip",
         "marker": {"symbol": "x-thin", "size": 7, "line": {"width": 1.5, "color": ink}}},
    ]  # fmt: skip
    lines = []
    for key, colours_ in (("epsilon", theme.EPSILON), ("gamma", theme.GAMMA)):
        if (value := trace.strategy.get(key)) is not None:
            lines.append(_line(0, 1, value, value, "paper", "y", colours_[is_dark]))
    kept = int(part.is_kept.sum()) - 0.5
    name = stop_label(trace, record)
    if name:
        lines.append(_line(kept, kept, 0, 1.2, "x", "y", ink))
    width = max(trace.config["window_size"], 8)
    return go.Figure(
        {
            "data": marks,
            "layout": layout
            | {
                "title": {"text": f"{TITLE}, step {record.index}", "font": {"color": ink}},
                "shapes": lines,
                "annotations": [
                    {"x": kept, "y": 1.22, "text": theme.escape(name), "showarrow": False,
                     "xanchor": "left", "font": {"color": ink}}
                ] if name else [],
                "xaxis": layout["xaxis"]
                | {"range": [-0.6, width - 0.4], "title": {"text": "order of acceptance"}},
                "yaxis": layout["yaxis"]
                | {"range": [0, 1.3], "tickvals": [0, 0.25, 0.5, 0.75, 1],
                   "title": {"text": "confidence"}},
            },
        }
    )  # fmt: skip


def _line(x0, x1, y0, y1, xref: str, yref: str, colour: str) -> dict:
    return {
        "type": "line", "x0": x0, "x1": x1, "y0": y0, "y1": y1, "xref": xref, "yref": yref,
        "line": {"color": colour, "width": 2},
    }  # fmt: skip

"""The run map: one row per step, one column per position, coloured by state."""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go

from app import theme
from app.theme import COMMITTED, MASKED, REVOKED, STATE_OF, STATES
from flash_dllm.trace import DecodeTrace

TITLE = "The whole run"


def table(trace: DecodeTrace) -> pd.DataFrame:
    """State keys: index = step (from 1), columns = answer position (from 0)."""
    row = [MASKED.key] * trace.gen_length
    rows = {}
    for step in trace.steps:
        shown = list(row)
        for p in step.proposals:
            shown[p.position - trace.prompt_length] = STATE_OF[p.verdict].key
        for position in step.revoked:
            shown[position - trace.prompt_length] = REVOKED.key
        rows[step.index] = shown
        for position, _ in step.accepted:
            row[position - trace.prompt_length] = COMMITTED.key
        for position in step.revoked:
            row[position - trace.prompt_length] = MASKED.key
    return pd.DataFrame.from_dict(
        rows, orient="index", columns=list(range(trace.gen_length))
    ).rename_axis("step")


def figure(trace: DecodeTrace, is_dark: bool = False) -> go.Figure:
    """The map as a heatmap."""
    layout = theme.layout(is_dark)
    states = table(trace)
    code = {state.key: state.code for state in STATES}
    labels = {state.key: state.label for state in STATES}
    return go.Figure(
        {
            "data": [
                {
                    "type": "heatmap",
                    "z": [[code[key] for key in row] for row in states.to_numpy()],
                    "y": list(states.index),
                    "hovertext": [[labels[key] for key in row] for row in states.to_numpy()],
                    "hovertemplate": "step %{y}, position %{x}: %{hovertext}<extra></extra>",
                    "zmin": -0.5,
                    "zmax": len(STATES) - 0.5,
                    "colorscale": theme.cell_colorscale(is_dark),
                    "showscale": False,
                }
            ],
            "layout": layout
            | {
                "title": {"text": TITLE, "font": {"color": theme.GREYS["ink"][is_dark]}},
                "xaxis": layout["xaxis"] | {"title": {"text": "position in the answer"}},
                "yaxis": layout["yaxis"]
                | {"range": [len(states) + 0.5, 0.5], "title": {"text": "step"}},
            },
        }
    )

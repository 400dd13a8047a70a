"""Where the model looks back: tracked tokens by their share of the attention, over the steps."""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go

from app import theme
from app.sentences import texts_of
from app.token_text import label
from flash_dllm.trace import DecodeTrace

TITLE = "Tokens that are read again, by attention"


def table(trace: DecodeTrace) -> pd.DataFrame:
    """One row per step and recorded decided position, by falling attention mass.

    position     absolute: the prompt starts at 0
    is_tracked   whether the step's draft pass re-reads it; is_new, whether since this step
    """
    text_of = texts_of(trace)
    rows = []
    before: frozenset[int] = frozenset()
    tokens = dict(enumerate(trace.prompt_token_ids))
    for step in trace.steps:
        tracked = frozenset(step.tracked)
        for position, mass in step.attention:
            is_tracked = position in tracked
            is_new = is_tracked and position not in before
            token = text_of(tokens[position])
            rows.append((step.index, position, token, mass, is_tracked, is_new))
        before = tracked
        tokens.update(step.accepted)
    names = ["step", "position", "token", "mass", "is_tracked", "is_new"]
    return pd.DataFrame(rows, columns=names)


def figure(trace: DecodeTrace, is_dark: bool = False) -> go.Figure:
    """Steps down, positions across: a mark per tracked token, its size by attention mass."""
    layout = theme.layout(is_dark)
    part = table(trace)
    part = part[part.is_tracked] if len(part) else part
    most = part.mass.max() if len(part) else 1.0
    hover = [
        f"{theme.escape(label(row.token))} at {row.position}: {row.mass:.1%}"
        for row in part.itertuples()
    ]
    return go.Figure(
        {
            "data": [
                {
                    "type": "scatter",
                    "mode": "markers",
                    "x": list(part.position),
                    "y": list(part.step),
                    "marker": {
                        "size": [3 + 11 * (mass / most) ** 0.5 for mass in part.mass],
                        "color": theme.TRACKED[is_dark],
                        "line": {"width": 0},
                    },
                    "hovertext": hover,
                    "hovertemplate": "%{hovertext}<extra>step %{y}</extra>",
                }
            ],
            "layout": layout
            | {
                "title": {"text": TITLE, "font": {"color": theme.GREYS["ink"][is_dark]}},
                "xaxis": layout["xaxis"] | {"title": {"text": "position (the prompt starts at 0)"}},
                "yaxis": layout["yaxis"]
                | {"range": [len(trace.steps) + 0.5, 0.5], "title": {"text": "step"}},
            },
        }
    )

"""Tokens written per step, by the reason for writing them, and the passes they cost."""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go

from app import theme
from app.theme import REVOKED, STATE_OF
from flash_dllm.trace import COMMITTED, DecodeTrace, Verdict

TITLE = "Tokens written per step"
KINDS = (Verdict.CONFIDENT, Verdict.VERIFIED, Verdict.CORRECTED, Verdict.FORCED)


def table(trace: DecodeTrace) -> pd.DataFrame:
    """One row per step: a count for each committing verdict, how many earlier tokens it took back,
    and the passes up to and with it."""
    rows = []
    passes = 0
    for step in trace.steps:
        passes += len(step.counted)
        verdicts = [p.verdict for p in step.proposals if p.verdict in COMMITTED]
        counts = (verdicts.count(kind) for kind in KINDS)
        rows.append((step.index, *counts, len(step.revoked), passes))
    names = ["step", *(kind.lower() for kind in KINDS), "revoked", "passes"]
    return pd.DataFrame(rows, columns=names)


def figure(trace: DecodeTrace, is_dark: bool = False) -> go.Figure:
    """Stacked bars (what was taken back: below zero), and a line for the passes so far (right
    axis)."""
    layout = theme.layout(is_dark)
    counts = table(trace)
    bars = [
        {
            "type": "bar",
            "x": list(counts.step),
            "y": list(counts[kind.lower()]),
            "name": STATE_OF[kind].label,
            "marker": {"color": STATE_OF[kind].cell[is_dark]},
        }
        for kind in KINDS
    ]
    if trace.revocations:
        bars.append(
            {
                "type": "bar",
                "x": list(counts.step),
                "y": list(-counts.revoked),
                "name": REVOKED.label,
                "marker": {"color": REVOKED.cell[is_dark]},
            }
        )
    line = {
        "type": "scatter",
        "mode": "lines",
        "x": list(counts.step),
        "y": list(counts.passes),
        "yaxis": "y2",
        "name": "passes so far",
        "line": {"color": theme.GREYS["axis"][is_dark], "width": 1.5},
    }
    return go.Figure(
        {
            "data": [*bars, line],
            "layout": layout
            | {
                "barmode": "stack",
                "title": {"text": TITLE, "font": {"color": theme.GREYS["ink"][is_dark]}},
                "margin": layout["margin"] | {"r": 48},
                "xaxis": layout["xaxis"] | {"title": {"text": "step"}},
                "yaxis": layout["yaxis"] | {"title": {"text": "tokens"}},
                "yaxis2": layout["yaxis"]
                | {
                    "overlaying": "y",
                    "side": "right",
                    "rangemode": "tozero",
                    "showgrid": False,
                    "title": {"text": "passes so far"},
                },
            },
        }
    )

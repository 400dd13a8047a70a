"""The cost map: where the work of a run goes, one row per step, one column per position.

A cell's colour says how many layers computed that position in that step; a dot stands where a
token was written.
"""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go

from app import theme
from flash_dllm.cost_map import position_layers
from flash_dllm.trace import DecodeTrace

TITLE = "Where the work goes"
# nothing, little, much: (light, dark)
NOTHING, LITTLE, MUCH = ("#eef0f2", "#22252a"), ("#c9e2f3", "#1d4560"), ("#06446f", "#8fd0f7")


def table(trace: DecodeTrace) -> pd.DataFrame:
    """Layers that computed a position: index = step (from 1), columns = position (0 is the first of
    the answer, the prompt stands below 0).

    Summed over the step's passes, audits left out: two passes through all n layers count 2n, and
    so does a position that is two rows of a pass.
    """
    columns = list(range(-trace.prompt_length, trace.gen_length))
    steps = [step.index for step in trace.steps]
    return pd.DataFrame(position_layers(trace), index=steps, columns=columns).rename_axis("step")


def share(trace: DecodeTrace) -> float:
    """The run's rows × layers as a share of computing everything in each of its passes."""
    length = trace.prompt_length + trace.gen_length
    everything = trace.passes * length * trace.model.n_layers
    return trace.row_layers / everything if everything else 0.0


def figure(trace: DecodeTrace, is_dark: bool = False) -> go.Figure:
    """The map as a heatmap, with dots where tokens were written."""
    layout = theme.layout(is_dark)
    layers = table(trace)
    written = [(p - trace.prompt_length, step.index) for step in trace.steps
               for p, _ in step.accepted]  # fmt: skip
    most = max(trace.model.n_layers, int(layers.to_numpy().max()) if len(layers) else 0)
    ink, quiet = theme.GREYS["ink"][is_dark], theme.GREYS["quiet"][is_dark]
    cells = {
        "type": "heatmap",
        "z": layers.to_numpy().tolist(),
        "x": list(layers.columns),
        "y": list(layers.index),
        "zmin": 0,
        "zmax": most,
        "colorscale": colorscale(most, is_dark),
        "colorbar": {
            "title": {"text": "layers", "side": "right"},
            "thickness": 10,
            "outlinewidth": 0,
            "tickvals": sorted({0, trace.model.n_layers, most}),
        },
        "hovertemplate": "step %{y}, position %{x}: %{z} layers<extra></extra>",
    }
    dots = {
        "type": "scatter",
        "mode": "markers",
        "x": [position for position, _ in written],
        "y": [step for _, step in written],
        "hoverinfo": "skip",
        "marker": {"size": 3, "color": theme.TRACKED[is_dark]},
    }
    return go.Figure(
        {
            "data": [cells, dots],
            "layout": layout
            | {
                "title": {
                    "text": _title(trace),
                    "x": 0,
                    "xref": "paper",
                    "xanchor": "left",
                    "font": {"color": ink, "size": 13},
                },
                "height": max(260, min(640, 110 + 5 * len(layers))),
                "xaxis": layout["xaxis"]
                | {"title": {"text": "position: prompt below 0, answer from 0 on"}},
                "yaxis": layout["yaxis"]
                | {"range": [len(layers) + 0.5, 0.5], "title": {"text": "step"}},
                "shapes": [
                    {"type": "line", "x0": -0.5, "x1": -0.5, "yref": "paper", "y0": 0, "y1": 1,
                     "line": {"width": 1, "color": quiet}}
                ],
            },
        }
    )  # fmt: skip


def colorscale(most: int, is_dark: bool) -> list[list[float | str]]:
    """Nothing has a colour of its own; from one layer on the colour grows."""
    first = 0.5 / max(1, most)
    return [
        [0.0, NOTHING[is_dark]], [first, NOTHING[is_dark]], [first, LITTLE[is_dark]],
        [1.0, MUCH[is_dark]],
    ]  # fmt: skip


def _title(trace: DecodeTrace) -> str:
    if not trace.steps:
        return "Nothing was decoded"
    return (
        f"{trace.row_layers:,} rows × layers in {trace.passes} passes, {share(trace):.0%} of "
        "computing everything in each; a dot: written here"
    )

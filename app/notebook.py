"""A run in a notebook: `show(trace)` is the player, `figure(trace)` a plotly figure.

Both can stand several times in one notebook; neither needs the page or a model.
"""

from __future__ import annotations

import html
from dataclasses import dataclass

import plotly.graph_objects as go

from app.figures import run
from app.offline import player_html
from flash_dllm.trace import DecodeTrace


def figure(trace: DecodeTrace, is_dark: bool = False) -> go.Figure:
    """The run as an animated plotly figure: a frame per step, play buttons, a slider."""
    return run.figure(trace, is_dark)


@dataclass(frozen=True)
class Player:
    """What a notebook shows: the player in a frame of its own."""

    document: str
    height: int

    def _repr_html_(self) -> str:
        # in a frame of its own each player has its own names, styles and plotly.js
        return (
            f'<iframe sandbox="allow-scripts" title="Flash-dLLM run" width="100%" '
            f'height="{self.height}" style="border:0" srcdoc="{html.escape(self.document)}">'
            "</iframe>"
        )


def show(
    trace: DecodeTrace,
    step: int | None = None,
    height: int = 900,
    is_dark: bool | None = None,
) -> Player:
    """The player with this run; `step` (counted from 1) is where it opens."""
    return Player(player_html(trace, step, is_dark), height)

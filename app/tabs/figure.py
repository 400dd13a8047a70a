"""The tab with the run as one pure plotly figure, in a frame."""

from __future__ import annotations

import gradio as gr

from app import embed
from app.player import figure_frame, packed, plotly_url
from app.runs import Runs
from app.tabs.shared import QUIET, told


class FigureTab:
    """Drawn when the tab is opened."""

    def __init__(self, runs: Runs) -> None:
        self.runs = runs
        with gr.Tab("As one Plotly figure", id="figure") as self.tab:
            self.frame = figure_frame()

    def wire(self, run_id: gr.State) -> None:
        self.tab.select(self._figure, run_id, self.frame, api_name="figure", **QUIET)

    def _figure(self, name: str) -> str:
        with told():
            return packed(embed.document(self.runs.store.trace(name), plotly_url()))

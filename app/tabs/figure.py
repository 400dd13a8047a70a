"""The tab with the run as one pure plotly figure, in a frame."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gradio as gr

from app import embed
from app.player import figure_frame, packed, plotly_url, text_line
from app.runs import Runs
from app.said import said
from app.tabs.shared import QUIET, told


class FigureTab:
    """Drawn when the tab is opened."""

    def __init__(self, runs: Runs) -> None:
        self.runs = runs
        with gr.Tab("As one Plotly figure", id="figure") as self.tab:
            self.status = text_line("", "fd-figure-status")
            self.frame = figure_frame()

    def wire(self, run_id: gr.State) -> None:
        self.tab.select(
            self._figure, run_id, [self.status, self.frame], api_name="figure", **QUIET
        )

    def _figure(self, name: str) -> Iterator[tuple[str, Any]]:
        with told():
            yield packed(said("drawing")), gr.skip()
            document = embed.document(self.runs.store.trace(name), plotly_url())
            yield packed(said("drawn")), packed(document)

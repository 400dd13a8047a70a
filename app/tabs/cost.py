"""The cost map below the player of the Watch tab, folded until somebody asks for it."""

from __future__ import annotations

from typing import Any

import gradio as gr

from app import embed
from app.player import figure_frame, packed, plotly_url
from app.runs import Runs
from app.tabs.shared import SHORT, told

LABEL = "Where the work goes: how many layers computed each position in each step"


class CostPanel:
    """Drawn when it is unfolded, and again when another run is shown while it is."""

    def __init__(self, runs: Runs) -> None:
        self.runs = runs
        with gr.Accordion(LABEL, open=False, elem_id="fd-cost-map") as self.panel:
            self.frame = figure_frame("How many layers computed each position", "fd-still")
        self.is_open = gr.State(False)

    def wire(self, run_id: gr.State) -> None:
        outputs = [self.frame, self.is_open]
        self.panel.expand(self._draw, run_id, outputs, api_name="cost_map", **SHORT)
        self.panel.collapse(lambda: False, None, self.is_open, api_name="cost_fold", **SHORT)
        run_id.change(
            self._again, [run_id, self.is_open], self.frame, api_name="cost_again", **SHORT
        )

    def _draw(self, name: str) -> tuple[str, bool]:
        with told():
            trace = self.runs.store.trace(name)
            return packed(embed.cost_document(trace, plotly_url())), True

    def _again(self, name: str, is_open: bool) -> Any:
        return self._draw(name)[0] if is_open else gr.skip()

"""The page: its tabs side by side, and what they share. Each tab is a file of `app/tabs`."""

from __future__ import annotations

import gradio as gr

from app.opening import opening
from app.player import PLOTLY_JS
from app.runs import Runs
from app.tabs.figure import FigureTab
from app.tabs.watch import Watch

INTRO = (
    "<h1>Flash-dLLM, step by step</h1><p>A diffusion language model starts from blanks and fills "
    "in many at once. Watch which words it writes straight away, which ones it <em>checks</em> "
    "first, and where the check says stop.</p>"
    '<p class="fd-jump"><a href="#fd-prompt-box">Try a prompt of your own</a></p>'
)


class Page:
    """One page.

    first  the kept run that it opens with
    """

    def __init__(self, runs: Runs, first: str) -> None:
        with gr.Blocks(analytics_enabled=False, title="Flash-dLLM explorer") as self.demo:
            gr.HTML(INTRO, elem_classes="fd-intro")
            run_id = gr.State(first)
            with gr.Tabs():
                watch = Watch(runs, first)
                figure = FigureTab(runs)
            watch.wire(run_id)
            figure.wire(run_id)


def build(runs: Runs, first: str = "") -> gr.Blocks:
    """The page as Blocks, opening with a kept run (default: the first example's)."""
    gr.set_static_paths([PLOTLY_JS])
    return Page(runs, first or opening(runs)).demo

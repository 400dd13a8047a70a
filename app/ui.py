"""The page: its tabs side by side, and what they share. Each tab is a file of `app/tabs`."""

from __future__ import annotations

from typing import Any

import gradio as gr

from app.api import Api
from app.link import parameters, read_link
from app.opening import opening
from app.player import STATIC
from app.runs import Runs
from app.said import said
from app.shelf import remembered
from app.store import RunError
from app.sweeps import Sweeps
from app.tabs.compare import Compare
from app.tabs.figure import FigureTab
from app.tabs.labels import Labels, intro
from app.tabs.learn import Learn
from app.tabs.linked import Linked
from app.tabs.reload import Reload
from app.tabs.shared import QUIET, SHORT, telling, told, visitor
from app.tabs.sweep import Sweep
from app.tabs.traces import Traces
from app.tabs.verify_lab import VerifyLab
from app.tabs.watch import Watch


class Page:
    """One page.

    first  the kept run that it opens with
    """

    def __init__(self, runs: Runs, first: str, sweeps: Sweeps) -> None:
        with gr.Blocks(analytics_enabled=False, title="Flash-dLLM explorer") as self.demo:
            head = gr.HTML(intro("en"), elem_classes="fd-intro")
            run_id, mine = gr.State(first), gr.State([])
            with gr.Tabs() as tabs:
                self.watch = Watch(runs, first)
                lab = VerifyLab(runs)
                compare = Compare(runs)
                sweep = Sweep(runs, sweeps)
                learn = Learn(runs)
                traces = Traces(runs)
                figure = FigureTab(runs)
            reload = Reload(runs)
            linked = Linked(learn, compare)
            Labels(head, self.watch, lab, compare, sweep, traces).wire(learn.asked)
            self.watch.wire(run_id)
            lab.wire(run_id, self.watch, learn.asked)
            compare.wire(run_id, mine, learn.asked)
            sweep.wire(run_id, self.watch, tabs, learn.asked)
            learn.wire()
            traces.wire(run_id, mine, self.watch, tabs, linked, learn.asked)
            figure.wire(run_id)
            run_id.change(remembered, [mine, run_id], mine, api_name="remember", **SHORT)
            reload.wire(run_id, self.watch, tabs, linked)
            self.opened = [
                *self.watch.filled(run_id), self.watch.step, compare.asked, compare.clock,
                learn.asked_lesson, tabs, learn.asked,
            ]  # fmt: skip
            self.watch.player.follow(
                self._follow, None, self.opened, api_name="follow", **QUIET
            )
            endpoints(Api(runs, visitor, sweeps))

    def _follow(self, event: gr.EventData) -> list[Any]:
        """What the page's address asks for."""
        with told():
            try:
                link = read_link(parameters(str(event.query)))
            except ValueError as error:
                raise RunError(said("link_wrong", error=error)) from error
            if link is None:
                return [gr.skip()] * len(self.opened)
            if link.is_language_only:
                return [*[gr.skip()] * (len(self.opened) - 1), link.language]
            step = gr.skip() if not link.step else link.step
            shown = self.watch.events.follow(link)
            beside = link.compared, link.clock, link.lesson
            return [*shown, step, *beside, gr.Tabs(selected=link.tab), link.language]


def endpoints(api: Api) -> None:
    """The page's named endpoints, for gradio_client and others."""
    gr.api(telling(api.decode), api_name="decode", concurrency_limit=None)
    gr.api(telling(api.rejudge), api_name="rejudge")
    gr.api(telling(api.metrics), api_name="metrics")
    gr.api(telling(api.sweep), api_name="sweep", concurrency_limit=None)


def build(runs: Runs, first: str = "", sweeps: Sweeps | None = None) -> gr.Blocks:
    """The page as Blocks, opening with a kept run (default: the first example's)."""
    # files of kept runs are served where they stand: a copy would outlive them
    gr.set_static_paths([*STATIC, runs.store.folder])
    return Page(runs, first or opening(runs), sweeps or Sweeps(runs)).demo

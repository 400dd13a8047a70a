"""What the page shows survives F5: a query string in the browser's own memory of this tab.

It is that of a shared link (`app/link.py`), with the run that is going on. Python makes it; the
player hands it back when the page was loaded again.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import gradio as gr

from app.link import query_of
from app.player import packed, text_line
from app.runs import Runs
from app.tabs.shared import SHORT, told
from app.tabs.watch import Watch

KEEP = """(query) => {
  const key = 'flash-dllm' + location.pathname, tabs = %s;
  let kept = {};
  try { kept = JSON.parse(sessionStorage.getItem(key)) || {}; } catch { /* none yet */ }
  if (query) kept.query = JSON.parse(query);
  const name = document.querySelector('[role=tab][aria-selected=true]')?.textContent.trim();
  kept.tab = tabs[name] || '';
  try { sessionStorage.setItem(key, JSON.stringify(kept)); } catch { /* forbidden here */ }
}"""


class Reload:
    """One hidden line of text."""

    def __init__(self, runs: Runs) -> None:
        self.runs = runs
        self.query = text_line("", "fd-state")

    def wire(self, run_id: gr.State, watch: Watch, tabs: gr.Tabs) -> None:
        names = {tab.label: tab.id for tab in tabs.children if isinstance(tab, gr.Tab)}
        keep = KEEP % json.dumps(names)
        controls = watch.settings()
        parts = [run_id, watch.step, watch.job, *controls]
        gr.on(
            [part.change for part in parts],
            self._query,
            parts,
            self.query,
            trigger_mode="always_last",
            api_name="state",
            **SHORT,
        ).success(None, self.query, None, js=keep, api_visibility="private")
        tabs.change(None, None, None, js=keep, api_visibility="private")
        self.watch = watch

    def _query(
        self, run: str, step: int, job: str, prompt: str, model: str, *raw: Any
    ) -> str:
        with told():
            link = self.watch.events.link(run, step, "watch", prompt, model, raw)
            going = job if self.runs.is_going(job) else ""
            return packed(query_of(replace(link, job=going)))

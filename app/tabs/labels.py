"""The page's head, labels and help of the controls in the page's language:
assets/words/page-<language>.json.

Names that programs know too (strategies, caches, tabs, a link's settings) stay as they are.
"""

from __future__ import annotations

from typing import Any

import gradio as gr

from app.controls import MAIN, controls
from app.player import packed
from app.presets import offered
from app.tabs.compare import Compare
from app.tabs.new_sweep import knobs_offered, qualities_offered
from app.tabs.shared import QUIET, told
from app.tabs.sweep import Sweep
from app.tabs.traces import Traces
from app.tabs.verify_lab import VerifyLab
from app.tabs.watch import Watch
from app.words import Says, page_words

# what a picker offers in a language: (label, value)
CHOICES = {"watch.example": offered, "new.add": knobs_offered, "new.quality": qualities_offered}


class Labels:
    """The controls by the names of their texts: those of "parts", then the knobs.

    head  what stands above the tabs
    """

    def __init__(
        self,
        head: gr.HTML,
        watch: Watch,
        lab: VerifyLab,
        compare: Compare,
        sweep: Sweep,
        traces: Traces,
    ) -> None:
        owners = {
            "watch": watch, "model": watch.panel, "lab": lab, "rival": compare.rival,
            "sweep": sweep, "new": sweep.form, "traces": traces, "cost": watch.cost_map,
        }  # fmt: skip
        # what has no attribute of its own
        several = {
            **{f"compare.{'ABCD'[k]}": part for k, part in enumerate(compare.chosen)},
            **{f"traces.{kind}": part for kind, part in traces.buttons.items()},
            **{f"watch.{name}": watch.knobs[name] for name in ("strategy", "cache")},
        }
        self.parts: dict[str, Any] = {}
        for name in page_words("en")["parts"]:
            owner, _, part = name.partition(".")
            self.parts[name] = several[name] if name in several else getattr(owners[owner], part)
        self.knobs = {name: watch.knobs[name] for name in controls()}
        self.rest = [compare.rival.status, head]

    def wire(self, language: gr.State) -> None:
        """language: one of `app/words.py::LANGUAGES`, or "" for nothing to do."""
        outputs = [*self.parts.values(), *self.knobs.values(), *self.rest]
        language.change(self._speak, language, outputs, api_name="labels", **QUIET)

    def _speak(self, language: str) -> list[Any]:
        with told():
            if not language:
                return [gr.skip()] * (len(self.parts) + len(self.knobs) + len(self.rest))
            words = page_words(language)
            parts = [
                update(part, words["parts"][name])
                | ({"choices": CHOICES[name](language)} if name in CHOICES else {})
                for name, part in self.parts.items()
            ]
            knobs = [gr.update(**knob_words(name, language)) for name in self.knobs]
            rest = packed(Says("compare", language)("rival_hint")), intro(language)
            return [*parts, *knobs, *rest]


def intro(language: str) -> str:
    """The head of the page, as HTML of our own."""
    words = page_words(language)["intro"]
    return (
        f"<h1>{words['title']}</h1><p>{words['text']}</p>"
        f'<p class="fd-jump"><a href="#fd-prompt-box">{words["jump"]}</a></p>'
    )


def update(part: Any, words: str | dict[str, Any]) -> dict:
    """What puts a control's words into it: a button's are its value, or its label where it has
    a file as its value."""
    if isinstance(words, dict):
        return gr.update(**words)
    return gr.update(value=words) if isinstance(part, gr.Button) else gr.update(label=words)


def knob_words(name: str, language: str) -> dict[str, Any]:
    """Label of a knob and, but for the main ones, its help."""
    control = controls()[name]
    label, help_ = page_words(language)["knobs"].get(name, (control.label, control.help))
    return {"label": label} if name in MAIN else {"label": label, "info": help_}

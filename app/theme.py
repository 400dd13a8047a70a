"""Colours with a meaning: one per state of a token, per threshold, per role; light and dark.

The palette is Okabe and Ito's. Each state has a second cue beside its colour (`mark`), because
colour alone does not reach everybody. The page's style sheet is made from this file.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from flash_dllm.trace import Verdict


@dataclass(frozen=True)
class State:
    """What a position looks like in one step.

    code        its number in the run map; in rows of `views` one hexadecimal digit
    fill, ink   chip colours as (light, dark); map, the cell in the run map
    mark        the cue beside the colour
    help        the legend's sentence
    """

    code: int
    key: str
    label: str
    fill: tuple[str, str]
    ink: tuple[str, str]
    cell: tuple[str, str]
    mark: str
    help: str

    @property
    def digit(self) -> str:
        """The code as one character."""
        return f"{self.code:x}"


STATES = (
    State(0, "masked", "masked", ("#eff0f2", "#212428"), ("#a7acb4", "#565c66"),
          ("#e9ebee", "#24272c"), "·",
          "Still blank and outside the window: the model was not asked about it in this step."),
    State(1, "waiting", "draft only", ("#faf6e6", "#29271f"), ("#736d57", "#a8a18a"),
          ("#f4edcd", "#3a3624"), "",
          "The model drafted this token, but the step did not get to it. It may change."),
    State(2, "direct", "sure at once", ("#56b4e9", "#3f9fd6"), ("#04263a", "#031c2b"),
          ("#56b4e9", "#4aa9de"), "D",
          "Written at once: the draft's confidence c is at least ε."),
    State(3, "verified", "checked and kept", ("#2bb58a", "#27a47d"), ("#03261b", "#021a12"),
          ("#2bb58a", "#2aae85"), "✓",
          "Less sure, so it was checked: draft view and mask view agree, and c̃ is at least γ."),
    State(4, "mismatch", "check disagrees", ("#d55e00", "#d9651a"), ("#ffffff", "#ffffff"),
          ("#d55e00", "#e2702a"), "≠",
          "The check stops here: with the drafts before it filled in, the model says another "
          "token."),
    State(5, "unsure", "check too unsure", ("#d55e00", "#d9651a"), ("#ffffff", "#ffffff"),
          ("#d55e00", "#e2702a"), "<γ",
          "The check stops here: both views say the same token, but c̃ is below γ."),
    State(6, "forced", "forced", ("#e69f00", "#d39206"), ("#2e2000", "#211700"),
          ("#e69f00", "#dc9a0a"), "!",
          "No draft reached ε; the surest one is written anyway, so that every step moves on."),
    State(7, "corrected", "check's own token", ("#007a59", "#008f68"), ("#ffffff", "#ffffff"),
          ("#007a59", "#019e74"), "↺",
          "The check said another token and was sure of it, so that one was written."),
    State(8, "after_stop", "behind the stop", ("#f6efe2", "#2b2620"), ("#736d57", "#a8a18a"),
          ("#efe3c9", "#423a29"), "",
          "Checked too, but behind the first failure: it was judged given a token that failed."),
    State(9, "committed", "written", ("transparent", "transparent"),
          ("#1c1e21", "#e4e6e9"), ("#fbfbfc", "#15171a"), "",
          "Written in an earlier step. Written tokens never change, but for strategies that take "
          "tokens back."),
    State(10, "revoked", "taken back", ("#f3d9e8", "#4a2238"), ("#5c1740", "#f0c3dc"),
          ("#e3a3c7", "#8d3f6d"), "↶",
          "Written in an earlier step and blank again after this one: with the token itself left "
          "out, the model no longer found it likely."),
)  # fmt: skip

STATE_OF = {
    Verdict.CONFIDENT: STATES[2],
    Verdict.VERIFIED: STATES[3],
    Verdict.MISMATCH: STATES[4],
    Verdict.UNSURE: STATES[5],
    Verdict.FORCED: STATES[6],
    Verdict.CORRECTED: STATES[7],
    Verdict.AFTER_STOP: STATES[8],
    Verdict.WAITING: STATES[1],
}
MASKED, WAITING, COMMITTED, REVOKED = STATES[0], STATES[1], STATES[9], STATES[10]

# early to late: nine steps of matplotlib's cividis (CC0), even in brightness for every eye
SEQUENCE = ("#00224e", "#1c3564", "#434e6c", "#61656f", "#7d7c78", "#9c9476", "#bdae6e", "#dfca57",
            "#fee838")  # fmt: skip
TRACKED = ("#cc79a7", "#d58bb4")
EPSILON = ("#0072b2", "#6cb8e8")
GAMMA = ("#00795a", "#45c9a0")

# the scale of measured numbers, low to high: one hue that no state of a token has; text stays
# readable on all of it
SWEEP_LOW = ("#eef0f8", "#20242e")
SWEEP_HIGH = ("#8f9cd6", "#5968ac")

NAMED = {
    "tracked": TRACKED, "epsilon": EPSILON, "gamma": GAMMA, "sweep-low": SWEEP_LOW,
    "sweep-high": SWEEP_HIGH,
}  # fmt: skip

# names of the greys: (light, dark)
GREYS = {
    "page": ("#ffffff", "#111316"),
    "panel": ("#ffffff", "#16181b"),
    "ink": ("#1c1e21", "#e4e6e9"),
    "quiet": ("#646a73", "#9299a3"),
    "line": ("#dfe2e6", "#30343a"),
    "grid": ("#eef0f2", "#22252a"),
    "axis": ("#aeb4bc", "#4d545d"),
}
FONT = 'ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif'
MONO = 'ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace'


def states_json() -> str:
    """The states as the player needs them."""
    names = ("code", "key", "label", "mark", "help")
    return json.dumps([{name: getattr(state, name) for name in names} for state in STATES])


def sequence_json() -> str:
    """The colours from early to late."""
    return json.dumps(SEQUENCE)


def css_variables() -> str:
    """The palette as CSS custom properties, light for `:root` and dark for `.dark`."""
    blocks = []
    for selector, shade in ((":root", 0), (".dark", 1)):
        lines = [f"--fd-{name}:{pair[shade]};" for name, pair in GREYS.items()]
        for state in STATES:
            lines.append(f"--fd-{state.key}:{state.fill[shade]};")
            lines.append(f"--fd-{state.key}-ink:{state.ink[shade]};")
            lines.append(f"--fd-{state.key}-cell:{state.cell[shade]};")
        for name, pair in NAMED.items():
            lines.append(f"--fd-{name}:{pair[shade]};")
        lines.append(f"--fd-font:{FONT};--fd-mono:{MONO};")
        blocks.append(selector + "{" + "".join(lines) + "}")
    return "\n".join(blocks)


def cell_colorscale(dark: bool = False) -> list[list[float | str]]:
    """A stepped plotly colour scale for state codes, from zmin = -0.5 to half above the last."""
    scale: list[list[float | str]] = []
    for state in STATES:
        colour = state.cell[dark]
        scale += [[edge / len(STATES), colour] for edge in (state.code, state.code + 1)]
    return scale


def layout(dark: bool = False) -> dict:
    """The quiet layout that all figures share, as plain plotly JSON."""
    axis = {
        "gridcolor": GREYS["grid"][dark],
        "linecolor": GREYS["axis"][dark],
        "zeroline": False,
        "ticks": "",
        "automargin": False,
        "fixedrange": True,
    }
    return {
        "font": {"family": FONT, "size": 12, "color": GREYS["quiet"][dark]},
        "paper_bgcolor": GREYS["panel"][dark],
        "plot_bgcolor": GREYS["panel"][dark],
        "margin": {"l": 48, "r": 16, "t": 40, "b": 40},
        "hoverlabel": {
            "bgcolor": GREYS["panel"][dark],
            "bordercolor": GREYS["line"][dark],
            "font": {"color": GREYS["ink"][dark], "family": FONT},
        },
        "xaxis": dict(axis),
        "yaxis": dict(axis),
        "showlegend": False,
        "bargap": 0.15,
    }


def escape(text: str) -> str:
    """Text for a plotly label, where `<b>` would act as markup."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")

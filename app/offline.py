"""The running player as one file: trace, player and plotly.js inside, nothing asked for.

No gradio here. Also what a notebook shows (`app/notebook.py`).
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from app import theme, views
from app.words import player_words
from flash_dllm.files import write_text
from flash_dllm.trace import DecodeTrace

ASSETS = Path(__file__).resolve().parents[1] / "assets"

# what gradio gives to a component's script, as far as the player uses it
SHIM = """
const element = document.body, props = DATA, trigger = () => {}, watch = () => {};
const dark = matchMedia('(prefers-color-scheme: dark)');
const isDark = () => (DATA.dark === null ? dark.matches : DATA.dark);
const shade = () => document.body.classList.toggle('dark', isDark());
shade(); dark.addEventListener('change', shade);
"""
STYLE = """
body { margin: 0; padding: 20px 24px; background: var(--fd-page); }
main { max-width: 1200px; margin: 0 auto; }
.fd-line { pointer-events: none !important; }
.fd-line b { visibility: visible; }
"""


def player_html(
    trace: DecodeTrace, step: int | None = None, is_dark: bool | None = None, language: str = ""
) -> str:
    """The player with this run as an HTML document; None for `is_dark` and "" for `language`
    follow the reader.

    The thresholds stand in it but can't be dragged: judging again needs Python.
    """
    data = {
        "value": views.view(trace, "file", at=step),
        "states": theme.states_json(),
        "words": player_words(),
        "sequence": theme.sequence_json(),
        "plotly": "",
        "dark": is_dark,
        "language": language,
    }
    # texts of tokens may close the script element or open a comment: no "<" is left in the data
    packed = json.dumps(data).replace("<", "\\u003c")
    script = "\n".join(_read(f"{name}.js") for name in ("player_charts", "player"))
    return (
        f'<!doctype html><html lang="{language or "en"}"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        "<title>Flash-dLLM run</title>"
        f"<style>{theme.css_variables()}{_read('player.css')}{STYLE}</style></head>"
        f"<body><main>{_read('player.html')}</main>"
        f"<script>{_read('plotly-cartesian.min.js')}</script>"
        f"<script>const DATA = {packed};\n(() => {{{SHIM}{script}}})();</script></body></html>"
    )


def write_player(
    trace: DecodeTrace,
    path: str | os.PathLike[str],
    step: int | None = None,
    language: str = "",
) -> None:
    """Write the player with this run to a file."""
    write_text(path, player_html(trace, step, language=language))


def _read(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")

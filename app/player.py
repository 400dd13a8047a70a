"""The page's own components: the trace player, boards, lines of plain text, frames.

All are `gr.HTML` with a static template; the value is JSON, and text reaches the page by
`textContent`. Never put text into a template: gradio would run a `${…}` in it. They are functions,
because gradio writes a stub file beside every module that subclasses a component.
"""

from __future__ import annotations

import json
from pathlib import Path

import gradio as gr

from app import theme
from app.said import Said
from app.words import LANGUAGES, player_words

ASSETS = Path(__file__).resolve().parents[1] / "assets"
PLOTLY_JS = ASSETS / "plotly-cartesian.min.js"


# scripts of tabs that open later come from files, once for all: the page itself stays small
STATIC = [PLOTLY_JS, ASSETS / "board.js"]
# the player's own script stands in the page's head, and a player only calls it: gradio searches a
# component's script for every name that it asks of the component, at each update that skips it
CALL_PLAYER = """
    window.fdPlayer(element, props, trigger, watch);
    // what it sends, for gradio to find: "gamma", "epsilon", "resync", "step", "follow"
"""


def trace_player(message: str) -> gr.HTML:
    """Chips, sentence and charts of one trace; the value is a message of `app/views.py`.

    Events: gamma and epsilon (a dragged line, `v`), resync (a live step was lost, `run`), step
    (it came to rest at a step, counted from 1).
    """
    return gr.HTML(
        message,
        html_template=_read("player.html"),
        js_on_load=CALL_PLAYER,
        apply_default_css=False,
        states=theme.states_json(),
        words=player_words(),
        sequence=theme.sequence_json(),
        plotly=plotly_url(),
        follows="yes",
    )


def board_view(elem_id: str) -> gr.HTML:
    """A board; the value is made by `app/board.py`. Event: act (`name`, `value`)."""
    return gr.HTML(
        "",
        html_template='<div class="bd" data-drawn="0"></div>',
        js_on_load=_later("board.js", events=("act",)),
        apply_default_css=False,
        plotly=plotly_url(),
        elem_id=elem_id,
    )


def later_player() -> gr.HTML:
    """An empty player of a tab that opens later; its value and events are those of the first."""
    return gr.HTML(
        "",
        html_template=_read("player.html"),
        js_on_load=CALL_PLAYER,
        apply_default_css=False,
        states=theme.states_json(),
        words=player_words(),
        sequence=theme.sequence_json(),
        plotly=plotly_url(),
    )


def text_line(text: str, elem_id: str) -> gr.HTML:
    """A line of text that may hold anything; new values go through `packed`.

    A line in several languages is shown in the page's, and again when that changes.
    """
    return gr.HTML(
        packed(text),
        html_template='<p class="fd-line-text" role="status"></p>',
        js_on_load="""
            const line = element.querySelector('p');
            const names = JSON.parse(props.languages);
            const set = () => {
                const text = props.value ? JSON.parse(props.value) : '';
                const at = Math.max(0, names.indexOf(window.fdLanguage));
                line.textContent = Array.isArray(text) ? text[at] : text;
            };
            set();
            watch('value', set);
            document.addEventListener('fd-language', set);
        """,
        apply_default_css=False,
        languages=json.dumps(LANGUAGES),
        elem_id=elem_id,
    )


def figure_frame(
    title: str = "The run as one plotly figure", kind: str = "fd-frame"
) -> gr.HTML:
    """A document of `app/embed.py`, `packed`, in a frame that can't reach the page.

    title  for screen readers; kind: the frame's class (both are texts of ours)
    """
    return gr.HTML(
        "",
        html_template=(
            f'<iframe class="{kind}" sandbox="allow-scripts" title="{title}"></iframe>'
        ),
        js_on_load=_read("frame.js"),
        apply_default_css=False,
    )


def packed(text: str) -> str:
    """Text as a value of `text_line` or `figure_frame`; of a `Said` all translations.

    >>> packed("<b>")
    '"\\\\u003cb>"'
    """
    return json.dumps(text.texts if isinstance(text, Said) else text).replace("<", "\\u003c")


def plotly_url() -> str:
    """Where the page finds plotly.js: relative, so that it also works under a sub-path."""
    return f"gradio_api/file={PLOTLY_JS.as_posix()}"


def page_head() -> str:
    """Style sheet of the page (the palette of `theme.py` and the assets' rules), and the player."""
    sheets = "".join(_read(f"{name}.css") for name in ("player", "board", "page"))
    script = _read("player_charts.js") + _read("player.js")
    return (
        f"<style>{theme.css_variables()}{sheets}</style>"
        f"<script>{_read('frames.js')}</script>"
        f"<script>window.fdPlayer = (element, props, trigger, watch) => {{{script}}};</script>"
    )


def _later(name: str, events: tuple[str, ...]) -> str:
    """A script that fetches the component's own one when its tab opens, and runs it.

    events  gradio looks for their names in quotes, to know what the component sends
    """
    url = f"gradio_api/file={(ASSETS / name).as_posix()}"
    return f"""
        const events = {json.dumps(events)};
        let changed = () => {{}};
        watch('value', () => changed());  // gradio takes a watch only now, not after the fetch
        const later = (_, call) => {{ changed = call; }};
        fetch({json.dumps(url)}).then((answer) => answer.text()).then(
            (text) => new Function('element', 'props', 'trigger', 'watch', text)(
                element, props, trigger, later));
    """


def _read(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")

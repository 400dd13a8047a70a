"""The pure plotly figure of a run as an HTML document: for the page's frame, or as a file.

No gradio here. The document changes its colours when the page posts `{dark: true}` (or, as a
file, with the reader's system) and steps with the arrow keys.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from app import theme
from app.figures import cost_map, run
from flash_dllm.files import write_text
from flash_dllm.trace import DecodeTrace

PLOTLY_JS = Path(__file__).resolve().parents[1] / "assets" / "plotly-cartesian.min.js"

# what every document does: its marks' own changes, one after the other, follow the layout's
SHADE = """
const gd = document.getElementById('run');
function shade(dark) {
  const s = FIGURE.shades[dark ? 1 : 0];
  document.body.style.background = s.layout.paper_bgcolor;
  document.body.dataset.dark = dark ? 1 : 0;
  Plotly.relayout(gd, s.layout);
  s.marks.forEach((mark, i) => Plotly.restyle(gd, mark, [i]));
}
const drawn = Plotly.newPlot(gd, FIGURE).then(() => {
  if (parent !== window) parent.postMessage({ height: document.body.offsetHeight }, '*');
});
addEventListener('message', (e) => { if (e.data && 'dark' in e.data) shade(!!e.data.dark); });
"""

RUN = """
drawn.then(() => {
  document.body.dataset.frames = gd._transitionData._frames.length;
  if (FIGURE.follow) { const m = matchMedia('(prefers-color-scheme: dark)');
    if (m.matches) shade(true); m.addEventListener('change', () => shade(m.matches)); }
});
addEventListener('keydown', (e) => {
  const s = gd._fullLayout.sliders[0], n = s.steps.length, at = s.active || 0;
  const to = {ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: n - 1}[e.key];
  if (to === undefined || to < 0 || to >= n) return;
  e.preventDefault();
  Plotly.animate(gd, [String(s.steps[to].label)], s.steps[to].args[1]);
  Plotly.relayout(gd, {'sliders[0].active': to});
});
"""

STILL = "drawn.then(() => { document.body.dataset.marks = gd._fullData.length; });"


def document(trace: DecodeTrace, plotly_url: str) -> str:
    """The document with plotly.js loaded from `plotly_url`."""
    return _document(trace, f'<script src="{plotly_url}"></script>', is_file=False)


def cost_document(trace: DecodeTrace, plotly_url: str) -> str:
    """The cost map as a document, plotly.js loaded from `plotly_url`."""
    figures = [json.loads(cost_map.figure(trace, is_dark).to_json()) for is_dark in (False, True)]
    figure = figures[0]
    figure["layout"].pop("template", None)
    figure["config"] = {"displayModeBar": False, "responsive": True}
    figure["shades"] = [
        {
            "layout": {
                name: shade["layout"][name] for name in ("font", "paper_bgcolor", "plot_bgcolor",
                                                         "hoverlabel", "title", "shapes")
            },
            "marks": [
                {"colorscale": [shade["data"][0]["colorscale"]]},
                {"marker.color": shade["data"][1]["marker"]["color"]},
            ],
        }
        for shade in figures
    ]  # fmt: skip
    return _page(figure, f'<script src="{plotly_url}"></script>', STILL)


def write_html(trace: DecodeTrace, path: str | os.PathLike[str]) -> None:
    """Write a self-contained file: plotly.js is inside, nothing is asked from the network."""
    script = PLOTLY_JS.read_text(encoding="utf-8")
    html = _document(trace, f"<script>{script}</script>", is_file=True)
    write_text(path, html)


def _document(trace: DecodeTrace, plotly_script: str, is_file: bool) -> str:
    figure = json.loads(run.figure(trace).to_json())
    figure["layout"].pop("template", None)
    figure["config"] = {"displayModeBar": False, "responsive": True}
    figure["shades"] = [_shade(trace, is_dark) for is_dark in (False, True)]
    figure["follow"] = is_file
    return _page(figure, plotly_script, RUN)


def _page(figure: dict, plotly_script: str, script: str) -> str:
    # texts of tokens may close the script element or open a comment: no "<" is left in the data
    data = json.dumps(figure, separators=(",", ":")).replace("<", "\\u003c")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        "<title>Flash-dLLM run</title>"
        "<style>body{margin:0;padding:12px 0 4px}#run{width:100%}</style>"
        f'{plotly_script}</head><body><div id="run"></div>'
        f"<script>const FIGURE = {data};{SHADE}{script}</script></body></html>"
    )


def _shade(trace: DecodeTrace, is_dark: bool) -> dict:
    """What differs between light and dark, as paths for Plotly.relayout and restyle."""
    ink, line = theme.GREYS["ink"][is_dark], theme.GREYS["line"][is_dark]
    layout = theme.layout(is_dark)
    return {
        "layout": {
            "font.color": layout["font"]["color"],
            "title.font.color": ink,
            "paper_bgcolor": layout["paper_bgcolor"],
            "plot_bgcolor": layout["plot_bgcolor"],
            "hoverlabel": layout["hoverlabel"],
            "updatemenus[0].bgcolor": layout["paper_bgcolor"],
            "updatemenus[0].bordercolor": line,
            "updatemenus[0].font.color": ink,
            "sliders[0].bgcolor": line,
            "sliders[0].font.color": layout["font"]["color"],
        },
        "marks": [
            {"colorscale": [theme.cell_colorscale(is_dark)]},
            {"marker.line.color": theme.TRACKED[is_dark]},
        ],
    }

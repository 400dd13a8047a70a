"""Tables by hand on the toy example; pictures by marks, frames and labels."""

import json
import math
import subprocess
import sys

import pytest

from app import embed, figures, theme
from app.figures import cost_map, progress, run, run_map, tracking, verify
from flash_dllm.trace import Verdict
from tests.app_traces import hostile, rich, toy


def test_the_run_table_has_a_row_per_step_and_position():
    table = run.table(toy())
    assert list(table.step) == [1] * 4 + [2] * 4 + [3] * 4
    assert list(table.state) == [
        *("direct", "verified", "masked", "masked"),
        *("committed", "committed", "forced", "mismatch"),
        *("committed", "committed", "committed", "direct"),
    ]
    assert list(table.token) == ["A", "A", "", "", "A", "A", "B", "A", "A", "A", "B", "B"]
    assert list(table.confidence[:2]) == [0.92, 0.70]
    assert math.isnan(table.verify_confidence[0]) and table.verify_confidence[1] == 0.85
    assert list(table.mass[4:8]) == [0.3, 0, 0, 0]


def test_the_verify_table_follows_the_acceptance_order():
    table = verify.table(toy())
    assert list(zip(table.step, table.order, table.position, strict=True)) == [
        (1, 0, 0),
        (1, 1, 1),
        (2, 0, 2),
        (2, 1, 3),
        (3, 0, 3),
    ]
    assert list(table.verdict) == ["CONFIDENT", "VERIFIED", "FORCED", "MISMATCH", "CONFIDENT"]
    assert list(table.view_token) == ["", "A", "", "B", ""]
    assert list(table.is_kept) == [True, True, True, False, True]


def test_the_tracking_table_ranks_by_mass():
    table = tracking.table(toy())
    second = table[table.step == 2]
    assert list(zip(second.position, second.mass, second.is_tracked, strict=True)) == [
        (0, 0.5, False),
        (1, 0.3, True),
        (2, 0.2, False),
    ]
    assert list(second.token) == ["^", "A", "A"]
    assert list(second.is_new) == [False, True, False]


def test_the_map_table_is_one_row_per_step():
    table = run_map.table(toy())
    assert table.shape == (3, 4)
    assert list(table.loc[2]) == ["committed", "committed", "forced", "mismatch"]


def test_the_cost_table_has_the_layers_of_every_position_and_step():
    """One layer. Step 1 reads all five positions, then D and two views of position 2; step 2 the
    tracked position and the window, then those again with D and two views; step 3 two rows."""
    table = cost_map.table(toy())
    assert list(table.columns) == [-1, 0, 1, 2, 3]
    assert table.to_numpy().tolist() == [[1, 2, 3, 1, 1], [0, 2, 0, 2, 3], [0, 0, 0, 1, 1]]
    assert list(table.index) == [1, 2, 3]
    # 17 of 5 passes over 5 positions
    assert cost_map.share(toy()) == 17 / 25


def test_the_cost_map_shows_the_table_and_where_tokens_were_written():
    figure = cost_map.figure(toy())
    cells, dots = figure.data
    assert [list(row) for row in cells.z] == cost_map.table(toy()).to_numpy().tolist()
    assert (list(cells.x), list(cells.y)) == ([-1, 0, 1, 2, 3], [1, 2, 3])
    assert (cells.zmin, cells.zmax) == (0, 3)
    assert list(cells.colorbar.tickvals) == [0, 1, 3]
    assert list(zip(dots.x, dots.y, strict=True)) == [(0, 1), (1, 1), (2, 2), (3, 3)]
    assert figure.layout.shapes[0].x0 == -0.5
    assert figure.layout.title.text == (
        "17 rows × layers in 5 passes, 68% of computing everything in each; a dot: written here"
    )


def test_the_cost_document_holds_the_map_and_both_shades():
    html = embed.cost_document(hostile(), "plotly.js")
    data = html.split("const FIGURE = ")[1].split(";\nconst gd")[0]
    assert "<" not in data
    tree = json.loads(data)
    assert [mark["type"] for mark in tree["data"]] == ["heatmap", "scatter"]
    light, dark = tree["shades"]
    assert light["layout"]["paper_bgcolor"] == theme.GREYS["panel"][0]
    assert dark["layout"]["paper_bgcolor"] == theme.GREYS["panel"][1]
    assert light["marks"][0] != dark["marks"][0]
    assert '<script src="plotly.js"></script>' in html


def test_the_progress_table_counts_tokens_and_passes():
    table = progress.table(toy())
    assert list(table.confident) == [1, 0, 1]
    assert list(table.verified) == [1, 0, 0]
    assert list(table.forced) == [0, 1, 0]
    assert list(table.passes) == [2, 4, 5]


def test_the_animation_has_a_frame_and_a_slider_stop_per_step():
    figure = run.figure(toy())
    assert len(figure.data) == 2
    assert [frame.name for frame in figure.frames] == ["1", "2", "3"]
    assert all(frame.traces == (0, 1) for frame in figure.frames)
    assert [step.label for step in figure.layout.sliders[0].steps] == ["1", "2", "3"]
    assert [b.label for b in figure.layout.updatemenus[0].buttons] == ["Play", "Pause"]
    assert figure.layout.sliders[0].active == 0
    assert figure.layout.title.text.startswith("<b>Step 1 of 3</b><br>“A” (0.92) was sure")


def test_the_animation_marks_tracked_tokens_and_colours_states():
    second = run.figure(toy()).frames[1]
    assert [list(row) for row in second.data[0].z] == [[9, 9, 6, 4]]
    assert list(second.data[1].x) == [0]
    assert list(second.data[0].text[0]) == ["A", "A", "B", "A"]


@pytest.mark.parametrize(
    ("module", "marks"),
    [(verify, 3), (tracking, 1), (run_map, 1), (progress, 5), (cost_map, 2)],
)
def test_each_picture_has_its_marks_in_light_and_dark(module, marks):
    for is_dark in (False, True):
        figure = module.figure(rich(), is_dark=is_dark)
        assert len(figure.data) == marks
        assert figure.layout.paper_bgcolor == theme.GREYS["panel"][is_dark]


def test_a_trace_without_steps_gives_empty_pictures():
    empty = toy().with_steps((), "stopped", {})
    for module in figures.FIGURES:
        assert len(module.table(empty)) == 0
        module.figure(empty)


def test_token_texts_never_act_as_markup_in_a_figure():
    for module in figures.FIGURES:
        text = module.figure(hostile()).to_json().replace("<b>Step", "").replace("</b><br>", "")
        for tag in ("\\u003cimg", "<img", "\\u003cscript", "<script"):
            assert tag not in text


def test_every_verdict_has_a_state_with_a_second_cue():
    assert set(theme.STATE_OF) == set(Verdict)
    assert [state.code for state in theme.STATES] == list(range(11))
    committed = [s for v, s in theme.STATE_OF.items() if v in ("CONFIDENT", "VERIFIED", "FORCED")]
    assert len({state.mark for state in committed}) == len(committed)


def test_a_file_holds_everything_it_needs(tmp_path):
    path = tmp_path / "run.html"
    embed.write_html(hostile(), path)
    html = path.read_text(encoding="utf-8")
    assert "src=" not in html.split("<script>const FIGURE")[0].split("<script>")[0]
    assert "const FIGURE = {" in html and "plotly.js (cartesian - minified) v" in html
    data = html.split("const FIGURE = ")[1].split(";\nconst gd")[0]
    assert "<" not in data


def test_the_shipped_plotly_js_is_the_one_that_plotly_py_carries():
    from pathlib import Path

    import plotly

    carried = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
    version = carried.read_text(encoding="utf-8")[:60].split("plotly.js v")[1].split()[0]
    shipped = embed.PLOTLY_JS.read_text(encoding="utf-8")[:80]
    assert f"v{version}" in shipped


def test_figures_need_neither_gradio_nor_torch():
    code = (
        "import sys; import app.figures, app.embed, app.views; "
        "print(sorted({'gradio', 'torch', 'transformers'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

"""What leaves the page: links, pictures, films, tables, files, notebooks."""

import csv
import io
import json
import zipfile
from pathlib import Path

import pytest
from PIL import Image

from app import csv_files, film, notebook, offline, shelf
from app.link import Link, changed, parameters, query_of, read_link
from app.presets import EMBEDDED, TOY
from app.runs import Runs
from app.store import RunError
from tests.app_traces import hostile, rich, toy

NOTEBOOK = Path(__file__).resolve().parents[1] / "docs" / "notebook.ipynb"


@pytest.mark.parametrize(
    "link",
    [
        Link(example="word-1", step=4),
        Link(example="toy", model=TOY, settings={"gamma": 0.9}, tab="lab"),
        Link(run="abc", prompt="a & b\n?", settings={"strategy": "greedy", "seed": 3}, step=12),
        Link(example="word-1", settings={"block_length": None, "audit": True, "refresh": 16}),
        Link(example="word-1", settings={"track_layers": (2, 5), "order": "position"}),
        Link(example="word-1", compared=("bundled:word-1", "abc"), clock="rows", tab="compare"),
        Link(example="word-1", lesson="gamma", tab="learn"),
    ],
)
def test_a_link_comes_back_as_it_was(link):
    assert read_link(parameters(query_of(link))) == link


def test_a_page_without_our_parameters_has_no_link():
    assert read_link({"__theme": "dark", "utm": "x"}) is None


def test_a_links_numbers_are_clamped_to_their_range():
    assert read_link({"gamma": "7"}).settings == {"gamma": 1.0}
    assert read_link({"epsilon": "-inf"}).settings["epsilon"] == 0.0


@pytest.mark.parametrize(
    ("parameter", "sentence"),
    [
        ({"gamma": "x"}, "the link's gamma must be a number, got 'x'"),
        ({"gamma": "nan"}, "the link's gamma must be a number, got 'nan'"),
        ({"step": "-1"}, "the link's step must be a whole number, got '-1'"),
        ({"tab": "<b>"}, "the link's tab must be one of watch, lab, compare, sweep, learn, traces"),
        ({"strategy": "x"}, "the link's strategy must be one of flash_verify,"),
        ({"lesson": "x"}, "the link's lesson must be one of mask, clash"),
        ({"clock": "x"}, "the link's clock must be one of steps, passes, rows, seconds, got 'x'"),
        ({"compare": "a,b,c,d,e"}, "the link's compare must name at most 4 runs, got 5"),
        ({"compare": "a," + "b" * 65}, "the link's compare is longer than 64 characters"),
        ({"run": "a" * 65}, "the link's run is longer than 64 characters"),
        ({"prompt": "a" * 4001}, "the link's prompt has 4001 characters; at most 4000"),
    ],
)
def test_a_wrong_link_is_refused_in_a_sentence(parameter, sentence):
    with pytest.raises(ValueError, match=sentence):
        read_link(parameter)


def test_a_link_carries_only_what_differs():
    assert changed({"gamma": 0.9, "epsilon": 0.9, "x": 1}, {"gamma": 0.8, "epsilon": 0.9}) == {
        "gamma": 0.9
    }


def test_an_example_is_offered_under_its_own_name_and_read_once():
    runs = Runs()
    name = shelf.resolve(runs, "bundled:toy")
    assert shelf.value_of(runs, name) == "bundled:toy"
    assert shelf.resolve(runs, "bundled:toy") == name
    mine = runs.store.keep(rich())
    values = [value for _, value in shelf.choices(runs, [mine, name, "gone"])]
    assert values[0] == mine and "gone" not in values and name not in values
    with pytest.raises(RunError, match="no recorded run of that name"):
        shelf.resolve(runs, "bundled:../../etc/passwd")


def test_the_newest_runs_are_remembered_once():
    assert shelf.remembered(["a", "b"], "b") == ["b", "a"]
    assert len(shelf.remembered([str(n) for n in range(40)], "x")) == 32


def colours(image):
    return {colour for _, colour in image.convert("RGB").getcolors(1 << 24)}


def rgb(text):
    return tuple(int(text[k : k + 2], 16) for k in (1, 3, 5))


@pytest.mark.parametrize("is_dark", [False, True])
def test_a_picture_holds_the_colours_of_its_states(tmp_path, is_dark):
    from app import theme

    film.write_png(toy(), tmp_path / "a.png", step=1, is_dark=is_dark)
    with Image.open(tmp_path / "a.png") as image:
        assert image.width == 2 * film.WIDTH
        found = colours(image)
    assert rgb(theme.GREYS["page"][is_dark]) in found
    for key in ("direct", "verified", "masked"):
        state = next(s for s in theme.STATES if s.key == key)
        assert rgb(state.fill[is_dark]) in found


def test_a_film_has_a_frame_per_step_and_rests_on_the_last(tmp_path):
    film.write_gif(toy(), tmp_path / "a.gif")
    with Image.open(tmp_path / "a.gif") as image:
        assert image.n_frames == 3 and image.info["loop"] == 0
        times = []
        for frame in range(3):
            image.seek(frame)
            times.append(image.info["duration"])
    assert times == [film.STEP_MS, film.STEP_MS, film.LAST_MS]


def test_nothing_to_draw_is_said(tmp_path):
    empty = toy().with_steps((), "stopped", {})
    with pytest.raises(ValueError, match="this run has no steps"):
        film.write_gif(empty, tmp_path / "a.gif")
    with pytest.raises(ValueError, match="step must lie between 1 and 3, got 4"):
        film.write_png(toy(), tmp_path / "a.png", step=4)


def test_chips_of_a_picture_stay_inside_it():
    chips, depth = film._places(rich(), 1)
    assert len(chips) == 48 and depth > film.LINE
    assert all(chip.x + chip.width <= film.WIDTH - film.MARGIN + 1 for chip in chips)


def test_every_table_is_in_the_zip(tmp_path):
    csv_files.write_csv(toy(), tmp_path / "a.zip")
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        assert archive.testzip() is None
        tables = {
            name: list(csv.DictReader(io.StringIO(archive.read(name).decode("utf-8"))))
            for name in archive.namelist()
        }
    assert set(tables) == {
        f"{name}.csv"
        for name in (*csv_files.FIGURES, "missed", "bound", "passes", "sees")
    }
    assert len(tables) == 11
    assert len(tables["run.csv"]) == 12 and len(tables["verify.csv"]) == 5
    assert [row["kind"] for row in tables["passes.csv"]] == [
        "full", "verify", "draft", "verify", "draft"
    ]  # fmt: skip
    assert [row["length"] for row in tables["bound.csv"]] == ["1", "0", "0"]
    assert tables["missed.csv"] == []
    # rows × columns: A, draft, mask view × 6; re-read, B, draft, mask view × 6; step 3 checks
    # nothing
    assert [row["step"] for row in tables["sees.csv"]] == ["1"] * 18 + ["2"] * 24
    mask = [row for row in tables["sees.csv"] if (row["step"], row["row"]) == ("1", "mask 1")]
    assert [(row["column"], row["sees"]) for row in mask] == [
        ("prompt, 1", "yes"), ("A", "yes"), ("blank 1", "no"), ("1 A", "no"),
        ("mask 1", "itself"), ("other, 2", "yes"),
    ]  # fmt: skip


def test_texts_that_hold_commas_and_lines_come_back_from_csv():
    tables = csv_files.csv_tables(hostile())
    rows = list(csv.DictReader(io.StringIO(tables["verify"])))
    assert {row["token"] for row in rows} <= set(hostile().token_texts.values())


def test_the_players_file_asks_for_nothing_and_holds_no_markup_of_tokens():
    html = offline.player_html(hostile())
    data = html.split("const DATA = ")[1].split(";\n(() => {")[0]
    assert "<" not in data
    assert json.loads(json.loads(data)["value"])["kind"] == "trace"
    head = html.split("<script>")[0]
    assert "src=" not in head and "href=" not in head and "url(" not in head
    assert "plotly.js (cartesian - minified) v" in html


def test_two_players_of_a_notebook_stand_in_frames_of_their_own():
    first, second = notebook.show(toy()), notebook.show(rich(), step=2, height=500)
    assert first._repr_html_().count("<iframe") == 1
    assert 'height="500"' in second._repr_html_()
    assert "<script>" not in first._repr_html_()


def test_the_notebook_runs():
    """Its cells, one after the other, in one namespace; it needs no model."""
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert len(code) >= 5
    space: dict = {}
    for number, source in enumerate(code, 1):
        exec(compile(source, f"cell {number}", "exec"), space)
    assert space["trace"].status == "finished"
    assert [frame.name for frame in space["picture"].frames][:2] == ["1", "2"]
    assert space["again"].badge.startswith("exact")


def test_defaults_of_a_link_are_the_embedded_models():
    assert Link().model == EMBEDDED

"""The pictures of a study, block by block, from rows written by hand."""

import json

import pytest

from app.sweep_choice import View
from app.sweep_form import suggestion
from app.sweep_tables import item_table
from app.sweep_view import lead, sweep_board
from app.sweep_words import compared, knob_line
from flash_dllm.evaluation.study_table import Row, StudyTable
from flash_dllm.evaluation.sweep_file import checked
from flash_dllm.evaluation.tasks import OWN_TASKS
from tests.app_traces import toy


def row(number: int, epsilon: float, gamma: float, accuracy: float, speed: float, **more) -> Row:
    measured = {"accuracy": accuracy, "tokens_per_pass": speed, "rows_per_token": 30 / speed,
                "items": 4, "correct": "1101", **more}  # fmt: skip
    return Row(number, "COMPLETE", {"epsilon": epsilon, "gamma": gamma}, measured)


SWEEP = checked({
    "study": "mine", "storage": "x", "tasks": ["word"], "limit": 4,
    "search": {"epsilon": [0.8, 0.9], "gamma": [0.5, 0.6]},
})  # fmt: skip
ROWS = (
    row(0, 0.8, 0.5, 0.5, 6.0),
    row(1, 0.8, 0.6, 0.75, 5.0),
    row(2, 0.9, 0.5, 0.75, 4.0),
    Row(3, "WAITING", {"epsilon": 0.9, "gamma": 0.6}),
)
TABLE = StudyTable("mine", ROWS, SWEEP.objectives, SWEEP)


def blocks(table=TABLE, view=None, prompts=()) -> dict[str, dict]:
    view = view or View()
    message = json.loads(sweep_board(table, view, prompts))
    return {block["id"]: block for block in message["blocks"]}


def test_the_lead_says_how_far_it_is_and_where_the_front_goes():
    assert lead(TABLE, View().within(TABLE)) == (
        "3 of 4 points on 4 items of word. The front goes from accuracy 0.750 at 5.00 tokens per "
        "pass (ε 0.8, γ 0.6) to accuracy 0.500 at 6.00 tokens per pass (ε 0.8, γ 0.5)."
    )
    # fewer rows are better: what is slowest on one scale is quickest on the other
    view = View(cost="rows_per_token").within(TABLE)
    assert "to accuracy 0.500 at 5.0 rows per token (ε 0.8, γ 0.5)" in lead(TABLE, view)


def test_the_heatmap_has_a_cell_for_each_pair_and_a_hollow_one_for_what_is_missing():
    chart = blocks()["heatmap"]
    cells, empty = chart["marks"][:2]
    # γ across, ε up
    assert cells["z"] == [[6.0, 5.0], [4.0, None]]
    assert cells["text"] == [["6.00", "5.00"], ["4.00", ""]]
    assert cells["customdata"] == [[0, 1], [2, None]]
    assert (empty["x"], empty["y"]) == ([1], [1])
    assert chart["layout"]["xaxis"]["ticktext"] == ["0.5", "0.6"]
    assert chart["layout"]["yaxis"]["ticktext"] == ["0.8", "0.9"]
    assert cells["reversescale"] is False
    less = blocks(view=View(shown="rows_per_token"))["heatmap"]
    assert less["marks"][0]["reversescale"] is True and "stronger is less" in less["note"]


def test_points_that_share_a_cell_are_averaged_and_it_is_said():
    rows = [row(n, 0.8, 0.5, 0.5, speed) for n, speed in enumerate((2.0, 4.0))]
    rows = [Row(r.number, r.state, {**r.knobs, "seed": r.number}, r.measured) for r in rows]
    third = Row(2, "COMPLETE", {"epsilon": 0.9, "gamma": 0.5, "seed": 0}, ROWS[2].measured)
    more = (*rows, third)
    found = blocks(StudyTable("s", more, SWEEP.objectives, SWEEP))
    cells = found["heatmap"]["marks"][0]
    assert cells["z"] == [[3.0], [4.0]]
    assert "mean of 2 points" in cells["hovertext"][0][0]
    assert "Means of up to 2 points" in found["heatmap"]["note"]
    # three knobs: which ones the heatmap shows can be chosen
    assert [o["value"] for o in found["x"]["options"]] == ["epsilon", "gamma", "seed"]


def test_the_front_marks_what_nothing_beats_and_joins_it():
    line, points, chosen = blocks(view=View(trial=2))["front"]["marks"]
    assert (line["x"], line["y"]) == ([5.0, 6.0], [0.75, 0.5])
    assert points["customdata"] == [0, 1, 2]
    assert points["marker"]["symbol"] == ["diamond", "diamond", "circle"]
    assert (chosen["x"], chosen["y"], chosen["customdata"]) == ([4.0], [0.75], [2])


def test_parallel_lines_go_from_knobs_to_metrics_on_axes_of_their_own():
    chart = blocks()["parallel"]
    assert chart["layout"]["xaxis"]["ticktext"] == [
        "ε", "γ", "tokens<br>per pass", "rows<br>per token", "accuracy",
    ]  # fmt: skip
    by_number = {mark["customdata"][0]: mark["y"] for mark in chart["marks"]}
    # 30/6 = 5 rows is the least, 30/4 = 7.5 the most, 30/5 = 6 lies at 1/2.5
    assert by_number[0] == pytest.approx([0, 0, 1, 0, 0])
    assert by_number[1] == pytest.approx([0, 1, 0.5, 0.4, 1])
    assert by_number[2] == pytest.approx([1, 0, 0, 1, 1])


def test_the_points_are_listed_the_best_first_with_what_can_not_be():
    rows = (*ROWS, Row(4, "PRUNED", {"epsilon": 2, "gamma": 0.5}, {"reason": "ε is a share"}))
    table = blocks(StudyTable("s", rows, SWEEP.objectives, SWEEP))["points"]
    assert [cells[0] for cells in table["rows"]] == ["1", "2", "0", "4"]
    assert table["picks"] == [1, 2, 0, None]
    assert [cells[-2] for cells in table["rows"]] == ["◆", "", "◆", ""]
    assert table["rows"][-1][-1] == "ε is a share"
    assert table["columns"] == [
        "point", "ε", "γ", "accuracy", "tokens per pass", "rows per token", "front", "why not",
    ]  # fmt: skip


def test_a_point_lists_its_items():
    prompts = ["a " * 80, "b", "c", "d"]
    measured = {"correct": "110-", "tokens_by_item": [5, 6, 7, 8], "passes_by_item": [1, 2, 3, 4],
                "agreement_by_item": [1.0, 0.5, 0.25, 0.0]}  # fmt: skip
    columns, cells, picks = item_table(measured, prompts)
    assert columns == ["item", "prompt", "answer", "agreement", "tokens", "passes"]
    assert cells[1] == ["2", "b", "✓ right", "50%", "6", "2"]
    assert cells[2][2] == "✗ wrong" and cells[3][2] == "–"
    assert len(cells[0][1]) == 90 and cells[0][1].endswith("…")
    assert picks == [0, 1, 2, 3]
    found = blocks(view=View(trial=1), prompts=prompts)["point"]
    assert found["title"] == "Point 1: ε 0.8, γ 0.6" and found["name"] == "item"
    # nothing chosen: the block says what to do
    assert "Click a point" in " ".join(blocks()["point"]["text"])


def test_a_study_of_another_program_has_its_own_names():
    rows = tuple(Row(n, "COMPLETE", {"lr": n / 10}, {"value 0": n * n}) for n in range(3))
    found = blocks(StudyTable("other", rows, {"value 0": "minimize"}))
    assert "another program" in " ".join(found["say"]["text"])
    assert "heatmap" not in found and len(found["points"]["rows"]) == 3


def test_an_empty_study_says_that_points_will_come():
    found = blocks(StudyTable("new", (), SWEEP.objectives, SWEEP))
    assert "0 of 4 points" in found["say"]["text"][1] and "as they are measured" in str(found)


def test_names_of_points_reach_charts_as_text():
    bad = "<b>x</b>"
    rows = tuple(Row(n, "COMPLETE", {"strategy": f"{bad}{n}", "seed": n}, ROWS[0].measured)
                 for n in range(2))  # fmt: skip
    found = blocks(StudyTable(bad, rows, SWEEP.objectives, SWEEP))
    hover = found["front"]["marks"][1]["hovertext"][0]
    assert "&lt;b&gt;x" in hover and bad not in hover


def test_swapping_the_heatmaps_knobs_keeps_both():
    view = View().within(TABLE)
    assert (view.x, view.y) == ("gamma", "epsilon")
    turned = view.with_choice("x", "epsilon")
    assert (turned.x, turned.y) == ("epsilon", "gamma")
    assert view.with_choice("nonsense", "a") == view
    # what a study lacks is chosen anew
    assert View(quality="agreement", trial=99).within(TABLE).trial is None
    assert View(quality="agreement").within(TABLE).quality == "accuracy"


def test_only_knobs_that_differ_name_a_point():
    rows = tuple(Row(n, "COMPLETE", {"seed": n, "cache": "none"}) for n in range(2))
    assert knob_line(rows[1], StudyTable("s", rows, {})) == "seed 1"


def test_a_run_is_held_against_what_was_measured():
    trace = toy()
    fingerprint = trace.model.fingerprint
    same = Row(0, "COMPLETE", {}, {"model": fingerprint, "tokens_by_item": [4],
                                   "passes_by_item": [5]})  # fmt: skip
    assert compared(trace, same, 0) == "4 tokens in 5 passes, as measured."
    other = Row(0, "COMPLETE", {}, {"tokens_by_item": [4], "passes_by_item": [6]})
    assert compared(trace, other, 0).startswith("4 tokens in 5 passes; the sweep measured 4 in 6")
    foreign = Row(0, "COMPLETE", {}, {"model": "another"})
    assert "other weights" in compared(trace, foreign, 0)


def test_every_knob_has_values_to_begin_with():
    from app.controls import controls
    from app.sweep_form import read_lines

    for name in ("strategy", "cache", *controls()):
        assert list(read_lines(suggestion(name), "search")) == [name]
    assert suggestion("seed") == "seed: 0, 1, 2" and suggestion("order").startswith("order: ")
    # shares stay between 0 and 1, also those that may be blank, and near a small default
    assert suggestion("commit_threshold") == "commit_threshold: 0.6, 0.7, 0.8"
    assert suggestion("hope") == "hope: 0.15, 0.3, 0.6"
    assert suggestion("add a knob …") == ""
    assert set(OWN_TASKS) == {"word", "algebra", "code", "story"}

"""One position's life, attention by token, code as rows: worked out by hand on small texts.

Toy (docs/decisions.md): offset 3 is drafted A (.55, check B .70) in step 2 and B (.95) in step 3.
"""

import json

import pytest

from app import views
from app.figures import lifeline as lifeline_figure
from app.lab_view import lab_board
from app.lifeline import by_position, candidates, lifeline, telling_position
from app.link import Link, query_of, read_link
from app.outline import Line, outline
from app.presets import TRACES
from app.real_run import verdict
from app.step_view import looks
from app.token_text import END
from flash_dllm.trace import Proposal, Verdict
from flash_dllm.trace_json import load
from tests.app_traces import rich, toy

# --- the life of a position


def test_a_lifeline_has_every_step_until_the_position_is_decided():
    life = [(m.step, m.proposal.draft_token, m.proposal.verdict) for m in lifeline(toy(), 3)]
    names = toy().token_texts
    assert (names[life[0][1]], names[life[1][1]]) == ("A", "B")
    assert [(step, kind) for step, _, kind in life] == [
        (2, Verdict.MISMATCH),
        (3, Verdict.CONFIDENT),
    ]
    assert [m.step for m in lifeline(toy(), 0)] == [1]


def test_a_position_outside_the_answer_is_refused():
    with pytest.raises(ValueError, match="position must lie between 0 and 3, got 4"):
        lifeline(toy(), 4)


def test_candidates_stand_by_their_highest_probability():
    life = [
        Proposal(9, 5, 0.4, Verdict.WAITING, alternatives=((5, 0.4), (6, 0.3), (7, 0.1))),
        Proposal(9, 6, 0.8, Verdict.CONFIDENT, alternatives=((6, 0.8), (5, 0.1))),
    ]
    assert candidates(life) == [6, 5, 7]
    many = Proposal(9, 0, 0.1, Verdict.WAITING, alternatives=tuple((t, 0.1) for t in range(9)))
    assert candidates([many]) == [0, 1, 2, 3, 4, 5]


def test_the_telling_position_changed_its_draft():
    """Only offset 3 of the toy had two drafts."""
    assert telling_position(by_position(toy())) == 3


def test_the_lifeline_table_has_a_row_per_position_and_step():
    table = lifeline_figure.table(toy())
    rows = list(zip(table.position, table.step, table.draft, table.view_token, strict=True))
    assert rows == [
        (0, 1, "A", ""), (1, 1, "A", "A"), (2, 2, "B", ""), (3, 2, "A", "B"), (3, 3, "B", ""),
    ]  # fmt: skip
    assert len(lifeline_figure.table(rich())) == sum(len(s.proposals) for s in rich().steps)


def test_the_lifeline_picture_has_a_line_per_candidate_and_one_for_the_check():
    picture = lifeline_figure.figure(toy(), position=3)
    life = [m.proposal for m in lifeline(toy(), 3)]
    assert len(picture.data) == len(candidates(life)) + 1
    assert list(picture.data[-1].y) == [0.7]
    assert picture.layout.shapes[0].x0 == 3


def test_the_view_names_the_rivals_of_every_position():
    message = json.loads(views.view(toy(), "run"))
    assert message["life0"] == 3
    assert {message["texts"][t][0] for t in message["rivals"][3]} == {"A", "B"}


# --- where the window looks


def test_the_attention_of_a_step_is_split_into_prompt_and_answer():
    """Step 2: BOS .5, then .3 and .2 for the two written tokens, which is all there is."""
    message = json.loads(views.view(toy(), "run"))
    step = message["steps"][1]
    assert step["mass"] == [0, 5000, 1, 3000, 2, 2000]
    assert step["look"] == [500, 500, 3, 1]
    assert message["steps"][0]["look"] == [500, 0, 1, 1]


def test_a_step_that_recorded_only_some_positions_says_so():
    trace = load(TRACES / "word-1.json")
    whole, cut = trace.steps[0], trace.steps[4]
    assert looks(trace, whole)[2:] == [51, 1]
    assert looks(trace, cut)[2:] == [64, 0]
    prompt, answer = looks(trace, cut)[:2]
    assert abs(prompt + answer - 1000 * sum(mass for _, mass in cut.attention)) <= 1


# --- code as rows


def test_lines_know_what_stands_under_them():
    tokens = ["def", " f", "():", "\n", "    ", "if", " x", ":", "\n", "    ", "    ", "y", "\n",
              "\n", "    ", "return", END, END]  # fmt: skip
    assert outline(tokens) == [
        Line(0, 0, 4),
        Line(4, 4, 1),
        Line(9, 8, 0),
        Line(13, 0, 0),
        Line(14, 4, 0),
        Line(16, 0, 0),
    ]


def test_a_token_may_bring_its_line_break_along():
    assert outline([":\n  ", "a", "\n    b", "\n\n", "c"]) == [
        Line(0, 0, 2),
        Line(1, 2, 1),
        Line(2, 4, 0),
        Line(None, 0, 0),
        Line(4, 0, 0),
    ]


def test_every_line_of_a_code_answer_is_a_row():
    trace = load(TRACES / "code-1.json")
    tree = json.loads(views.view(trace, "run"))["tree"]
    lines = trace.text.split("\n")
    assert len(tree) == len(lines) + 1  # the end tokens have a row of their own
    indents = [len(line) - len(line.lstrip(" ")) for line in lines]
    assert [indent for _, indent, _ in tree[:-1]] == indents
    assert json.loads(views.view(toy(), "run"))["tree"] is None


# --- βₜ in the lab, language in the link


def badge_of(message: str) -> tuple[str, str]:
    blocks = {block["id"]: block for block in json.loads(message)["blocks"]}
    return blocks["badge"]["badge"], blocks["badge"]["explain"]


def test_another_beta_t_is_exact_as_a_ranking_and_needs_a_run():
    """Step 2 of the toy: BOS .5 and the next .3: two tokens would hold 80 %, the run's one 50 %."""
    assert badge_of(lab_board(toy(), "run", 2, None, None, 1))[0] == "exact"
    words, why = badge_of(lab_board(toy(), "run", 2, None, None, 2))
    assert words == "needs a run"
    assert why == (
        "βₜ 2 in place of 1: the first 2 by attention hold 80%, not 50%. "
        "That ranking is exact; what it changes needs a run."
    )


def test_the_lab_names_who_would_be_left_out():
    trace = load(TRACES / "word-1.json")
    message = lab_board(trace, "run", 2, None, None, 31)
    held = {block["id"]: block for block in json.loads(message)["blocks"]}["held"]
    position, _ = trace.steps[1].attention[31]
    assert position < trace.prompt_length
    text = trace.token_texts[trace.prompt_token_ids[position]].strip()
    assert held["note"].endswith(f"βₜ 31 would leave out “{text}”.")


def test_a_real_run_at_another_beta_t_claims_nothing_of_the_what_if():
    from dataclasses import replace

    other = replace(toy(), cache={**toy().cache, "track_size": 2})
    assert verdict(toy(), other, 0.9, 0.8) == (
        "4 tokens in 3 steps, 5 passes. βₜ 2 in place of 1: every step writes the same."
    )


def test_a_link_carries_the_language_and_refuses_an_unknown_one():
    assert query_of(Link(language="ko")) == "lang=ko"
    assert read_link({"lang": "zh"}) == Link(language="zh")
    assert read_link({"lang": "zh"}).is_language_only
    assert not read_link({"lang": "zh", "tab": "learn"}).is_language_only
    with pytest.raises(ValueError, match="the link's lang must be one of"):
        read_link({"lang": "fr"})

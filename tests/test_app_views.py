"""What the browser gets, on the toy example, worked out by hand.

Toy (docs/decisions.md): offsets 0…3, step 1 writes A (.92, sure) and A (.70, check .85), step 2
writes B (.60, forced) and rejects A (.55; the check says B, .70), step 3 writes B (.95).
"""

import json

import pytest

from app import views
from app.what_if import what_if
from tests.app_traces import HOSTILE, hostile, rich, toy

MASKED, DIRECT, VERIFIED, MISMATCH, UNSURE, FORCED, WRITTEN = "0234569"


@pytest.fixture(scope="module")
def message() -> dict:
    return json.loads(views.view(toy(), "run"))


def names(message: dict, indices: list[int]) -> list[str]:
    return [message["texts"][index][0] for index in indices]


def test_the_head_says_what_the_run_is(message):
    assert (message["n"], message["p0"], message["window"]) == (4, 1, 2)
    assert (message["eps"], message["gamma"]) == (0.9, 0.8)
    assert message["summary"][0] == "4 tokens in 3 steps, 5 passes"
    assert message["settings"] == "flash-verify · ε 0.9 · γ 0.8 · by confidence · βₘ 2 · βₜ 1"
    assert names(message, message["prompt"]) == ["^"]


def test_rows_hold_one_state_digit_per_position(message):
    assert [step["row"] for step in message["steps"]] == [
        DIRECT + VERIFIED + MASKED + MASKED,
        WRITTEN + WRITTEN + FORCED + MISMATCH,
        WRITTEN + WRITTEN + WRITTEN + DIRECT,
    ]


def test_a_step_holds_drafts_and_mask_views_in_acceptance_order(message):
    step = message["steps"][1]
    assert step["w"] == [2, 3]
    assert names(message, step["x"]) == ["B", "A"]
    assert step["c"] == [600, 550]
    assert step["m"][0] == -1 and names(message, step["m"][1:]) == ["B"]
    assert step["mc"] == [-1, 700]
    assert step["r"] == [0, 1]


def test_the_boundary_stands_behind_what_was_kept(message):
    assert [(s["d"], s["a"], s["s"]) for s in message["steps"]] == [(1, 2, 2), (1, 1, 2), (1, 1, 1)]
    assert [s["n"] for s in message["steps"]] == [[1, 1, 0], [0, 0, 1], [1, 0, 0]]
    assert [s["pass"] for s in message["steps"]] == [2, 4, 5]


def test_tracked_tokens_carry_their_mass_and_are_new_once(message):
    """T_2 = {offset 0} (position 1, mass .3): the prompt's ^ has more but was not re-read."""
    step = message["steps"][1]
    assert step["low"] == [[1, 300]]
    assert [[p, mass, kind] for p, _, mass, kind in step["att"]] == [
        [0, 500, 0],
        [1, 300, 2],
        [2, 200, 0],
    ]
    assert (step["held"], step["decided"]) == (300, 1000)
    assert [s["full"] for s in message["steps"]] == [True, False, False]


def test_the_opening_step_is_the_one_with_most_kinds_of_outcome():
    """Step 1 has a sure and a verified token, step 2 a mismatch only, step 3 a sure one only."""
    assert views.telling_step(toy()) == 0


def test_live_messages_add_up_to_the_whole_view(message):
    trace = toy()
    live = views.LiveView(trace.with_steps((), "stopped", {}), "run")
    start = json.loads(live.start())
    first = json.loads(live.more(trace.steps[:1]))
    rest = json.loads(live.more(trace.steps[1:]))
    assert start["steps"] == [] and start["live"]
    assert (first["from"], rest["from"]) == (0, 1)
    assert first["steps"] + rest["steps"] == message["steps"]
    assert start["texts"] + first["texts"] + rest["texts"] == message["texts"]
    assert first["base"] == len(start["texts"])


def test_a_higher_gamma_changes_step_1_and_says_how_far_that_is_exact():
    """γ = .9: the check of the second A (.85) fails, so step 1 keeps one token."""
    text, badge = what_if(toy(), "run", 0.9, 0.9)
    message = json.loads(text)
    assert message["first"] == 0
    assert list(message["steps"]) == ["0"]
    assert message["steps"]["0"]["row"] == DIRECT + UNSURE + MASKED + MASKED
    assert message["badge"] == "exact until step 1"
    assert badge.startswith("exact until step 1: Step 1 would commit 1 token fewer")


def test_a_threshold_that_changes_nothing_is_exact_everywhere():
    message = json.loads(what_if(toy(), "run", 0.9, 0.84)[0])
    assert (message["first"], message["badge"], message["steps"]) == (-1, "exact", {})
    assert not message["same"]


def test_the_recorded_thresholds_need_no_badge():
    text, badge = what_if(toy(), "run", 0.9, 0.8)
    assert json.loads(text)["same"] and badge == ""


def test_a_higher_epsilon_turns_a_sure_token_into_a_forced_one():
    """ε = .95: .92 is no longer sure, but the surest is written anyway; same tokens."""
    message = json.loads(what_if(toy(), "run", 0.95, 0.8)[0])
    assert message["first"] == -1
    assert message["steps"]["0"]["row"] == FORCED + VERIFIED + MASKED + MASKED
    assert message["lines"][message["says"]["2"]][0].endswith("(c ≥ ε = 0.95).")


def test_a_what_if_takes_less_than_twenty_milliseconds_of_a_processor():
    import time

    trace = rich()
    begin = time.process_time()
    what_if(trace, "run", 0.9, 0.7)
    assert time.process_time() - begin < 0.1  # measured: 0.01; room for a busy machine


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_stay_data(text):
    value = views.view(hostile(), "run")
    assert "<" not in value
    assert any(text[:14] in entry[0] for entry in json.loads(value)["texts"])


def test_every_row_of_a_richer_run_agrees_with_the_replayed_canvas():
    trace = rich()
    message = json.loads(views.view(trace, "run"))
    for number, step in enumerate(message["steps"]):
        canvas = trace.canvas_at(number)
        written = [state == WRITTEN for state in step["row"]]
        assert written == [token is not None for token in canvas]


def test_code_is_told_from_prose():
    assert views.is_code("def f(a):\n    return a")
    assert not views.is_code("12 + 3 = 15.\n#### 15")

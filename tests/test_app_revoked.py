"""A token that is taken back, in sentences, in what the browser gets, in figures and tables."""

import json

import pytest

from app import film, sentences, views
from app.compare_view import _progress
from app.csv_files import csv_tables
from app.figures import progress, run, run_map
from app.lab import missed
from app.visibility import canvas_before
from app.what_if import what_if
from app.words import Says
from flash_dllm.evaluation.measurement import finished, slim
from flash_dllm.strategies import FreeDave
from flash_dllm.terminal import Growing
from tests.hash_engine import HashEngine
from tests.revoked_run import revoked_run

OFFSET = 5  # what step 4 takes back: written in step 1, written anew in step 5


@pytest.fixture(scope="module")
def trace():
    return revoked_run()


def test_the_run_is_the_one_that_these_tests_speak_of(trace):
    (gone,) = (r for r in trace.steps[3].rechecks if r.is_revoked)
    assert gone.position == trace.prompt_length + OFFSET
    assert (gone.token, gone.confidence, gone.shadow_token) == (4, 0.115, 21)
    assert [step.index for step in trace.steps if gone.position in dict(step.accepted)] == [1, 5]


def test_the_sentence_says_what_was_taken_back_and_why(trace):
    text = sentences.step_sentence(trace, trace.steps[3])
    assert text.endswith(
        "It took “w4” (0.12) back, where the model would now say “w21”: too unlikely given all "
        "the others."
    )
    text = sentences.step_sentence(trace, trace.steps[6])
    assert text.endswith("It took 4 tokens back, among them “w19” (0.37).")
    assert not any("back" in sentences.step_sentence(trace, s) for s in trace.steps[:3])


def test_the_browser_gets_the_state_and_what_was_judged_again(trace):
    message = json.loads(views.view(trace, "run"))
    steps = message["steps"]
    assert steps[3]["row"][OFFSET] == "a" and steps[3]["out"] == [OFFSET]
    assert steps[4]["row"][OFFSET] == "6"  # blank before, forced in that step
    assert steps[5]["row"][OFFSET] == "9"
    (again,) = (a for a in steps[3]["again"] if a[0] == OFFSET)
    assert again[1] == 115 and message["texts"][again[2]][0] == "w21"
    for number, step in enumerate(steps):
        written = [state in "9a" for state in step["row"]]
        assert written == [token is not None for token in trace.canvas_at(number)]


def test_live_and_recorded_runs_say_the_same(trace):
    live = views.LiveView(trace, "run")
    live.start()
    message = json.loads(live.more(trace.steps))
    assert message["steps"] == json.loads(views.view(trace, "run"))["steps"]


def test_the_map_the_animation_and_the_bars_show_it(trace):
    states = ["committed", "revoked", "forced", "committed"]
    assert list(run_map.table(trace)[OFFSET])[2:6] == states
    frame = run.table(trace)
    cells = frame[frame.position == OFFSET]
    assert list(cells.state)[2:6] == states
    assert list(cells.token)[3:5] == [" w4", " w30"]
    table = progress.table(trace)
    assert list(table.revoked) == [len(step.revoked) for step in trace.steps]
    bar = next(mark for mark in progress.figure(trace).data if mark.name == "taken back")
    assert min(bar.y) == -4


def test_a_figure_of_a_run_without_revocations_has_no_such_bar(trace):
    from tests.app_traces import toy

    assert "taken back" not in [mark.name for mark in progress.figure(toy()).data]
    assert set(progress.table(toy()).revoked) == {0}


def test_the_what_if_keeps_the_revocations(trace):
    message, badge = what_if(trace, "run", 0.3, 0.3)
    assert badge == "" and json.loads(message)["steps"] == {}


def test_pictures_tables_and_films_are_made(trace, tmp_path):
    film.write_png(trace, tmp_path / "step.png", step=4)
    film.write_gif(trace, tmp_path / "run.gif")
    assert (tmp_path / "run.gif").stat().st_size > 1000
    tables = csv_tables(trace)
    assert "revoked" in tables["run_map"]
    assert all(item.later > 0 for item in missed(trace))


def test_the_text_before_a_step_is_that_of_the_record(trace):
    for number in range(len(trace.steps)):
        canvas = canvas_before(trace, number + 1)
        assert list(canvas.tokens[trace.prompt_length :]) == trace.canvas_at(number)


def test_what_is_written_over_time_ends_at_the_length_of_the_answer(trace):
    block = _progress(Says("compare", "en"), [trace], ["one"], "steps")
    assert block["marks"][0]["y"][-1] == 24


def test_measuring_ends_each_item_where_its_run_ends(trace):
    from flash_dllm.caches import NoCache
    from flash_dllm.config import DecodeConfig
    from flash_dllm.settings import Settings
    from flash_dllm.strategies import Wino

    config = DecodeConfig(24, block_length=12, window_size=12)
    settings = Settings(Wino(0.5, 0.9), NoCache(), config)
    prompts = [[1, 2, 3], [4, 5], [1, 2, 3]]
    found = dict(finished(HashEngine(7), prompts, settings, 2, slim))
    assert sorted(found) == [0, 1, 2]
    assert [s.accepted for s in found[2]] == [s.accepted for s in trace.steps]
    assert [s.revoked for s in found[0]] == [s.revoked for s in trace.steps]


def test_the_terminal_blanks_it_again(trace):
    growing = Growing(trace, HashEngine(7).token_text)
    for number, step in enumerate(trace.steps, 1):
        growing.show(step)
        shown = [text is None for text in growing._texts]
        assert shown == [token is None for token in trace.canvas_at(number)]


def test_states_asked_ahead_are_told_by_what_became_of_them():
    from flash_dllm.caches import DualCache
    from flash_dllm.config import DecodeConfig
    from flash_dllm.decoder import decode

    config = DecodeConfig(24, block_length=12, window_size=12)
    trace = decode(HashEngine(7), [1, 2, 3], FreeDave(4), DualCache(), config)
    texts = [sentences.step_sentence(trace, step) for step in trace.steps]
    assert texts[1].endswith("Of 3 states asked ahead in the same pass, none was what the text "
                             "became.")  # fmt: skip
    assert texts[9].endswith("Of 2 states asked ahead in the same pass, 1 was what the text "
                             "became: 1 token more.")  # fmt: skip
    later = [p for p in trace.steps[9].proposals if p.rank]
    says = [sentences.token_sentence(trace, p) for p in later]
    assert says and all(text.startswith("Written by a state asked ahead") for text in says)
    assert all(sentences.stop_label(trace, step) == "" for step in trace.steps)

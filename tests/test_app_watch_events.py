"""What a run's updates become in the page, and which events may not wait in gradio's queue."""

import gc
import json
import threading
import time

import gradio as gr
import pytest

from app.presets import EMBEDDED, TOY
from app.runs import Runs
from app.tabs.watch_events import WatchEvents
from app.ui import build
from tests.app_traces import SlowEngine

# gradio's and starlette's own calls into each other, not ours
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def config():
    """What the page's browser is told."""
    demo = build(Runs())
    yield demo.config
    demo.close(verbose=False)
    del demo
    gc.collect()  # what gradio leaves open is found here


def test_stopped_is_said_before_the_picture_is_made():
    runs = Runs()
    runs._engines[EMBEDDED] = SlowEngine(seed=2, end_share=0)
    values = {**runs.defaults(TOY), "gen_length": 48, "window_size": 8, "track_size": 4}
    number = runs.enqueue(runs.prepare("hello", EMBEDDED, values))
    updates = WatchEvents(runs, []).updates(number, "")
    start = next(updates)
    while json.loads(next(updates)[3])[0] == "started":
        pass
    assert json.loads(start[0])["live"] and runs.stop(number)
    *_, said, shown = updates
    status = json.loads(said[3])
    assert status[0].startswith("stopped at step ")
    assert [part for part in said if part != said[3]] == [gr.skip()] * 4
    view, _, name, again, _ = shown
    assert json.loads(again) == status and json.loads(view)["run"] == name
    assert runs.store.trace(name).status == "stopped"


def test_a_new_run_is_prepared_after_the_last_picture_of_the_one_before():
    """Else that picture could be drawn over the new run's first one, whose steps then fit none."""
    runs = Runs()
    runs._engines[EMBEDDED] = SlowEngine(seed=2, end_share=0)
    values = {**runs.defaults(TOY), "gen_length": 48, "window_size": 8, "track_size": 4}
    events, sent = WatchEvents(runs, values), []
    first = runs.enqueue(runs.prepare("hello", EMBEDDED, values))
    page = threading.Thread(target=lambda: sent.extend(events.updates(first, "")))
    page.start()
    while not runs._jobs[first].steps:
        time.sleep(0.001)
    number, _ = events.prepare(first, "hello", EMBEDDED, *values.values())
    assert number != first and runs.ends(first, 0)
    page.join(60)
    assert runs.store.trace(sent[-1][2]).status == "stopped"


def test_short_events_go_past_the_queue_and_runs_do_not(config):
    events = {event["api_name"]: event for event in config["dependencies"]}
    short = (
        "stop", "rival_stop", "what_if", "state", "estimate_again", "learned", "remember",
    )  # fmt: skip
    assert [name for name in short if events[name]["queue"] is not False] == []
    assert events["run"]["queue"] is not False
    # only there gradio tells of a changed State
    assert events["step"]["queue"] is not False


def test_an_event_with_a_value_of_its_own_is_handled_each_time_and_in_order(config):
    """gradio sends a deferred "always_last" event again with the value of the one before, and
    without the queue a later answer may be overtaken."""
    events = {event["api_name"]: event for event in config["dependencies"]}
    carrying = ("gamma", "eps", "step", "lab_act", "learn_gamma", "learn_epsilon", "learn_step")
    assert [name for name in carrying if events[name]["trigger_mode"] != "multiple"] == []
    assert [name for name in carrying if events[name]["queue"] is False] == []


def test_the_page_holds_the_players_script_once(config):
    players = [
        part["props"]["js_on_load"]
        for part in config["components"]
        if "fdPlayer" in str(part["props"].get("js_on_load"))
    ]
    assert len(players) >= 2 and all(len(script) < 400 for script in players)
    assert "makeCharts" not in json.dumps(config["components"], default=str)

"""The named endpoints, called as functions and through gradio_client."""

import gc
import json
import re
import time

import pytest

from app.api import Api
from app.presets import EMBEDDED, TOY
from app.runs import Runs
from app.store import RunError
from app.turns import Turns
from flash_dllm.trace_json import from_json, to_json
from tests.app_traces import SlowEngine, rich, toy

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
TOY_KNOBS = {"window_size": 2, "track_size": 1, "search_size": None, "block_length": None}


@pytest.fixture(scope="module")
def api():
    return Api(Runs())


def test_decode_ends_with_the_whole_trace(api):
    parts = list(
        api.decode("^", 4, 0.9, 0.8, "flash_verify", "flash", model=TOY, settings=TOY_KNOBS)
    )
    last = parts[-1]
    assert last["is_done"] and [part["is_done"] for part in parts[:-1]] == [False] * (
        len(parts) - 1
    )
    assert last["text"] == "AABB" and last["steps"] == 3
    assert from_json(last["trace"]).passes == 5
    assert last["metrics"]["tokens_per_pass"] == 0.8


def test_a_run_goes_by_its_name_while_it_is_kept(api):
    parts = api.decode(
        "^", 4, 0.9, 0.8, "flash_verify", "flash", model=TOY, settings=TOY_KNOBS,
        include_trace=False,
    )  # fmt: skip
    last = list(parts)[-1]
    assert "trace" not in last
    assert api.metrics(last["run"])["passes"] == 5
    assert api.rejudge(last["run"], gamma=0.9)["tokens_gained"] == -1
    with pytest.raises(RunError, match="^This run is no longer kept; run it again or load its"):
        api.metrics("0123456789ab")


def test_decode_tells_the_place_in_the_line():
    runs = Runs()
    runs._engines[EMBEDDED] = SlowEngine(seed=2, end_share=0, pause=0.01)
    first, second = (Api(runs, lambda name=name: name).decode("w1", 24) for name in "ab")
    next(first)
    assert next(second)["status"] == "queued, 1 before you"
    list(first)
    assert list(second)[-1]["is_done"]


def test_a_visitor_can_not_fill_the_line_with_calls():
    runs = Runs(turns=Turns(each=1))
    runs._engines[EMBEDDED] = SlowEngine(seed=2, end_share=0, pause=0.01)
    api = Api(runs, lambda: "a")
    first = api.decode("w1", 24)
    next(first)
    with pytest.raises(RunError, match="^One visitor may have at most 1 run going on or waiting; "):
        next(api.decode("w1", 24))
    first.close()
    assert list(api.decode("w1", 24))[-1]["is_done"]


def test_decode_tells_the_text_so_far():
    runs = Runs()
    runs._engines[EMBEDDED] = SlowEngine(seed=2, end_share=0, pause=0.06)
    parts = list(Api(runs).decode("w1", gen_length=24))
    growing = [part["steps"] for part in parts if part["steps"]]
    assert growing == sorted(growing) and len(set(growing)) >= 3
    assert any(part["text"] for part in parts if not part["is_done"])


def test_metrics_are_those_of_the_trace(api):
    found = api.metrics(to_json(toy()))
    assert (found["tokens"], found["steps"], found["passes"], found["rows"]) == (4, 3, 5, 17)
    assert found["missed"] == 0 and found["text"] == "AABB" and found["status"] == "finished"


def test_rejudge_says_where_the_run_changes(api):
    found = api.rejudge(to_json(toy()), gamma=0.9)
    assert found["badge"] == "exact until step 1" and found["first_change"] == 1
    assert found["tokens_gained"] == -1 and found["accepted"][0] == 1
    assert api.rejudge(to_json(rich()))["badge"] == "exact"


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda api: api.metrics("{}"), "This is no trace that can be read: "),
        (lambda api: api.rejudge(to_json(toy()), gamma=2), "gamma"),
        (lambda api: list(api.decode("")), "The prompt is empty"),
        (lambda api: list(api.decode("a", strategy="x")), "Strategy must be one of"),
        (lambda api: list(api.decode("a", settings={"x": 1})), "There is no setting named 'x'"),
    ],
)
def test_what_can_not_be_is_refused_in_a_sentence(api, call, sentence):
    with pytest.raises(RunError, match=sentence):
        call(api)


@pytest.fixture(scope="module")
def client():
    from gradio_client import Client

    from app.serve import launch
    from app.ui import build
    from tests.browser_page import free_port

    demo = build(Runs())
    _, address, _ = launch(demo, "127.0.0.1", free_port(), prevent_thread_lock=True, quiet=True)
    yield Client(address, verbose=False)
    demo.close(verbose=False)
    # gradio leaves its event loop to the collector, which warns: here, where that is let pass
    gc.collect()


def test_only_our_endpoints_are_listed_and_typed(client):
    listed = client.view_api(return_format="dict", print_info=False)["named_endpoints"]
    assert set(listed) == {"/decode", "/rejudge", "/metrics", "/sweep"}
    names = [p["parameter_name"] for p in listed["/rejudge"]["parameters"]]
    assert names == ["trace", "epsilon", "gamma"]


def test_a_client_streams_a_run_and_judges_it_again(client):
    job = client.submit(
        "^", 4, 0.9, 0.8, "flash_verify", "flash", 0, TOY, TOY_KNOBS, api_name="/decode"
    )
    last = job.result(timeout=30)
    assert last["text"] == "AABB"
    assert client.predict(last["trace"], None, 0.9, api_name="/rejudge")["first_change"] == 1
    assert client.predict(last["trace"], gamma=0.9, api_name="/rejudge")["tokens_gained"] == -1
    assert client.predict(last["trace"], api_name="/metrics")["passes"] == 5


def test_a_client_is_told_what_to_do(client):
    with pytest.raises(Exception, match="This is no trace that can be read"):
        client.predict(json.dumps({}), api_name="/metrics")


@pytest.mark.parametrize(
    ("prompt", "sentence"),
    [
        ("a" * 4001, "The prompt has 4001 characters; at most 4000 are allowed, so shorten it."),
        ("7 " * 1999, "positions of .*; shorten one of them"),
        ("", "The prompt is empty; type a question or choose an example."),
    ],
)
def test_a_prompt_that_can_not_be_is_one_sentence_for_a_client(client, prompt, sentence):
    with pytest.raises(Exception, match=sentence) as error:
        client.predict(prompt, 64, api_name="/decode")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("endpoint", "arguments", "sentence"),
    [
        ("/decode", {"prompt": 5}, "Prompt must be a text, got 5."),
        ("/decode", {"prompt": "a", "gen_length": "abc"},
         "Gen length must be a whole number, got 'abc'."),
        ("/decode", {"prompt": "a", "gen_length": 3.7},
         "Gen length must be a whole number, got 3.7."),
        ("/decode", {"prompt": "a", "epsilon": [1]}, "Epsilon must be a number, got [1]."),
        ("/decode", {"prompt": "a", "settings": [1]}, "Settings must be an object, got [1]."),
        ("/rejudge", {"trace": 5}, "Trace must be a text, got 5."),
        ("/metrics", {"trace": None}, "Trace must be a text, got None."),
        ("/sweep", {"search": "x"}, "Search must be an object, got 'x'."),
        ("/sweep", {"search": {"gamma": [0.5]}, "tasks": "word"},
         "Tasks must be a list, got 'word'."),
        ("/sweep", {"search": {"gamma": [0.5]}, "prompts": ["a", 5]},
         "Prompts, place 2, must be a text, got 5."),
    ],
)  # fmt: skip
def test_an_argument_of_another_kind_is_one_sentence_for_a_client(
    client, endpoint, arguments, sentence
):
    with pytest.raises(Exception, match=re.escape(sentence)) as error:
        client.predict(**arguments, api_name=endpoint)
    assert str(error.value) == sentence


def test_a_number_that_came_as_text_is_a_number(client):
    found = client.predict(to_json(toy()), None, "0.9", api_name="/rejudge")
    assert found["first_change"] == 1


def test_a_client_that_cancels_ends_its_run_and_no_other():
    from gradio_client import Client

    from app.serve import launch
    from app.ui import build
    from tests.browser_page import free_port

    runs = Runs()
    runs._engines[EMBEDDED] = SlowEngine(seed=2, end_share=0, pause=0.03, max_length=512)
    demo = build(runs)
    _, address, _ = launch(demo, "127.0.0.1", free_port(), prevent_thread_lock=True, quiet=True)
    try:
        mine, other = (Client(address, verbose=False) for _ in range(2))
        long, short = mine.submit("w1", 256, api_name="/decode"), None
        wait_until(lambda: len(long.outputs()) >= 2)
        short = other.submit("w2", 16, api_name="/decode")
        wait_until(lambda: len(runs.turns) == 2)
        long.cancel()
        begin = time.monotonic()
        wait_until(lambda: len(runs.turns) == 1)
        assert time.monotonic() - begin < 3.0  # its 200 passes take 6 s
        assert short.result(timeout=30)["is_done"]
        kept = [runs.store.trace(name) for name in runs._ended.values()]
        assert sorted(trace.status for trace in kept) == ["finished", "stopped"]
    finally:
        demo.close(verbose=False)
        gc.collect()


def wait_until(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


def test_a_client_sweeps_and_goes_on_where_it_was_left(client):
    knobs = {"gen_length": 16, "block_length": 16, "window_size": 16}
    asked = {"search": {"epsilon": [0.5, 0.9], "seed": [0]}, "fixed": knobs, "limit": 1}
    found = client.submit(**asked, prompts=["What is 1 + 1?"], api_name="/sweep").result(90)
    assert found["is_done"] and found["done"] == found["total"] == 2
    assert found["study"].startswith("epsilon × seed · ") and found["why_not"] == []
    assert [point["knobs"] for point in found["trials"]] == [
        {"epsilon": 0.5, "seed": 0}, {"epsilon": 0.9, "seed": 0},
    ]  # fmt: skip
    # no task, so no accuracy: agreement with one token a step
    assert all(0 <= point["agreement"] <= 1 for point in found["trials"])
    assert all("accuracy" not in point for point in found["trials"])
    best = max(point["agreement"] for point in found["trials"])
    assert best in [found["trials"][number]["agreement"] for number in found["front"]]
    again = client.submit(**asked, prompts=["What is 1 + 1?"], api_name="/sweep").result(30)
    assert again["trials"] == found["trials"]


def test_a_client_is_told_what_can_not_be_swept(client):
    with pytest.raises(Exception, match="Gama is no knob"):
        client.predict({"gama": [1]}, api_name="/sweep")

"""What the visitors' benchmark counts and judges, by hand; the measuring itself needs a browser."""

import json
import math

from benchmarks import visitor_pages, visitors
from benchmarks.result_rows import append


def test_a_row_within_its_budget_misses_nothing():
    row = {"visitors": 8, "finished": 8, "event_p95_ms": 300.0, "stop_running_ms": 499.9}
    assert visitors.missed(row) == []


def test_what_is_over_its_budget_is_named():
    row = {"visitors": 8, "finished": 7, "event_p95_ms": 300.5, "rss_growth": 0.2}
    assert visitors.missed(row) == [
        "event_p95_ms is 300, over its budget of 300",
        "rss_growth is 0.2, over its budget of 0.05",
        "only 7 of 8 visitors finished",
    ]


def test_a_number_that_could_not_be_taken_is_a_miss():
    assert visitors.missed({"visitors": 0, "heap_growth": math.nan}) == [
        "heap_growth is nan, over its budget of 0.1"
    ]


def test_the_95th_percentile_of_1_to_101_is_96():
    found = visitors.spread("event", [float(n) for n in range(1, 102)])
    assert found == {
        "event_count": 101, "event_median_ms": 51.0, "event_p95_ms": 96.0, "event_max_ms": 101.0
    }  # fmt: skip


def test_every_visitor_has_a_prompt_of_their_own():
    found = visitors.prompts(8)
    assert len(set(found)) == 8
    word = (visitors.ROOT / "assets/tasks/word.jsonl").read_text("utf-8").splitlines()
    assert found[0] == json.loads(word[10])["prompt"]


def test_every_budget_has_its_column():
    assert set(visitors.BUDGET) <= set(visitors.COLUMNS)


def test_a_process_is_below_its_grandparent_and_not_below_its_child():
    parents = {2: 1, 3: 2, 4: 9}
    assert visitor_pages.is_below(1, 3, parents) and visitor_pages.is_below(2, 3, parents)
    assert not visitor_pages.is_below(3, 2, parents)
    assert not visitor_pages.is_below(1, 4, parents)


def test_objects_are_all_but_code_and_what_is_the_browsers_own():
    # four nodes of two fields, type and size, among others that do not count
    snapshot = {
        "snapshot": {
            "meta": {
                "node_fields": ["type", "name", "self_size"],
                "node_types": [["object", "code", "native", "string"], "string", "number"],
            }
        },
        "nodes": [0, 7, 100, 1, 7, 1000, 2, 7, 2000, 3, 7, 30],
    }
    assert visitor_pages.objects(snapshot) == 130


def test_rows_keep_earlier_ones_when_a_column_is_new(tmp_path):
    path = tmp_path / "rows.csv"
    append(path, {"date": "1", "event": 3, "note": "first"})
    append(path, {"date": "2", "idle": 4, "note": "a, b"})
    assert path.read_text("utf-8") == (
        'date,event,idle,note\n1,3,,first\n2,,4,"a, b"\n'
    )  # fmt: skip
    assert list(tmp_path.iterdir()) == [path]

"""What the visitors' benchmark counts and judges, by hand; the measuring itself needs a browser."""

import json
import math

from benchmarks import visitors


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

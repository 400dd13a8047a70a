"""Scoring: what counts as a right answer in each domain."""

from __future__ import annotations

import time

import pytest

from training.generators.item import Item
from training.scoring import are_correct, boxed_content, is_correct, last_integer, last_word

WORD = Item("word", "f", "s", "p", "a", gold="24")
ALGEBRA = Item("algebra", "f", "s", "p", "a", gold=r"\frac{1}{2}x")
STORY = Item("story", "f", "s", "p", "a", gold="Noah")
CODE = Item("code", "f", "s", "p", "a", tests=("assert f(1) == 2", "assert f(2) == 3"))
RIGHT = "def f(x):\n    return x + 1\n"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("#### 7\n#### 24", 24),
        ("48 / 2\n####24.", 24),
        ("#### 1,024 apples", 1024),
        ("#### -3", -3),
        ("#### 24.00", 24),
        ("24", None),
        ("#### many", None),
    ],
)
def test_integer_after_the_last_hashes_counts(text, number):
    assert last_integer(text) == number


def test_a_fraction_is_not_taken_for_its_whole_part():
    assert not is_correct(WORD, "#### 24.5")


def test_boxed_content_needs_balanced_braces():
    assert boxed_content(r"\boxed{1} \boxed{ \frac{1}{2} x }") == r"\frac{1}{2}x"
    assert boxed_content(r"\boxed{\frac{1}{2}") is None
    assert is_correct(ALGEBRA, r"$\boxed{\frac{1}{2} x}$")
    assert not is_correct(ALGEBRA, r"\frac{1}{2}x")


def test_story_word_counts_in_any_case_and_without_punctuation():
    assert last_word("He ran.\nanswer: NOAH!") == "noah"
    assert is_correct(STORY, "Answer: Mia\nAnswer: noah.")
    assert not is_correct(STORY, "Answer: Noah or Mia")
    assert not is_correct(STORY, "Noah")


def test_right_function_passes_with_and_without_a_fence():
    assert is_correct(CODE, RIGHT)
    assert is_correct(CODE, f"Here:\n```python\n{RIGHT}```\nDone.")


@pytest.mark.parametrize(
    "text",
    [
        "def f(x):\n    return x",
        "def f(x:",
        "raise SystemExit(0)",
        "import os\nos._exit(0)",
        "def f(x):\n    return [0] * 10**9",
        "\0",
        "",
    ],
)
def test_wrong_broken_or_leaving_code_is_wrong(text):
    assert not is_correct(CODE, text)


def test_endless_loop_and_endless_sleep_end_and_are_wrong():
    start = time.monotonic()
    sleeper = "import time\ntime.sleep(60)"
    assert are_correct([CODE, CODE], ["while True: pass", sleeper]) == [False, False]
    assert time.monotonic() - start < 20


def test_environment_of_the_child_is_empty_and_its_folder_is_temporary(monkeypatch, tmp_path):
    monkeypatch.setenv("SECRET", "x")
    monkeypatch.chdir(tmp_path)
    probe = "import os\nassert 'SECRET' not in os.environ\nopen('note', 'w').write('x')\n"
    assert is_correct(CODE, probe + RIGHT)
    assert list(tmp_path.iterdir()) == []


def test_batch_keeps_the_order_of_mixed_domains():
    items = [CODE, WORD, STORY, CODE]
    assert are_correct(items, [RIGHT, "#### 24", "Answer: Mia", "def f(x): pass"]) == [
        True,
        True,
        False,
        False,
    ]


def test_unknown_domain_is_named_in_the_error():
    with pytest.raises(ValueError, match="poem"):
        is_correct(Item("poem", "f", "s", "p", "a"), "x")

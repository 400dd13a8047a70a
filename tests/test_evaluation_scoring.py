"""Scoring: what counts as a right answer in each domain."""

from __future__ import annotations

import json

import pytest

from flash_dllm.evaluation.item import Item
from flash_dllm.evaluation.public_sets import read_public_set
from flash_dllm.evaluation.scoring import (
    are_correct,
    boxed_content,
    is_correct,
    last_integer,
    last_number,
    last_word,
    program_of,
    score_answers,
)

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
    assert is_correct(CODE, RIGHT, allow_unsandboxed=True)
    assert is_correct(CODE, f"Here:\n```python\n{RIGHT}```\nDone.", allow_unsandboxed=True)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("So 48 / 2 = 24 apples.", 24),
        ("#### 7\nor 9", 7),
        ("It costs $1,024.00.", 1024),
        ("2.5", None),
        ("none", None),
    ],
)
def test_public_number_sets_fall_back_to_the_last_number(text, number):
    assert last_number(text) == number


def test_a_score_holds_what_was_judged():
    gsm8k = Item("gsm8k", "f", "s", "p", "", gold="24")
    (score,) = score_answers([gsm8k], ["therefore 24"])
    assert (score.extracted, score.is_correct) == ("24", True)
    (score,) = score_answers([WORD], ["therefore 24"])
    assert (score.extracted, score.is_correct) == (None, False)


STUB = Item("humaneval", "f", "s", "p", "", tests=("t",), stub="import math\n\ndef f(x):\n    ''\n")


def test_a_body_goes_on_from_the_stub():
    assert program_of(STUB, "    return x") == STUB.stub + "    return x"


def test_a_whole_function_replaces_the_stubs_but_keeps_its_imports():
    program = program_of(STUB, "```python\ndef f(x):\n    return 1\n```")
    assert program == "import math\n\n\ndef f(x):\n    return 1\n"


def test_public_code_sets_become_programs_and_tests(tmp_path):
    row = {
        "task_id": "HumanEval/0", "prompt": "def g(x):\n    'double'\n", "entry_point": "g",
        "canonical_solution": "    return 2 * x\n",
        "test": "def check(candidate):\n    assert candidate(2) == 4\n",
    }  # fmt: skip
    (tmp_path / "HumanEval.jsonl").write_text(json.dumps(row) + "\n")
    (item,) = read_public_set("humaneval", tmp_path)
    assert item.prompt == "Complete this Python function:\ndef g(x):\n    'double'"
    assert are_correct([item, item], [item.answer, "    return x"], allow_unsandboxed=True) == [
        True,
        False,
    ]
    rows = [
        {"task_id": number, "text": "Double x.", "code": "def d(x):\r\n    return 2 * x",
         "test_list": ["assert d(1) == 2", "assert d(2) == 4"]} for number in (10, 11)
    ]  # fmt: skip
    (tmp_path / "mbpp.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    # 10 belongs to MBPP's prompt split
    (item,) = read_public_set("mbpp", tmp_path)
    assert (item.specification, item.prompt) == ("mbpp/11", "Double x.\nassert d(1) == 2")
    assert is_correct(item, item.answer, allow_unsandboxed=True)


def test_foreign_rows_are_named(tmp_path):
    (tmp_path / "mbpp.jsonl").write_text('{"question": "?"}\n')
    with pytest.raises(ValueError, match="no rows of mbpp"):
        read_public_set("mbpp", tmp_path)


def test_batch_keeps_the_order_of_mixed_domains():
    items = [CODE, WORD, STORY, CODE]
    assert are_correct(
        items, [RIGHT, "#### 24", "Answer: Mia", "def f(x): pass"], allow_unsandboxed=True
    ) == [
        True,
        True,
        False,
        False,
    ]


def test_unknown_domain_is_named_in_the_error():
    with pytest.raises(ValueError, match="poem"):
        is_correct(Item("poem", "f", "s", "p", "a"), "x")

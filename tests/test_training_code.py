"""Generated Python functions: the answers run, and one specification has many of them."""

from __future__ import annotations

import random
from collections import Counter, defaultdict

import pytest

from training.generators.code import make_item
from training.generators.code_families import simple_integers, simple_lists, simple_strings
from training.generators.item import Item, is_held_out
from training.variety import choices


@pytest.fixture(scope="module")
def items() -> list[Item]:
    rng = random.Random(11)
    return [make_item(rng) for _ in range(20_000)]


def test_answers_pass_their_asserts(items: list[Item]) -> None:
    for item in items[:1_500]:
        # our own text, made by the generator from fixed templates
        space: dict[str, object] = {}
        exec(item.answer, space)
        for test in item.tests:
            exec(test, space)


def test_every_body_of_every_single_task_passes_its_asserts(items: list[Item]) -> None:
    wanted = {
        row.key for module in (simple_lists, simple_strings, simple_integers) for row in module.ROWS
    }
    seen: Counter[str] = Counter()
    for item in items:
        if item.family.startswith("single/"):
            seen[item.specification.split("/")[1]] += 1
            space: dict[str, object] = {}
            exec(item.answer, space)
            for test in item.tests:
                exec(test, space)
    assert set(seen) == wanted
    assert min(seen.values()) >= 5


def test_the_same_seed_gives_the_same_item() -> None:
    first, second = random.Random(5), random.Random(5)
    for _ in range(50):
        assert make_item(first) == make_item(second)


def test_an_item_is_ascii_a_whole_function_and_has_three_asserts(items: list[Item]) -> None:
    for item in items[:3_000]:
        assert (item.prompt + item.answer).isascii()
        assert item.answer.startswith("def ")
        assert "{" not in item.answer and "<k>" not in item.answer + item.prompt
        name = item.answer[4:].partition("(")[0]
        assert name in item.prompt
        assert len(item.tests) == 3
        assert all(test.startswith(f"assert {name}(") for test in item.tests)


def test_a_head_in_the_prompt_is_copied_to_the_answer(items: list[Item]) -> None:
    heads = 0
    for item in items[:3_000]:
        line = next((x for x in item.prompt.split("\n") if x.startswith("def ")), None)
        if line is not None:
            heads += 1
            assert item.answer.split("\n")[0] == line
    assert heads > 1_000


def test_no_constant_passes_all_three_asserts(items: list[Item]) -> None:
    for item in items:
        assert len({test.partition(" == ")[2] for test in item.tests}) > 1


def test_one_specification_has_many_different_answers(items: list[Item]) -> None:
    answers: defaultdict[str, list[str]] = defaultdict(list)
    for item in items:
        body = item.answer.partition("\n")[2]
        answers[item.specification].append(body)
    common = [bodies for bodies in answers.values() if len(bodies) >= 20]
    assert len(common) >= 20
    for bodies in common:
        # one style is usual for the family, so some bodies agree
        assert len(set(bodies)) >= 0.5 * len(bodies)
        assert len({len(body) for body in bodies}) >= 8


def test_there_are_many_specifications_and_every_family(items: list[Item]) -> None:
    assert len({item.specification for item in items}) > 6_000
    families = Counter(item.family for item in items)
    assert len(families) >= 30
    share = sum(is_held_out(s) for s in {item.specification for item in items}) / len(
        {item.specification for item in items}
    )
    assert 0.01 < share < 0.03


def test_an_answer_holds_few_choices() -> None:
    events = [sum(is_event for is_event, _ in choices(make_item, seed)) for seed in range(12)]
    # names, body, condition and a comment: more of them and a model commits one token at a time
    assert 4 <= sum(events) / len(events) <= 10


def test_an_answer_has_at_most_one_comment(items: list[Item]) -> None:
    assert max(item.answer.count("# ") for item in items) == 1

"""The word-problem generator: arithmetic, form, richness."""

import random
import re

import pytest

from training.generators.vocabulary import NAMES, OBJECTS
from training.generators.word import ANSWER_LIMIT, FAMILIES, QUESTION_LIMIT, make_item
from training.generators.word_problem import apply
from training.generators.wording import Variant, compile_template, expand
from training.variety import choices

EQUATION = re.compile(r"\$?(\d+) ([-+*/]) \$?(\d+) = \$?(\d+)")


@pytest.fixture(scope="module")
def items():
    rng = random.Random(11)
    return [make_item(rng) for _ in range(3000)]


def test_every_equation_is_true(items):
    for item in items:
        equations = EQUATION.findall(item.answer)
        assert len(equations) == item.answer.count("="), item.answer
        assert 1 <= len(equations) <= 3, item.answer
        for left, sign, right, result in equations:
            assert apply(int(left), sign, int(right)) == int(result), item.answer


def test_gold_is_the_number_after_the_hashes_and_the_last_result(items):
    for item in items:
        assert item.answer.split("\n")[-1] == f"#### {item.gold}"
        assert EQUATION.findall(item.answer)[-1][3] == item.gold, item.answer


def test_operands_come_from_the_question_or_an_earlier_step(items):
    words = {"half": 2, "twice": 2, "doubl": 2, "third": 3, "three times": 3, "quarter": 4}
    words |= {"four times": 4, "fifth": 5, "five times": 5, "10%": 10, "20%": 5, "25%": 4, "50%": 2}
    words |= {"as many": 2, "Half": 2, "Twice": 2}
    for item in items:
        known = set(map(int, re.findall(r"\d+", item.prompt)))
        known |= {value for word, value in words.items() if word in item.prompt}
        for left, _, right, result in EQUATION.findall(item.answer):
            assert {int(left), int(right)} <= known, (item.prompt, item.answer)
            known.add(int(result))


def test_numbers_are_small(items):
    results = [int(match[3]) for item in items for match in EQUATION.findall(item.answer)]
    assert min(results) >= 2
    assert sum(result < 200 for result in results) >= 0.95 * len(results)
    assert max(results) < 1000


def test_text_is_tidy(items):
    for item in items:
        for text in (item.prompt, item.answer):
            assert text.isascii(), text
            assert not re.search(r"[{}()|]|  | [.,?:!]|\.\.|\b(an|a) \d|\ba [aeio]", text), text
        assert re.fullmatch(r"[A-Z0-9$].*[.?]", item.prompt), item.prompt
        assert "<<" not in item.answer


def test_texts_keep_the_length_limits(items):
    assert max(len(item.answer) for item in items) <= ANSWER_LIMIT + len("\n#### 1000")
    assert max(len(item.prompt) for item in items) <= QUESTION_LIMIT


def test_every_family_appears(items):
    assert {item.family for item in items} == set(FAMILIES)
    assert len(FAMILIES) >= 8


def test_the_same_seed_gives_the_same_items():
    first, second = random.Random(3), random.Random(3)
    assert [make_item(first) for _ in range(50)] == [make_item(second) for _ in range(50)]


def test_the_specification_holds_no_wording(items):
    names = {name for name, _ in NAMES}
    for item in items:
        assert item.specification.startswith(f"word/{item.family}/")
        assert not names & set(item.specification.split("/"))


def test_one_specification_has_many_answers():
    rng = random.Random(5)
    same: dict[str, list[str]] = {}
    for _ in range(30_000):
        item = make_item(rng)
        same.setdefault(item.specification, []).append(item.answer)
    answers = max(same.values(), key=len)
    assert len(answers) >= 8
    # names and things are removed: what is left differs by wording alone
    words = {word for pair in OBJECTS for word in pair} | {name for name, _ in NAMES}
    bare = {" ".join(w for w in re.findall(r"\w+", text) if w not in words) for text in answers}
    # one wording is usual for the family, so some answers agree
    assert len(bare) >= 0.6 * len(answers)


def test_an_answer_holds_few_choices():
    events = [sum(is_event for is_event, _ in choices(make_item, seed)) for seed in range(12)]
    # opener and form of each step, introduction, closing, unit, joint: with more of them a model
    # commits one token at a time, with fewer nothing is left to verify
    assert 6 <= sum(events) / len(events) <= 11


def test_a_variant_always_gives_the_same_wording():
    template = compile_template("(a|b|c|d) (e|f|g|h) (i|j|k|l) {x}")
    texts = {expand(template, Variant(number), {"x": "x"}) for number in (1, 2, 3, 4, 5)}
    assert len(texts) > 1
    variant = Variant(1)
    assert len({expand(template, variant, {"x": "x"}) for _ in range(5)}) == 1

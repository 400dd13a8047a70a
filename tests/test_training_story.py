"""The story generator: one checkable answer, decided by the prompt, told in many ways."""

from __future__ import annotations

import lzma
import random
import re
from collections import Counter

import pytest

from training.generators import story
from training.generators.story_grammar import finish

COUNT = 6_000


@pytest.fixture(scope="module")
def items():
    rng = random.Random(7)
    return [story.make_item(rng) for _ in range(COUNT)]


def test_gold_is_the_word_of_the_last_line(items):
    for item in items:
        assert item.answer.splitlines()[-1] == f"Answer: {item.gold}"
        assert re.fullmatch(r"[a-z]+|[A-Z][a-z]+", item.gold)


def test_prompt_states_the_fact_that_decides_gold(items):
    for item in items:
        assert re.search(rf"\b{item.gold}\b", item.prompt), item.prompt


def test_story_itself_tells_the_deciding_fact(items):
    for item in items:
        body = item.answer.rsplit("\n", 1)[0].lower()
        assert re.search(rf"\b{item.gold.lower()}\b", body), item.answer


def test_prompt_that_asks_for_a_story_names_one_candidate_only(items):
    """A second animal, food or feeling in such a prompt would leave two right answers."""
    words = {"animal": story.ANIMALS, "food": story.FOODS, "feeling": story.FEELINGS}
    for item in items:
        for candidate in words.get(item.family, ()):
            assert candidate == item.gold or candidate not in re.findall(r"\b[a-z]+\b", item.prompt)


def test_last_move_decides_where_somebody_is(items):
    for item in items:
        if item.family != "state_person_place":
            continue
        moves, asked = item.specification.rsplit("/", 1)[1].split("?")
        last = [move.split(">")[1] for move in moves.split(",") if move.startswith(asked + ">")][-1]
        assert item.gold == last


def test_text_is_ascii_without_open_symbols(items):
    for item in items:
        text = item.prompt + item.answer
        assert text.isascii()
        assert not set("{}|") & set(text)
        assert "  " not in text


def test_articles_and_capitals_are_right(items):
    for item in items:
        body = item.answer.rsplit("\n", 1)[0]
        assert not re.search(r"\b[Aa] [aeiou]", body)
        assert not re.search(r"\b[Aa]n [bcdfgjklmnpqrstvwxz]", body)
        assert not re.search(r"[.!?] [a-z]", body), body
        assert body[0].isupper() or body[0] == '"'


def test_every_family_is_drawn_and_three_in_four_ask_for_a_story(items):
    drawn = Counter(item.family for item in items)
    assert set(drawn) == set(story.FAMILIES)
    told = sum(count for family, count in drawn.items() if family.startswith("state_"))
    assert 0.20 < told / COUNT < 0.30


def test_same_seed_gives_the_same_items():
    first, second = random.Random(3), random.Random(3)
    assert [story.make_item(first) for _ in range(50)] == [
        story.make_item(second) for _ in range(50)
    ]


def test_answers_are_short_enough_for_the_decoder(items):
    # 118 reference tokens are at least 3.4 characters each in this vocabulary
    assert max(len(item.answer) for item in items) <= 400
    assert max(len(item.prompt) for item in items) <= 400


def test_answers_differ_and_do_not_compress_well(items):
    assert len({item.answer for item in items}) > 0.97 * COUNT
    blob = "\n".join(item.answer for item in items).encode()
    # about 4.2 characters a token: 0.9 bits a character are 3.8 bits a token
    assert len(lzma.compress(blob, preset=9)) * 8 / len(blob) > 0.9


def test_specification_tells_apart_what_is_asked(items):
    by_specification: dict[str, set[tuple[str, str]]] = {}
    for item in items:
        by_specification.setdefault(item.specification, set()).add((item.family, item.gold))
    assert all(len(golds) == 1 for golds in by_specification.values())


def test_finish_capitalises_sentences_but_not_the_words_after_a_quotation():
    sentences = ['"what a day!" said the owl.', "a owl slept. it was late."]
    assert finish(sentences) == '"What a day!" said the owl. An owl slept. It was late.'

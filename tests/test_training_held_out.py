"""The split by specification: evaluation items are balanced, distinct, never drawn in training."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from training import held_out
from training.generators import DOMAINS
from training.generators.item import Item, is_held_out
from training.held_out import held_out_items
from training.mixture import training_item


@pytest.fixture(scope="module")
def items():
    return held_out_items("story", 64, seed=5)


def test_items_are_held_out_and_distinct(items):
    assert all(is_held_out(item.specification) for item in items)
    assert len({item.specification for item in items}) == len({item.prompt for item in items}) == 64


def test_families_are_balanced(items):
    counts = Counter(item.family for item in items)
    assert max(counts.values()) - min(counts.values()) <= 1


def test_same_seed_gives_the_same_items(items):
    assert held_out_items("story", 64, seed=5) == items


def test_asking_for_more_than_there_are_is_an_error(monkeypatch):
    one = next(item for item in held_out_items("story", 1))
    monkeypatch.setitem(DOMAINS, "story", lambda rng: one)
    with pytest.raises(RuntimeError, match="1 of 2"):
        held_out_items("story", 2)


@pytest.mark.parametrize("domain", sorted(DOMAINS))
def test_training_draws_no_held_out_specification_or_prompt(domain):
    rng = random.Random(1)
    drawn = [training_item(domain, rng) for _ in range(3_000)]
    assert not any(is_held_out(item.specification) for item in drawn)
    asked = {item.prompt for item in held_out_items(domain, 32)}
    assert not asked & {item.prompt for item in drawn}


def test_drawing_goes_on_where_too_few_were_found_and_keeps_what_was_found(monkeypatch):
    def rare(rng: random.Random) -> Item:
        # one draw in a thousand is new and held out
        name = f"s/{rng.randrange(10**6)}" if rng.random() < 0.05 else "word/chain/3+4"
        return Item("story", "f", name, name, "")

    monkeypatch.setitem(DOMAINS, "story", rare)
    few = held_out_items("story", 2)
    monkeypatch.setattr(held_out, "MOST_DRAWS_PER_ITEM", held_out.DRAWS_PER_ITEM)
    with pytest.raises(RuntimeError, match="of 12 distinct"):
        held_out_items("story", 12)
    monkeypatch.undo()
    monkeypatch.setitem(DOMAINS, "story", rare)
    many = held_out_items("story", 12)
    assert many[:2] == few
    assert len({item.specification for item in many}) == 12
    assert all(is_held_out(item.specification) for item in many)

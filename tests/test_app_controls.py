"""Fields of dataclasses as controls, and back."""

from dataclasses import fields

import pytest

from app.controls import controls, raw_of, settings, value_of
from flash_dllm.caches import CACHES, FlashCache, NoCache
from flash_dllm.strategies import STRATEGIES, Confidence, FlashVerify

VALUES = {
    "epsilon": 0.9,
    "gamma": 0.7,
    "gen_length": 64,
    "window_size": 32,
    "track_size": 16,
    "search_size": 8,
    "order": "confidence",
    "acceptance": "each",
    "correct": False,
    "audit": True,
    "refresh": "init",
    "track_layers": "",
}


def test_every_knob_appears_once_with_its_owners():
    found = controls()
    assert found["epsilon"].owners == ("flash_verify", "confidence", "chain", "patient")
    assert found["track_size"].owners == ("flash",)
    assert found["gen_length"].owners == ("config",)
    owners = {owner for control in found.values() for owner in control.owners}
    with_knobs = {name for name, kind in {**STRATEGIES, **CACHES}.items() if fields(kind)}
    assert {"flash_verify", "llada", "freedave", "wino", "flash", "dkv"} <= with_knobs
    assert owners == with_knobs | {"config"}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("gamma", "slider"),
        ("window_size", "number"),
        ("order", "choice"),
        ("audit", "check"),
        ("refresh", "text"),
        ("decide_size", "text"),  # may be blank
        ("track_layers", "text"),
        ("temperature", "number"),
    ],
)
def test_the_kind_of_a_control_follows_from_the_field(name, kind):
    assert controls()[name].kind == kind


def test_labels_carry_the_symbols_of_the_paper():
    assert controls()["window_size"].label == "βₘ · window size"
    assert controls()["gamma"].label == "γ · gamma"


def test_control_values_become_settings():
    strategy, cache, config = settings("flash_verify", "flash", VALUES)
    assert strategy == FlashVerify(epsilon=0.9, gamma=0.7, search_size=8, audit=True)
    assert cache == FlashCache(track_size=16)
    assert (config.gen_length, config.window_size) == (64, 32)


def test_knobs_of_other_strategies_are_ignored():
    strategy, cache, _ = settings("confidence", "none", VALUES)
    assert (strategy, cache) == (Confidence(epsilon=0.9), NoCache())


def test_blank_means_the_default_where_none_is_allowed():
    strategy, _, _ = settings("flash_verify", "flash", {**VALUES, "search_size": None})
    assert strategy == FlashVerify(epsilon=0.9, gamma=0.7, audit=True)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"gen_length": 0}, "gen_length must lie between 1 and 512 on this page, got 0"),
        ({"gen_length": 513}, "gen_length must lie between 1 and 512 on this page, got 513"),
        ({"gen_length": None}, "gen_length must not be blank"),
        ({"window_size": 0}, "window_size must lie between 1 and 1024, got 0"),
        ({"window_size": 65}, "window_size must not exceed gen_length, got 65 and 64"),
        ({"epsilon": 1.5}, "epsilon must lie between 0.0 and 1.0, got 1.5"),
        ({"order": "random"}, "order must be one of confidence, position, got 'random'"),
        ({"refresh": "never"}, "refresh must be one of init, drift, got 'never'"),
        ({"track_layers": "3"}, "track_layers must be two layer numbers like 0, 3, got 3"),
        ({"track_layers": "a, b"}, "track_layers must be two layer numbers like 0, 3"),
        ({"block_length": 7}, "gen_length must be a multiple of block_length, got 64 and 7"),
    ],
)
def test_an_impossible_value_is_one_sentence(changes, sentence):
    with pytest.raises(ValueError) as error:
        settings("flash_verify", "flash", {**VALUES, **changes})
    assert str(error.value).startswith(sentence)


def test_an_unknown_strategy_is_named():
    with pytest.raises(ValueError, match="strategy must be one of flash_verify.*got 'magic'"):
        settings("magic", "flash", VALUES)
    with pytest.raises(ValueError, match="cache must be one of flash, none, block, .*got 'big'"):
        settings("flash_verify", "big", VALUES)


@pytest.mark.parametrize(("name", "value"), [("refresh", 16), ("track_layers", (0, 3))])
def test_raw_values_survive_the_way_to_the_page_and_back(name, value):
    control = controls()[name]
    assert value_of(control, raw_of(control, value)) == value

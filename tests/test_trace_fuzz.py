"""Broken trace files, made systematically and at random: refused in one sentence, or sound.

Nothing but TraceError may ever come out of `from_json`. What loads must replay, so a file that
was changed somewhere harmless (a time, a name) is the only kind that passes.
"""

import json
import random
from functools import cache
from typing import Any

import pytest

from flash_dllm.caches import FlashCache
from flash_dllm.config import DecodeConfig
from flash_dllm.decoder import decode
from flash_dllm.scripted import toy_engine
from flash_dllm.strategies import FlashVerify
from flash_dllm.trace import DecodeTrace, StopReason, Verdict
from flash_dllm.trace_json import to_json
from tests.broken_traces import WRONG_TYPES, Path, leaves, outcome
from tests.hash_engine import HashEngine


@cache
def source() -> DecodeTrace:
    """A short run in which every kind of value occurs."""
    config = DecodeConfig(12, block_length=6, window_size=6, decide_size=5, alternatives=2)
    strategy = FlashVerify(epsilon=0.9, gamma=0.5, search_size=3)
    policy = FlashCache(track_size=3, track_layers=(0, 1))
    return decode(HashEngine(10), [1, 2, 3], strategy, policy, config, prompt="one two three")


@cache
def source_text() -> str:
    return to_json(source())


def place(path: Path) -> str:
    """A path as the sentences write it: steps[3].proposals[1].rank"""
    return "".join(f"[{k}]" if isinstance(k, int) else f".{k}" for k in path).removeprefix(".")


def changed(path: Path, value: Any = None, remove: bool = False) -> str:
    """The source with one value replaced, or one key removed."""
    tree = json.loads(source_text())
    spot = tree
    for key in path[:-1]:
        spot = spot[key]
    if remove:
        del spot[path[-1]]
    else:
        spot[path[-1]] = value
    return json.dumps(tree)


def shape(path: Path) -> Path:
    """The path without list places, so that one example per field is enough."""
    return tuple("*" if isinstance(key, int) else key for key in path)


@cache
def one_per_field() -> list[tuple[Path, Any]]:
    """One example of every field, the one whose value is not null where there is one."""
    examples: dict[Path, tuple[Path, Any]] = {}
    for path, value in leaves(json.loads(source_text())):
        if path and (shape(path) not in examples or examples[shape(path)][1] is None):
            examples[shape(path)] = (path, value)
    return list(examples.values())


def names(path: Path, sentence: str) -> bool:
    """Whether the sentence names the place, or the settings object whose own check found it."""
    if path[0] in ("strategy", "cache", "config") and len(path) > 1:
        return sentence.startswith(f"{path[0]}") and str(path[1]) in sentence
    return place(path) in sentence


def test_the_source_is_sound_and_holds_every_kind_of_field():
    assert outcome(source_text()) is None
    assert len(one_per_field()) > 60
    steps = source().steps
    assert {p.verdict for step in steps for p in step.proposals} == set(Verdict) - {
        Verdict.CORRECTED
    }
    assert {step.stop for step in steps} == set(StopReason)


def test_a_value_of_another_type_is_refused_at_its_place():
    """Every field gets every other type; what may be null, a number or any text is left out."""
    tried = 0
    for path, value in one_per_field():
        for wrong in WRONG_TYPES:
            if type(wrong) is type(value) or (wrong == 1.5 and type(value) in (int, float)):
                continue
            sentence = outcome(changed(path, wrong))
            if sentence is None:
                assert _is_free(path, wrong), f"{place(path)} may be {wrong!r}"
                continue
            tried += 1
            if not _breaks_the_replay(path, wrong):
                assert names(path, sentence), f"{place(path)} = {wrong!r}: {sentence}"
    assert tried > 250


def _is_free(path: Path, wrong: Any) -> bool:
    """Settings for which null means a default that gives the same run."""
    return wrong is None and path[0] in ("strategy", "cache", "config")


def _breaks_the_replay(path: Path, wrong: Any) -> bool:
    """Values of a possible type that the steps contradict, so the step is named instead."""
    optional = {"rank", "verify_token", "verify_confidence", "search_size", "decide_size"}
    if wrong is None and path[-1] in (*optional, "block_length"):
        return True
    return path[0] == "format" or path[0] == "schema_version"


def test_a_number_beyond_its_range_is_refused():
    tried = 0
    for path, value in one_per_field():
        if type(value) not in (int, float):
            continue
        for wrong in (-1, 10**9 + 1, 10**30, -0.001, 1e308):
            sentence = outcome(changed(path, wrong))
            if sentence is None:
                assert path in (("config", "seed"),) and wrong == 10**9 + 1, place(path)
                continue
            tried += 1
            assert names(path, sentence) or path[0] == "schema_version", sentence
    assert tried > 120


def test_a_fraction_is_no_whole_number():
    for path, value in one_per_field():
        if type(value) is int and path[0] != "schema_version" and path[-1] != "seconds":
            is_share = path[-1] in ("confidence", "epsilon", "gamma", "temperature")
            sentence = outcome(changed(path, value + 0.5))
            assert is_share or (sentence is not None and names(path, sentence)), place(path)


def test_a_missing_key_is_refused_with_its_place():
    for path, _ in one_per_field():
        if isinstance(path[-1], int) or path[0] == "token_texts" and len(path) > 1:
            continue
        sentence = outcome(changed(path, remove=True))
        assert sentence is not None and place(path) in sentence


def test_an_additional_key_is_refused_in_every_object():
    objects = [path for path, value in one_per_field() if isinstance(value, dict)]
    for path in [(), *objects]:
        sentence = outcome(changed((*path, "more"), 1))
        assert sentence is not None and "more" in sentence and place(path) in sentence


def test_a_step_left_out_doubled_or_moved_is_refused():
    tree = json.loads(source_text())
    steps = tree["steps"]
    for n in range(len(steps)):
        without = steps[:n] + steps[n + 1 :]
        twice = steps[: n + 1] + steps[n:]
        for wrong in (without, twice, [steps[n]] * len(steps), steps[::-1]):
            sentence = outcome(json.dumps({**tree, "steps": wrong}))
            assert sentence is not None and ("steps[" in sentence or "status" in sentence)
            renumbered = [{**step, "index": i} for i, step in enumerate(wrong, 1)]
            assert outcome(json.dumps({**tree, "steps": renumbered})) is not None


def test_a_changed_decision_is_refused_at_its_step():
    """Every verdict, rank and stop reason, each set to every other value."""
    tree = json.loads(source_text())
    tried = 0
    for path, value in leaves(tree["steps"], ("steps",)):
        others: tuple = ()
        if path[-1] == "verdict":
            others = ("CONFIDENT", "FORCED", "VERIFIED", "CORRECTED", "MISMATCH", "WAITING")
        elif path[-1] == "stop":
            others = ("mismatch", "below_gamma", "exhausted", "no_search")
        elif path[-1] == "rank":
            others = (None, 0, 1, 2, 9)
        for other in others:
            if other != value:
                tried += 1
                sentence = outcome(changed(path, other))
                assert sentence is not None and f"steps[{path[1]}]" in sentence
    assert tried > 200


def test_two_proposals_that_change_places_are_refused():
    tree = json.loads(source_text())
    for number, step in enumerate(tree["steps"]):
        for n in range(len(step["proposals"]) - 1):
            swapped = list(step["proposals"])
            swapped[n], swapped[n + 1] = swapped[n + 1], swapped[n]
            sentence = outcome(changed(("steps", number, "proposals"), swapped))
            assert sentence is not None and f"steps[{number}]" in sentence


@pytest.mark.parametrize("part", range(4))
def test_a_truncated_file_is_refused(part):
    text = source_text()
    cuts = range(part * 3, len(text), max(1, len(text) // 60))
    for cut in cuts:
        sentence = outcome(text[:cut])
        assert sentence is not None and "not JSON at line 1, column" in sentence
        assert outcome(text[cut:] or "x") is not None or cut == 0


@pytest.mark.parametrize("part", range(5))
def test_flipped_bytes_are_refused_or_harmless(part):
    """100 files with 1 to 3 random bytes each; what still loads is written and read the same."""
    generator = random.Random(part)
    refused = 0
    for _ in range(100):
        data = bytearray(source_text().encode())
        for _ in range(generator.randint(1, 3)):
            data[generator.randrange(len(data))] = generator.randrange(256)
        refused += outcome(bytes(data)) is not None
    assert refused > 60


def test_characters_swapped_for_others_of_json_are_refused_or_harmless():
    """Digits, brackets and quotes in place of others keep the file closer to JSON."""
    generator = random.Random(7)
    text = source_text()
    for _ in range(300):
        spot = generator.randrange(len(text))
        other = generator.choice('0123456789-.eE"[]{},:\\ntfu ')
        outcome(text[:spot] + other + text[spot + 1 :])


def test_pieces_of_the_file_moved_elsewhere_are_refused_or_harmless():
    """Subtrees in the place of other subtrees: right JSON, wrong shape."""
    generator = random.Random(8)
    spots = [path for path, _ in leaves(json.loads(source_text())) if path]
    values = [value for _, value in leaves(json.loads(source_text()))]
    for _ in range(200):
        outcome(changed(generator.choice(spots), generator.choice(values)))


def test_the_toy_run_survives_no_cut():
    engine = toy_engine()
    config = DecodeConfig(gen_length=4, window_size=2)
    trace = decode(engine, engine.ids("^"), FlashVerify(), FlashCache(track_size=1), config)
    text = to_json(trace)
    for cut in range(0, len(text), 7):
        assert outcome(text[:cut]) is not None

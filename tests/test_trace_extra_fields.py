"""Files with revocations and branches, broken field by field: refused in one sentence, or sound."""

import json
import random
from functools import cache

import pytest

from flash_dllm.caches import DualCache
from flash_dllm.config import DecodeConfig
from flash_dllm.decoder import decode
from flash_dllm.strategies import FreeDave
from flash_dllm.trace_json import to_json
from tests.broken_traces import WRONG_TYPES, leaves, outcome
from tests.hash_engine import HashEngine
from tests.revoked_run import revoked_run


@cache
def source(name):
    if name == "rechecks":
        return to_json(revoked_run())
    config = DecodeConfig(16, block_length=8, window_size=8)
    return to_json(decode(HashEngine(7), [1, 2, 3], FreeDave(3), DualCache(), config))


def changed(text, path, value):
    tree = json.loads(text)
    spot = tree
    for key in path[:-1]:
        spot = spot[key]
    spot[path[-1]] = value
    return json.dumps(tree)


@pytest.mark.parametrize("name", ["rechecks", "branches"])
def test_a_field_of_another_type_is_refused(name):
    text = source(name)
    assert outcome(text) is None
    seen = {}
    for path, value in leaves(json.loads(text)):
        if name in path:
            shape = tuple("*" if isinstance(key, int) else key for key in path)
            seen.setdefault(shape, (path, value))
    assert len(seen) > 5
    for path, value in seen.values():
        for wrong in WRONG_TYPES:
            if type(wrong) is type(value):
                continue
            sentence = outcome(changed(text, path, wrong))
            assert sentence is not None and name in sentence, (path, wrong)


@pytest.mark.parametrize("name", ["rechecks", "branches"])
def test_a_field_of_another_value_is_refused_or_harmless(name):
    """Only TraceError comes out, and what loads replays. Numbers and tokens are moved a little."""
    text, rng, refused = source(name), random.Random(3), 0
    places = [
        (path, value)
        for path, value in leaves(json.loads(text))
        if name in path and isinstance(value, (bool, int, float))
    ]
    for path, value in rng.sample(places, 60):
        other = not value if isinstance(value, bool) else abs(value - 1) if value else 1
        refused += outcome(changed(text, path, other)) is not None
    # a shadow's own choice and the answers of a state that was not reached decide nothing
    assert refused > 20


@pytest.mark.parametrize("name", ["rechecks", "branches"])
def test_a_list_without_one_entry_or_with_one_twice_is_refused(name):
    tree = json.loads(source(name))
    for number, step in enumerate(tree["steps"]):
        for entry in range(len(step.get(name, ()))):
            for again in (0, 2):
                copy = json.loads(source(name))
                items = copy["steps"][number][name]
                items[entry : entry + 1] = [items[entry]] * again
                assert outcome(json.dumps(copy)) is not None

"""The host goes through the last step again while it waits, and nothing comes of it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from flash_dllm import rehearsal as rehearsal_file
from flash_dllm.caches import DllmCache, DynamicCache, ElasticCache, FlashCache, NoCache
from flash_dllm.decoder import decode_batch
from flash_dllm.engine import ModelSession
from flash_dllm.models import load_model
from flash_dllm.pass_sizes import PassSizes
from flash_dllm.query import Mass, Prediction
from flash_dllm.rehearsal import Rehearsal
from flash_dllm.sequence import LiveSequence
from flash_dllm.strategies import Adaptive, Confidence, FlashVerify, Prophet, Wino
from flash_dllm.transfer import Transfer
from tests.filled_passes import CONFIG, PROMPTS, draft_query, filled_session, untimed
from tests.hash_engine import HashEngine


@pytest.fixture(scope="module")
def engine():
    return load_model(dtype="float32")


@pytest.mark.parametrize(
    ("strategy", "cache"),
    [
        (FlashVerify(0.5, 0.1), FlashCache(track_size=4, refresh="drift")),
        (Adaptive(0.5), NoCache()),
        (Prophet(), NoCache()),
        (Wino(0.5, 0.8), FlashCache(track_size=4)),
        (Confidence(0.4), DllmCache()),
        (Confidence(0.4), DynamicCache()),
        (Confidence(0.4), ElasticCache()),
    ],
    ids=lambda choice: choice.name,
)
def test_rehearsed_steps_change_nothing_of_what_a_network_decodes(
    engine, strategy, cache, monkeypatch
):
    """Others, on a model of hashes, are in test_groups.py."""
    own = replace(engine, _idle=[])
    plain = decode_batch(own, PROMPTS[:2], strategy, cache, CONFIG, batch_size=2)
    acts = []
    monkeypatch.setattr(ModelSession, "rehearse", lambda _, act: acts.append(act()))
    found = decode_batch(own, PROMPTS[:2], strategy, cache, CONFIG, batch_size=2)
    assert acts
    for one, other in zip(plain, found, strict=True):
        assert [untimed(step) for step in one.steps] == [untimed(step) for step in other.steps]


def test_a_double_asks_and_commits_what_the_sequence_did(monkeypatch):
    """Step 2 is what it was: the questions, and where its promotions went."""
    engine = HashEngine(3)
    asked, promoted = [], []
    begin = LiveSequence._set

    def spy(sequence, ask):
        begin(sequence, ask)
        asked.append((sequence.index, sequence.query))

    monkeypatch.setattr(LiveSequence, "_set", spy)
    sequence = LiveSequence(
        0, 0, FlashVerify().canvas([1, 2, 3], CONFIG, engine.info), FlashVerify(0.8, 0.5),
        FlashCache(track_size=4), engine.info,
    )  # fmt: skip

    class Session:
        def promote(self, handle, moves):
            promoted.append(moves)

    sequence.rehearse()
    assert len(asked) == 1, "there is no step yet"
    answers = iter_answers(sequence)
    while sequence.index < 3:
        sequence.receive(next(answers), Session())
    done, moves, canvas = list(asked), list(promoted), sequence.canvas
    query, memory = sequence.query, sequence.memory
    asked.clear()
    sequence.rehearse()
    # step 2 has two questions; step 3 begins with one
    assert [found for found in done if found[0] > 1] == asked and len(asked) == 3
    assert promoted == moves and any(moves), "only the sequence itself commits to a session"
    assert (sequence.canvas, sequence.query, sequence.memory) == (canvas, query, memory)
    assert sequence.index == 3


def iter_answers(sequence):
    """Confidence falls with the row, below ε at the fourth; verify answers agree with drafts."""
    while True:
        query = sequence.query
        rows = len(query.predict)
        tokens = [7] * rows
        confidences = [0.9 - row / 20 for row in range(rows)]
        mass = Mass.of([0.0] * query.length, query.decided, top=8) if query.wants_mass else None
        yield Prediction(tokens, confidences, [()] * rows, mass)


def test_a_session_rehearses_the_last_copies_and_leaves_the_cache_as_it_is(engine):
    session, (first, second) = filled_session(engine)
    runs = []

    class Once:
        def run(self, sizes, begin, table, act, is_over):
            act()
            runs.append((sizes, begin, is_over()))

        def asked(self, *_):
            pass

        answered = asked

    session._space.rehearsal = Once()
    session.rehearse(lambda: pytest.fail("nothing is on its way"))
    session.promote(first, [(19, 3), (20, 5)])
    session.promote(second, [(30, 7)])
    session.answer([(first, draft_query(19, (2,), (9,))), (second, draft_query(30, (4,), (10,)))])
    acted = []
    transfer = Transfer(torch.device("cpu"))
    session._flight = SimpleNamespace(sizes=SIZES, begin=2.0, transfer=transfer)
    before = session.cache.keys.clone(), session.cache.values.clone()
    copies = []
    promote = session.cache.promote
    session.cache.promote = lambda moves: copies.append(moves) or promote(moves)
    session.rehearse(lambda: acted.append(1))
    assert acted == [1] and runs == [(SIZES, 2.0, True)]
    assert copies == [[(first, 19, 19), (first, 20, 20), (second, 30, 30)]]
    assert torch.equal(session.cache.keys, before[0])
    assert torch.equal(session.cache.values, before[1])
    # a sequence that has left has no slots to copy
    session.release(first)
    session.rehearse(lambda: None)
    assert copies[1:] == [[(second, 30, 30)]]


# when it is done


class Clock:
    """Seconds that pass by sleeping and by what is done."""

    def __init__(self, monkeypatch):
        self.now = 0.0
        monkeypatch.setattr(rehearsal_file.time, "perf_counter", lambda: self.now)
        monkeypatch.setattr(rehearsal_file.time, "sleep", self.spend)

    def spend(self, seconds):
        self.now += seconds


class Buffer:
    filled = 0

    def fill(self, asked, table, sizes):
        self.filled += 1


QUERIES = [(0, draft_query(30, (4,), (10, 11)))]
SIZES = PassSizes.of(QUERIES)
TABLE = torch.arange(64).view(1, 64)


def ready(seconds, buffer):
    """A rehearsal that knows passes of so many seconds."""
    made = Rehearsal(buffer)
    made.asked(QUERIES, SIZES)
    for one in seconds:
        flat = np.zeros(2 * SIZES.predicted + SIZES.sequences * SIZES.keys, np.float32)
        shapes = SIZES.predicted, 0, (SIZES.sequences, SIZES.keys), False
        made.answered(QUERIES, SIZES, flat, shapes, one)
    return made


def test_it_begins_before_the_end_and_comes_again_at_the_last_moment(monkeypatch):
    clock, buffer, begun = Clock(monkeypatch), Buffer(), []
    costs = iter([1.5e-3, 0.4e-3])

    def act():
        begun.append(clock.now)
        clock.spend(next(costs))

    ready([9.0, 5.5e-3, 5.6e-3], buffer).run(SIZES, 0.0, TABLE, act, lambda: False)
    # 3 ms before 5.5, the shortest; then so that half of 1.5 ms ends 0.2 ms before it
    assert begun == pytest.approx([2.5e-3, 4.55e-3])
    assert buffer.filled == 2


def test_one_that_took_longer_than_the_pass_is_not_done_again(monkeypatch):
    clock, buffer, begun = Clock(monkeypatch), Buffer(), []

    def act():
        begun.append(clock.now)
        clock.spend(2.9e-3)

    ready([5.5e-3], buffer).run(SIZES, 0.0, TABLE, act, lambda: False)
    assert begun == pytest.approx([2.5e-3]) and buffer.filled == 1


@pytest.mark.parametrize(
    ("seconds", "is_over"), [([], False), ([3.9e-3], False), ([8e-3], True)],
    ids=["unknown", "short", "over"],
)  # fmt: skip
def test_it_is_left_out_where_nobody_waits_long(seconds, is_over, monkeypatch):
    clock, buffer = Clock(monkeypatch), Buffer()
    ready(seconds, buffer).run(SIZES, 0.0, TABLE, lambda: pytest.fail("acts"), lambda: is_over)
    assert clock.now == 0.0 and buffer.filled == 0

"""A batch in groups decodes what it decodes in one, whatever the device does first."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import pytest
import torch

import flash_dllm.session as session_file
from flash_dllm.caches import (
    DelayedDecodeCache,
    DllmCache,
    DualCache,
    DynamicCache,
    ElasticCache,
    FlashCache,
    NoCache,
)
from flash_dllm.config import DecodeConfig
from flash_dllm.decoder import decode_batch, decode_batch_steps
from flash_dllm.drawing import Drawing
from flash_dllm.engine_protocol import SessionRequest
from flash_dllm.models import load_model
from flash_dllm.sequence import LiveSequence
from flash_dllm.session import ModelSession
from flash_dllm.strategies import (
    Adaptive,
    Chain,
    Confidence,
    FlashVerify,
    FreeDave,
    Greedy,
    Llada,
    Patient,
    Wino,
)
from flash_dllm.transfer import Transfer
from tests.filled_passes import CONFIG, PROMPTS, draft_query, filled_session, untimed
from tests.hash_engine import HashEngine, HashSession

HASHED = [[1, 2, 3], [4] * 9, [7, 8], [5, 6, 7, 8, 9], [11], [12, 13, 14], [2] * 6]
SETTINGS = DecodeConfig(gen_length=24, window_size=8)
VERIFY = FlashVerify(0.8, 0.5, search_size=4)


@dataclass(frozen=True)
class StreamEngine(HashEngine):
    """A model on a device of its own that does what it is told in that order, and nothing before
    its results are asked for: as late as a device can be.

    groups_from  sequences from which on the session wants two groups
    fails_at     the number of the launch, or of the answer, that fails
    """

    groups_from: int = 99
    fails_at: tuple[str, int] = ("", 0)
    sessions: list[StreamSession] = field(default_factory=list)

    def open(self, request):
        self.sessions.append(StreamSession(self, request))
        return self.sessions[-1]


class StreamSession(HashSession):
    """asked: of each launch how many sequences it had, how many were on their way with it, and
    how many lived."""

    def __init__(self, engine, request):
        super().__init__(engine, request)
        self.work = deque()
        self.asked = []
        self.flying = self.answered = self.closed = self.live = 0

    def admit(self, length, seed):
        self.live += 1
        return super().admit(length, seed)

    def release(self, handle):
        self.live -= 1
        release = super().release
        self.work.append(lambda: release(handle))

    def groups_of(self, sequences):
        return 2 if sequences >= self._engine.groups_from else 1

    def promote(self, handle, moves):
        promote = super().promote
        self.work.append(lambda: promote(handle, moves))

    def ask(self, queries):
        if self._engine.fails_at == ("launch", len(self.asked) + 1):
            raise RuntimeError("no launch")
        found = []
        run = super().ask(queries)
        self.work.append(lambda: found.extend(run()))
        self.flying += len(queries)
        self.asked.append((len(queries), self.flying, self.live))
        number = len(self.asked)

        def answers():
            self.answered += 1
            assert self.answered == number, "answers are fetched in the order of asking"
            if self._engine.fails_at == ("answer", self.answered):
                raise RuntimeError("no answer")
            while not found:
                self.work.popleft()()
            self.flying -= len(queries)
            return found

        return answers

    def close(self):
        self.closed += 1
        super().close()


@pytest.mark.parametrize("groups", [2, 3])
@pytest.mark.parametrize(
    ("strategy", "cache"),
    [
        (Greedy(), NoCache()),
        (Confidence(0.7), FlashCache(track_size=4)),
        (VERIFY, FlashCache(track_size=4)),
        (FlashVerify(0.8, 0.5, order="position", correct=True), FlashCache(4, refresh="drift")),
        (FlashVerify(0.8, 0.5, search_size=3, audit=True), NoCache()),
        (FlashVerify(0.8, 0.5), DelayedDecodeCache()),
        (Llada(steps=9, remasking="random"), DualCache()),
        (FreeDave(), NoCache()),
        (Wino(0.5, 0.8), NoCache()),
        (Chain(), FlashCache(track_size=4)),
        (Patient(), FlashCache(track_size=4)),
    ],
    ids=lambda choice: choice.name,
)
def test_groups_on_the_latest_of_all_devices_give_the_same_traces(strategy, cache, groups):
    expected = decode_batch(HashEngine(3), HASHED, strategy, cache, SETTINGS, batch_size=4)
    engine = StreamEngine(3)
    found = decode_batch(engine, HASHED, strategy, cache, SETTINGS, batch_size=4, groups=groups)
    assert found == expected
    (session,) = engine.sessions
    sizes, together, _ = zip(*session.asked, strict=True)
    # ceil(4 / groups) at a time, all four on their way
    assert max(sizes) == 2 and max(together) == 4
    assert session.closed == 1


@pytest.mark.parametrize("has_graphs", [False, True], ids=["plain", "padded"])
@pytest.mark.parametrize(
    ("strategy", "cache", "changes"),
    [
        (Greedy(), FlashCache(track_size=4), {}),
        (FlashVerify(0.6, 0.05, acceptance="joint", search_size=3), FlashCache(track_size=4), {}),
        (FlashVerify(0.5, 0.1), NoCache(), {}),
        (FlashVerify(0.5, 0.1), FlashCache(), {"temperature": 0.7, "seed": 3}),
        (Llada(steps=10, top_p=0.9), NoCache(), {"temperature": 0.7}),
        (Adaptive(0.5), NoCache(), {}),
        (Confidence(0.4), DllmCache(), {}),
        (Confidence(0.4), DynamicCache(), {}),
        (Confidence(0.4), ElasticCache(), {}),
    ],
    ids=lambda choice: "-".join(choice) if isinstance(choice, dict) else choice.name,
)
def test_groups_of_a_real_network_give_the_same_traces(
    engine, strategy, cache, changes, has_graphs
):
    config = replace(CONFIG, **changes)
    own = replace(engine, has_graphs=has_graphs, _idle=[])
    one, two = (
        decode_batch(own, PROMPTS, strategy, cache, config, batch_size=4, groups=groups)
        for groups in (1, 2)
    )
    for whole, parts in zip(one, two, strict=True):
        assert [untimed(step) for step in parts.steps] == [untimed(step) for step in whole.steps]


def test_a_session_chooses_and_what_is_left_of_two_groups_becomes_one():
    engine = StreamEngine(3, groups_from=5)
    expected = decode_batch(HashEngine(3), HASHED, VERIFY, NoCache(), SETTINGS, batch_size=6)
    assert decode_batch(engine, HASHED, VERIFY, NoCache(), SETTINGS, batch_size=6) == expected
    asked = engine.sessions[0].asked
    assert asked[:3] == [(3, 3, 6), (3, 6, 6), (3, 6, 6)]
    # below five all that live are asked together
    few = [launch for launch in asked if launch[2] < 5]
    assert few and all(size == together == live for size, together, live in few)
    assert all(size <= 3 for size, _, live in asked if live >= 5)


def test_no_group_is_more_than_its_share_and_nobody_waits_for_two_turns():
    # answers of very different lengths: one in three positions would like to end
    engine = StreamEngine(8, end_share=30)
    decode_batch(engine, HASHED * 3, Confidence(0.7), NoCache(), SETTINGS, 9, groups=2)
    asked = engine.sessions[0].asked
    assert all(size <= -(-live // 2) for size, _, live in asked)
    left_out = [together < live for _, together, live in asked]
    assert any(left_out[1:]), "the groups have become unequal at least once"
    assert not any(one and two for one, two in zip(left_out, left_out[1:], strict=False))


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("kind", ["launch", "answer"])
@pytest.mark.parametrize("number", [1, 2, 6, 7])
def test_what_was_committed_before_an_error_is_told_and_the_session_closed(
    groups, kind, number, monkeypatch
):
    committed = []
    receive = LiveSequence.receive

    def spy(sequence, prediction, session):
        ended = receive(sequence, prediction, session)
        committed.extend([] if ended is None else [(ended.number, ended.index)])
        return ended

    whole = decode_batch(HashEngine(3), HASHED, VERIFY, NoCache(), SETTINGS, batch_size=4)
    engine = StreamEngine(3, fails_at=(kind, number))
    monkeypatch.setattr(LiveSequence, "receive", spy)
    told = {n: [] for n in range(len(HASHED))}
    with pytest.raises(RuntimeError, match=f"no {kind}"):
        for n, step in decode_batch_steps(engine, HASHED, VERIFY, NoCache(), SETTINGS, 4, groups):
            told[n].append(step)
    assert engine.sessions[0].closed == 1
    for n, steps in told.items():
        assert tuple(steps) == whole[n].steps[: len(steps)]
    found = [(n, step.index) for n, steps in told.items() for step in steps]
    assert sorted(found) == sorted(committed)
    assert (number > 2) == bool(found), "a step takes two passes"


def test_a_stop_in_the_middle_closes_the_session_with_both_groups_on_their_way():
    engine = StreamEngine(3)
    steps = decode_batch_steps(engine, HASHED, VERIFY, NoCache(), SETTINGS, 4, groups=2)
    for _ in range(5):
        next(steps)
    assert engine.sessions[0].flying == 4
    steps.close()
    assert engine.sessions[0].closed == 1


@pytest.mark.parametrize("groups", [0, -1, 1.5, "2"])
def test_groups_are_a_whole_number(groups):
    with pytest.raises(ValueError, match=f"groups must be a whole number from 1 on, got {groups}"):
        decode_batch(HashEngine(), HASHED, Greedy(), NoCache(), SETTINGS, groups=groups)


# the session's own part


@pytest.mark.parametrize(
    ("sequences", "changes", "groups"),
    [
        (32, {}, 2),
        (16, {}, 2),
        (15, {}, 1),
        (32, {"count": 900_000_000}, 1),
        (32, {"device": "cpu"}, 1),
        (32, {"graphs": None}, 1),
        (32, {"temperature": 0.5}, 1),
        (32, {"wants_changes": True}, 1),
        (32, {"by_layer": True}, 1),
        (32, {"drawing": Drawing(top_k=5)}, 1),
    ],
)
def test_two_groups_need_a_gpu_with_graphs_a_large_model_and_sixteen_sequences(
    sequences, changes, groups
):
    chosen = {"count": 8_000_000_000, "device": "cuda", "graphs": object(), **changes}
    model = SimpleNamespace(
        spec=SimpleNamespace(mask_token_id=5, vocab_size=9),
        weights=SimpleNamespace(count=chosen.pop("count")),
        device=torch.device(chosen.pop("device")),
    )
    space = SimpleNamespace(fixed=object(), graphs=chosen.pop("graphs"))
    session = ModelSession(model, SessionRequest(32, 64, **chosen), space, [])
    assert session.groups_of(sequences) == groups


def test_a_cpu_asks_for_one_group_however_many_live(engine):
    padding = replace(engine, has_graphs=True, _idle=[])
    session = padding.open(SessionRequest(64, 32))
    assert session.groups_of(64) == 1


def test_passes_on_their_way_together_keep_their_numbers_apart(engine, monkeypatch):
    """Three passes are launched before the first is read, with a clock that ticks at each look.

    A launch and a reading take one tick each; they count where the device has nothing else to do.
    """
    sessions = [filled_session(engine) for _ in range(2)]
    session, (first, second) = sessions[0]
    asked = [
        [(first, draft_query(19, (2, 8), (11, 12)))],
        [(second, draft_query(30, (0, 4), (10, 11, 12)))],
        [(first, draft_query(19, (2, 8), (13,)))],
    ]
    expected = [sessions[1][0].answer(queries) for queries in asked]
    ticks = iter(range(100))
    monkeypatch.setattr(session_file.time, "perf_counter", lambda: next(ticks))
    finish = Transfer.finish
    monkeypatch.setattr(Transfer, "finish", lambda transfer: (finish(transfer)[0], 0.25))
    flights = [session._start(queries) for queries in asked]
    # each pass has memory of its own
    assert len({id(flight.transfer) for flight in flights}) == 3
    found = [session._finish(flight) for flight in flights]
    for queries, answers, before in zip(asked, found, expected, strict=True):
        ((handle, _),) = queries
        assert replace(answers[handle], seconds=0.0) == replace(before[0], seconds=0.0)
    seconds = [next(iter(answers.values())).seconds for answers in found]
    # the launch of the first, nothing of the second but the device's own time, the last's reading
    assert seconds == [1.0, 0.25, 1.0]
    again = session._start(asked[0])
    assert again.transfer in [flight.transfer for flight in flights]
    assert session._finish(again)[first].seconds == 2.0


def test_a_session_that_is_closed_with_passes_on_their_way_leaves_none_behind(small_folder):
    engine = load_model(small_folder, device="cpu", dtype="float64")
    padding = replace(engine, has_graphs=True, _idle=[])
    session = padding.open(SessionRequest(2, 40))
    handles = [session.admit(19, 0), session.admit(30, 0)]
    for handle, length in zip(handles, (19, 30), strict=True):
        session._start([(handle, draft_query(length, (2,), (3, 4)))])
    session.close()
    (space,) = padding._idle
    assert not space.is_busy
    assert len(space._resting) == 2

"""What a pass buffer keeps from pass to pass never shows: a used one fills like a fresh one."""

import random
from dataclasses import replace

import pytest
import torch

from flash_dllm.cache import FlatKVCache
from flash_dllm.packing import PassBuffer
from flash_dllm.pass_frame import FRAMES, Frames
from flash_dllm.pass_sizes import PassSizes
from flash_dllm.query import Query, Role
from tests.filled_passes import draft_query, verify_query

CPU = torch.device("cpu")
SLOTS = 96
ROOM = PassSizes(512, 512, sequences=8, width=256, keys=SLOTS, mass=256, has_views=True)


def any_query(drawn, length):
    """A draft pass, also block-causal or with branches, or a verify pass, also of a shifted model.
    Few numbers of rows, so that frames come again with other rows."""
    places = drawn.sample(range(length), 9)
    kind = drawn.choice(["verify", "draft", "causal", "branches"])
    if kind == "verify":
        count = drawn.choice([2, 4])
        query = verify_query(length, sorted(places[:count]), places[4 : 9 - count // 2])
        if drawn.random() < 0.3:
            query.replaced = {query.rows - 1: places[0]}
        return query
    count = drawn.choice([2, 4])
    query = draft_query(length, sorted(places[:count]), sorted(places[4:]))
    if kind == "causal":
        return replace(query, block_size=drawn.choice([4, 8]))
    if kind == "branches":
        own = query.rows
        for branch in (1, 2):
            for row in range(own):
                query.searched[query.slots[row]] = 1
                scratch = length + query.rows - own
                query.add(7, query.positions[row], scratch, Role.BRANCH, branch)
    return query


def assert_same(packed, expected):
    for name in ("tokens", "positions", "slots", "predict"):
        assert torch.equal(getattr(packed, name), getattr(expected, name)), name
    for name, value in vars(expected.schedule).items():
        own = getattr(packed.schedule, name)
        if not torch.is_tensor(value):
            assert own == value, name
        elif value.stride() != (0, 0):  # no memory of its own: nobody reads it
            assert own.dtype == value.dtype and torch.equal(own, value), name


@pytest.mark.parametrize("is_dense", [True, False])
def test_a_used_buffer_fills_like_a_fresh_one_whatever_came_before(is_dense):
    """Sequences come and go, and get each other's handles and pages; layouts share one buffer."""
    drawn = random.Random(0)
    cache = FlatKVCache(5, SLOTS, 1, 1, 16, torch.float32, CPU)
    padded, exact = (PassBuffer(CPU, is_dense=is_dense, room=room) for room in (ROOM, None))
    live = {}
    for _ in range(300):
        if drawn.random() < 0.15 and live:
            handle = drawn.choice(list(live))
            cache.release(handle)
            del live[handle]
        if not live or drawn.random() < 0.2 and len(live) < 5:
            length = drawn.choice([20, 30])
            live[cache.admit(drawn.choice([length + 30, SLOTS]))] = length
        handles = drawn.sample(list(live), drawn.randint(1, len(live)))
        queries = [(handle, any_query(drawn, live[handle])) for handle in handles]
        for buffer, sizes in ((padded, PassSizes.of(queries).padded(SLOTS)), (exact, None)):
            block_size = drawn.choice([None, None, 16])
            fresh = PassBuffer(CPU, is_dense=is_dense)
            expected = fresh.fill(queries, cache.table, sizes, block_size)
            assert_same(buffer.fill(queries, cache.table, sizes, block_size), expected)


def test_a_sequence_that_gets_an_old_handle_and_other_pages_gets_its_own_slots():
    cache = FlatKVCache(2, 32, 1, 1, 16, torch.float32, CPU)
    buffer = PassBuffer(CPU)
    first, second = cache.admit(32), cache.admit(32)
    query = draft_query(20, (0,), (18,))
    for _ in range(3):  # from the second time on more is kept
        assert buffer.fill([(second, query)], cache.table).slots.tolist() == [32, 50]
    cache.release(first)
    cache.release(second)
    assert [cache.admit(16), cache.admit(32)] == [second, first]
    cache.release(first)
    cache.release(second)
    assert [cache.admit(32), cache.admit(32)] == [second, first]
    packed = buffer.fill([(second, query)], cache.table)
    assert packed.slots.tolist() == [0, 18]
    assert packed.schedule.page_table_BN.tolist() == [[0, 1]]


def test_frames_are_kept_up_to_a_number_and_the_last_used_ones():
    frames = Frames()
    table = torch.arange(64)[None].numpy()
    queries = [
        [(0, Query("draft", 8, tokens=[1] * rows, positions=list(range(rows))))]
        for rows in range(1, FRAMES + 2)
    ]
    first, second = (frames.of(asked, table) for asked in queries[:2])
    assert frames.of(queries[0], table) is first
    for asked in queries[2:]:
        frames.of(asked, table)
    assert frames.of(queries[0], table) is first
    assert frames.of(queries[1], table) is not second

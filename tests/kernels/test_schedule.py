"""The small integers of a schedule: query blocks, pages, and who sees whom."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flash_dllm import cache, packing
from flash_dllm.packing import pack
from flash_dllm.pass_frame import block_table
from flash_dllm.query import Query, Role, visible_slots
from kernels import schedule as tables
from kernels.configs_attention import Tile, attention_plan, key_splits
from tests.kernels.attention_cases import draft, verify


def packed(queries, **options):
    table = torch.arange(len(queries) * 256).view(len(queries), 256)
    pairs = list(enumerate(queries))
    return pack(pairs, table, torch.device("cpu"), **options).schedule


def test_blocks_of_ragged_sequences_by_hand():
    # 5 rows in blocks of 2: 2, 2, 1; then 3 rows from row 5 on: 2, 1; one block of padding
    assert block_table(np.array([5, 3]), 2, blocks=6).tolist() == [
        [0, 0, 0, 1, 1, 0],
        [0, 2, 4, 5, 7, 0],
        [2, 2, 1, 2, 1, 0],
    ]


@given(
    st.lists(st.integers(1, 400), min_size=1, max_size=9), st.sampled_from([2, 16, 64, 144])
)
@settings(deadline=None)
def test_every_row_stands_in_one_block_and_the_bound_on_blocks_holds(counts, block_size):
    sequence, first, rows = block_table(np.array(counts), block_size)
    covered = [row for f, n in zip(first, rows, strict=True) for row in range(f, f + n)]
    assert covered == list(range(sum(counts)))
    starts = np.cumsum([0, *counts])
    for s, f, n in zip(sequence, first, rows, strict=True):
        assert starts[s] <= f and f + n <= starts[s + 1] and 0 < n <= block_size
    assert len(rows) <= tables.most_blocks(sum(counts), len(counts), block_size)


def test_block_sizes_by_hand():
    assert tables.block_sizes(1) == {16: 16, 32: 32, 64: 64, 128: 128, 144: 144}
    # 7 heads a group: 2, 4, 9 and 18 rows fill 14, 28, 63 and 126 tile rows; the tail holds 2
    assert tables.block_sizes(7) == {2: 16, 4: 32, 9: 64, 18: 128, 20: 144}
    # 32 heads a group: a tail of 16 tile rows holds no row
    assert tables.block_sizes(32) == {1: 32, 2: 64, 4: 128}
    chosen = [tables.best_block_size(w, 1) for w in (1, 16, 17, 63, 100, 144, 200, 272, 1536)]
    assert chosen == [16, 16, 32, 64, 128, 144, 128, 144, 128]
    assert tables.best_block_size(20, 7) == 20
    with pytest.raises(ValueError, match="1 to 128 query heads"):
        tables.block_sizes(129)
    with pytest.raises(ValueError, match="one of .16, 32, 64, 128, 144. rows"):
        tables.tile_rows(20, 1)


def test_pages_give_the_same_slots_as_the_slot_table():
    assert tables.PAGE == cache.PAGE
    flat = cache.FlatKVCache(3, 70, 1, 1, 8, torch.float32, torch.device("cpu"))
    flat._free_pages = flat._free_pages[::-1]
    pairs = [(flat.admit(70), draft(3, length)) for length in (70, 5, 33)]
    schedule = pack(pairs, flat.table, torch.device("cpu")).schedule
    local = torch.arange(schedule.key_slots_BK.shape[1])
    slots = schedule.page_table_BN[:, local // 16] * 16 + local % 16
    assert slots.tolist() == schedule.key_slots_BK.tolist()
    assert schedule.page_table_BN.dtype == torch.int32


def seen_by_codes(schedule, sequence, row):
    """Keys that a row sees by the integers that the kernel reads."""
    code = schedule.row_code_R[row]
    keys = torch.arange(schedule.key_slots_BK.shape[1])
    inside = (schedule.key_from_BK[sequence] <= code) & (code < schedule.key_until_BK[sequence])
    seen = inside | (schedule.key_row_BK[sequence] == row)
    return keys[seen & (keys < schedule.key_count_B[sequence])].tolist()


@st.composite
def verify_queries(draw):
    """Any rows with any ranks, more freely than a strategy would ask."""
    length = draw(st.integers(1, 12))
    searched = draw(st.integers(0, min(4, length)))
    query = Query("verify", length)
    for _ in range(draw(st.integers(1, 4))):
        query.add(1, 0, draw(st.integers(0, length - 1)), Role.TRACKED, draw(st.integers(0, 4)))
    scratch, shared = length, set()
    for role in draw(st.permutations([Role.DRAFT_VIEW, Role.MASK_VIEW] * searched)):
        rank = draw(st.integers(1, 4))
        slot = draw(st.integers(0, length - 1))
        if role is Role.MASK_VIEW and slot not in query.searched and draw(st.booleans()):
            # a shared mask view stands in the slot that its rank hides
            query.searched[slot] = rank
            query.add(1, 0, slot, role, rank)
            shared.add(slot)
            continue
        if slot not in shared:
            query.searched[slot] = rank
        query.add(1, 0, scratch, role, rank)
        scratch += 1
    query.predict = [0]
    return query


@given(st.lists(verify_queries(), min_size=1, max_size=3))
@settings(deadline=None, max_examples=200)
def test_row_codes_and_intervals_equal_visible_slots(queries):
    schedule = packed([*queries, verify(1, 1, 2, 9)])
    row = 0
    for sequence, query in enumerate(queries):
        for number in range(query.rows):
            expected = sorted(visible_slots(query, number))
            assert seen_by_codes(schedule, sequence, row) == expected
            row += 1


def test_a_key_tile_is_mixed_where_a_key_is_hidden_or_missing():
    # 200 positions + 4 scratch slots; the searched ones are 3 and 197
    query = verify(2, 1, 2, 200)
    assert query.searched == {3: 1, 197: 2}
    # tiles 0-63, 64-127, 128-191, 192-255: a searched slot in the first and the last
    assert packed([query]).key_mixed_BT.tolist() == [[1, 0, 0, 1]]
    # the second sequence has 70 keys: its second tile lacks keys, the others don't exist
    assert packed([query, draft(2, 70)]).key_mixed_BT.tolist()[1] == [0, 1, 1, 1]
    assert packed([draft(2, 70)]).key_mixed_BT is None


def test_key_splits_by_hand():
    tile = Tile(keys=128, warps=8, stages=2)
    # 32 heads on 132 processors: 4 parts make 128 programs, one wave that is 97 % full
    assert key_splits(32, 1536, tile, 132) == 4
    # 8 sequences: 256 programs fill the chip
    assert key_splits(256, 1536, tile, 132) == 1
    # 300 keys hold two steps of 128 keys only once
    assert key_splits(32, 300, tile, 132) == 1
    # 64 programs: 2 parts
    assert key_splits(64, 1536, tile, 132) == 2


def test_an_h200_splits_the_keys_of_one_sequence_and_not_of_many():
    h200 = {"capability": (9, 0), "processors": 132, "head_dim": 128, "itemsize": 2}
    one = attention_plan(**h200, rows=144, has_views=False, programs=32, keys=1536)
    many = attention_plan(**h200, rows=144, has_views=False, programs=1024, keys=1536)
    assert (one[0].keys, one[1]) == (64, 4)
    assert (many[0].keys, many[1]) == (64, 1)
    # 32 rows, two programs a multiprocessor: 8 parts fill 256 of 264 places (.970), 7 parts 224
    # (.848, more than 85 % of that), 6 parts 192 (.727)
    assert attention_plan(**h200, rows=32, has_views=True, programs=32, keys=1552)[1] == 7
    # keys in runs: what was measured (`run_splits`); wide tiles by the rule above
    assert attention_plan(
        **h200, rows=32, has_views=True, programs=32, keys=1552, is_run=True
    ) == (Tile(64, 4, 3, 2), 4)
    assert attention_plan(
        **h200, rows=128, has_views=False, programs=64, keys=1536, is_run=True
    ) == (Tile(64, 8, 3), 2)


def test_few_rows_stand_in_narrow_blocks_where_keys_are_copied_as_runs(monkeypatch):
    def block_size(rows, table, **options):
        packed = pack([(0, draft(rows, 400))], table, torch.device("cpu"), **options)
        return packed.schedule.block_size

    together = torch.arange(512)[None]
    apart = together.view(32, 16).flip(0).reshape(1, -1)
    assert [block_size(144, table) for table in (together, apart)] == [144, 144]
    # as on a GPU with a copy engine
    monkeypatch.setattr(packing.PassBuffer, "copies_runs", True)
    assert [block_size(144, table) for table in (together, apart)] == [64, 144]
    assert [block_size(rows, together) for rows in (16, 40, 288, 289)] == [16, 64, 64, 128]


def test_a_sequence_takes_pages_that_stand_side_by_side_if_there_are_any():
    flat = cache.FlatKVCache(4, 32, 1, 1, 8, torch.float32, torch.device("cpu"))
    one, _, _ = flat.admit(16), flat.admit(16), flat.admit(32)  # pages 0, 1, and 2 with 3
    flat.release(one)
    # page 0 is free, but pages 4 and 5 stand together
    assert flat.table[flat.admit(32)].tolist() == list(range(64, 96))
    assert flat.table[flat.admit(16), :16].tolist() == list(range(16))


def test_pages_that_lie_apart_are_taken_when_no_others_are_left():
    flat = cache.FlatKVCache(4, 16, 1, 1, 8, torch.float32, torch.device("cpu"))
    handles = [flat.admit(16) for _ in range(4)]
    flat.release(handles[0])
    flat.release(handles[2])
    query = draft(2, 20)
    flat.table = torch.zeros(4, 32, dtype=torch.int64)
    handle = flat.admit(32)
    assert flat.table[handle].tolist() == [*range(16), *range(32, 48)]
    assert pack([(handle, query)], flat.table, torch.device("cpu")).schedule.run_keys == 0
    # its first sixteen keys are a run of their own
    assert pack([(handle, draft(2, 16))], flat.table, torch.device("cpu")).schedule.run_keys == 16


def test_promoted_entries_go_from_slot_to_slot_of_their_own_sequence_in_all_layers():
    flat = cache.FlatKVCache(3, 32, 2, 1, 8, torch.float32, torch.device("cpu"))
    first, second, third = (flat.admit(16) for _ in range(3))  # pages 0, 1 and 2
    flat.release(first)
    flat.release(third)
    last = flat.admit(32)  # pages 2 and 3
    for number, buffer in enumerate((flat.keys, flat.values)):
        numbers = 1000 * number + torch.arange(2 * 96).view(2, 96, 1, 1)
        buffer.copy_(numbers.expand_as(buffer))
    before = flat.keys.clone(), flat.values.clone()
    flat.promote([(last, 30, 3), (second, 15, 0), (last, 31, 17)])
    for buffer, old in zip((flat.keys, flat.values), before, strict=True):
        # 32 + 30 → 32 + 3, 16 + 15 → 16, 32 + 31 → 32 + 17
        for source, target in ((62, 35), (31, 16), (63, 49)):
            old[:, target] = old[:, source]
        assert torch.equal(buffer, old)

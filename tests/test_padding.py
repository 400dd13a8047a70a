"""A pass padded to fixed sizes gives what it gives without padding, and writes nowhere else."""

from dataclasses import replace

import pytest
import torch

from flash_dllm.caches import DllmCache, FlashCache, NoCache
from flash_dllm.decoder import decode_batch
from flash_dllm.graphs import PassGraphs
from flash_dllm.packing import PassBuffer
from flash_dllm.pass_sizes import PassSizes, bucket
from flash_dllm.strategies import FlashVerify
from tests.filled_passes import (
    CONFIG,
    PROMPTS,
    draft_query,
    filled_session,
    untimed,
    verify_query,
)
from tests.small_settings import STRATEGIES
from tests.two_impls import needs_gpu

SIZES = PassSizes(rows=48, predicted=16, sequences=4, width=32, keys=64, mass=16, has_views=True)


def run(engine, sizes):
    """(logits, mass, keys, values) of a mixed pass, padded to `sizes` or not."""
    session, (first, second) = filled_session(engine)
    queries = [
        (first, verify_query(19, (2, 8, 11), (13, 9, 15))),
        (second, draft_query(30, (0, 4, 6, 7), (10, 11, 12, 13, 20))),
    ]
    cache = session.cache
    packed = PassBuffer(engine.model.device).fill(queries, cache.table, sizes)
    logits, mass = engine.model.forward(packed, cache)
    return logits, mass, cache


def test_a_padded_pass_gives_the_logits_mass_and_cache_of_the_plain_one(engine):
    logits, mass, cache = run(engine, None)
    padded_logits, padded_mass, padded_cache = run(engine, SIZES)
    assert padded_logits.shape == (16, engine.model.spec.vocab_size)
    torch.testing.assert_close(padded_logits[: len(logits)], logits, rtol=0, atol=1e-12)
    assert padded_mass.shape == (4, 64)
    torch.testing.assert_close(padded_mass[:2, : mass.shape[1]], mass, rtol=0, atol=1e-12)
    assert not padded_mass[2:].any() and not padded_mass[:2, mass.shape[1] :].any()
    for plain, padded in (
        (cache.keys, padded_cache.keys), (cache.values, padded_cache.values),
    ):  # fmt: skip
        torch.testing.assert_close(padded, plain, rtol=0, atol=1e-12)


def test_padding_rows_are_finite(engine):
    logits, mass, _ = run(engine, SIZES)
    assert logits.isfinite().all() and mass.isfinite().all()


@pytest.mark.parametrize("cache", [FlashCache(track_size=4), NoCache()], ids=["flash", "none"])
@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
def test_decoding_with_padded_passes_gives_the_same_traces(engine, strategy, cache):
    """On the CPU nothing is captured, but every pass takes the sizes that a graph would."""
    plain = decode_batch(engine, PROMPTS, strategy, cache, CONFIG, batch_size=3)
    padding = replace(engine, has_graphs=True, _idle=[])
    padded = decode_batch(padding, PROMPTS, strategy, cache, CONFIG, batch_size=3)
    assert padding._idle, "the workspace is kept for the next session"
    for one, other in zip(plain, padded, strict=True):
        assert [untimed(step) for step in one.steps] == [untimed(step) for step in other.steps]


def test_passes_without_a_plan_take_fixed_sizes_beside_those_that_have_one(engine, monkeypatch):
    keys = []
    run = PassGraphs.run
    monkeypatch.setattr(
        PassGraphs, "run", lambda graphs, key, launch: keys.append(key) or run(graphs, key, launch)
    )
    padding = replace(engine, has_graphs=True, _idle=[])
    traces = decode_batch(padding, PROMPTS[:2], FlashVerify(0.5, 0.1), DllmCache(), CONFIG)
    verified = {step.index for trace in traces for step in trace.steps if len(step.passes) > 1}
    assert len(keys) == len(verified) > 0


@pytest.mark.parametrize("is_dense", [True, False])
def test_a_buffer_that_is_filled_again_holds_nothing_of_the_last_pass(is_dense):
    """Views, and a pass where there are none of tensors made anew, outlive a fill."""
    table = torch.arange(128).view(2, 64)
    one = [(0, verify_query(19, (2, 8, 11), (13, 9))), (1, draft_query(30, (4,), (10, 11, 12)))]
    other = [(1, verify_query(21, (3,), (15, 17, 9))), (0, draft_query(30, (4, 6), (9,)))]
    used, fresh = (PassBuffer(torch.device("cpu"), is_dense=is_dense) for _ in range(2))
    first = used.fill(one, table, SIZES)
    if is_dense:
        assert first.schedule.visible_BWK is not None
    again, expected = used.fill(other, table, SIZES), fresh.fill(other, table, SIZES)
    assert torch.equal(again.tokens, expected.tokens)
    for name, value in vars(expected.schedule).items():
        if torch.is_tensor(value) and value.numel():
            assert torch.equal(getattr(again.schedule, name), value), name
    if is_dense:
        assert torch.equal(again.schedule.visible_BWK, expected.schedule.visible_BWK)


def test_the_next_session_takes_the_workspace_over_and_answers_the_same(engine):
    padding = replace(engine, has_graphs=True, _idle=[])
    first = decode_batch(padding, PROMPTS, STRATEGIES[2], FlashCache(), CONFIG, batch_size=2)
    space = padding._idle[0]
    again = decode_batch(padding, PROMPTS[::-1], STRATEGIES[2], FlashCache(), CONFIG, batch_size=2)
    assert padding._idle == [space]
    assert [trace.token_ids for trace in again[::-1]] == [trace.token_ids for trace in first]


def test_a_session_that_does_not_fit_gets_a_workspace_of_its_own(engine):
    padding = replace(engine, has_graphs=True, _idle=[])
    decode_batch(padding, PROMPTS[:1], STRATEGIES[0], FlashCache(), CONFIG)
    small = padding._idle[0]
    decode_batch(padding, PROMPTS, STRATEGIES[0], FlashCache(), CONFIG, batch_size=4)
    assert padding._idle != [small]


def test_a_bucket_holds_its_rows_and_wastes_little():
    for count in range(1, 5000):
        assert count <= bucket(count) <= max(count + 15, count * 1.125), count


def test_fields_start_at_multiples_of_16_bytes():
    """With odd sizes in every place; kernels refuse pointers that are not aligned."""
    sizes = PassSizes(rows=13, predicted=7, sequences=2, width=9, keys=31, mass=3, has_views=True)
    queries = [
        (0, verify_query(19, (2, 8, 11), (13, 9, 15))),
        (1, draft_query(30, (0,), (10, 11, 12))),
    ]
    packed = PassBuffer(torch.device("cpu")).fill(queries, torch.zeros(2, 48).long(), sizes)
    fields = [packed.tokens, packed.positions, packed.slots, packed.predict]
    fields += [value for value in vars(packed.schedule).values() if torch.is_tensor(value)]
    assert len(fields) == 27
    base = packed.tokens.data_ptr()
    assert all((field.data_ptr() - base) % 16 == 0 for field in fields)


@needs_gpu
@pytest.mark.gpu
def test_a_buffer_is_not_filled_again_before_the_device_has_read_it():
    """Two passes are packed one after the other while the device is busy with something else."""
    table = torch.arange(128).view(2, 64)
    one = [(0, draft_query(30, (4, 6), (10, 11, 12)))]
    other = [(1, draft_query(30, (5, 7), (20, 21, 22)))]
    buffer = PassBuffer(torch.device("cuda"))
    buffer.fill(one, table, SIZES)
    torch.cuda.synchronize()
    torch.cuda._sleep(200_000_000)  # a tenth of a second
    first = buffer.fill(one, table, SIZES).positions.clone()
    second = buffer.fill(other, table, SIZES).positions.clone()
    assert first[:5].tolist() == [4, 6, 10, 11, 12]
    assert second[:5].tolist() == [5, 7, 20, 21, 22]

"""Each published cache against a straight-line version of its description, in float64.

What a pass reads is recorded on both sides: same tokens, same steps, same rows in every pass.
"""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flash_dllm.caches import (
    CACHES,
    DelayedDecodeCache,
    DelayedGreedyCache,
    DualCache,
    FreeCache,
    NoCache,
    PrefixCache,
)
from flash_dllm.config import DecodeConfig
from flash_dllm.decoder import decode, decode_batch
from flash_dllm.strategies import Confidence, FlashVerify, Greedy, Llada, Prophet
from flash_dllm.trace_json import TraceError, from_json, to_json
from tests.any_settings import check_run, configs
from tests.hash_engine import HashEngine
from tests.plain_cache import forward_rows
from tests.random_model import MASK, PROMPT, plain_logits
from tests.recorded_run import END, EVERYTHING, LENGTH, START, blocks_of, check


def test_partial_forward_of_all_rows_is_the_plain_one(small_config, small_tensors):
    ids = [*PROMPT, MASK, 9, MASK]
    logits, _ = forward_rows(small_config, small_tensors, ids, list(range(len(ids))))
    assert (logits - plain_logits(small_config, small_tensors, ids)).abs().max() < 1e-11


def prefix_cache(run, block, epsilon):
    """Per block: a full pass that also decides; then x[s:] against the entries before s. What
    those passes compute is thrown away."""
    for start in range(START, END, block):
        answers, entries = run.forward(EVERYTHING)
        past = [{p: kv for p, kv in layer.items() if p < start} for layer in entries]
        run.commit_by_threshold(answers, run.masks(start, start + block), epsilon)
        while masks := run.masks(start, start + block):
            answers, _ = run.forward(range(start, END), past)
            run.commit_by_threshold(answers, masks, epsilon)


def dual_cache(run, block, epsilon):
    """Per block: a full pass that also decides; then the block alone, written in place."""
    for start in range(START, END, block):
        answers, past = run.forward(EVERYTHING)
        run.commit_by_threshold(answers, run.masks(start, start + block), epsilon)
        while masks := run.masks(start, start + block):
            answers, fresh = run.forward(range(start, start + block), past)
            past = [{**old, **new} for old, new in zip(past, fresh, strict=True)]
            run.commit_by_threshold(answers, masks, epsilon)


@pytest.mark.parametrize("block", [6, 8, 24])
@pytest.mark.parametrize("epsilon", [0.3, 1.0])
@pytest.mark.parametrize(
    ("cache", "published"), [(PrefixCache(), prefix_cache), (DualCache(), dual_cache)],
    ids=["prefix", "dual"],
)
def test_fast_dllms_caches_equal_their_description(
    engine, run, rows_read, cache, published, block, epsilon
):
    published(run, block, epsilon)
    trace = decode(engine, PROMPT, Confidence(epsilon), cache, blocks_of(block))
    check(trace, run, rows_read)


@pytest.mark.parametrize("cache", [PrefixCache(), DualCache(), DelayedDecodeCache()], ids=str)
def test_blocks_of_one_token_are_all_full_passes(engine, cache):
    config = blocks_of(1)
    plain = decode(engine, PROMPT, Greedy(), NoCache(), config)
    trace = decode(engine, PROMPT, Greedy(), cache, config)
    assert [s.accepted for s in trace.steps] == [s.accepted for s in plain.steps]
    assert trace.rows == plain.rows


def dkv_decode(run, block, reload_steps):
    """One token a step. `kept` maps decided positions to their entries, layer by layer; masks
    are never kept, and a token only from a pass in which it was visible."""
    for start in range(START, END, block):
        kept, before, now = None, set(), set()
        for i in range(block):
            if i in (0, 1) or i % reload_steps == 0:
                answers, fresh = run.forward(EVERYTHING)
                kept = None if i == 0 else [
                    {p: kv for p, kv in layer.items() if run.tokens[p] != MASK} for layer in fresh
                ]
            else:
                queried = set(EVERYTHING) - before
                past = [{p: kv for p, kv in layer.items() if p in before} for layer in kept]
                answers, fresh = run.forward(queried, past)
                kept = [
                    {**old, **{p: kv for p, kv in new.items() if p in now}}
                    for old, new in zip(past, fresh, strict=True)
                ]
            masks = run.masks(start, start + block)
            before = {p for p in EVERYTHING if run.tokens[p] != MASK}
            chosen = max(masks, key=lambda p: answers[p][1])
            run.commit([(chosen, answers[chosen][0])])
            now = {p for p in EVERYTHING if run.tokens[p] != MASK}


@pytest.mark.parametrize("block", [8, 24])
@pytest.mark.parametrize("reload_steps", [1, 2, 3, 8])
def test_dkv_decode_equals_its_description(engine, run, rows_read, block, reload_steps):
    dkv_decode(run, block, reload_steps)
    trace = decode(engine, PROMPT, Greedy(), DelayedDecodeCache(reload_steps), blocks_of(block))
    check(trace, run, rows_read)
    if reload_steps == 1:
        assert trace.rows == END * LENGTH


def dkv_greedy(run, block, reload_steps, neighbours, seed):
    """One token a step in an order drawn beforehand; every entry is kept and written over."""
    kept, last = None, []
    for start in range(START, END, block):
        order = sorted(range(start, start + block), key=lambda p: -Random(f"{seed} {p}").random())
        for i, chosen in enumerate(order):
            if i % reload_steps == 0:
                answers, kept = run.forward(EVERYTHING)
            else:
                queried = {chosen, *last}
                added, distance = 0, 1
                while added < neighbours and distance < END:
                    for other in (chosen - distance, chosen + distance):
                        if added < neighbours and other in run.masks():
                            queried.add(other)
                            added += 1
                    distance += 1
                answers, fresh = run.forward(queried, kept)
                kept = [{**old, **new} for old, new in zip(kept, fresh, strict=True)]
            run.commit([(chosen, answers[chosen][0])])
            last = [chosen]


@pytest.mark.parametrize(("reload_steps", "neighbours"), [(1, 0), (2, 4), (4, 4), (8, 3), (8, 0)])
def test_dkv_greedy_equals_its_description(engine, run, rows_read, reload_steps, neighbours):
    dkv_greedy(run, 8, reload_steps, neighbours, seed=4)
    strategy = Llada(remasking="random", ask="next")
    cache = DelayedGreedyCache(reload_steps, neighbours)
    trace = decode(engine, PROMPT, strategy, cache, replace(blocks_of(8), seed=4))
    check(trace, run, rows_read)


def test_dkv_greedy_that_always_reloads_is_no_cache(engine):
    strategy = Llada(remasking="random", ask="next")
    plain = decode(engine, PROMPT, replace(strategy, ask="window"), NoCache(), blocks_of(8))
    trace = decode(engine, PROMPT, strategy, DelayedGreedyCache(1), blocks_of(8))
    assert [s.accepted for s in trace.steps] == [s.accepted for s in plain.steps]


PEER_CACHES = st.one_of(
    st.just(PrefixCache()),
    st.just(DualCache()),
    st.builds(DelayedDecodeCache, st.integers(1, 9)),
    st.builds(DelayedGreedyCache, st.integers(1, 9), st.integers(0, 9)),
    st.builds(FreeCache, st.sampled_from(["position", "block"])),
)
STRATEGIES = st.one_of(
    st.builds(Confidence, st.floats(0, 1)),
    st.builds(FlashVerify, st.floats(0, 1), st.floats(0, 1)),
    st.builds(Prophet, st.none(), st.integers(1, 5), st.floats(0, 9)),
    st.just(Llada(remasking="random", ask="next")),
    st.just(Llada(remasking="random")),
)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 1000), STRATEGIES, PEER_CACHES, configs(), st.integers(1, 5))
def test_any_settings_finish_and_replay(seed, strategy, cache, config, prompt_length):
    """The engine raises if a row sees a position twice or not at all."""
    engine = HashEngine(seed, end_share=seed % 20, shift=seed % 2)
    config = replace(config, alternatives=max(2, config.alternatives))
    trace = decode(engine, list(range(prompt_length)), strategy, cache, config)
    check_run(trace, engine)


@pytest.mark.parametrize("seed", range(8))
def test_a_position_asked_behind_an_undecided_one_is_answered_by_that_ones_mask(seed):
    """A random order on a shifted model: the row before the asked one still holds [MASK], and the
    cache would not have read it."""
    engine = HashEngine(seed, shift=1)
    config = DecodeConfig(gen_length=6, window_size=6, early_stop=False, seed=seed)
    strategy = Llada(remasking="random", ask="next")
    trace = decode(engine, [1, 2], strategy, DelayedGreedyCache(2, 0), config)
    order = [position for step in trace.steps for position, _ in step.accepted]
    assert sorted(order) == list(range(2, 8)) and order != sorted(order)
    check_run(trace, engine)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1000), STRATEGIES, PEER_CACHES, configs(), st.integers(1, 4))
def test_a_batch_decodes_each_prompt_as_if_alone(seed, strategy, cache, config, batch_size):
    engine = HashEngine(seed)
    config = replace(config, alternatives=max(2, config.alternatives))
    prompts = [[1], [2, 3, 4], [5, 6], [1, 1, 1, 1]]
    together = decode_batch(engine, prompts, strategy, cache, config, batch_size)
    for prompt, trace in zip(prompts, together, strict=True):
        assert trace == decode(engine, prompt, strategy, cache, config)


@pytest.mark.parametrize("name", ["prefix", "dual", "dkv", "dkv_greedy"])
def test_a_trace_with_another_number_of_rows_is_refused(engine, name):
    trace = decode(engine, PROMPT, Greedy(), CACHES[name](), blocks_of(8))
    step = trace.steps[2]
    more = replace(step.passes[0], rows=step.passes[0].rows - 1)
    forged = replace(
        trace, steps=(*trace.steps[:2], replace(step, passes=(more,)), *trace.steps[3:])
    )
    with pytest.raises(TraceError, match=r"steps\[2\].passes\[0\].rows: must be"):
        from_json(to_json(forged))


def test_a_trace_with_another_set_of_tokens_read_again_is_refused(engine):
    trace = decode(engine, PROMPT, Greedy(), DelayedDecodeCache(), blocks_of(8))
    step = trace.steps[3]
    forged = replace(
        trace, steps=(*trace.steps[:3], replace(step, tracked=(0,)), *trace.steps[4:])
    )
    with pytest.raises(TraceError, match=r"steps\[3\].tracked: is not what this cache re-reads"):
        from_json(to_json(forged))

"""impl="triton" decodes token for token as impl="torch" does, with and without CUDA graphs.

On a GPU: the embedded model in fp32 (TF32 off), every strategy and cache, alone and in a ragged
batch. Elsewhere: a very small random model under Triton's interpreter, where a graph is only its
padded pass.
"""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
import torch

from flash_dllm.caches import BlockCache, FlashCache, NoCache
from flash_dllm.config import DecodeConfig
from flash_dllm.decoder import decode_batch
from flash_dllm.evaluation.clock import Clocked
from flash_dllm.models import load_model
from flash_dllm.query import Prediction
from flash_dllm.strategies import Confidence, FlashVerify, Greedy
from tests.paired_engine import PairedEngine, same
from tests.two_impls import (
    QUESTIONS,
    SPEC,
    check,
    check_model,
    needs_gpu,
    needs_interpreter,
    small_engine,
)

CACHES = {"flash": FlashCache(track_size=12), "drift": FlashCache(8, refresh="drift"),
          "none": NoCache()}  # fmt: skip
STRATEGIES = {
    "greedy": Greedy(),
    "confidence": Confidence(epsilon=0.7),
    "flash_verify": FlashVerify(epsilon=0.8, gamma=0.5, search_size=8),
    "whole_window": FlashVerify(epsilon=0.9, gamma=0.6),
    "joint": FlashVerify(epsilon=0.8, gamma=0.5, acceptance="joint", order="position"),
    "audit": FlashVerify(epsilon=0.8, gamma=0.5, search_size=4, correct=True, audit=True),
}


# on the GPU


@pytest.fixture(scope="module")
def embedded():
    """impl → the embedded model in fp32 on the GPU."""
    assert torch.get_float32_matmul_precision() == "highest", "TF32 would blur the comparison"
    return {
        impl: load_model(impl=impl, device="cuda", dtype="float32") for impl in ("torch", "triton")
    }


@needs_gpu
@pytest.mark.gpu
@pytest.mark.parametrize("has_graphs", [False, True], ids=["eager", "graphs"])
@pytest.mark.parametrize("count", [1, 8])
@pytest.mark.parametrize("cache", CACHES.values(), ids=CACHES)
@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
def test_triton_equals_torch_on_the_embedded_model(embedded, strategy, cache, count, has_graphs):
    config = DecodeConfig(gen_length=64, block_length=32, window_size=32, decide_size=16)
    truth = replace(embedded["torch"], has_graphs=False, _idle=[])
    engine = replace(embedded["triton"], has_graphs=has_graphs, _idle=[])
    prompts = [truth.encode(question) for question in QUESTIONS[:count]]
    found = check_model(truth, engine, prompts, strategy, cache, config, batch_size=count)
    routes = {route for trace in found for route in trace.routes}
    assert all("rope_cache" in route or "fused_qkv" in route for route in routes)
    # at least the repeated draft passes were replayed
    assert any("graph" in route for route in routes) == has_graphs


@needs_gpu
@pytest.mark.gpu
@pytest.mark.parametrize("strategy", ["greedy", "flash_verify"])
def test_torch_as_cuda_graphs_equals_torch(embedded, strategy):
    config = DecodeConfig(gen_length=64, block_length=32, window_size=32)
    truth = replace(embedded["torch"], has_graphs=False, _idle=[])
    engine = replace(embedded["torch"], has_graphs=True, _idle=[])
    prompts = [truth.encode(question) for question in QUESTIONS]
    check_model(truth, engine, prompts, STRATEGIES[strategy], CACHES["flash"], config, batch_size=3)


@needs_gpu
@pytest.mark.gpu
def test_sequences_that_come_and_go_and_a_second_session_replay_the_same_graphs(embedded):
    config = DecodeConfig(gen_length=64, block_length=32, window_size=32)
    truth = replace(embedded["torch"], has_graphs=False, _idle=[])
    engine = replace(embedded["triton"], has_graphs=True, _idle=[])
    prompts = [truth.encode(question) for question in QUESTIONS]
    strategy, cache = STRATEGIES["flash_verify"], CACHES["flash"]
    check_model(truth, engine, prompts, strategy, cache, config, batch_size=3)
    graphs = engine._idle[0].graphs
    captures = graphs.captures
    check_model(truth, engine, prompts, strategy, cache, config, batch_size=3)
    assert engine._idle[0].graphs is graphs
    assert graphs.captures >= captures > 0


@needs_gpu
@pytest.mark.gpu
@pytest.mark.parametrize("impl", ["torch", "triton"])
@pytest.mark.parametrize("has_graphs", [False, True], ids=["eager", "graphs"])
@pytest.mark.parametrize("cache", ["flash", "none"])
@pytest.mark.parametrize("strategy", ["confidence", "flash_verify"])
def test_two_groups_of_a_batch_decode_as_one(embedded, strategy, cache, has_graphs, impl):
    """Twenty-four prompts, sixteen at a time: the host packs for one half and reads its answers
    while the other half's pass runs, with the same graphs and the same buffers."""
    config = DecodeConfig(gen_length=64, block_length=32, window_size=32, decide_size=16)
    engine = replace(embedded[impl], has_graphs=has_graphs, _idle=[])
    prompts = [engine.encode(question) for question in QUESTIONS] * 3
    choice = STRATEGIES[strategy], CACHES[cache], config
    found = check_model(engine, engine, prompts, *choice, batch_size=16, groups=2)
    routes = {route for trace in found for route in trace.routes}
    assert any("graph" in route for route in routes) == has_graphs
    # equal prompts in different groups and at different times
    for trace, again in zip(found, found[len(QUESTIONS) :], strict=False):
        assert again.token_ids == trace.token_ids


@needs_gpu
@pytest.mark.gpu
def test_sampled_tokens_do_not_depend_on_groups(embedded):
    config = DecodeConfig(gen_length=64, block_length=32, window_size=32, temperature=0.7, seed=3)
    engine = replace(embedded["triton"], has_graphs=True, _idle=[])
    prompts = [engine.encode(question) for question in QUESTIONS]
    choice = STRATEGIES["flash_verify"], CACHES["flash"], config
    check_model(engine, engine, prompts, *choice, batch_size=8, groups=2)


@needs_gpu
@pytest.mark.gpu
def test_the_seconds_of_passes_in_groups_are_no_more_than_the_clock_says(embedded):
    config = DecodeConfig(gen_length=64, block_length=32, window_size=32)
    engine = replace(embedded["triton"], has_graphs=True, _idle=[])
    prompts = [engine.encode(question) for question in QUESTIONS] * 2
    for _ in range(2):  # the second time nothing compiles and nothing is captured
        clocked = Clocked(engine)
        begin = time.perf_counter()
        decode_batch(clocked, prompts, STRATEGIES["flash_verify"], CACHES["flash"], config, 16, 2)
        wall = time.perf_counter() - begin
    clock = clocked.clock
    assert 0 < clock.prefill_seconds + clock.decode_seconds <= wall


# anywhere

def test_pairing_finds_a_wrong_answer_and_excuses_a_tie():
    engine, config = small_engine("torch"), DecodeConfig(gen_length=6, window_size=4)
    arguments = [[1, 2, 30, 3], [9, 8]], FlashVerify(0.3, 0.02, 3), FlashCache(3), config, 2
    again = small_engine("torch", has_graphs=True)
    paired = PairedEngine(engine, again)
    alone = decode_batch(engine, *arguments)
    # a second session of this one gives handles in another order
    decode_batch(again, *arguments)
    together = decode_batch(paired, *arguments)
    assert [trace.token_ids for trace in together] == [trace.token_ids for trace in alone]
    # full passes run apart from the others
    assert paired.passes >= len(alone[0].steps[-1].passes) and paired.ties == 0
    other = small_engine("torch")
    other.model.weights.blocks[1].down.mul_(1.001)
    with pytest.raises(AssertionError):
        decode_batch(PairedEngine(engine, other), *arguments)
    one = Prediction([7], [0.4], [((7, 0.4), (9, 0.39999), (3, 0.2))])
    assert same(one, replace(one, tokens=[9])) == 1
    with pytest.raises(AssertionError):
        same(one, replace(one, tokens=[3]))


# in the interpreter


OTHERS = [
    (replace(SPEC, shift=1), FlashCache(track_size=3)),
    (replace(SPEC, shift=1), NoCache()),
    (replace(SPEC, causal_block=4), BlockCache()),
    (replace(SPEC, causal_block=4), NoCache()),
    (replace(SPEC, shift=1, causal_block=4), BlockCache()),
]


@needs_interpreter
@pytest.mark.parametrize("has_graphs", [False, True], ids=["plain", "padded"])
@pytest.mark.parametrize(("spec", "cache"), OTHERS)
def test_shifted_and_block_causal_models_too(spec, cache, has_graphs):
    config = DecodeConfig(gen_length=7, window_size=4, alternatives=2)
    engines = (small_engine("torch", spec=spec), small_engine("triton", has_graphs, spec))
    prompts = [[1, 2, 30, 3, 17], [9, 8]]
    check(*engines, prompts, FlashVerify(0.3, 0.02, 3), cache, config, batch_size=2)


@needs_interpreter
@pytest.mark.parametrize("has_graphs", [False, True], ids=["plain", "padded"])
@pytest.mark.parametrize("cache", ["flash", "none"])
@pytest.mark.parametrize(("strategy", "groups"), [("confidence", 1), ("joint", 1), ("joint", 2)])
def test_triton_equals_torch_in_the_interpreter(strategy, groups, cache, has_graphs):
    config = DecodeConfig(gen_length=6, window_size=4, alternatives=2)
    strategies = {"confidence": Confidence(0.2), "joint": FlashVerify(0.3, 0.02, 3, "position")}
    caches = {"flash": FlashCache(track_size=3), "none": NoCache()}
    found = check(
        small_engine("torch"), small_engine("triton", has_graphs), [[1, 2, 30, 3], [9, 8]],
        strategies[strategy], caches[cache], config, batch_size=2, groups=groups,
    )  # fmt: skip
    routes = {route for trace in found for route in trace.routes}
    assert routes == {"eager, rope_cache" if has_graphs else "rope_cache"}

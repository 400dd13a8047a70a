"""impl="triton" decodes token for token as impl="torch" does, with and without CUDA graphs.

On a GPU: the embedded model in fp32 (TF32 off), every strategy and cache, alone and in a ragged
batch. Elsewhere: a very small random model under Triton's interpreter, where a graph is only its
padded pass.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from flash_dllm.caches import BlockCache, FlashCache, NoCache
from flash_dllm.config import DecodeConfig
from flash_dllm.models import load_model
from flash_dllm.strategies import Confidence, FlashVerify, Greedy
from tests.two_impls import QUESTIONS, SPEC, check, needs_gpu, needs_interpreter, small_engine

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
    found = check(truth, engine, prompts, strategy, cache, config, batch_size=count)
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
    check(truth, engine, prompts, STRATEGIES[strategy], CACHES["flash"], config, batch_size=3)


@needs_gpu
@pytest.mark.gpu
def test_sequences_that_come_and_go_and_a_second_session_replay_the_same_graphs(embedded):
    config = DecodeConfig(gen_length=64, block_length=32, window_size=32)
    truth = replace(embedded["torch"], has_graphs=False, _idle=[])
    engine = replace(embedded["triton"], has_graphs=True, _idle=[])
    prompts = [truth.encode(question) for question in QUESTIONS]
    strategy, cache = STRATEGIES["flash_verify"], CACHES["flash"]
    check(truth, engine, prompts, strategy, cache, config, batch_size=3)
    graphs = engine._idle[0].graphs
    captures = graphs.captures
    check(truth, engine, prompts, strategy, cache, config, batch_size=3)
    assert engine._idle[0].graphs is graphs
    assert graphs.captures >= captures > 0


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
@pytest.mark.parametrize("strategy", ["confidence", "joint"])
def test_triton_equals_torch_in_the_interpreter(strategy, cache, has_graphs):
    config = DecodeConfig(gen_length=6, window_size=4, alternatives=2)
    strategies = {"confidence": Confidence(0.2), "joint": FlashVerify(0.3, 0.02, 3, "position")}
    caches = {"flash": FlashCache(track_size=3), "none": NoCache()}
    found = check(
        small_engine("torch"), small_engine("triton", has_graphs), [[1, 2, 30, 3], [9, 8]],
        strategies[strategy], caches[cache], config, batch_size=2,
    )  # fmt: skip
    routes = {route for trace in found for route in trace.routes}
    assert routes == {"eager, rope_cache" if has_graphs else "rope_cache"}

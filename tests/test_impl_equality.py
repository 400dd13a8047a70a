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
from flash_dllm.engine import ModelEngine
from flash_dllm.evaluation.clock import Clocked
from flash_dllm.models import load_model
from flash_dllm.models.base import ModelSpec
from flash_dllm.models.transformer import BlockWeights, ModelWeights, Transformer
from flash_dllm.query import Prediction
from flash_dllm.strategies import Confidence, FlashVerify, Greedy
from flash_dllm.trace import ModelInfo
from kernels.ops import available_impls
from tests.paired_engine import PairedEngine, same

HAS_GPU = torch.cuda.is_available()
needs_gpu = pytest.mark.skipif(not HAS_GPU, reason="needs a CUDA device")
needs_interpreter = pytest.mark.skipif(
    HAS_GPU or "triton" not in available_impls("cpu"),
    reason="Triton's interpreter runs where there is Linux and no GPU",
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


def settled(trace):
    """What must be equal: everything but times, ways of launching, and the last digits.

    Proposals by position: drafts that wait are in the order of their confidences, and end tokens
    at 0.999999 change places at the last digit.
    """
    return [
        (step.window, step.accepted, step.stop, step.tracked, step.verify_tracked,
         sorted(
             (p.position, p.draft_token, p.verify_token, p.verdict.value) for p in step.proposals
         ),
         [(p.kind, p.rows, p.predicted) for p in step.passes])
        for step in trace.steps
    ]  # fmt: skip


def confidences(trace):
    return [
        proposal.confidence
        for step in trace.steps
        for proposal in sorted(step.proposals, key=lambda proposal: proposal.position)
    ]


def check(truth, engine, prompts, strategy, cache, config, batch_size, groups=1):
    """The traces of `engine`, which decodes in so many groups: the same decisions."""
    expected = decode_batch(truth, prompts, strategy, cache, config, batch_size)
    found = decode_batch(engine, prompts, strategy, cache, config, batch_size, groups)
    for one, other in zip(expected, found, strict=True):
        assert other.token_ids == one.token_ids
        assert settled(other) == settled(one)
        assert confidences(other) == pytest.approx(confidences(one), abs=2e-4)
    return found


def check_model(truth, engine, prompts, strategy, cache, config, batch_size, groups=1):
    """The traces of `engine`, decoded freely: the same tokens.

    A model that has learned something is sure of its end tokens to the last digit, so their order
    is a matter of rounding and with it what later passes read. Decisions are one code for all
    implementations; what they are made of is compared pass by pass, on the truth's questions.
    """
    expected = decode_batch(truth, prompts, strategy, cache, config, batch_size)
    found = decode_batch(engine, prompts, strategy, cache, config, batch_size, groups)
    assert [trace.token_ids for trace in found] == [trace.token_ids for trace in expected]
    if engine is not truth:
        paired = PairedEngine(truth, engine)
        decode_batch(paired, prompts, strategy, cache, config, batch_size, 1)
        assert paired.passes > 0
        assert paired.ties <= paired.rows / 1000
    return found


# on the GPU

QUESTIONS = (
    "Dana has 15 cakes. Fay has 10 fewer cakes than Dana. How many cakes do they have in total?",
    "Solve 3x + 4 = 19.",
    "Write a function that returns the largest number of a list.",
    "Tell a story about a fox.",
    "What is 17 + 25?",
    "Tom buys 4 pens for 3 dollars each and pays with a 20 dollar note. How much change is left?",
    "Expand (x + 2)(x + 5).",
    "A train goes 60 km in one hour. How far does it go in 3 hours?",
)


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

SPEC = ModelSpec(
    d_model=32, n_layers=2, n_heads=2, n_kv_heads=1, head_dim=16, ffn_size=48, vocab_size=96,
    rms_norm_eps=1e-5, rope_theta=10000.0, max_length=64, mask_token_id=5, eos_token_ids=(0,),
)  # fmt: skip


class NoText:
    def encode(self, prompt, raw=False):
        raise ValueError("a random model has no tokenizer")

    def token_text(self, token):
        return f" {token}"


def small_engine(impl, has_graphs=False, spec=SPEC):
    generator = torch.Generator().manual_seed(0)

    def draw(rows, columns, scale=1.0):
        return scale * torch.randn(rows, columns, generator=generator) / columns**0.5

    def ones():
        return 1 + 0.1 * torch.randn(SPEC.d_model, generator=generator)

    d, f = SPEC.d_model, SPEC.ffn_size
    blocks = tuple(
        BlockWeights(ones(), draw(64, d, 2.0), None, draw(d, d), ones(), draw(2 * f, d), draw(d, f))
        for _ in range(SPEC.n_layers)
    )
    weights = ModelWeights(draw(96, d, 6.0), blocks, ones(), draw(96, d, 3.0))
    info = ModelInfo(
        "random", 96, SPEC.n_layers, 5, (0,), impl=impl, device="cpu", dtype="float32",
        shift=spec.shift, causal_block=spec.causal_block,
    )  # fmt: skip
    return ModelEngine(Transformer(spec, weights, impl), info, NoText(), has_graphs=has_graphs)


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

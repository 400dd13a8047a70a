"""Two implementations of one model, side by side: what must be equal, and a model small enough for
Triton's interpreter."""

from __future__ import annotations

import pytest
import torch

from flash_dllm.decoder import decode_batch
from flash_dllm.engine import ModelEngine
from flash_dllm.models.base import ModelSpec
from flash_dllm.models.transformer import BlockWeights, ModelWeights, Transformer
from flash_dllm.trace import ModelInfo
from kernels.ops import available_impls
from tests.paired_engine import PairedEngine

HAS_GPU = torch.cuda.is_available()
needs_gpu = pytest.mark.skipif(not HAS_GPU, reason="needs a CUDA device")
needs_interpreter = pytest.mark.skipif(
    HAS_GPU or "triton" not in available_impls("cpu"),
    reason="Triton's interpreter runs where there is Linux and no GPU",
)


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

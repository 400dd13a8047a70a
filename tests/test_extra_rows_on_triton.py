"""Shadows, branches and guidance: impl="triton" decodes as impl="torch" does.

In Triton's interpreter on a very small random model; on a GPU the embedded one, with graphs.
"""

import pytest

from flash_dllm.caches import DualCache, FlashCache, NoCache
from flash_dllm.config import DecodeConfig
from flash_dllm.models import load_model
from flash_dllm.strategies import FreeDave, Llada, Wino
from tests.two_impls import (
    QUESTIONS,
    check,
    check_model,
    confidences,
    needs_gpu,
    needs_interpreter,
    small_engine,
)

SMALL = {
    "wino": (Wino(0.01, 1.0, 0.7, 2, 3), FlashCache(track_size=3), True),
    "freedave": (FreeDave(2), DualCache(), True),
    "guided": (Llada(steps=2, cfg_scale=1.0), NoCache(), False),
}


@needs_interpreter
@pytest.mark.parametrize(("strategy", "cache", "has_graphs"), SMALL.values(), ids=SMALL)
def test_triton_equals_torch_in_the_interpreter(strategy, cache, has_graphs):
    """With graphs a pass is padded, but for those whose logits need more than a choice."""
    config = DecodeConfig(gen_length=4, window_size=4, alternatives=2)
    found = check(
        small_engine("torch"), small_engine("triton", has_graphs), [[1, 2, 30, 3], [9, 8]],
        strategy, cache, config, batch_size=2,
    )  # fmt: skip
    steps = [step for trace in found for step in trace.steps]
    if strategy.can_revoke:
        assert any(step.revoked for step in steps)
    if isinstance(strategy, FreeDave):
        assert any(step.branches for step in steps)


LARGE = {
    "wino": (Wino(), NoCache()),
    "freedave": (FreeDave(4), DualCache()),
    "freedave_none": (FreeDave(4, 0.9), NoCache()),
    "guided": (Llada(steps=32, cfg_scale=1.0), NoCache()),
}


@needs_gpu
@pytest.mark.gpu
@pytest.mark.parametrize(("strategy", "cache"), LARGE.values(), ids=LARGE)
def test_triton_equals_torch_on_the_embedded_model(strategy, cache):
    config = DecodeConfig(gen_length=64, block_length=32, window_size=32)
    engines = [
        load_model(impl=impl, device="cuda", dtype="float32") for impl in ("torch", "triton")
    ]
    prompts = [engines[0].encode(question) for question in QUESTIONS[:3]]
    found = check_model(*engines, prompts, strategy, cache, config, batch_size=3)
    assert all(confidences(trace) for trace in found)

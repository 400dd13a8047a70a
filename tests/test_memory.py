"""What would not fit is said in one sentence before it is tried."""

import pytest
import torch

from flash_dllm import memory
from flash_dllm.engine_protocol import SessionRequest
from flash_dllm.models import EMBEDDED, load_model
from flash_dllm.models.base import ModelSpec
from flash_dllm.models.checkpoint import TensorReader
from flash_dllm.models.memory import Need, check_room, estimate

LLADA = ModelSpec(
    d_model=4096, n_layers=32, n_heads=32, n_kv_heads=32, head_dim=128, ffn_size=12288,
    vocab_size=126464, rms_norm_eps=1e-5, rope_theta=5e5, max_length=4096, mask_token_id=126336,
    eos_token_ids=(126081,),
)  # fmt: skip


def test_a_slot_of_lladas_cache_is_half_a_mebibyte():
    # 2 tensors · 4096 numbers · 2 bytes · 32 layers
    assert memory.slot_bytes(LLADA, 2) == 1 << 19


def test_a_pass_is_bounded_by_its_feed_forward_or_its_logits():
    # 3072 rows: hidden, normed (2 · 4096), gate, up and product (3 · 12288), 2 bytes each
    assert memory.pass_bytes(LLADA, 3072, 128, 2) == 3072 * 45056 * 2
    # 2048 logit rows: the logits and as much again
    assert memory.pass_bytes(LLADA, 2048, 2048, 2) == 2 * 2048 * 126464 * 2


def test_the_error_lists_the_parts():
    parts = {"cache": 26_000_000_000, "passes": 500_000_000}
    with pytest.raises(RuntimeError) as error:
        memory.check_fits("decoding 32 sequences", parts, 20 * 10**9, 80 * 10**9, "decode fewer")
    assert str(error.value) == (
        "decoding 32 sequences needs 26.5 GB (cache 26.0, passes 0.5), but 20.0 of the GPU's "
        "80.0 GB are free; decode fewer"
    )


def test_what_fits_exactly_is_allowed():
    memory.check_fits("loading", {"weights": 10}, free=10, total=20, advice="")


def test_free_memory_is_known_here():
    free = memory.free_bytes(torch.device("cpu"))
    assert free is None or 10**8 < free < 10**13


def test_what_torch_holds_and_no_tensor_uses_counts_as_free_for_weights_and_for_sessions(
    monkeypatch,
):
    gpu = torch.device("cuda", 0)
    # 10 of 80 GB are free; torch holds 30, of which tensors use 24
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (10 * 10**9, 80 * 10**9))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 30 * 10**9)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 24 * 10**9)
    assert memory.free_bytes(gpu) == 16 * 10**9
    memory.check_gpu("a session", {"cache": 16 * 10**9}, gpu, "")
    with pytest.raises(RuntimeError, match=r"but 16\.0 of the GPU's 80\.0 GB are free; less$"):
        memory.check_gpu("a session", {"cache": 16 * 10**9 + 1}, gpu, "less")
    # 7.9 billion parameters in two bytes, and 10 of a cache's numbers a position
    check_room("m", Need(7_900_000_000, 0, 10), "bfloat16", "none", gpu)
    with pytest.raises(RuntimeError, match="but 16.0 GB are free on cuda"):
        check_room("m", Need(8_000_000_000, 0, 10), "bfloat16", "none", gpu)


def test_the_embedded_models_numbers_are_counted_from_the_heads_of_its_files():
    reader = TensorReader(EMBEDDED, torch.float32, torch.device("cpu"))
    engine = load_model(device="cpu")
    need = estimate(reader.shapes(), engine.model.spec)
    assert need.parameters == engine.model.weights.count == 17_308_032


def test_a_session_asks_for_its_cache_and_passes(engine, monkeypatch):
    asked = {}
    monkeypatch.setattr(
        "flash_dllm.workspace.check_gpu",
        lambda what, parts, device, advice: asked.update(parts, what=what),
    )
    engine.open(SessionRequest(3, 100, max_views=10))
    # 110 slots of 3 layers · 2 · 2 heads · 12 numbers in fp64
    assert asked["cache"] == 3 * 110 * 3 * 2 * 2 * 12 * 8
    assert asked["what"] == "decoding 3 sequences of 100 positions"

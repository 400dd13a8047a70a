"""Smaller weights, dtypes, and the estimate of memory before loading."""

import sys

import pytest
import torch

from flash_dllm.caches import FlashCache, NoCache
from flash_dllm.config import DecodeConfig
from flash_dllm.decoder import decode
from flash_dllm.models import EMBEDDED, load_model, memory
from flash_dllm.models.base import ModelSpec
from flash_dllm.models.memory import estimate
from flash_dllm.strategies import FlashVerify, Greedy
from tests.official_layouts import write_layout

PROMPT = "Nathan has 4 boxes with 6 eggs in each. How many eggs does Nathan have?"
RUN = (
    FlashVerify(0.9, 0.8, search_size=8),
    FlashCache(verify_rows=32),
    DecodeConfig(gen_length=64, block_length=32, window_size=32),
)


def answer(engine):
    return decode(engine, engine.encode(PROMPT), *RUN).text


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_the_embedded_model_answers_in_every_dtype(dtype):
    engine = load_model(device="cpu", dtype=dtype)
    assert engine.model.weights.blocks[0].qkv.dtype == getattr(torch, dtype)
    assert answer(engine).rstrip().endswith("#### 24")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("quantize", "error"), [("int8", 0.01), ("fp8", 0.06)])
def test_the_embedded_model_answers_with_8_bit_weights(quantize, error, dtype):
    pytest.importorskip("torchao", reason="torchao is optional: requirements-quantize.txt")
    plain = load_model(device="cpu", dtype=dtype)
    engine = load_model(device="cpu", dtype=dtype, quantize=quantize)
    assert engine.info.dtype == f"{dtype}, {quantize} weights"
    block, full = engine.model.weights.blocks[0], plain.model.weights.blocks[0]
    for name in ("qkv", "attn_out", "gate_up", "down"):
        small = getattr(block, name)
        eye = torch.eye(small.shape[1], dtype=getattr(torch, dtype))
        with torch.inference_mode():
            weight = torch.nn.functional.linear(eye, small).T
        # 8 bits a weight and a scale a row: int8 is even (1/127 of a row's largest), fp8 keeps
        # three bits behind the first; some rows of this model are as good as zero
        largest = getattr(full, name).abs().amax(1, keepdim=True)
        assert ((weight - getattr(full, name)).abs() <= error * largest + 1e-6).all()
        assert not torch.equal(weight, getattr(full, name))
    assert torch.equal(engine.model.weights.head, plain.model.weights.head)
    assert answer(engine).rstrip().endswith("#### 24")


@pytest.mark.parametrize("name", ["lladamoe", "llada2_moe", "dream"])
def test_every_kind_of_block_can_be_quantised(tmp_path, name):
    pytest.importorskip("torchao", reason="torchao is optional: requirements-quantize.txt")
    folder = write_layout(tmp_path / name, name)
    engine = load_model(folder, device="cpu", dtype="float32", quantize="int8")
    trace = decode(engine, [1, 2, 3], Greedy(), NoCache(), DecodeConfig(gen_length=4))
    assert None not in trace.token_ids


def test_the_embedded_model_answers_with_fp8_products():
    plain = load_model(device="cpu", dtype="float32")
    engine = load_model(device="cpu", dtype="float32", quantize="fp8_w8a8")
    assert engine.info.dtype == "float32, fp8_w8a8 weights"
    block, full = engine.model.weights.blocks[0], plain.model.weights.blocks[0]
    for name in ("qkv", "attn_out", "gate_up", "down"):
        small, whole = getattr(block, name), getattr(full, name)
        assert small.values.dtype == torch.float8_e4m3fn and small.scales.dtype == torch.float32
        # three bits behind the first: at most 1/16 of a number, or half of the smallest step
        error = (small.values.float() * small.scales[:, None] - whole).abs()
        assert (error <= whole.abs() / 16 + small.scales[:, None] * 2**-10).all()
    assert torch.equal(engine.model.weights.head, plain.model.weights.head)
    assert engine.model.weights.count == plain.model.weights.count
    trace = decode(engine, engine.encode(PROMPT), *RUN)
    assert trace.text.rstrip().endswith("#### 24")
    # the record says how products were taken
    assert set(trace.routes) == {"fp8_emulated"}


@pytest.mark.parametrize("name", ["lladamoe", "llada2_moe", "dream", "llada"])
def test_every_kind_of_block_has_fp8_products(tmp_path, name):
    folder = write_layout(tmp_path / name, name)
    engine = load_model(folder, device="cpu", dtype="float32", quantize="fp8_w8a8")
    plain = load_model(folder, device="cpu", dtype="float32")
    # experts and norms of heads are parameters too
    assert engine.model.weights.count == plain.model.weights.count
    trace = decode(engine, [1, 2, 3], Greedy(), NoCache(), DecodeConfig(gen_length=4))
    assert None not in trace.token_ids


def test_fp8_products_of_both_implementations_decode_the_same_tokens(tmp_path):
    folder = write_layout(tmp_path / "dream", "dream")
    found = []
    for impl in ("torch", "triton"):
        engine = load_model(folder, impl, "cpu", "float32", quantize="fp8_w8a8")
        trace = decode(engine, [1, 2, 3], Greedy(), NoCache(), DecodeConfig(gen_length=4))
        found.append(trace.token_ids)
    assert found[0] == found[1]
    assert set(trace.routes) == {"rope_cache, fp8_emulated"}


def test_fp8_products_are_refused_in_a_sentence_where_the_hardware_has_none(monkeypatch):
    monkeypatch.setattr("flash_dllm.models.quantize.why_no_fp8", lambda *_: "needs compute "
                        "capability 8.9 or more, and this GPU has (8, 0)")  # fmt: skip
    with pytest.raises(RuntimeError) as caught:
        load_model(device="cpu", quantize="fp8_w8a8")
    assert str(caught.value) == (
        "quantize='fp8_w8a8' needs compute capability 8.9 or more, and this GPU has (8, 0); use "
        "quantize='int8' or 'none'"
    )


def test_a_missing_torchao_is_named_with_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchao.quantization", None)
    with pytest.raises(ImportError, match="needs torchao; run pip install -r requirements-quan"):
        load_model(device="cpu", quantize="int8")


def test_an_unknown_quantisation_is_refused():
    allowed = "none, int8, fp8, fp8_w8a8"
    with pytest.raises(ValueError, match=f"quantize must be one of {allowed}, got 'int3'"):
        load_model(device="cpu", quantize="int3")


LLADA_8B = ModelSpec(
    d_model=4096, n_layers=32, n_heads=32, n_kv_heads=32, head_dim=128,
    ffn_size=12288, vocab_size=126464, rms_norm_eps=1e-5, rope_theta=5e5, max_length=4096,
    mask_token_id=126336, eos_token_ids=(126081,),
)  # fmt: skip


def llada_8b_shapes():
    """The official checkpoint's 291 tensors."""
    ends = {"wte.weight": (126464, 4096), "ff_out.weight": (126464, 4096), "ln_f.weight": (4096,)}
    shapes = {f"model.transformer.{name}": shape for name, shape in ends.items()}
    for layer in range(32):
        base = f"model.transformer.blocks.{layer}."
        shapes |= {f"{base}{n}.weight": (4096, 4096)
                   for n in ("q_proj", "k_proj", "v_proj", "attn_out")}  # fmt: skip
        shapes |= {f"{base}{n}.weight": (12288, 4096) for n in ("ff_proj", "up_proj")}
        shapes |= {f"{base}ff_out.weight": (4096, 12288)}
        shapes |= {f"{base}{n}.weight": (4096,) for n in ("attn_norm", "ff_norm")}
    return shapes


def test_the_estimate_of_llada_8b_by_hand():
    shapes = llada_8b_shapes()
    assert len(shapes) == 291
    need = estimate(shapes, LLADA_8B)
    # 2 × 126,464 × 4,096 + 4,096 outside, 32 × (4 × 4,096² + 3 × 4,096 × 12,288 + 2 × 4,096) inside
    assert need.parameters == 1_035_993_088 + 4_096 + 32 * (67_108_864 + 150_994_944 + 8_192)
    assert need.inside == 32 * (67_108_864 + 150_994_944)
    assert need.weights(torch.bfloat16, "none") == 2 * need.parameters
    # 6.98 GB of matrices in one byte and 2.07 GB of embedding and head in two
    assert round(need.weights(torch.bfloat16, "int8") / 1e9, 2) == 9.05
    assert need.weights(torch.bfloat16, "fp8_w8a8") == need.weights(torch.bfloat16, "int8")
    # keys and values: 32 layers × 32 heads × 128 × 2 in two bytes = 512 KiB a position
    assert need.per_position * 2 == 512 * 1024
    said = need.sentence("LLaDA", torch.bfloat16, "none")
    assert said == (
        "LLaDA: 8.02 billion parameters, about 16.0 GB in bfloat16, and 512 KiB of cache a "
        "position (2.1 GB for 4096)"
    )


@pytest.mark.parametrize(
    ("free", "says"),
    [
        (80, None),
        (17, r"needs about 18.2 GB, but 17.0 GB are free on cpu; what would fit: --dtype bfloat16 "
             r"--quantize int8 \(11.2 GB\)$"),
        (11, "no smaller choice would fit$"),
    ],
)  # fmt: skip
def test_too_little_memory_says_what_would_fit(monkeypatch, free, says):
    monkeypatch.setattr(memory, "free_bytes", lambda device: int(free * 1e9))
    need = estimate(llada_8b_shapes(), LLADA_8B)
    check = (("LLaDA", need, "bfloat16", "none", torch.device("cpu")))
    if says is None:
        memory.check_room(*check)
        return
    with pytest.raises(RuntimeError, match=says) as caught:
        memory.check_room(*check)
    assert "\n" not in str(caught.value)


def test_loading_says_what_it_needs_and_stops_before_reading_when_there_is_no_room(monkeypatch):
    said = []
    load_model(device="cpu", dtype="float32", say=said.append)
    # 17.3 million parameters in four bytes
    assert said[0].startswith("tiny: 17.31 million parameters, about 69.2 MB in float32")
    monkeypatch.setattr(memory, "free_bytes", lambda device: 10**6)
    monkeypatch.setattr("flash_dllm.models.checkpoint.TensorReader.take", None)
    with pytest.raises(RuntimeError, match="tiny needs about .* no smaller choice would fit"):
        load_model(EMBEDDED, device="cpu")

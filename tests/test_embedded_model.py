"""The model that ships: its folder, its size, and that foreign LLaDA code reads it alike."""

import json

import pytest
import torch
from safetensors.torch import load_file

from flash_dllm.caches import NoCache
from flash_dllm.canvas import Canvas
from flash_dllm.config import DecodeConfig
from flash_dllm.decoder import decode
from flash_dllm.engine_protocol import SessionRequest
from flash_dllm.evaluation.measurement import read_items
from flash_dllm.guidance import Hearing
from flash_dllm.models import EMBEDDED, EMBEDDED_GUIDE, load_model
from flash_dllm.peers import PEERS
from flash_dllm.query import GuideAsk
from flash_dllm.settings import from_preset
from flash_dllm.strategies import Greedy
from tests.random_model import MASK, plain_logits


@pytest.fixture(scope="module")
def embedded():
    return load_model(device="cpu", dtype="float64")


@pytest.fixture(scope="module")
def config():
    return json.loads((EMBEDDED / "config.json").read_text())


def test_it_has_15_to_20_million_parameters_in_at_most_40_megabytes():
    tensors = load_file(EMBEDDED / "model.safetensors")
    count = sum(tensor.numel() for tensor in tensors.values())
    assert 15_000_000 <= count <= 20_000_000
    assert (EMBEDDED / "model.safetensors").stat().st_size <= 40_000_000
    assert {tensor.dtype for tensor in tensors.values()} == {torch.bfloat16}


def test_all_of_assets_stays_under_50_megabytes():
    files = [path for path in EMBEDDED.parent.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= 50_000_000


def test_tensor_names_and_shapes_are_lladas(config):
    d, f, v = config["d_model"], config["mlp_hidden_size"], config["vocab_size"]
    expected = {
        "model.transformer.wte.weight": (v, d),
        "model.transformer.ln_f.weight": (d,),
        "model.transformer.ff_out.weight": (v, d),
    }
    for layer in range(config["n_layers"]):
        block = f"model.transformer.blocks.{layer}."
        expected |= {f"{block}{name}_norm.weight": (d,) for name in ("attn", "ff")}
        expected |= {
            f"{block}{name}.weight": (d, d) for name in ("q_proj", "k_proj", "v_proj", "attn_out")
        }
        expected |= {f"{block}{name}_proj.weight": (f, d) for name in ("ff", "up")}
        expected[f"{block}ff_out.weight"] = (d, f)
    tensors = load_file(EMBEDDED / "model.safetensors")
    assert {name: tuple(tensor.shape) for name, tensor in tensors.items()} == expected


def test_config_has_lladas_keys(config):
    assert config["model_type"] == "llada"
    for key in (
        "d_model", "n_layers", "n_heads", "n_kv_heads", "mlp_hidden_size", "mlp_ratio",
        "activation_type", "block_type", "block_group_size", "layer_norm_type", "rms_norm_eps",
        "rope", "rope_theta", "rope_full_precision", "vocab_size", "embedding_size",
        "weight_tying", "include_bias", "include_qkv_bias", "attention_layer_norm",
        "input_emb_norm", "scale_logits", "max_sequence_length", "mask_token_id", "eos_token_id",
        "pad_token_id", "alibi", "use_cache",
    ):  # fmt: skip
        assert key in config, key


def test_a_foreign_llada_loop_generates_the_same_greedy_tokens(embedded, config):
    """LLaDA's published loop over a plain forward, from the folder's files alone."""
    tensors = {
        name: tensor.double()
        for name, tensor in load_file(EMBEDDED / "model.safetensors").items()
    }
    prompt = embedded.encode("Sam has 5 apples. He buys 7 more. How many apples does Sam have?")
    tokens = prompt + [MASK] * 16
    while MASK in tokens:
        logits = plain_logits(config, tensors, tokens)
        logits[:, MASK] = -torch.inf
        best = logits.argmax(-1)
        sure = logits.softmax(-1).gather(1, best[:, None])[:, 0]
        masked = [i for i, token in enumerate(tokens) if token == MASK]
        chosen = max(masked, key=lambda i: float(sure[i]))
        tokens[chosen] = int(best[chosen])
    settings = DecodeConfig(gen_length=16, window_size=16, early_stop=False)
    trace = decode(embedded, prompt, Greedy(), NoCache(), settings)
    assert trace.canvas_at(16) == tokens[len(prompt) :]


def test_it_solves_a_word_problem_by_its_preset(embedded):
    from flash_dllm.settings import from_preset

    settings = from_preset(embedded.preset, {})
    ids = embedded.encode("Sam has 5 apples. He buys 7 more. How many apples does Sam have?")
    trace = decode(embedded, ids, settings.strategy, settings.cache, settings.config)
    assert trace.text.rstrip().endswith("#### 12")
    assert trace.status == "finished"


# the guide


def test_the_guide_is_llama_in_8_megabytes_with_the_models_tokenizer():
    tensors = load_file(EMBEDDED_GUIDE / "model.safetensors")
    assert sum(tensor.numel() for tensor in tensors.values()) == 4_000_512
    assert {tensor.dtype for tensor in tensors.values()} == {torch.bfloat16}
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        assert (EMBEDDED_GUIDE / name).read_bytes() == (EMBEDDED / name).read_bytes()


def test_the_guide_equals_transformers_llama(embedded):
    """Scores of a whole reference answer, read in chunks of 7 through the guide's own cache."""
    from transformers import LlamaForCausalLM

    item = read_items(EMBEDDED.parent / "tasks", "algebra", 1)[0]
    prompt = embedded.encode(item.prompt)
    answer = embedded.encode(item.answer, raw=True)
    network = LlamaForCausalLM.from_pretrained(EMBEDDED_GUIDE, dtype=torch.float32)
    with torch.no_grad():
        logits = network(torch.tensor([prompt + answer])).logits[0]
    logits[:, MASK] = -torch.inf
    shares = logits.softmax(-1)
    guide = embedded.guide
    canvas = Canvas.start(prompt, DecodeConfig(gen_length=len(answer)), ())
    session = guide.open(SessionRequest(1, canvas.length))
    handle, hearing = session.admit(canvas.length, 0), Hearing()
    drafts = tuple(enumerate(answer, len(prompt)))
    for end in range(7, len(drafts), 7):
        (said,) = session.ask([(handle, hearing.query(canvas, GuideAsk(drafts[:end], 7)))])()
        for (position, draft), (share, _) in zip(drafts[end - 7 : end], said.ranked, strict=True):
            assert share == pytest.approx(float(shares[position - 1, draft]), abs=1e-4)
    session.close()


def test_the_guide_knows_held_out_answers(embedded):
    """Perplexity far below that of the vocabulary (4096) and of a uniform choice among two."""
    from training.evaluate_guide import losses

    items = read_items(EMBEDDED.parent / "tasks", "word", 4)
    prompts = [embedded.encode(item.prompt) for item in items]
    answers = [embedded.encode(item.answer, raw=True) for item in items]
    found = losses(embedded.guide, prompts, answers)
    assert sum(found) / len(found) < 0.4


def test_guided_decoding_answers_with_few_passes(embedded):
    peer = from_preset(PEERS["flashdlm"].settings, {})
    ids = embedded.encode(
        "Nathan has 4 boxes with 6 eggs in each. How many eggs does Nathan have?"
    )
    trace = decode(embedded, ids, peer.strategy, peer.cache, peer.config)
    assert trace.text.endswith("#### 24")
    assert trace.guide is not None and trace.guide.name == "guide"
    assert trace.tokens_per_pass > 3
    assert trace.guide_passes >= len(trace.steps)

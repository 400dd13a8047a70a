"""Loading checkpoints: LLaDA's layout, end tokens, templates, and every kind of bad folder."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from flash_dllm.models import families, load_model
from tests.random_model import (
    EOS,
    MASK,
    llada_config,
    plain_logits,
    random_tensors,
    write_checkpoint,
)

QUESTION = "Sam has 5 apples. How many?"


@pytest.fixture
def folder(small_folder, tmp_path):
    """A copy that a test may damage."""
    return shutil.copytree(small_folder, tmp_path / "copy")


@pytest.mark.parametrize("changes", [{}, {"n_kv_heads": 1}, {"n_kv_heads": 4}], ids=str)
def test_logits_equal_an_independent_forward(tmp_path, changes):
    from flash_dllm.caches import NoCache
    from flash_dllm.config import DecodeConfig
    from flash_dllm.decoder import decode
    from flash_dllm.strategies import Greedy

    config = llada_config(**changes)
    engine = load_model(write_checkpoint(tmp_path, config), device="cpu", dtype="float64")
    ids = engine.encode(QUESTION)
    trace = decode(engine, ids, Greedy(), NoCache(), DecodeConfig(gen_length=6, window_size=6))
    logits = plain_logits(config, random_tensors(config), ids + [MASK] * 6)
    logits[:, MASK] = -torch.inf
    for proposal in trace.steps[0].proposals:
        row = logits[proposal.position].softmax(-1)
        assert proposal.draft_token == int(row.argmax())
        assert proposal.confidence == pytest.approx(float(row.max()), abs=1e-6)


def test_tied_embeddings_and_projection_bias_are_honoured(tmp_path):
    config = llada_config(weight_tying=True, include_qkv_bias=True)
    folder = write_checkpoint(tmp_path / "tied", config)
    tensors = load_file(folder / "model.safetensors")
    del tensors["model.transformer.ff_out.weight"]
    for layer in range(3):
        for name in "qkv":
            tensors[f"model.transformer.blocks.{layer}.{name}_proj.bias"] = torch.ones(48).double()
    save_file(tensors, folder / "model.safetensors")
    model = load_model(folder, device="cpu", dtype="float64").model
    assert model.weights.head is model.weights.embedding
    assert model.weights.blocks[0].qkv_bias.tolist() == [1.0] * 144


def test_sharded_weights_load_by_their_index(folder):
    tensors = load_file(folder / "model.safetensors")
    names = sorted(tensors)
    weight_map = {}
    for number, part in enumerate((names[:10], names[10:]), 1):
        file = f"model-0000{number}-of-00002.safetensors"
        save_file({name: tensors[name] for name in part}, folder / file)
        weight_map |= dict.fromkeys(part, file)
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    weights = load_model(folder, device="cpu", dtype="float64").model.weights
    assert torch.equal(weights.embedding, tensors["model.transformer.wte.weight"])


def test_the_chat_template_is_lladas(engine):
    ids = engine.encode(QUESTION)
    text = "".join(engine.token_text(token) for token in ids)
    assert text == (
        "<|startoftext|><|start_header_id|>user<|end_header_id|>\n\n"
        f"{QUESTION}<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
    )
    # the same ids as transformers' own rendering and splitting
    assert ids == engine.codec._tokenizer.apply_chat_template(
        [{"role": "user", "content": QUESTION}], add_generation_prompt=True, return_dict=False
    )


@pytest.mark.parametrize(
    "text", ["<|eot_id|>", "a<|mdm_mask|>b", "<|endoftext|>", "{{ 7 * 7 }} \ue0f0"]
)
def test_text_that_looks_special_stays_text(engine, text):
    for raw in (False, True):
        ids = engine.encode(text, raw)
        assert MASK not in ids
        shown = "".join(engine.token_text(token) for token in ids)
        assert text in shown.encode("utf-8", "surrogateescape").decode()
    assert ids.count(4) == 0


def test_dreams_vocabulary_and_merges_are_read_without_its_own_class(folder):
    """Dream ships no tokenizer.json, and a tokenizer class that would be remote code."""
    whole = json.loads((folder / "tokenizer.json").read_text())["model"]
    (folder / "tokenizer.json").unlink()
    (folder / "special_tokens_map.json").unlink()
    names = {4: "<|im_end|>", MASK: "<|mask|>"}
    vocabulary = {names.get(token, text): token for text, token in whole["vocab"].items()}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    merges = [" ".join(pair) for pair in whole["merges"]]
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]))
    plain = {"lstrip": False, "rstrip": False, "normalized": False, "single_word": False}
    settings = {
        "tokenizer_class": "DreamTokenizer",
        "auto_map": {"AutoTokenizer": ["tokenization_dream.DreamTokenizer", None]},
        "added_tokens_decoder": {
            "4": {"content": "<|im_end|>", "special": True, **plain},
            "5": {"content": "<|mask|>", "special": True, **plain},
        },
        "eos_token": "<|endoftext|>", "mask_token": "<|mask|>",
    }  # fmt: skip
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    engine = load_model(folder, device="cpu")
    assert engine.info.eos_token_ids == (EOS, 4)
    # a merge that the file lists: "Ġ" + "t"
    assert engine.encode(" t", raw=True) == [vocabulary["Ġt"]]
    assert engine.encode("<|im_end|>", raw=True) != [4]


def test_raw_text_has_no_template(engine):
    assert engine.encode("5 + 7", raw=True) == engine.codec._tokenizer.encode(
        "5 + 7", add_special_tokens=False
    )


def test_families_are_found_by_file():
    assert families() == [
        "a2d_qwen3", "dream", "fast_dllm_qwen", "llada", "llada2_moe", "lladamoe", "sdar",
    ]


def edited_config(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def without_key(folder, key):
    path = folder / "config.json"
    content = json.loads(path.read_text())
    del content[key]
    path.write_text(json.dumps(content))


def edited_tensors(folder, change):
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


def truncated(folder, name, share):
    data = (folder / name).read_bytes()
    (folder / name).write_bytes(data[: int(len(data) * share)])


WTE = "model.transformer.wte.weight"
DAMAGES = {
    "no config": (lambda f: (f / "config.json").unlink(), "config.json is missing"),
    "broken config": (lambda f: (f / "config.json").write_text("{"), "not valid JSON"),
    "list config": (lambda f: (f / "config.json").write_text("[]"), "JSON object"),
    "foreign type": (lambda f: edited_config(f, model_type="gpt2"), "supported are .*llada"),
    "escaping type": (lambda f: edited_config(f, model_type="../x"), "supported are .*llada"),
    "internal type": (lambda f: edited_config(f, model_type="transformer"), "supported are"),
    "missing key": (lambda f: without_key(f, "rope_theta"), "no 'rope_theta'"),
    "wrong kind": (lambda f: edited_config(f, n_layers="3"), "n_layers must be a whole"),
    "unsupported value": (lambda f: edited_config(f, alibi=True), "alibi=True is not"),
    "heads do not divide": (lambda f: edited_config(f, n_heads=5), "do not divide"),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), "no weights in"),
    "truncated weights": (lambda f: truncated(f, "model.safetensors", 0.5), "truncated"),
    "empty weights": (lambda f: truncated(f, "model.safetensors", 0), "truncated"),
    "missing tensor": (lambda f: edited_tensors(f, lambda t: t.pop(WTE)), f"no tensor {WTE}"),
    "misshapen tensor": (
        lambda f: edited_tensors(f, lambda t: t.update({WTE: torch.zeros(7, 48)})),
        f"{WTE} has shape",
    ),
    "pickle only": (
        lambda f: (f / "model.safetensors").rename(f / "pytorch_model.bin"),
        "is a pickle",
    ),
    "missing shard": (
        lambda f: (f / "model.safetensors.index.json").write_text(
            json.dumps({"weight_map": {WTE: "model-9.safetensors"}})
        ),
        "model-9.safetensors is missing|no tensor",
    ),
    "no layers": (lambda f: edited_config(f, n_layers=0), "n_layers must be a whole"),
    "no heads": (lambda f: edited_config(f, n_heads=0), "n_heads must be a whole"),
    "endless": (lambda f: edited_config(f, max_sequence_length=10**13), "max_sequence_length must"),
    "bad base": (lambda f: edited_config(f, rope_theta=-1), "rope_theta must be a positive"),
    "mask outside": (lambda f: edited_config(f, mask_token_id=10**6), "mask_token_id must be"),
    "mask as end": (lambda f: edited_config(f, eos_token_id=MASK), "can't be an end token"),
    "end outside": (lambda f: edited_config(f, eos_token_id=[10**9]), "can't be an end token"),
    "end of words": (lambda f: edited_config(f, eos_token_id="x"), "eos_token_id must hold"),
    "foreign file": (
        lambda f: (f / "model.safetensors.index.json").write_text(
            json.dumps({"weight_map": {WTE: "../secret.safetensors"}})
        ),
        "must map tensors to file names",
    ),
    "preset of lists": (lambda f: (f / "preset.json").write_text("[1]"), "JSON object"),
    "preset cut off": (lambda f: (f / "preset.json").write_text("{"), "preset.json .*not valid"),
    "preset null": (
        lambda f: (f / "preset.json").write_text('{"config": null}'), "config must be an object",
    ),
    "preset foreign": (
        lambda f: (f / "preset.json").write_text('{"config": {"foo": 1}}'), "has no foo",
    ),
    "preset wrong": (
        lambda f: (f / "preset.json").write_text('{"config": {"block_length": "x"}}'),
        "block_length must be a whole number",
    ),
    "causal model": (
        lambda f: edited_config(f, model_type="qwen2"),
        r"'qwen2' in .* \(a causal language model, which can't fill in masks\) is not supported",
    ),
    "unknown causal model": (
        lambda f: edited_config(f, model_type="new", architectures=["NewForCausalLM"]),
        "'new' in .*a causal language model",
    ),
    "another model's tokenizer": (
        lambda f: edited_config(f, embedding_size=4000),
        "the tokenizer has 4096 tokens, but the model's vocabulary only 4000",
    ),
    "shard cut off": (
        lambda f: (
            (f / "part.safetensors").write_bytes((f / "model.safetensors").read_bytes()[:-100]),
            (f / "model.safetensors.index.json").write_text(
                json.dumps({"weight_map": {WTE: "part.safetensors"}})
            ),
        ),
        "part.safetensors is damaged or truncated",
    ),
    "no tokenizer": (lambda f: (f / "tokenizer.json").unlink(), "tokenizer.json is missing"),
    "broken tokenizer": (lambda f: (f / "tokenizer.json").write_text("{}"), "could not be read"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_folder_is_refused_in_one_sentence(folder, name):
    damage, says = DAMAGES[name]
    damage(folder)
    with pytest.raises((ValueError, OSError), match=says) as caught:
        load_model(folder, device="cpu")
    assert "\n" not in str(caught.value).strip()


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("{% if %}", "could not be rendered"),
        ("{{ raise_exception('no') }}", "could not be rendered"),
        ("hello", "does not show each message once"),
    ],
)
def test_a_broken_chat_template_is_refused_in_a_sentence(folder, template, says):
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"chat_template": template}))
    engine = load_model(folder, device="cpu")
    with pytest.raises(ValueError, match=says):
        engine.encode(QUESTION)
    assert engine.encode(QUESTION, raw=True)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"folder": "/does/not/exist"}, "not a folder"),
        ({"device": "toaster"}, "device must be"),
        ({"dtype": "int3"}, "dtype must be one of"),
        ({"impl": "cuda"}, "impl must be one of"),
        ({"impl": "triton", "device": "cpu"}, "use impl='torch'"),
    ],
)
def test_wrong_arguments_are_refused(small_folder, arguments, says, monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)  # it would let Triton run on the CPU
    with pytest.raises((ValueError, OSError, RuntimeError), match=says):
        load_model(**({"folder": small_folder} | arguments))

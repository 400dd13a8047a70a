"""Every family: official layout → logits of transformers' own network, in float64; all decoders."""

import json
import math

import pytest
import torch
from safetensors.torch import load_file, save_file

from flash_dllm.caches import BlockCache, FlashCache, NoCache
from flash_dllm.caches.base import full_query
from flash_dllm.canvas import Canvas
from flash_dllm.config import DecodeConfig
from flash_dllm.decoder import decode, decode_batch
from flash_dllm.engine_protocol import SessionRequest
from flash_dllm.models import families, load_model
from flash_dllm.packing import pack
from flash_dllm.trace_json import from_json, to_json
from tests.official_layouts import LAYOUTS, oracle_logits, write_layout
from tests.random_model import MASK
from tests.small_settings import REFRESHED, STRATEGIES, without_rows

PROMPT = [1, 2, 300, 3, 700, 264, 839, 12, 97]
CONFIG = DecodeConfig(gen_length=16, window_size=8)


@pytest.fixture(scope="module")
def engines(tmp_path_factory):
    folder = tmp_path_factory.mktemp("families")
    return {
        name: load_model(write_layout(folder / name, name), device="cpu", dtype="float64")
        for name in LAYOUTS
    }


@pytest.fixture(params=LAYOUTS)
def name(request):
    return request.param


@pytest.fixture
def engine(engines, name):
    return engines[name]


def test_every_family_is_compared_with_an_oracle():
    kinds = {layout.config["model_type"] for layout in LAYOUTS.values()}
    assert {kind.lower().replace("-", "_") for kind in kinds} == set(families())


def test_logits_equal_transformers_own_network(engine, name):
    ids = PROMPT + [MASK] * 8
    canvas = Canvas.start(ids, DecodeConfig(gen_length=1), ())
    session = engine.open(SessionRequest(1, canvas.length))
    query = full_query(canvas, canvas.window(), MASK)
    query.block_size, query.predict = engine.info.causal_block, list(range(len(ids)))
    handle = session.admit(canvas.length, 0)
    packed = pack([(handle, query)], session.cache.table, engine.model.device)
    ours = engine.model.forward(packed, session.cache)[0][: len(ids)]
    theirs = oracle_logits(name, ids + [MASK])[: len(ids)]
    assert (ours - theirs).abs().max() < 1e-11
    assert theirs.std() > 0.5
    # a causal mask would give something else: the attention really is open
    causal = torch.ones(len(ids) + 1, len(ids) + 1, dtype=torch.bool).tril()
    assert (oracle_logits(name, ids + [MASK], mask=causal)[:-1] - theirs).abs().max() > 0.1


def test_the_first_step_reads_the_oracles_row_of_each_position(engine, name):
    """Unshifted: row i for position i. Shifted: row i − 1."""
    trace = decode(engine, PROMPT, STRATEGIES[0], NoCache(), CONFIG)
    block = LAYOUTS[name].block
    end = len(PROMPT) + CONFIG.gen_length
    if block is not None:
        end = min(end, (len(PROMPT) // block + 1) * block)
    logits = oracle_logits(name, PROMPT + [MASK] * (end - len(PROMPT)))
    logits[:, MASK] = -math.inf
    for proposal in trace.steps[0].proposals:
        row = logits[proposal.position - LAYOUTS[name].shift].softmax(-1)
        assert proposal.draft_token == int(row.argmax())
        assert proposal.confidence == pytest.approx(float(row.max()), abs=1e-6)


def greedy(name, gen_length):
    """One token a step over the first unfinished block: full forward of the oracle, argmax of
    the answering rows, commit the surest."""
    layout = LAYOUTS[name]
    text = [*PROMPT, *[None] * gen_length]
    while None in text:
        first = text.index(None)
        end = len(text)
        if layout.block is not None:
            end = min(end, (first // layout.block + 1) * layout.block)
        masked = [i for i in range(end) if text[i] is None]
        logits = oracle_logits(name, [MASK if t is None else t for t in text[:end]])
        logits[:, MASK] = -math.inf
        rows = logits.softmax(-1)
        chosen = max(masked, key=lambda i: round(float(rows[i - layout.shift].max()), 6))
        text[chosen] = int(rows[chosen - layout.shift].argmax())
    return tuple(text[len(PROMPT) :])


def test_greedy_equals_the_loop_over_the_oracle(engine, name):
    config = DecodeConfig(gen_length=10, window_size=10, early_stop=False)
    for cache in caches(engine)[:-1]:
        trace = decode(engine, PROMPT, STRATEGIES[0], cache, config)
        assert trace.token_ids == greedy(name, 10)


def caches(engine):
    """Exact ones first, then those that approximate."""
    if engine.info.attention == "block-causal":
        return [NoCache(), BlockCache(), NoCache()]
    return [NoCache(), REFRESHED, FlashCache(track_size=4)]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
def test_the_exact_cache_equals_no_cache_and_every_run_replays(engine, strategy):
    none, exact, other = (
        decode(engine, PROMPT, strategy, cache, CONFIG) for cache in caches(engine)
    )
    if engine.info.attention == "block-causal":
        assert [s.proposals for s in exact.steps] == [s.proposals for s in none.steps]
        assert exact.rows < none.rows
    else:
        assert [without_rows(s) for s in exact.steps] == [without_rows(s) for s in none.steps]
    for trace in (none, exact, other):
        assert from_json(to_json(trace)) == trace
        assert None not in trace.token_ids


def test_a_batch_decodes_as_one_by_one(engine):
    prompts = [PROMPT, [6, 7, 8], list(range(20, 38))]
    for cache in caches(engine)[1:]:
        together = decode_batch(engine, prompts, STRATEGIES[2], cache, CONFIG, batch_size=2)
        for prompt, trace in zip(prompts, together, strict=True):
            alone = decode(engine, prompt, STRATEGIES[2], cache, CONFIG)
            assert trace.token_ids == alone.token_ids


def test_the_block_variant_of_the_small_qwen3_models_needs_its_block_size_only(tmp_path):
    folder = write_layout(tmp_path / "bd3lm", "a2d_qwen3")
    engine = load_model(folder, device="cpu", dtype="float64", overrides={"block_size": 8})
    assert engine.info.causal_block == 8
    ids = PROMPT + [MASK] * 7
    trace = decode(engine, PROMPT, STRATEGIES[0], BlockCache(), CONFIG)
    block = torch.arange(len(ids)) // 8
    logits = oracle_logits("a2d_qwen3", ids, mask=block[:, None] >= block[None])
    logits[:, MASK] = -math.inf
    for proposal in trace.steps[0].proposals:
        assert proposal.draft_token == int(logits[proposal.position].argmax())


OPTIONAL = {
    "architectures", "model_type", "torch_dtype", "pad_token_id", "eos_token_id", "rope_scaling",
    "use_sliding_window", "sliding_window", "attention_bias", "clip_qkv", "qk_layernorm",
    "norm_topk_prob", "dense_intermediate_size", "moe_router_score_function",
    "partial_rotary_factor", "shared_expert_intermediate_size", "moe_router_enable_expert_bias",
    "use_bias", "use_qkv_bias", "use_qk_norm", "norm_head", "head_dim", "n_kv_heads", "mlp_ratio",
    "block_group_size", "layer_norm_with_affine", "rope_full_precision", "vocab_size_unused",
    "use_cache",
}  # fmt: skip
REQUIRED_ANYWAY = {
    "llada2_moe": {"partial_rotary_factor", "moe_router_enable_expert_bias", "norm_topk_prob"}
}


def test_a_missing_key_is_named(tmp_path, name):
    folder = write_layout(tmp_path / name, name)
    config = LAYOUTS[name].config
    needed = set(config) - OPTIONAL | REQUIRED_ANYWAY.get(name, set())
    if config["model_type"] == "llada":
        needed -= {"vocab_size"}  # embedding_size counts
    if config["model_type"] == "a2d-qwen3":
        needed -= {"block_size"}
    needed -= {"mask_token_id"}  # the tokenizer may name it
    if name == "lladamoe_wide_norm":
        return
    for key in needed:
        rest = {k: v for k, v in config.items() if k != key}
        (folder / "config.json").write_text(json.dumps(rest))
        with pytest.raises(ValueError, match=f"no {key!r}") as caught:
            load_model(folder, device="cpu")
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "changes", "says"),
    [
        ("dream", {"rope_scaling": {"rope_type": "yarn", "factor": 4}}, "'yarn' is not supported"),
        ("dream", {"use_sliding_window": True}, "use_sliding_window=True is not"),
        ("dream", {"hidden_act": "gelu"}, "hidden_act='gelu' is not"),
        ("dream", {"num_key_value_heads": 3}, "must be a multiple"),
        ("sdar", {"attention_bias": True}, "attention_bias=True is not"),
        ("sdar", {"block_size": "4"}, "block_size must be a whole number"),
        ("lladamoe", {"clip_qkv": 8.0}, "clip_qkv=8.0 is not"),
        ("lladamoe", {"num_experts_per_tok": 9}, "num_experts_per_tok must be"),
        ("llada2_moe", {"expert_capacity": 48}, "expert_capacity=48 is not"),
        ("llada2_moe", {"score_function": "softmax"}, "score_function='softmax' is not"),
        ("llada2_moe", {"n_group": 3}, "n_group 3 must divide"),
        ("llada2_moe", {"partial_rotary_factor": 1.5}, "partial_rotary_factor must"),
    ],
)
def test_what_is_not_implemented_is_refused(tmp_path, name, changes, says):
    folder = write_layout(tmp_path / name, name)
    (folder / "config.json").write_text(json.dumps(LAYOUTS[name].config | changes))
    with pytest.raises(ValueError, match=says):
        load_model(folder, device="cpu")


def test_rope_theta_is_found_where_transformers_5_writes_it(tmp_path):
    folder = write_layout(tmp_path / "dream", "dream")
    config = {k: v for k, v in LAYOUTS["dream"].config.items() if k not in ("rope_theta",)}
    config["rope_parameters"] = {"rope_theta": 1e6, "rope_type": "default"}
    (folder / "config.json").write_text(json.dumps(config))
    assert load_model(folder, device="cpu").model.spec.rope_theta == 1e6


@pytest.mark.parametrize("source", ["generation_config", "tokenizer", "override", "nowhere"])
def test_the_mask_token_comes_from_the_checkpoint(tmp_path, source):
    folder = write_layout(tmp_path / "sdar", "sdar")
    config = {k: v for k, v in LAYOUTS["sdar"].config.items() if k != "mask_token_id"}
    (folder / "config.json").write_text(json.dumps(config))
    path = folder / "tokenizer_config.json"
    tokenizer = json.loads(path.read_text())
    if source != "tokenizer":
        del tokenizer["mask_token"]
        path.write_text(json.dumps(tokenizer))
        (folder / "special_tokens_map.json").unlink()
    if source == "generation_config":
        (folder / "generation_config.json").write_text(json.dumps({"mask_token_id": 9}))
    if source == "nowhere":
        with pytest.raises(ValueError, match="names the mask token; add 'mask_token_id'"):
            load_model(folder, device="cpu")
        return
    overrides = {"mask_token_id": 11} if source == "override" else {}
    wanted = {"generation_config": 9, "tokenizer": MASK, "override": 11}[source]
    engine = load_model(folder, device="cpu", overrides=overrides)
    assert engine.info.mask_token_id == wanted


def test_missing_and_misshapen_tensors_are_named(tmp_path, name):
    folder = write_layout(tmp_path / name, name)
    tensors = load_file(folder / "model.safetensors")
    for key in [k for k in tensors if ".1." in k or not k.startswith("model.layers")][::3]:
        save_file({k: t for k, t in tensors.items() if k != key}, folder / "model.safetensors")
        with pytest.raises(ValueError, match=f"no tensor {key}"):
            load_model(folder, device="cpu")
        wrong = tensors | {key: torch.zeros(3, *tensors[key].shape[1:])}
        save_file(wrong, folder / "model.safetensors")
        with pytest.raises(ValueError, match=f"{key} has shape"):
            load_model(folder, device="cpu")

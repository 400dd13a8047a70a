"""Small random checkpoints in each family's official layout, and an independent oracle for each.

`LAYOUTS` writes config keys and tensor names as the published checkpoints have them, only the
sizes are small. The oracle is transformers' own Llama, Qwen2, Qwen3, OLMoE, Qwen3-MoE or GLM-4-MoE
network in float64 with the weights mapped by name and the attention mask opened to bidirectional
or block-causal.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import torch
from safetensors.torch import save_file

from tests.random_model import EOS, MASK, ROOT, VOCAB, llada_config

Tensors = dict[str, torch.Tensor]
HIDDEN, LAYERS, HEADS, KV, FFN = 64, 2, 4, 2, 96


class Draw:
    """Random weights; linear maps scaled so that activations keep their size."""

    def __init__(self, seed: int) -> None:
        self._generator = torch.Generator().manual_seed(seed)

    def __call__(self, *shape: int, gain: float = 1.0) -> torch.Tensor:
        values = torch.randn(*shape, generator=self._generator, dtype=torch.float64)
        return values * gain / math.sqrt(shape[-1])

    def norm(self, size: int) -> torch.Tensor:
        return 1 + 0.2 * torch.randn(size, generator=self._generator, dtype=torch.float64)


@dataclass(frozen=True)
class Layout:
    """config.json, a function that draws the tensors, and the oracle's class with its config."""

    config: dict
    tensors: Callable[[int], Tensors]
    oracle_kind: str
    oracle_config: dict
    rename: Callable[[Tensors], Tensors] = lambda tensors: tensors

    @property
    def shift(self) -> int:
        return 1 if self.config["model_type"] in ("Dream", "Fast_dLLM_Qwen") else 0

    @property
    def block(self) -> int | None:
        return self.config.get("block_size", self.config.get("bd_size"))


COMMON = {
    "hidden_size": HIDDEN, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
    "num_key_value_heads": KV, "intermediate_size": FFN, "vocab_size": VOCAB,
    "hidden_act": "silu", "max_position_embeddings": 256, "rms_norm_eps": 1e-6,
    "rope_theta": 1e6, "rope_scaling": None, "tie_word_embeddings": False,
    "eos_token_id": EOS, "pad_token_id": EOS, "mask_token_id": MASK, "torch_dtype": "bfloat16",
}  # fmt: skip


def qwen_tensors(
    seed: int, head_dim: int, has_bias: bool, has_norm: bool, is_tied: bool = False,
    kv: int = KV, wide_norm: bool = False, experts: int = 0, expert_size: int = 0,
) -> Tensors:
    """model.layers.N.self_attn.q_proj and so on."""
    draw = Draw(seed)
    width, kv_width = HEADS * head_dim, kv * head_dim
    tensors = {
        "model.embed_tokens.weight": draw(VOCAB, HIDDEN, gain=math.sqrt(HIDDEN)),
        "model.norm.weight": draw.norm(HIDDEN),
    }
    if not is_tied:
        tensors["lm_head.weight"] = draw(VOCAB, HIDDEN, gain=3)
    for layer in range(LAYERS):
        base = f"model.layers.{layer}."
        attention = f"{base}self_attn."
        for name, size in (("q", width), ("k", kv_width), ("v", kv_width)):
            tensors[f"{attention}{name}_proj.weight"] = draw(size, HIDDEN, gain=2)
            if has_bias:
                tensors[f"{attention}{name}_proj.bias"] = draw(1, size, gain=3)[0]
        tensors[f"{attention}o_proj.weight"] = draw(HIDDEN, width)
        if has_norm:
            tensors[f"{attention}q_norm.weight"] = draw.norm(width if wide_norm else head_dim)
            tensors[f"{attention}k_norm.weight"] = draw.norm(kv_width if wide_norm else head_dim)
        tensors[f"{base}input_layernorm.weight"] = draw.norm(HIDDEN)
        tensors[f"{base}post_attention_layernorm.weight"] = draw.norm(HIDDEN)
        if experts:
            tensors[f"{base}mlp.gate.weight"] = draw(experts, HIDDEN, gain=2)
        places = [f"{base}mlp.experts.{n}." for n in range(experts)] or [f"{base}mlp."]
        size = expert_size or FFN
        for place in places:
            tensors[f"{place}gate_proj.weight"] = draw(size, HIDDEN)
            tensors[f"{place}up_proj.weight"] = draw(size, HIDDEN)
            tensors[f"{place}down_proj.weight"] = draw(HIDDEN, size)
    return tensors


def llada_tensors(seed: int, kv: int, is_tied: bool) -> Tensors:
    """The Llama layout under LLaDA's names."""
    names = {
        "self_attn.q_proj": "q_proj", "self_attn.k_proj": "k_proj", "self_attn.v_proj": "v_proj",
        "self_attn.o_proj": "attn_out", "mlp.gate_proj": "ff_proj", "mlp.up_proj": "up_proj",
        "mlp.down_proj": "ff_out", "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ff_norm",
    }  # fmt: skip
    ends = {
        "model.embed_tokens.weight": "model.transformer.wte.weight",
        "model.norm.weight": "model.transformer.ln_f.weight",
        "lm_head.weight": "model.transformer.ff_out.weight",
    }
    done = {}
    for name, tensor in qwen_tensors(seed, HIDDEN // HEADS, False, False, is_tied, kv).items():
        if name in ends:
            done[ends[name]] = tensor
            continue
        _, _, layer, leaf = name.removesuffix(".weight").split(".", 3)
        done[f"model.transformer.blocks.{layer}.{names[leaf]}.weight"] = tensor
    return done


def from_llada(tensors: Tensors) -> Tensors:
    """LLaDA's names → Llama's."""
    back = {
        "q_proj": "self_attn.q_proj", "k_proj": "self_attn.k_proj", "v_proj": "self_attn.v_proj",
        "attn_out": "self_attn.o_proj", "ff_proj": "mlp.gate_proj", "up_proj": "mlp.up_proj",
        "ff_out": "mlp.down_proj", "attn_norm": "input_layernorm",
        "ff_norm": "post_attention_layernorm",
    }  # fmt: skip
    done = {}
    for name, tensor in tensors.items():
        parts = name.split(".")
        if parts[2] == "blocks":
            done[f"model.layers.{parts[3]}.{back[parts[4]]}.weight"] = tensor
        else:
            ends = {"wte": "model.embed_tokens", "ln_f": "model.norm", "ff_out": "lm_head"}
            done[f"{ends[parts[2]]}.weight"] = tensor
    return done


MOE = {"experts": 8, "expert_size": 32}


def fuse_experts(tensors: Tensors) -> Tensors:
    """Experts one by one → the stacked parameters of transformers 5."""
    done = {name: tensor for name, tensor in tensors.items() if ".experts." not in name}
    for layer in range(LAYERS):
        base = f"model.layers.{layer}.mlp.experts."
        if f"{base}0.gate_proj.weight" not in tensors:
            continue
        count = sum(name.startswith(base) for name in tensors) // 3
        experts = [
            [tensors[f"{base}{n}.{leaf}_proj.weight"] for leaf in ("gate", "up", "down")]
            for n in range(count)
        ]
        done[f"{base}gate_up_proj"] = torch.stack([torch.cat((g, u)) for g, u, _ in experts])
        done[f"{base}down_proj"] = torch.stack([down for _, _, down in experts])
    return done


LLADA2 = {
    **{k: v for k, v in COMMON.items() if k != "eos_token_id"},
    "architectures": ["LLaDA2MoeModelLM"], "model_type": "llada2_moe", "eos_token_id": EOS,
    "head_dim": 16, "num_experts": 8, "num_experts_per_tok": 2, "num_shared_experts": 1,
    "moe_intermediate_size": 32, "first_k_dense_replace": 1, "n_group": 4, "topk_group": 2,
    "routed_scaling_factor": 2.5, "score_function": "sigmoid", "norm_topk_prob": True,
    "moe_router_enable_expert_bias": True, "partial_rotary_factor": 0.5, "rope_theta": 600000.0,
    "use_bias": False, "use_qkv_bias": False, "use_qk_norm": True, "norm_head": False,
    "block_size": 8,
}  # fmt: skip


def llada2_tensors(seed: int) -> Tensors:
    """LLaDA2's names: fused qkv, word_embeddings, shared experts, a router bias."""
    draw = Draw(seed + 100)
    plain = qwen_tensors(seed, 16, False, True)
    done = {"model.word_embeddings.weight": plain.pop("model.embed_tokens.weight")}
    for layer in range(LAYERS):
        base = f"model.layers.{layer}."
        own = f"{base}self_attn."
        qkv = [plain.pop(f"{own}{name}_proj.weight") for name in "qkv"]
        done[f"{base}attention.query_key_value.weight"] = torch.cat(qkv)
        done[f"{base}attention.dense.weight"] = plain.pop(f"{own}o_proj.weight")
        for ours, theirs in (("q", "query"), ("k", "key")):
            norm = plain.pop(f"{own}{ours}_norm.weight")
            done[f"{base}attention.{theirs}_layernorm.weight"] = norm
        if layer == 0:
            continue
        for leaf in ("gate", "up", "down"):
            del plain[f"{base}mlp.{leaf}_proj.weight"]
        done[f"{base}mlp.gate.weight"] = draw(8, HIDDEN, gain=2)
        done[f"{base}mlp.gate.expert_bias"] = draw(1, 8)[0]
        for place in [*(f"experts.{n}" for n in range(8)), "shared_experts"]:
            done[f"{base}mlp.{place}.gate_proj.weight"] = draw(32, HIDDEN)
            done[f"{base}mlp.{place}.up_proj.weight"] = draw(32, HIDDEN)
            done[f"{base}mlp.{place}.down_proj.weight"] = draw(HIDDEN, 32)
    return done | plain


def from_llada2(tensors: Tensors) -> Tensors:
    """LLaDA2's names → GLM-4-MoE's."""
    done = {}
    for name, tensor in tensors.items():
        name = name.replace("word_embeddings", "embed_tokens")
        name = name.replace("attention.dense", "self_attn.o_proj")
        name = name.replace("attention.query_layernorm", "self_attn.q_norm")
        name = name.replace("attention.key_layernorm", "self_attn.k_norm")
        name = name.replace("gate.expert_bias", "gate.e_score_correction_bias")
        if "query_key_value" in name:
            base = name.removesuffix("attention.query_key_value.weight")
            parts = tensor.split((64, 32, 32))
            for leaf, part in zip("qkv", parts, strict=True):
                done[f"{base}self_attn.{leaf}_proj.weight"] = part
        else:
            done[name] = tensor
    return done


def llada_layout(kv: int, is_tied: bool) -> Layout:
    config = llada_config(
        d_model=HIDDEN, n_layers=LAYERS, n_kv_heads=kv, mlp_hidden_size=FFN, weight_tying=is_tied
    )
    oracle = COMMON | {
        "num_key_value_heads": kv, "tie_word_embeddings": is_tied,
        "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
    }  # fmt: skip
    return Layout(
        config, lambda seed: llada_tensors(seed, kv, is_tied), "Llama", oracle, from_llada
    )


def moe_layout(kind: str, wide_norm: bool) -> Layout:
    config = {
        **{k: v for k, v in COMMON.items() if k != "intermediate_size"},
        "architectures": ["LLaDAMoEModelLM"], "model_type": "lladamoe", "num_key_value_heads": 4,
        "num_experts": 8, "num_experts_per_tok": 3, "expert_intermediate_size": 32,
        "dense_intermediate_size": 128, "qk_layernorm": True, "clip_qkv": None,
        "attention_bias": False, "norm_topk_prob": None, "moe_router_score_function": "softmax",
        "moe_router_enable_expert_bias": False, "partial_rotary_factor": 1, "rope_theta": 50000,
        "shared_expert_intermediate_size": None,
    }  # fmt: skip
    oracle = COMMON | {
        "num_key_value_heads": 4, "num_experts": 8, "num_experts_per_tok": 3, "head_dim": 16,
        "intermediate_size": 32, "moe_intermediate_size": 32, "norm_topk_prob": False,
        "rope_theta": 50000.0, "decoder_sparse_step": 1, "mlp_only_layers": [],
    }  # fmt: skip
    return Layout(
        config,
        lambda seed: qwen_tensors(seed, 16, False, True, kv=4, wide_norm=wide_norm, **MOE),
        kind,
        oracle,
    )


LAYOUTS: dict[str, Layout] = {
    "llada": llada_layout(4, False),
    "illada": llada_layout(2, True),
    "dream": Layout(
        COMMON | {"architectures": ["DreamModel"], "model_type": "Dream",
                  "use_sliding_window": False, "sliding_window": None},
        lambda seed: qwen_tensors(seed, 16, True, False), "Qwen2", COMMON,
    ),
    "a2d_qwen3": Layout(
        COMMON | {"architectures": ["A2DQwen3LMHeadModel"], "model_type": "a2d-qwen3",
                  "head_dim": 24, "attention_bias": False, "tie_word_embeddings": True},
        lambda seed: qwen_tensors(seed, 24, False, True, is_tied=True),
        "Qwen3", COMMON | {"head_dim": 24, "tie_word_embeddings": True},
    ),
    "lladamoe": moe_layout("Qwen3Moe", False),
    "lladamoe_wide_norm": moe_layout("Olmoe", True),
    "sdar": Layout(
        COMMON | {"architectures": ["SDARForCausalLM"], "model_type": "sdar", "head_dim": 16,
                  "attention_bias": False, "block_size": 4},
        lambda seed: qwen_tensors(seed, 16, False, True), "Qwen3", COMMON | {"head_dim": 16},
    ),
    "fast_dllm_qwen": Layout(
        COMMON | {"architectures": ["Fast_dLLM_QwenForCausalLM"], "model_type": "Fast_dLLM_Qwen",
                  "tie_word_embeddings": True, "bd_size": 8},
        lambda seed: qwen_tensors(seed, 16, True, False, is_tied=True),
        "Qwen2", COMMON | {"tie_word_embeddings": True},
    ),
    "llada2_moe": Layout(
        LLADA2, llada2_tensors, "Glm4Moe",
        COMMON | {
            "head_dim": 16, "n_routed_experts": 8, "num_experts_per_tok": 2, "n_shared_experts": 1,
            "moe_intermediate_size": 32, "first_k_dense_replace": 1, "n_group": 4,
            "topk_group": 2, "routed_scaling_factor": 2.5, "norm_topk_prob": True,
            "partial_rotary_factor": 0.5, "rope_theta": 600000.0, "use_qk_norm": True,
            "attention_bias": False,
        },
        from_llada2,
    ),
}  # fmt: skip


def write_layout(folder: Path, name: str, seed: int = 0) -> Path:
    """A loadable folder of this family with the embedded tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    layout = LAYOUTS[name]
    (folder / "config.json").write_text(json.dumps(layout.config))
    save_file(
        {key: tensor.contiguous() for key, tensor in layout.tensors(seed).items()},
        folder / "model.safetensors",
    )
    for file in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        (folder / file).write_bytes((ROOT / "assets" / "tiny" / file).read_bytes())
    return folder


def open_mask(length: int, block: int | None) -> torch.Tensor:
    """[T, T], True where a row may look: everywhere, or up to the end of its own block."""
    if block is None:
        return torch.ones(length, length, dtype=torch.bool)
    number = torch.arange(length) // block
    return number[:, None] >= number[None, :]


def oracle_logits(name: str, ids: list[int], seed: int = 0, mask=None) -> torch.Tensor:
    """Logits [T, V] in float64 of transformers' network, row i at position i (no shift undone).

    transformers computes norms, RoPE, softmax and routing in what it calls float32; while the
    oracle lives that name means float64.
    """
    import transformers

    layout = LAYOUTS[name]
    if mask is None:
        mask = open_mask(len(ids), layout.block)
    with warnings.catch_warnings():
        # imported while float32 still means float32: transformers reaches for torchao, if it is
        # there, and torchao's own source warns
        warnings.simplefilter("ignore")
        network = getattr(transformers, f"{layout.oracle_kind}ForCausalLM")
    bias = torch.zeros(mask.shape, dtype=torch.float64).masked_fill(~mask, -math.inf)
    with (
        mock.patch.object(torch, "float32", torch.float64),
        mock.patch.object(torch, "float", torch.float64),
        mock.patch.object(torch.Tensor, "float", torch.Tensor.double),
        torch.no_grad(),
    ):
        config = getattr(transformers, f"{layout.oracle_kind}Config")(
            **layout.oracle_config, attn_implementation="eager", experts_implementation="eager"
        )
        model = network(config).double().eval()
        tensors = layout.rename(layout.tensors(seed))
        if any(key.endswith("experts.gate_up_proj") for key in model.state_dict()):
            tensors = fuse_experts(tensors)
        missing, unknown = model.load_state_dict(tensors, strict=False)
        is_tied = layout.oracle_config["tie_word_embeddings"]
        assert not unknown and set(missing) <= ({"lm_head.weight"} if is_tied else set()), (
            missing, unknown)  # fmt: skip
        model.tie_weights()
        return model(
            input_ids=torch.tensor([ids]), attention_mask=bias[None, None], use_cache=False
        ).logits[0]

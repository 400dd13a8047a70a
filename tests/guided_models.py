"""A small random diffusion model and a small random causal guide that often agree.

Both know the embedded tokenizer's 4096 tokens but say only a few of them, so that a draft is now
and then the guide's own choice. The guide is written in Llama's layout; the forward to compare
with is the plain one of `random_model.py` with a causal mask.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file

from tests.random_model import EOS, EOT, MASK, ROOT, VOCAB, llada_config, plain_logits
from tests.random_model import random_tensors as random_llada
from training.guide import llama_name

# ordinary tokens of the tokenizer
SPOKEN = (300, 301, 302, 303)
GUIDE_SHAPE = {"d_model": 32, "n_layers": 2, "n_heads": 2, "n_kv_heads": 1, "mlp_hidden_size": 48}


def few_words(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The same weights with a head that is loud for a few tokens and quiet for the others.

    The loud rows come in opposite pairs, so that one of each pair always has a positive logit.
    """
    head = tensors["model.transformer.ff_out.weight"] * 0.05
    a, b, c, d = SPOKEN
    head[[a, c]] *= 20
    head[[b, d]] = -head[[a, c]]
    return {**tensors, "model.transformer.ff_out.weight": head.contiguous()}


def guide_config() -> dict:
    """LLaDA's keys, for the plain forward."""
    return llada_config(**GUIDE_SHAPE)


def guide_tensors(seed: int = 7) -> dict[str, torch.Tensor]:
    """By LLaDA's names."""
    return few_words(random_llada(guide_config(), seed))


def guide_logits(
    tensors: dict[str, torch.Tensor], ids: list[int], bans_mask: bool = True
) -> torch.Tensor:
    """[T, V]: row i answers position i + 1, from the tokens up to i; never the mask."""
    causal = torch.ones(len(ids), len(ids), dtype=torch.bool).tril()
    logits = plain_logits(guide_config(), tensors, ids, causal)
    if bans_mask:
        logits[:, MASK] = -torch.inf
    return logits


def write_guide(folder: Path, tensors: dict[str, torch.Tensor], **changes) -> Path:
    """A guide folder in Llama's layout (fp64) with the embedded tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    shape = guide_config()
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": VOCAB,
        "hidden_size": shape["d_model"], "intermediate_size": shape["mlp_hidden_size"],
        "num_hidden_layers": shape["n_layers"], "num_attention_heads": shape["n_heads"],
        "num_key_value_heads": shape["n_kv_heads"], "hidden_act": "silu",
        "max_position_embeddings": 256, "rms_norm_eps": shape["rms_norm_eps"],
        "rope_theta": shape["rope_theta"], "tie_word_embeddings": False,
        "eos_token_id": [EOS, EOT], **changes,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    named = {
        "lm_head.weight" if name == "model.transformer.ff_out.weight" else llama_name(name): tensor
        for name, tensor in tensors.items()
    }
    save_file(named, folder / "model.safetensors")
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        (folder / name).write_bytes((ROOT / "assets" / "tiny" / name).read_bytes())
    return folder

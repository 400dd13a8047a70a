"""Small random checkpoints in LLaDA's official layout, and a plain full forward to compare with.

The forward here is independent of the decoder's: no cache, no packing, written from LLaDA's
description, one sequence at a time, with an optional dense mask.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import torch
from safetensors.torch import save_file

ROOT = Path(__file__).resolve().parents[1]
VOCAB, MASK, EOS, EOT = 4096, 5, 0, 4
PROMPT = [1, 2, 300, 3, 700, 264, 839, 12]


def llada_config(**changes) -> dict:
    """config.json of a small LLaDA with every key of the official one."""
    return {
        "architectures": ["LLaDAModelLM"], "model_type": "llada", "d_model": 48, "n_layers": 3,
        "n_heads": 4, "n_kv_heads": 4, "mlp_hidden_size": 96, "mlp_ratio": 4,
        "activation_type": "silu", "block_type": "llama", "block_group_size": 1,
        "layer_norm_type": "rms", "layer_norm_with_affine": True, "rms_norm_eps": 1e-5,
        "rope": True, "rope_theta": 500000.0, "rope_full_precision": True, "alibi": False,
        "vocab_size": VOCAB, "embedding_size": VOCAB, "weight_tying": False,
        "include_bias": False, "include_qkv_bias": False, "attention_layer_norm": False,
        "input_emb_norm": False, "scale_logits": False, "max_sequence_length": 256,
        "mask_token_id": MASK, "eos_token_id": EOS, "pad_token_id": EOS, "use_cache": False,
        **changes,
    }


def random_tensors(config: dict, seed: int = 0, sharpness: float = 3.0) -> dict[str, torch.Tensor]:
    """Random weights by LLaDA's names; `sharpness` scales the head so confidences spread."""
    g = torch.Generator().manual_seed(seed)
    d, f, v = config["d_model"], config["mlp_hidden_size"], config["embedding_size"]
    kv = config["n_kv_heads"] * d // config["n_heads"]

    def draw(*shape):
        return torch.randn(*shape, generator=g, dtype=torch.float64) / math.sqrt(shape[-1])

    tensors = {
        "model.transformer.wte.weight": draw(v, d) * math.sqrt(d),
        "model.transformer.ln_f.weight": 1 + 0.1 * draw(1, d)[0],
        "model.transformer.ff_out.weight": draw(v, d) * sharpness,
    }
    for i in range(config["n_layers"]):
        base = f"model.transformer.blocks.{i}."
        tensors |= {
            base + "attn_norm.weight": 1 + 0.1 * draw(1, d)[0],
            base + "ff_norm.weight": 1 + 0.1 * draw(1, d)[0],
            base + "q_proj.weight": 2 * draw(d, d), base + "k_proj.weight": 2 * draw(kv, d),
            base + "v_proj.weight": draw(kv, d), base + "attn_out.weight": draw(d, d),
            base + "ff_proj.weight": draw(f, d), base + "up_proj.weight": draw(f, d),
            base + "ff_out.weight": draw(d, f),
        }
    return {name: tensor.contiguous() for name, tensor in tensors.items()}


def write_checkpoint(folder: Path, config: dict | None = None, seed: int = 0, **more) -> Path:
    """A loadable folder: config.json, model.safetensors (fp64), the embedded tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    config = config or llada_config()
    (folder / "config.json").write_text(json.dumps(config))
    save_file(random_tensors(config, seed, **more), folder / "model.safetensors")
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        (folder / name).write_bytes((ROOT / "assets" / "tiny" / name).read_bytes())
    return folder


def plain_logits(
    config: dict, tensors: dict[str, torch.Tensor], ids: list[int],
    mask: torch.Tensor | None = None, positions: list[int] | None = None,
) -> torch.Tensor:
    """Logits [T, V] in fp64 of one bidirectional forward; `mask` [T, T] True where seen."""
    heads, kv_heads = config["n_heads"], config["n_kv_heads"]
    size = config["d_model"] // heads
    x = tensors["model.transformer.wte.weight"][torch.tensor(ids)]
    where = torch.tensor(positions if positions is not None else range(len(ids)))
    frequency = config["rope_theta"] ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
    angle = torch.outer(where.double(), frequency)
    cos, sin = torch.cat([angle.cos()] * 2, -1), torch.cat([angle.sin()] * 2, -1)

    def norm(h, weight):
        return h / torch.sqrt((h * h).mean(-1, keepdim=True) + config["rms_norm_eps"]) * weight

    def turn(h):
        half = torch.cat((-h[..., size // 2 :], h[..., : size // 2]), -1)
        return h * cos[:, None] + half * sin[:, None]

    for i in range(config["n_layers"]):
        w = {k.split(f"blocks.{i}.")[1]: t for k, t in tensors.items() if f"blocks.{i}." in k}
        h = norm(x, w["attn_norm.weight"])
        q = turn((h @ w["q_proj.weight"].T).view(-1, heads, size))
        k = turn((h @ w["k_proj.weight"].T).view(-1, kv_heads, size))
        v = (h @ w["v_proj.weight"].T).view(-1, kv_heads, size)
        mixed = []
        for head in range(heads):
            kv = head // (heads // kv_heads)
            scores = q[:, head] @ k[:, kv].T / math.sqrt(size)
            if mask is not None:
                scores = scores.masked_fill(~mask, -math.inf)
            mixed.append(scores.softmax(-1) @ v[:, kv])
        x = x + torch.cat(mixed, -1) @ w["attn_out.weight"].T
        h = norm(x, w["ff_norm.weight"])
        gate = h @ w["ff_proj.weight"].T
        x = x + (gate * torch.sigmoid(gate) * (h @ w["up_proj.weight"].T)) @ w["ff_out.weight"].T
    return norm(x, tensors["model.transformer.ln_f.weight"]) @ (
        tensors["model.transformer.ff_out.weight"].T
    )

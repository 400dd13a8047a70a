"""The guide: a small causal twin of the embedded model, for guided diffusion.

It reads the same texts in the same format as the diffusion model, but predicts the next token:
a token sees only itself and what stands before it. Embedding and head are one matrix. It is
exported in the layout of transformers' Llama, which its arithmetic equals.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor

from training.corruption import PADDING_WEIGHT, CorruptedBatch, PackedBatch
from training.model import LLaDA, ModelConfig
from training.quick_check import GEN_LENGTH, Decoded
from training.stream import DOMAINS, ChatTokenizer

# 4.0 M parameters: 8 MB in bf16, so that all of assets/ stays under 50 MB
GUIDE_SHAPE = ModelConfig(
    d_model=256, n_layers=5, n_heads=4, n_kv_heads=2, mlp_hidden_size=512
)
# a prompt is read, not written; learning a little from it still teaches the language
PROMPT_WEIGHT = 0.1

_LEAVES = {
    "attn_norm": "input_layernorm",
    "ff_norm": "post_attention_layernorm",
    "q_proj": "self_attn.q_proj",
    "k_proj": "self_attn.k_proj",
    "v_proj": "self_attn.v_proj",
    "attn_out": "self_attn.o_proj",
    "ff_proj": "mlp.gate_proj",
    "up_proj": "mlp.up_proj",
    "ff_out": "mlp.down_proj",
}


class CausalTwin(LLaDA):
    """The network of `training/model.py` with causal attention and a tied head."""

    is_causal: ClassVar[bool] = True

    def __init__(
        self,
        config: ModelConfig,
        compute_dtype: torch.dtype = torch.float32,
        attention: str = "local",
    ) -> None:
        super().__init__(config, compute_dtype, attention)
        del self.transformer["ff_out"]

    def logits(self, hidden: Tensor) -> Tensor:
        """[..., V] in the compute dtype."""
        return F.linear(hidden, self.transformer["wte"].weight.to(hidden.dtype))


def next_tokens(
    batch: PackedBatch, mask_token_id: int, capacity: int, generator: torch.Generator
) -> CorruptedBatch:
    """What to learn from a clean batch: at every token, the next one of its segment.

    Nothing is masked. Tokens of the answer and its end count 1, the padding behind it as in
    `corruption.py`, the prompt PROMPT_WEIGHT; documents are answer throughout. The arguments are
    those of `corrupt`; rows beyond `capacity`, the last ones of the batch, take no part.
    """
    segments = batch.segments.long()
    following = torch.roll(batch.tokens, -1)
    has_next = torch.roll(segments, -1) == segments
    has_next[-1] = False
    has_next &= batch.domains[segments] >= 0
    target = batch.positions + 1
    weight = torch.where(target < batch.answer_starts[segments], PROMPT_WEIGHT, 1.0)
    weight = torch.where(target >= batch.answer_ends[segments], PADDING_WEIGHT, weight)
    rows = torch.argsort((~has_next).to(torch.uint8), stable=True)[:capacity]
    return CorruptedBatch(
        tokens=batch.tokens,
        is_masked=torch.zeros_like(has_next),
        rows=rows,
        targets=following[rows].long(),
        weights=torch.where(has_next[rows], weight[rows], 0.0),
    )


@torch.no_grad()
def held_out_losses(model: LLaDA, batch: PackedBatch) -> dict[str, float]:
    """Cross-entropy per answer token, its end token included, of each domain, in nats."""
    segments = batch.segments.long()
    position = batch.positions
    is_answer = (position >= batch.answer_starts[segments]) & (
        position < batch.answer_ends[segments]
    )
    targets = is_answer.nonzero().flatten()
    hidden = model.hidden(batch.tokens, position, batch.cu_seqlens, batch.segments)
    losses = F.cross_entropy(
        model.logits(hidden[targets - 1]).float(), batch.tokens[targets].long(), reduction="none"
    )
    domains = batch.domains[segments[targets]]
    return {
        name: float(losses[domains == number].mean())
        for number, name in enumerate(DOMAINS)
        if bool((domains == number).any())
    }


@torch.no_grad()
def decode(model: LLaDA, batch: PackedBatch, chat: ChatTokenizer) -> Decoded:
    """Fill all canvases left to right with the likeliest token; no cache, every pass reads all.

    A canvas is done at its first end token.
    """
    places = batch.answer_starts.shape[0]
    device = batch.tokens.device
    first = (batch.cu_seqlens[:-1] + batch.answer_starts).long()
    tokens = batch.tokens.clone()
    passes = torch.zeros(places, dtype=torch.long, device=device)
    is_running = torch.ones(places, dtype=torch.bool, device=device)
    for offset in range(GEN_LENGTH):
        hidden = model.hidden(tokens, batch.positions, batch.cu_seqlens, batch.segments)
        logits = model.logits(hidden[first + offset - 1]).float()
        logits[:, chat.mask] = -torch.inf
        choice = logits.argmax(-1).int()
        tokens[first + offset] = torch.where(is_running, choice, chat.eos)
        passes += is_running
        is_running = is_running & (choice != chat.eot) & (choice != chat.eos)
        if not bool(is_running.any()):
            break
    canvas = first[:, None] + torch.arange(GEN_LENGTH, device=device)
    return Decoded(tokens[canvas].cpu(), passes.cpu())


def llama_name(name: str) -> str:
    """The name that transformers' Llama gives a tensor of the training model.

    >>> llama_name("model.transformer.blocks.3.ff_proj.weight")
    'model.layers.3.mlp.gate_proj.weight'
    """
    ends = {
        "model.transformer.wte.weight": "model.embed_tokens.weight",
        "model.transformer.ln_f.weight": "model.norm.weight",
    }
    if name in ends:
        return ends[name]
    *_, number, leaf, _ = name.split(".")
    return f"model.layers.{number}.{_LEAVES[leaf]}.weight"


def llama_config(config: ModelConfig, end_ids: tuple[int, ...], start_id: int) -> dict[str, Any]:
    """The config.json of the export."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": config.vocab_size,
        "hidden_size": config.d_model,
        "intermediate_size": config.mlp_hidden_size,
        "num_hidden_layers": config.n_layers,
        "num_attention_heads": config.n_heads,
        "num_key_value_heads": config.n_kv_heads,
        "head_dim": config.head_dim,
        "hidden_act": "silu",
        "max_position_embeddings": config.max_sequence_length,
        "rms_norm_eps": config.rms_norm_eps,
        "rope_theta": config.rope_theta,
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": True,
        "bos_token_id": start_id,
        "eos_token_id": list(end_ids),
        "pad_token_id": config.eos_token_id,
        "mask_token_id": config.mask_token_id,
        "torch_dtype": "bfloat16",
    }


def export_guide(
    model: LLaDA, output: Path, chat: ChatTokenizer, dtype: torch.dtype = torch.bfloat16
) -> list[Path]:
    """Write config.json and model.safetensors in Llama's layout; the files written."""
    output.mkdir(parents=True, exist_ok=True)
    state: Mapping[str, Tensor] = model.state_dict()
    tensors = {
        llama_name(name): tensor.detach().to("cpu", dtype).contiguous()
        for name, tensor in state.items()
    }
    weights, config = output / "model.safetensors", output / "config.json"
    save_file(tensors, weights, metadata={"format": "pt"})
    content = llama_config(model.config, (chat.eos, chat.eot), chat.start)
    config.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return [weights, config]


def load_guide_weights(model: LLaDA, folder: Path) -> dict[str, Tensor]:
    """The tensors of an export under the training model's names."""
    tensors = load_file(folder / "model.safetensors")
    return {name: tensors[llama_name(name)] for name in model.state_dict()}

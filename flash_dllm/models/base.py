"""ModelSpec: the numbers of a checkpoint that the rest of the code may ask for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ModelSpec:
    """Read from config.json by a family file; only what few families have has a default.

    n_kv_heads    key/value heads (GQA when fewer than n_heads)
    rotary_dim    leading part of head_dim that RoPE turns; None: all of it
    max_length    most positions the model was made for
    shift         a row at p answers position p + shift (1: a shifted head)
    causal_block  block of a block-causal model, counted from position 0; None: bidirectional
    """

    d_model: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    ffn_size: int
    vocab_size: int
    rms_norm_eps: float
    rope_theta: float
    max_length: int
    mask_token_id: int
    eos_token_ids: tuple[int, ...]
    shift: int = 0
    causal_block: int | None = None
    rotary_dim: int | None = None

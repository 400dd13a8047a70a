"""What fits together, said before a session opens: prompt, model, strategy, cache and guide."""

from __future__ import annotations

from collections.abc import Sequence

from flash_dllm.caches import CACHES
from flash_dllm.caches.base import CachePolicy
from flash_dllm.config import DecodeConfig
from flash_dllm.engine_protocol import Engine, Guide
from flash_dllm.settings import check_cache
from flash_dllm.strategies.base import DecodingStrategy
from flash_dllm.trace import ModelInfo


def check_prompt(engine: Engine, prompt_ids: Sequence[int], config: DecodeConfig) -> None:
    """Raise ValueError in one sentence if this prompt can't be decoded."""
    info = engine.info
    if isinstance(prompt_ids, str) or not all(type(token) is int for token in prompt_ids):
        raise ValueError("the prompt must be a list of token ids; use engine.encode for text")
    if len(prompt_ids) == 0:
        raise ValueError("the prompt is empty; give at least one token")
    if info.mask_token_id in prompt_ids:
        raise ValueError("the prompt holds the mask token; remove it")
    if not all(0 <= token < info.vocab_size for token in prompt_ids):
        raise ValueError(f"the prompt holds ids outside 0…{info.vocab_size - 1} of {info.name}")
    if len(prompt_ids) + config.gen_length > engine.max_length:
        raise ValueError(
            f"prompt ({len(prompt_ids)} tokens) and gen_length ({config.gen_length}) together "
            f"exceed the {engine.max_length} positions of {info.name}; shorten one of them"
        )


def check_fit(info: ModelInfo, strategy: DecodingStrategy, cache: CachePolicy) -> None:
    """Raise ValueError in one sentence if this model can't be decoded in this way."""
    if info.attention not in cache.fits:
        fitting = [name for name, kind in CACHES.items() if info.attention in kind.fits]
        raise ValueError(
            f"cache {cache.name} does not fit {info.name}, whose attention is "
            f"{info.attention}; use {' or '.join(fitting)}"
        )
    if info.causal_block is not None and not strategy.fits_causal:
        raise ValueError(
            f"{strategy} can't be asked of {info.name}, whose attention is block-causal; "
            "use another strategy"
        )
    if info.shift and not strategy.fits_shift:
        raise ValueError(
            f"{strategy} can't be asked of {info.name}, whose rows answer the next "
            "position; use mask_views='isolated' or another strategy"
        )
    check_cache(strategy, cache)


def guide_of(engine: Engine, strategy: DecodingStrategy, max_length: int) -> Guide | None:
    """The guide that this strategy asks, or None if it asks none. Raises ValueError in one
    sentence if the model has none, or one that is too short."""
    if not strategy.needs_guide:
        return None
    guide = engine.guide
    if guide is None:
        raise ValueError(
            f"strategy {strategy.name} asks an autoregressive guide, and {engine.info.name} has "
            "none; give a causal model with the same tokens as guide, or choose another strategy"
        )
    if max_length > guide.max_length:
        raise ValueError(
            f"prompt and gen_length together ({max_length}) exceed the {guide.max_length} "
            f"positions of the guide {guide.info.name}; shorten one of them"
        )
    return guide

"""How far a decoder's answers are those of one token a step: quality where no answer is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from flash_dllm.caches import NoCache
from flash_dllm.engine_protocol import Engine
from flash_dllm.evaluation.item import Item
from flash_dllm.evaluation.measurement import Decoded, decode_items, ratio
from flash_dllm.settings import Settings
from flash_dllm.strategies import Greedy


def one_token(settings: Settings) -> Settings:
    """The reference of a run: its lengths and rules, one token a step, everything read anew, no
    sampling. Our choice: the slowest decoder of the same text, so nothing but speed is lost."""
    return Settings(Greedy(), NoCache(), replace(settings.config, temperature=0.0, alternatives=0))


def references(
    engine: Engine,
    items: Sequence[Item],
    prompts: Sequence[list[int]],
    settings: Settings,
    batch_size: int,
    on_step: Callable[[], object] = lambda: None,
) -> list[Decoded]:
    """Every item decoded by `one_token(settings)`. Errors as in `decode_steps`."""
    run = decode_items(engine, items, prompts, one_token(settings), batch_size, on_step)
    return list(run.decoded)


def same_tokens(one: Decoded, other: Decoded) -> tuple[int, int]:
    """(positions with the same token, positions) up to the end of the longer answer.

    Two empty answers agree in their end token: (1, 1).
    """
    length = max(one.tokens, other.tokens, 1)
    pairs = zip(one.token_ids[:length], other.token_ids[:length], strict=True)
    return sum(a == b for a, b in pairs), length


def agreement(found: Sequence[Decoded], reference: Sequence[Decoded]) -> tuple[float, list[float]]:
    """Share of positions that agree, over all items (a ratio of sums) and for each of them."""
    counts = [same_tokens(a, b) for a, b in zip(found, reference, strict=True)]
    total = ratio(sum(same for same, _ in counts), sum(length for _, length in counts))
    return total, [ratio(*count) for count in counts]

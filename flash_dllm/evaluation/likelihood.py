"""Log-likelihood of a continuation under a masked diffusion model, by Monte Carlo.

Source: LLaDA (arXiv 2502.09992, eq. 6 and Alg. 3): mask l of the L continuation tokens, l uniform
on 1…L, sum the log-probabilities of the masked ones given everything else, times L/l; the mean over
draws is a lower bound of the log-likelihood. Within a batch l is stratified, as in LLaDA's code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from flash_dllm.engine_protocol import SessionRequest
from flash_dllm.query import Query, Role

if TYPE_CHECKING:
    from flash_dllm.engine import ModelEngine


def log_likelihood(
    engine: ModelEngine,
    prefix: Sequence[int],
    continuation: Sequence[int],
    draws: int = 128,
    batch_size: int = 32,
    seed: int = 0,
) -> float:
    """Monte-Carlo estimate of log p(continuation | prefix), in nats.

    draws       masks drawn in all; a multiple of `batch_size`, or fewer than it
    batch_size  masks a pass
    Raises ValueError for an empty continuation, draws that are no multiple, or a text that is too
    long for the model.
    """
    import torch

    batch_size = min(batch_size, draws)
    if not continuation:
        raise ValueError("the continuation is empty; there is nothing to score")
    if draws < 1 or draws % batch_size:
        raise ValueError(f"draws must be a multiple of batch_size {batch_size}, got {draws}")
    length, count = len(prefix) + len(continuation), len(continuation)
    if length > engine.max_length:
        raise ValueError(
            f"prompt and continuation ({length} tokens) exceed the {engine.max_length} positions "
            f"of {engine.info.name}; shorten one of them"
        )
    generator = torch.Generator().manual_seed(seed)
    session = engine.open(SessionRequest(batch_size, length, alternatives=0))
    target = torch.tensor(continuation, device=engine.model.device)
    total = 0.0
    try:
        handles = [session.admit(length, seed) for _ in range(batch_size)]
        for _ in range(draws // batch_size):
            masks = stratified_masks(count, batch_size, generator)
            queries = [
                _masked_query(prefix, continuation, mask, engine.info.mask_token_id)
                for mask in masks
            ]
            logits = session.logits(list(zip(handles, queries, strict=True)))
            start = 0
            for mask in masks:
                rows = logits[start : start + len(mask)].float()
                start += len(mask)
                tokens = target[torch.tensor(mask, device=target.device)]
                chosen = rows.gather(1, tokens[:, None])[:, 0] - rows.logsumexp(1)
                total += chosen.double().sum().item() * count / len(mask)
    finally:
        session.close()
    return total / draws


def stratified_masks(count: int, batch_size: int, generator) -> list[list[int]]:
    """For each draw of a batch the masked offsets, ascending.

    The numbers of masks start at a uniform one and go on in equal steps around 1…count, so their
    marginals are uniform.
    """
    import torch

    first = int(torch.randint(1, count + 1, (), generator=generator))
    step = count / batch_size
    masks = []
    for number in range(batch_size):
        # rounded down: rounding halves to even would favour even sizes
        size = (int(first + number * step) - 1) % count + 1
        order = torch.randperm(count, generator=generator)[:size]
        masks.append(sorted(order.tolist()))
    return masks


def _masked_query(
    prefix: Sequence[int], continuation: Sequence[int], mask: Sequence[int], mask_token_id: int
) -> Query:
    """Every position as one row, predicted where masked."""
    start, length = len(prefix), len(prefix) + len(continuation)
    tokens = [*prefix, *continuation]
    roles = [int(Role.CONTEXT)] * length
    for offset in mask:
        tokens[start + offset] = mask_token_id
        roles[start + offset] = int(Role.WINDOW)
    positions = list(range(length))
    return Query(
        "full",
        length,
        tokens=tokens,
        positions=positions,
        slots=list(positions),
        roles=roles,
        ranks=[0] * length,
        predict=[start + offset for offset in mask],
    )

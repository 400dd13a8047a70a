"""Quick looks at a model in training: held-out cross-entropy, and accuracy of two decoders.

Decoding here is the plainest possible: no cache, all prompts in one packed batch, every pass over
every token. The project's decoders live elsewhere; this only says whether training works.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from training.corruption import PackedBatch, corrupt
from training.model import LLaDA
from training.stream import DOMAINS, Chat, ChatTokenizer

log = logging.getLogger(__name__)

GEN_LENGTH = 128
WINDOW_SIZE = 32
PROMPT_MAX = 384


@dataclass(frozen=True)
class CheckSet:
    """Held-out items with their token ids.

    turns   of each item the ids from the user header up to the answer, and those of the answer
    """

    items: tuple[Any, ...]
    turns: tuple[tuple[list[int], list[int]], ...]
    domains: tuple[str, ...]


def make_check_set(
    chat: ChatTokenizer, held_out: Callable[[str, int], Sequence[Chat]], per_domain: int
) -> CheckSet:
    """`per_domain` items of each procedural domain whose answers fit the canvas."""
    items: list[Any] = []
    for domain in ("word", "algebra", "code", "story"):
        items.extend(held_out(domain, per_domain))
    turns = chat.turns(items)
    kept = [
        (item, turn)
        for item, turn in zip(items, turns, strict=True)
        if len(turn[0]) <= PROMPT_MAX and len(turn[1]) < GEN_LENGTH
    ]
    if len(kept) < len(items):
        log.warning("%d held-out items are too long to check", len(items) - len(kept))
    return CheckSet(
        tuple(item for item, _ in kept),
        tuple(turn for _, turn in kept),
        tuple(item.domain for item, _ in kept),
    )


def packed_canvas(
    checks: CheckSet, chat: ChatTokenizer, device: torch.device, with_answers: bool
) -> PackedBatch:
    """Prompts each followed by 128 positions: the answers and padding, or all masks."""
    ids: list[int] = []
    lengths, starts, ends = [], [], []
    for prompt, answer in checks.turns:
        head = [chat.start, *prompt]
        body = [*answer, chat.eot] if with_answers else [chat.mask] * GEN_LENGTH
        ids += [*head, *body, *[chat.eos] * (GEN_LENGTH - len(body))]
        lengths.append(len(head) + GEN_LENGTH)
        starts.append(len(head))
        ends.append(len(head) + len(body))
    cu_seqlens = np.concatenate([[0], np.cumsum(lengths)])
    segments = np.repeat(np.arange(len(lengths)), lengths)
    arrays = {
        "tokens": np.array(ids),
        "positions": np.arange(len(ids)) - cu_seqlens[segments],
        "segments": segments,
        "cu_seqlens": cu_seqlens,
        "answer_starts": np.array(starts),
        "answer_ends": np.array(ends),
        "domains": np.array([DOMAINS.index(domain) for domain in checks.domains]),
    }
    tensors = {name: torch.from_numpy(array.astype(np.int32)) for name, array in arrays.items()}
    is_document = torch.zeros(len(lengths), dtype=torch.bool)
    return PackedBatch(**tensors, is_document=is_document).to(device)


@torch.no_grad()
def held_out_losses(model: LLaDA, batch: PackedBatch, seed: int = 0) -> dict[str, float]:
    """Cross-entropy per masked answer token of each domain, masks fixed by the seed (uniform)."""
    generator = torch.Generator(batch.tokens.device).manual_seed(seed)
    corrupted = corrupt(
        batch, model.config.mask_token_id, batch.tokens.shape[0], generator, 0.0, 0.0
    )
    rows = corrupted.rows
    segments = batch.segments[rows].long()
    is_answer = batch.positions[rows] < batch.answer_ends[segments]
    rows = rows[is_answer & (corrupted.weights > 0)]
    hidden = model.hidden(corrupted.tokens, batch.positions, batch.cu_seqlens, batch.segments)
    losses = torch.nn.functional.cross_entropy(
        model.logits(hidden[rows]).float(), batch.tokens[rows].long(), reduction="none"
    )
    domains = batch.domains[batch.segments[rows].long()]
    return {
        name: float(losses[domains == number].mean())
        for number, name in enumerate(DOMAINS)
        if bool((domains == number).any())
    }


@dataclass(frozen=True)
class Decoded:
    """tokens [places, 128] and passes [places] of finished canvases."""

    tokens: Tensor
    passes: Tensor

    def answers(self, chat: ChatTokenizer) -> list[list[int]]:
        """Ids before the first end token."""
        ends = (chat.eot, chat.eos)
        rows: list[list[int]] = self.tokens.tolist()
        return [
            row[: next((k for k, token in enumerate(row) if token in ends), len(row))]
            for row in rows
        ]


@torch.no_grad()
def decode(model: LLaDA, batch: PackedBatch, chat: ChatTokenizer, epsilon: float) -> Decoded:
    """Fill all canvases: each pass commits, among the leftmost 32 masked positions of a canvas,
    every token with confidence >= epsilon, and always the most confident one. epsilon > 1 gives
    greedy decoding. A canvas is done at its first end token with no mask before it.
    """
    places = batch.answer_starts.shape[0]
    device = batch.tokens.device
    offsets = torch.arange(GEN_LENGTH, device=device)
    canvas = (batch.cu_seqlens[:-1] + batch.answer_starts)[:, None].long() + offsets
    tokens = batch.tokens.clone()
    passes = torch.zeros(places, dtype=torch.long, device=device)
    for _ in range(GEN_LENGTH):
        current = tokens[canvas]
        is_masked = current == chat.mask
        is_end = (current == chat.eot) | (current == chat.eos)
        # a mask before the first end token keeps the canvas going
        is_open = is_masked & (is_end.int().cumsum(1) == 0)
        is_running = is_open.any(1)
        if not bool(is_running.any()):
            break
        hidden = model.hidden(tokens, batch.positions, batch.cu_seqlens, batch.segments)
        logits = model.logits(hidden[canvas]).float()
        logits[..., chat.mask] = -torch.inf
        confidence, choice = logits.softmax(-1).max(-1)
        in_window = is_masked & (is_masked.int().cumsum(1) <= WINDOW_SIZE)
        confidence = torch.where(in_window, confidence, -1.0)
        best = torch.nn.functional.one_hot(confidence.argmax(1), GEN_LENGTH).bool()
        accepted = in_window & ((confidence >= epsilon) | best) & is_running[:, None]
        tokens[canvas] = torch.where(accepted, choice.int(), current)
        passes += is_running
    return Decoded(tokens[canvas].cpu(), passes.cpu())


def accuracies(
    model: LLaDA,
    checks: CheckSet,
    chat: ChatTokenizer,
    device: torch.device,
    are_correct: Callable[[Sequence[Any], Sequence[str]], Sequence[bool]],
    epsilon: float,
) -> dict[str, dict[str, float]]:
    """`rates` of one confidence decoder."""
    decoded = decode(model, packed_canvas(checks, chat, device, False), chat, epsilon)
    return rates(decoded, checks, chat, are_correct)


def rates(
    decoded: Decoded,
    checks: CheckSet,
    chat: ChatTokenizer,
    are_correct: Callable[[Sequence[Any], Sequence[str]], Sequence[bool]],
) -> dict[str, dict[str, float]]:
    """Per domain: accuracy, and tokens per step up to and with the first end token."""
    answers = decoded.answers(chat)
    correct = are_correct(checks.items, [chat.decode(ids) for ids in answers])
    results: dict[str, dict[str, float]] = {}
    for domain in dict.fromkeys(checks.domains):
        chosen = [k for k, name in enumerate(checks.domains) if name == domain]
        committed = sum(min(len(answers[k]) + 1, GEN_LENGTH) for k in chosen)
        results[domain] = {
            "items": len(chosen),
            "accuracy": sum(correct[k] for k in chosen) / len(chosen),
            "tokens_per_step": committed / max(1, int(decoded.passes[chosen].sum())),
        }
    return results

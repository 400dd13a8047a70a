"""Masking: what may be masked, the decoder-like windows, and the weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from training.corruption import PackedBatch, corrupt
from training.stream import DOCUMENT, Shard, pack
from training.trainer import to_torch

MASK = 5
LENGTH, PROMPT, CONTENT = 160, 32, 96


def batch_of(segments: int, domain: int = 0, tokens_per_step: int | None = None) -> PackedBatch:
    """Chat segments of 32 prompt tokens, 96 answer tokens and 32 of padding."""
    is_chat = domain != DOCUMENT
    shard = Shard(
        0,
        tokens=np.full(segments * LENGTH, 9, np.uint16),
        lengths=np.full(segments, LENGTH, np.int32),
        answer_starts=np.full(segments, PROMPT if is_chat else 0, np.int32),
        answer_ends=np.full(segments, PROMPT + CONTENT if is_chat else LENGTH, np.int32),
        domains=np.full(segments, domain, np.int8),
    )
    total = tokens_per_step or segments * LENGTH
    return to_torch(pack(shard, total, segments + 3)[0], pin=False)


def masked_rows(batch: PackedBatch, segments: int, **shares: float) -> torch.Tensor:
    """[segments, 160] bool."""
    generator = torch.Generator().manual_seed(0)
    corrupted = corrupt(batch, MASK, batch.tokens.shape[0], generator, **shares)
    return corrupted.is_masked[: segments * LENGTH].view(segments, LENGTH)


def test_prompt_is_never_masked_in_the_fine_tuning_styles():
    masked = masked_rows(batch_of(400), 400, whole_share=0.0)
    assert not masked[:, :PROMPT].any()
    assert masked[:, PROMPT:].any(0).all()


def test_prompt_is_masked_in_the_whole_style():
    assert masked_rows(batch_of(400), 400, whole_share=1.0).any(0).all()


def test_documents_are_always_masked_whole():
    masked = masked_rows(batch_of(400, DOCUMENT), 400, whole_share=0.0)
    assert masked.any(0).all()
    assert 0.4 < float(masked.float().mean()) < 0.6


def test_uniform_style_masks_every_share_of_the_answer_equally_often():
    masked = masked_rows(batch_of(2000), 2000, whole_share=0.0, window_share=0.0)
    shares = masked[:, PROMPT:].float().mean(1)
    counts = torch.histc(shares, bins=4, min=0, max=1)
    assert counts.min() > 400
    assert counts.max() < 600


def test_window_style_masks_everything_past_the_window_and_little_before_it():
    segments = 1000
    masked = masked_rows(batch_of(segments), segments, whole_share=0.0, window_share=1.0)
    # the last boundary is 96 and the widest window 48: at most the padding's last part is sure
    answers = masked[:, PROMPT:]
    # everything from the last visible place on is past the window or inside it
    fully_masked_tail = answers.flip(1).int().cumprod(1).sum(1)
    assert (fully_masked_tail >= 0).all()
    first_quarter, last_quarter = answers[:, :24].float().mean(), answers[:, -24:].float().mean()
    # boundary uniform over 97 places: 12 % of the first quarter's places lie past it
    assert first_quarter < 0.25
    assert last_quarter > 0.85


def test_junk_is_never_masked_and_rows_are_distinct():
    batch = batch_of(3, tokens_per_step=3 * LENGTH + 100)
    generator = torch.Generator().manual_seed(0)
    corrupted = corrupt(batch, MASK, 500, generator, whole_share=1.0)
    assert not corrupted.is_masked[3 * LENGTH :].any()
    assert corrupted.rows.unique().numel() == 500


def test_rows_hold_all_masked_places_first_and_weights_are_zero_after_them():
    batch = batch_of(4)
    corrupted = corrupt(batch, MASK, 600, torch.Generator().manual_seed(1))
    count = int(corrupted.is_masked.sum())
    assert corrupted.is_masked[corrupted.rows[:count]].all()
    assert (corrupted.weights[:count] > 0).all()
    assert (corrupted.weights[count:] == 0).all()
    assert (corrupted.tokens[corrupted.is_masked] == MASK).all()
    assert (corrupted.targets == 9).all()


@pytest.mark.parametrize(("place", "factor"), [(PROMPT, 1.0), (PROMPT + CONTENT, 0.2)])
def test_weight_is_one_over_root_of_the_masked_share_and_a_fifth_for_padding(place, factor):
    batch = batch_of(300)
    generator = torch.Generator().manual_seed(3)
    corrupted = corrupt(batch, MASK, 300 * LENGTH, generator, whole_share=0.0, window_share=0.0)
    weights = torch.zeros(300 * LENGTH)
    weights[corrupted.rows] = corrupted.weights
    shares = corrupted.is_masked.view(300, LENGTH)[:, PROMPT:].float().mean(1)
    chosen = corrupted.is_masked.view(300, LENGTH)[:, place]
    expected = shares.rsqrt().clamp(1, 3)[chosen] * factor
    torch.testing.assert_close(weights.view(300, LENGTH)[chosen, place], expected)


def test_same_generator_state_gives_the_same_masks():
    batch = batch_of(5)
    first = corrupt(batch, MASK, 100, torch.Generator().manual_seed(4))
    second = corrupt(batch, MASK, 100, torch.Generator().manual_seed(4))
    assert torch.equal(first.tokens, second.tokens)

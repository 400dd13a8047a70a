"""Masking of a clean packed batch: what is hidden, and how much each hidden token counts.

Three styles, drawn for every segment:

- *whole*: LLaDA pre-training. t ~ U(0, 1), every token of the segment is masked with probability
  t, prompt and template too. All documents, and 15 % of the chat items.
- *uniform*: LLaDA fine-tuning. The prompt stays, each token of the answer part (answer,
  `<|eot_id|>`, padding `<|endoftext|>`) is masked with probability t ~ U(0, 1). Half of the rest.
- *window*: the states that a decoder with a leftmost window meets. A boundary b, uniform over the
  answer; before it each token is masked with a small probability p ~ U(0, 0.15), then w = 8 … 48
  positions with probability t ~ U(0, 1), and everything after those is masked. The other half.

*window* departs from LLaDA's objective: its masks are not uniform over subsets, so with it the
loss is no bound on the likelihood. What is learnt is the same, since any distribution over masks
trains the same conditionals p(token | visible tokens); only how often each is met changes.

Weights, our choice (see docs/decisions.md): 1/sqrt(masked share) per segment, at most 3 (LLaDA:
1/t, an unbiased bound with a large variance); padding counts 0.2, so that the easy end-of-text
tokens don't dominate; past the window 0.3, where an answer is still mostly unknowable. The loss is
divided by the sum of weights. All of it is vectorised over the flat batch and runs on its device.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

WHOLE_SHARE = 0.15
EARLIER_MASKED_MAX = 0.15
WINDOW_MIN, WINDOW_MAX = 8, 48
PADDING_WEIGHT = 0.2
PAST_WINDOW_WEIGHT = 0.3
SEGMENT_WEIGHT_MAX = 3.0


@dataclass(frozen=True)
class PackedBatch:
    """A clean packed batch: T tokens in S segment places, of which the last may be empty.

    tokens, positions, segments   [T]      int32; id, place in its segment, number of its segment
    cu_seqlens                    [S + 1]  int32; starts of the segments, then T, repeated
    answer_starts                 [S]      int32; first maskable place; the length if there is none
    answer_ends                   [S]      int32; first place of the padding, or the length
    domains                       [S]      int32; index into `stream.DOMAINS`, -1 for junk
    is_document                   [S]      bool
    """

    tokens: Tensor
    positions: Tensor
    segments: Tensor
    cu_seqlens: Tensor
    answer_starts: Tensor
    answer_ends: Tensor
    domains: Tensor
    is_document: Tensor

    def to(self, device: torch.device) -> PackedBatch:
        return PackedBatch(
            **{name: tensor.to(device, non_blocking=True) for name, tensor in self.__dict__.items()}
        )


@dataclass(frozen=True)
class CorruptedBatch:
    """The masked tokens and what to learn from them.

    tokens    [T]  int32; with mask tokens
    is_masked [T]  bool
    rows      [M]  int64; distinct places in the batch, the masked ones first; M is fixed
    targets   [M]  int64; clean tokens there
    weights   [M]  fp32; 0 where the row is not masked
    """

    tokens: Tensor
    is_masked: Tensor
    rows: Tensor
    targets: Tensor
    weights: Tensor


def corrupt(
    batch: PackedBatch,
    mask_token_id: int,
    capacity: int,
    generator: torch.Generator,
    whole_share: float = WHOLE_SHARE,
    window_share: float = 0.5,
) -> CorruptedBatch:
    """Draw a mask for every segment; see the top of this file.

    capacity      M. Masked places beyond it, the last ones of the batch, take no part in the loss
    whole_share   of chat segments masked in the *whole* style
    window_share  of the other chat segments masked in the *window* style
    """
    device = batch.tokens.device
    places = batch.answer_starts.shape[0]
    segments = batch.segments.long()

    draws = torch.rand(6, places, generator=generator, device=device)
    style, window_style, mask_share, earlier_share, boundary_draw, width_draw = draws
    is_junk = batch.domains < 0
    is_whole = (batch.is_document | (style < whole_share)) & ~is_junk
    is_window = ~is_whole & (window_style < window_share)
    first = torch.where(is_whole, 0, batch.answer_starts)

    answer_length = (batch.answer_ends - batch.answer_starts).clamp_min(0)
    # each of 0 … n equally likely
    boundary = batch.answer_starts + (boundary_draw * (answer_length + 1)).int()
    width = WINDOW_MIN + (width_draw * (WINDOW_MAX - WINDOW_MIN + 1)).int()

    position = batch.positions
    in_window_style = is_window[segments]
    before = in_window_style & (position < boundary[segments])
    past = in_window_style & (position >= (boundary + width)[segments])
    probability = mask_share[segments]
    probability = torch.where(before, (earlier_share * EARLIER_MASKED_MAX)[segments], probability)
    probability = torch.where(past, 1.0, probability)
    is_maskable = (position >= first[segments]) & ~is_junk[segments]
    dice = torch.rand(position.shape, generator=generator, device=device)
    is_masked = is_maskable & (dice < probability)

    starts, ends = batch.cu_seqlens[:-1].long(), batch.cu_seqlens[1:].long()
    running = torch.cat([is_masked.new_zeros(1).int(), is_masked.int().cumsum(0).int()])
    masked_count = running[ends] - running[starts]
    maskable_count = (ends - starts - first).clamp_min(1)
    segment_weight = (masked_count / maskable_count).clamp_min(1e-6).rsqrt()
    segment_weight = segment_weight.clamp(1.0, SEGMENT_WEIGHT_MAX)

    weight = segment_weight[segments]
    weight = torch.where(position >= batch.answer_ends[segments], weight * PADDING_WEIGHT, weight)
    weight = torch.where(past, weight * PAST_WINDOW_WEIGHT, weight)

    rows = torch.argsort((~is_masked).to(torch.uint8), stable=True)[:capacity]
    return CorruptedBatch(
        tokens=torch.where(is_masked, mask_token_id, batch.tokens),
        is_masked=is_masked,
        rows=rows,
        targets=batch.tokens[rows].long(),
        weights=torch.where(is_masked[rows], weight[rows], 0.0),
    )

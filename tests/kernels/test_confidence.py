"""Token, confidence and runner-ups, with every kind of tie and tiles of nothing."""

import math

import pytest
import torch

from kernels import confidence, ops, reference
from tests.kernels.truth import DEVICE, DTYPES, HAS_GPU, assert_as_good_as_torch, fp64, random

TILE = confidence.TILE if HAS_GPU else confidence.INTERPRETER_TILE
SIZES = [(0, 70), (1, 2), (1, TILE), (63, 2 * TILE + 1), (100, TILE - 1)]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("rows, vocab", SIZES, ids=str)
@pytest.mark.parametrize("has_noise", [False, True])
def test_choice_and_probability_equal_the_truth(rows, vocab, has_noise, dtype):
    logits = random(rows, vocab, seed=0, dtype=dtype, scale=2.0)
    noise = random(rows, vocab, seed=1, dtype=torch.float32) if has_noise else None
    before = logits.clone()
    tokens, sure, other, other_p = ops.confidence(logits, vocab - 1, noise, 0, "triton")
    assert torch.equal(logits, before)
    plain = reference.confidence(logits, vocab - 1, noise)
    wide_logits, wide_noise = fp64(logits, noise)
    # the choice is made in fp32, where equal sums of logit and noise may differ in fp64
    assert torch.equal(tokens, plain[0])
    assert_as_good_as_torch(sure, plain[1], reference.confidence(wide_logits, vocab - 1)[1]
                            if noise is None else chosen_probability(wide_logits, tokens, vocab))
    assert other.shape == other_p.shape == (rows, 0)


def chosen_probability(logits, tokens, vocab):
    logits = logits.clone()
    logits[:, vocab - 1] = -math.inf
    return logits.softmax(-1).gather(1, tokens.cpu()[:, None])[:, 0]


@pytest.mark.parametrize("alternatives", [1, 5, 8])
@pytest.mark.parametrize("vocab", [3, TILE + 7])
def test_runner_ups_stand_in_falling_order_lowest_id_first(alternatives, vocab):
    # halves, so that many logits are equal
    logits = (random(7, vocab, seed=3, dtype=torch.float32) * 2).round() / 2
    _, _, other, other_p = ops.confidence(logits, 1, None, alternatives, "triton")
    assert other.shape == (7, min(alternatives, vocab))
    rows = logits.cpu().double()
    rows[:, 1] = -math.inf
    for row, ids, probabilities in zip(rows, other.tolist(), other_p.tolist(), strict=True):
        order = sorted(range(vocab), key=lambda i: (-row[i].item(), i))[: len(ids)]
        assert ids == order
        assert probabilities == pytest.approx(row.softmax(-1)[order].tolist(), rel=1e-5)


@pytest.mark.parametrize("first, second", [(3, 5), (TILE - 1, TILE), (2, 2 * TILE + 1)])
def test_the_lowest_id_wins_a_tie_within_and_across_tiles(first, second):
    logits = torch.full((1, 2 * TILE + 5), -1.0, device=DEVICE)
    logits[0, [first, second]] = 4.0
    tokens, sure, other, _ = ops.confidence(logits, 0, None, 3, "triton")
    total = 2 * math.exp(4) + (2 * TILE + 5 - 3) * math.exp(-1)
    assert tokens.tolist() == [first]
    assert sure.tolist() == pytest.approx([math.exp(4) / total], rel=1e-5)
    # behind the two, the lowest of the rest (id 0 is excluded)
    lowest = next(i for i in range(1, 10) if i not in (first, second))
    assert other.tolist() == [[first, second, lowest]]


def test_tiles_that_are_wholly_minus_infinity_change_nothing():
    logits = torch.full((2, 3 * TILE), -math.inf, device=DEVICE)
    logits[0, 2 * TILE + 3] = 1.0
    logits[0, 2 * TILE + 4] = 0.0
    logits[1, TILE + 1] = -70000.0
    tokens, sure, _, _ = ops.confidence(logits, 5, None, 0, "triton")
    assert tokens.tolist() == [2 * TILE + 3, TILE + 1]
    assert sure.tolist() == pytest.approx([math.e / (1 + math.e), 1.0])


def test_the_excluded_token_is_neither_chosen_nor_counted_nor_listed():
    logits = torch.zeros(1, TILE + 1, device=DEVICE)
    logits[0, TILE] = 100.0
    tokens, sure, other, other_p = ops.confidence(logits, TILE, None, 2, "triton")
    assert (tokens.tolist(), other.tolist()) == ([0], [[0, 1]])
    assert sure.tolist() + other_p[0].tolist() == pytest.approx([1 / TILE] * 3)


def test_noise_moves_the_choice_but_not_the_reported_probability():
    logits = torch.tensor([[0.0, 1.0, 0.0]], device=DEVICE)
    noise = torch.tensor([[5.0, 0.0, 9.0]], device=DEVICE)
    tokens, sure, other, _ = ops.confidence(logits, 2, noise, 1, "triton")
    assert (tokens.tolist(), other.tolist()) == ([0], [[1]])
    assert sure.tolist() == pytest.approx([1 / (1 + math.e)])


def test_a_row_does_not_depend_on_the_rows_beside_it():
    logits = random(63, 2 * TILE + 9, seed=5, dtype=torch.float32)
    alone = [ops.confidence(logits[i : i + 1].clone(), 0, None, 2, "triton") for i in (0, 62)]
    together = ops.confidence(logits, 0, None, 2, "triton")
    for i, single in zip((0, 62), alone, strict=True):
        for got, expected in zip(together, single, strict=True):
            assert torch.equal(got[i], expected[0])

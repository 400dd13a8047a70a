"""RMSNorm with and without the residual addition."""

import pytest
import torch

from kernels import ops, reference
from tests.kernels.truth import DEVICE, DTYPES, assert_as_good_as_torch, fp64, random

EPS = 1e-5


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("rows, size", [(0, 64), (1, 1), (1, 100), (63, 384), (100, 37)])
def test_norm_is_as_exact_as_torch(rows, size, dtype):
    hidden, weight = random(rows, size, seed=0, dtype=dtype), random(size, seed=1, dtype=dtype)
    got = ops.rms_norm(hidden, weight, EPS, "triton")
    plain = reference.rms_norm(hidden, weight, EPS)
    assert_as_good_as_torch(got, plain, reference.rms_norm(*fp64(hidden, weight), EPS))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("rows, size", [(0, 64), (1, 100), (63, 384), (100, 37)])
def test_addition_and_norm_are_as_exact_as_torch(rows, size, dtype):
    hidden, branch = (random(rows, size, seed=seed, dtype=dtype) for seed in (0, 1))
    weight = random(size, seed=2, dtype=dtype)
    before = hidden.clone()
    total, normed = ops.add_rms_norm(hidden, branch, weight, EPS, "triton")
    assert torch.equal(hidden, before)
    # the sum is one rounding, so it is torch's to the bit
    assert torch.equal(total, hidden + branch)
    plain = reference.add_rms_norm(hidden, branch, weight, EPS)[1]
    truth = reference.add_rms_norm(*fp64(hidden, branch, weight), EPS)[1]
    assert_as_good_as_torch(normed, plain, truth)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("parts", [1, 2, 5])
def test_parts_of_a_split_product_are_added_up(parts, dtype):
    hidden, weight = random(7, 40, seed=0, dtype=dtype), random(40, seed=1, dtype=dtype)
    branch = random(parts, 7, 40, seed=2, dtype=torch.float32)
    total, normed = ops.add_rms_norm(hidden, branch, weight, EPS, "triton")
    plain = reference.add_rms_norm(hidden, branch, weight, EPS)
    truth = reference.add_rms_norm(*fp64(hidden, branch, weight), EPS)
    assert_as_good_as_torch(total, plain[0], truth[0])
    assert_as_good_as_torch(normed, plain[1], truth[1])


@pytest.mark.parametrize("rows", [[], [4], [6, 0, 0, 3]])
@pytest.mark.parametrize("impl", ["torch", "triton"])
def test_only_the_asked_rows_come_out_in_their_order(rows, impl):
    hidden, branch = (random(7, 40, seed=seed, dtype=torch.float32) for seed in (0, 1))
    weight = random(40, seed=2, dtype=torch.float32)
    asked = torch.tensor(rows, dtype=torch.int64, device=DEVICE)
    some = ops.add_rms_norm(hidden, branch, weight, EPS, impl, rows=asked)
    every = ops.add_rms_norm(hidden, branch, weight, EPS, impl)
    for got, expected in zip(some, every, strict=True):
        assert torch.equal(got, expected[rows])


def test_the_sum_is_rounded_before_it_is_normed():
    # 2048 + 1 is 2048 in fp16 (a tie, to even), so both numbers of the row are equal: norm 1, 1
    hidden = torch.tensor([[2048.0, 2048.0]], dtype=torch.float16, device=DEVICE)
    branch = torch.tensor([[1.0, 0.0]], dtype=torch.float16, device=DEVICE)
    weight = torch.ones(2, dtype=torch.float16, device=DEVICE)
    total, normed = ops.add_rms_norm(hidden, branch, weight, 0.0, "triton")
    assert total.tolist() == [[2048.0, 2048.0]]
    assert normed.tolist() == [[1.0, 1.0]]


def test_the_normed_value_is_rounded_before_the_weight():
    # root mean square of 1, 7 is 5; 0.2 is 0.19995117 in fp16, times 3 the tie 1228.5 / 2048, so
    # 1228 / 2048; unrounded it would be 0.6, that is 1229 / 2048
    hidden = torch.tensor([[1.0, 7.0]], dtype=torch.float16, device=DEVICE)
    weight = torch.tensor([3.0, 1.0], dtype=torch.float16, device=DEVICE)
    normed = ops.rms_norm(hidden, weight, 0.0, "triton")
    assert normed[0, 0].item() == 1228 / 2048


def test_rows_may_be_a_part_of_wider_rows():
    wide = random(5, 48, seed=0, dtype=torch.float32)
    weight = random(16, seed=1, dtype=torch.float32)
    got = ops.rms_norm(wide[:, 16:32], weight, EPS, "triton")
    torch.testing.assert_close(got, reference.rms_norm(wide[:, 16:32], weight, EPS))


def test_an_unaligned_start_and_a_step_between_columns_are_refused():
    base = random(4, 33, seed=0, dtype=torch.float32)
    weight = random(16, seed=1, dtype=torch.float32)
    with pytest.raises(ValueError, match="multiple of 16 bytes"):
        ops.rms_norm(base[:, 1:17], weight, EPS, "triton")
    with pytest.raises(ValueError, match="stride 1"):
        ops.rms_norm(base[:, :32:2], weight, EPS, "triton")
    with pytest.raises(ValueError, match="use impl='torch'"):
        ops.rms_norm(base.double(), random(33, seed=1, dtype=torch.float64), EPS, "triton")

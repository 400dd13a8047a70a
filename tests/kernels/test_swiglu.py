"""silu(gate) * up, alone and inside the feed-forward."""

import math

import pytest
import torch
import torch.nn.functional as F

from kernels import ops, reference, swiglu
from tests.kernels.truth import DEVICE, DTYPES, assert_as_good_as_torch, fp64, random


def plain(gate_up):
    gate, up = gate_up.chunk(2, dim=-1)
    return F.silu(gate) * up


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("rows, size", [(0, 8), (1, 1), (1, 1025), (63, 100), (100, 37)])
def test_product_is_as_exact_as_torch(rows, size, dtype):
    gate_up = random(rows, 2 * size, seed=0, dtype=dtype, scale=3.0)
    truth = plain(*fp64(gate_up))
    assert_as_good_as_torch(swiglu.swiglu(gate_up), plain(gate_up), truth)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_feed_forward_is_as_exact_as_torch(dtype):
    hidden = random(63, 48, seed=0, dtype=dtype)
    gate_up = random(2 * 80, 48, seed=1, dtype=dtype, scale=0.2)
    down = random(48, 80, seed=2, dtype=dtype, scale=0.2)
    got = ops.swiglu(hidden, gate_up, down, "triton")
    truth = reference.swiglu(*fp64(hidden, gate_up, down))
    assert_as_good_as_torch(got, reference.swiglu(hidden, gate_up, down), truth)


def test_far_gates_neither_overflow_nor_vanish():
    # silu(-80) = -80 / (1 + e^80) and silu(80) = 80
    gate_up = torch.tensor([[-80.0, 80.0, 2.0, 2.0]], device=DEVICE)
    out = swiglu.swiglu(gate_up)[0].tolist()
    assert out == pytest.approx([-160 / (1 + math.exp(80)), 160.0], rel=1e-5)

"""Projection, head norms, rotation and the cache write by both routes, against fp64."""

import math

import pytest
import torch

from kernels import fused_qkv, ops
from kernels.contract import architecture
from kernels.reference import HeadNorms
from tests.kernels.truth import DEVICE, DTYPES, HAS_GPU, assert_as_good_as_torch, fp64, random

D_MODEL, POSITIONS = 48, 300
ROUTES = ["rope_cache", "fused_qkv"]
WAYS = [("torch", "auto"), ("triton", "rope_cache"), ("triton", "fused_qkv")]
# the table's tiles for this device; in the interpreter, which takes any, those of all devices
TILES = sorted({
    tile
    for known, tiles in fused_qkv.TILES.items()
    if not HAS_GPU or known == architecture(DEVICE)
    for tile in tiles
})


def tables(head_dim):
    exponent = torch.arange(0, head_dim, 2).double() / head_dim
    angle = torch.outer(torch.arange(POSITIONS).double(), 1e4**-exponent)
    return angle.cos().float().to(DEVICE), angle.sin().float().to(DEVICE)


class Case:
    """Inputs; every third row from the second on is dropped."""

    def __init__(self, rows, heads, kv_heads, head_dim, dtype, has_bias=False, has_norms=False):
        self.heads, self.kv_heads, self.dtype = heads, kv_heads, dtype
        width = (heads + 2 * kv_heads) * head_dim
        self.hidden = random(rows, D_MODEL, seed=0, dtype=dtype)
        self.weight = random(width, D_MODEL, seed=1, dtype=dtype, scale=D_MODEL**-0.5)
        self.bias = random(width, seed=2, dtype=dtype) if has_bias else None
        self.norms = None
        if has_norms:
            q, k = (random(head_dim, seed=seed, dtype=dtype) for seed in (3, 4))
            self.norms = HeadNorms(q, k, 1e-6)
        self.cos, self.sin = tables(head_dim)
        generator = torch.Generator().manual_seed(5)
        self.positions = torch.randint(POSITIONS, (rows,), generator=generator)
        self.slots = torch.randperm(2 * rows + 3, generator=generator)[:rows]
        self.slots[1::3] = -1
        self.cache = torch.full((2 * rows + 3, kv_heads, head_dim), math.nan)

    def run(self, impl, route="auto", is_truth=False):
        """(q, keys, values); the truth runs in fp64 on the CPU."""
        hidden, weight, bias = self.hidden, self.weight, self.bias
        cos, sin, norms = self.cos, self.sin, self.norms
        device, dtype = DEVICE, self.dtype
        if is_truth:
            device, dtype = torch.device("cpu"), torch.float64
            hidden, weight, bias, cos, sin = fp64(hidden, weight, bias, cos, sin)
            norms = norms and HeadNorms(*fp64(norms.q, norms.k), norms.eps)
        keys, values = (self.cache.to(device, dtype, copy=True) for _ in range(2))
        q = ops.project_and_cache(
            hidden, weight, bias, norms, cos, sin, self.positions.to(device),
            self.slots.to(device), keys, values, self.heads, impl, route,
        )
        return q, keys, values


def assert_case(case, route):
    got, plain = case.run("triton", route), case.run("torch")
    truth = case.run("torch", is_truth=True)
    assert_as_good_as_torch(got[0], plain[0], truth[0])
    written = case.slots[case.slots >= 0].tolist()
    others = sorted(set(range(len(case.cache))) - set(written))
    for cache, plain_cache, true_cache in zip(got[1:], plain[1:], truth[1:], strict=True):
        assert_as_good_as_torch(cache[written], plain_cache[written], true_cache[written])
        # poisoned neighbours, the last slot among them, stay as they were
        assert cache[others].isnan().all() and plain_cache[others].isnan().all()


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("rows", [0, 1, 63, 100])
def test_q_and_cache_are_as_exact_as_torch(rows, dtype, route):
    assert_case(Case(rows, 4, 2, 16, dtype), route)


@pytest.mark.parametrize("rows", [144, fused_qkv.FEW_ROWS + 1])
def test_rows_in_a_main_tile_with_a_tail_and_in_many_blocks(rows):
    assert_case(Case(rows, 2, 1, 16, torch.float16), "fused_qkv")


@pytest.mark.parametrize("heads, kv_heads, head_dim", [(1, 1, 2), (9, 3, 24)])
def test_odd_head_sizes(heads, kv_heads, head_dim):
    assert_case(Case(5, heads, kv_heads, head_dim, torch.float32), "rope_cache")


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("heads, kv_heads, head_dim", [(1, 1, 16), (6, 6, 64), (8, 1, 128)])
def test_grouped_heads(heads, kv_heads, head_dim, route):
    assert_case(Case(5, heads, kv_heads, head_dim, torch.float32), route)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("has_bias, has_norms", [(True, False), (False, True), (True, True)])
def test_bias_and_head_norms(has_bias, has_norms, dtype, route):
    assert_case(Case(20, 4, 2, 32, dtype, has_bias, has_norms), route)


@pytest.mark.parametrize("tile", TILES, ids=str)
def test_every_tile_of_the_single_kernel(tile):
    dtype = torch.float16
    case = Case(70, 2, 1, 32, dtype)
    keys, values = (case.cache.to(DEVICE, dtype, copy=True) for _ in range(2))
    q = fused_qkv.fused_qkv(
        case.hidden, case.weight, None, None, case.cos, case.sin, case.positions.to(DEVICE),
        case.slots.to(DEVICE), keys, values, 2, tile,
    )
    plain, truth = case.run("torch"), case.run("torch", is_truth=True)
    assert_as_good_as_torch(q, plain[0], truth[0])
    written = case.slots[case.slots >= 0].tolist()
    assert_as_good_as_torch(values[written], plain[2][written], truth[2][written])


def test_the_single_kernel_refuses_other_head_sizes():
    with pytest.raises(ValueError, match="powers of two from 16 on, got 24"):
        Case(5, 9, 3, 24, torch.float32).run("triton", "fused_qkv")


@pytest.mark.parametrize("impl, route", WAYS)
def test_rows_that_are_all_dropped_write_nothing_and_still_give_q(impl, route):
    case = Case(4, 4, 2, 16, torch.float32)
    case.slots[:] = -1
    case.cache = torch.arange(11.0)[:, None, None].repeat(1, 2, 16)
    q, keys, values = case.run(impl, route)
    assert q.isfinite().all()
    assert torch.equal(keys.cpu(), case.cache) and torch.equal(values.cpu(), case.cache)


@pytest.mark.parametrize("impl", ["torch", "triton"])
def test_a_quarter_turn_by_position(impl):
    # position 1 turns by 90 degrees, position 0 not at all; v never turns
    hidden = torch.eye(2, 4, device=DEVICE)
    weight = torch.zeros(12, 4, device=DEVICE)
    weight[:, 0] = torch.arange(1.0, 13.0)
    weight[:, 1] = torch.arange(1.0, 13.0)
    cos = torch.tensor([[1.0, 1.0], [0.0, 0.0]], device=DEVICE)
    sin = torch.tensor([[0.0, 0.0], [1.0, 1.0]], device=DEVICE)
    keys, values = torch.zeros(2, 3, 1, 4, device=DEVICE).unbind(0)
    q = ops.project_and_cache(
        hidden, weight, None, None, cos, sin, torch.tensor([1, 0], device=DEVICE),
        torch.tensor([2, 0], device=DEVICE), keys, values, 1, impl,
    )
    assert q[:, 0].tolist() == [[-3, -4, 1, 2], [1, 2, 3, 4]]
    assert keys[:, 0].tolist() == [[5, 6, 7, 8], [0, 0, 0, 0], [-7, -8, 5, 6]]
    assert values[:, 0].tolist() == [[9, 10, 11, 12], [0, 0, 0, 0], [9, 10, 11, 12]]


def test_one_layer_of_a_cache_of_all_layers_is_written_alone():
    case = Case(6, 4, 2, 16, torch.float32)
    layers = torch.full((2, 3, *case.cache.shape), math.nan, device=DEVICE)
    ops.project_and_cache(
        case.hidden, case.weight, None, None, case.cos, case.sin, case.positions.to(DEVICE),
        case.slots.to(DEVICE), layers[0, 1], layers[1, 1], 4, "triton",
    )
    _, keys, values = case.run("torch")
    torch.testing.assert_close(layers[0, 1], keys, equal_nan=True)
    torch.testing.assert_close(layers[1, 1], values, equal_nan=True)
    assert layers[:, [0, 2]].isnan().all()

"""Which kernel runs is a look-up: by rows, sizes and architecture, without touching a device."""

import pytest
import torch

from kernels import ops, routes
from kernels.routes import Tile, product_tile, qkv_route
from tests.kernels.truth import random

CPU = torch.device("cpu")


def fake(rows, columns, dtype=torch.bfloat16):
    return torch.empty(rows, columns, dtype=dtype, device="meta")


@pytest.fixture
def measured(monkeypatch):
    """Two rows of a table for architecture class 90, and a device of that class."""
    monkeypatch.setattr(routes, "architecture", lambda device: 90)
    few, more = Tile(splits=4), Tile(splits=2)
    monkeypatch.setitem(routes.PRODUCT_TILES, 90, {(128, 64, 32): more, (32, 64, 32): few})
    monkeypatch.setitem(routes.GATED_TILES, 90, {})
    monkeypatch.setitem(routes.FUSED_QKV_ROWS, 90, 100)
    return few, more


def test_the_first_entry_that_holds_the_rows_is_taken(measured):
    few, more = measured
    found = [product_tile(rows, fake(64, 32)) for rows in (1, 32, 33, 128, 129)]
    assert found == [few, few, more, more, None]


def test_other_sizes_fp32_and_no_rows_take_the_library(measured):
    assert product_tile(16, fake(65, 32)) is None
    assert product_tile(16, fake(64, 32, torch.float32)) is None
    assert product_tile(0, fake(64, 32)) is None
    assert product_tile(16, fake(64, 32), is_gated=True) is None


def test_the_qkv_route_follows_the_table_unless_it_is_asked_for(measured):
    found = [qkv_route(rows, 64, CPU) for rows in (1, 100, 101)]
    assert found == ["fused_qkv", "fused_qkv", "rope_cache"]
    assert qkv_route(1, 64, CPU, "rope_cache") == "rope_cache"
    assert qkv_route(101, 64, CPU, "fused_qkv") == "fused_qkv"
    # a head size that the single kernel can't hold
    assert qkv_route(1, 24, CPU) == "rope_cache"


def test_an_unknown_route_is_refused():
    with pytest.raises(ValueError, match="must be one of auto, rope_cache, fused_qkv"):
        qkv_route(1, 64, CPU, "cublas")


def test_a_product_through_its_table_equals_the_library(monkeypatch):
    monkeypatch.setattr(routes, "product_tile", lambda *_, is_gated=False: Tile(block_n=64))
    hidden = random(5, 32, seed=0, dtype=torch.float32)
    gate_up = random(96, 32, seed=1, dtype=torch.float32, scale=0.2)
    down = random(32, 48, seed=2, dtype=torch.float32, scale=0.2)
    torch.testing.assert_close(ops.linear(hidden, gate_up, "triton"), hidden @ gate_up.T)
    torch.testing.assert_close(
        ops.swiglu(hidden, gate_up, down, "triton"), ops.swiglu(hidden, gate_up, down, "torch")
    )


def test_a_split_product_comes_in_parts_only_where_that_is_allowed(monkeypatch):
    def tile(*_, is_gated=False):
        return Tile(block_n=64, block_k=16, splits=1 if is_gated else 2)

    monkeypatch.setattr(routes, "product_tile", tile)
    hidden = random(5, 32, seed=0, dtype=torch.float32)
    gate_up = random(96, 32, seed=1, dtype=torch.float32, scale=0.2)
    down = random(32, 48, seed=2, dtype=torch.float32, scale=0.2)
    expected = ops.swiglu(hidden, gate_up, down, "torch")
    whole = ops.swiglu(hidden, gate_up, down, "triton")
    parts = ops.swiglu(hidden, gate_up, down, "triton", may_split=True)
    assert parts.shape == (2, 5, 32)
    torch.testing.assert_close(whole, expected)
    torch.testing.assert_close(parts.sum(0), expected)

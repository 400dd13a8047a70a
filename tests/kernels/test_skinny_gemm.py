"""Products of few rows: row tiles, splits of K, the gated form, descriptors and pointers."""

import pytest
import torch
import torch.nn.functional as F

from kernels.skinny_gemm import Tile, row_tiles, skinny_gemm, skinny_parts
from tests.kernels.truth import (
    DEVICE,
    DTYPES,
    HAS_GPU,
    HAS_HOPPER,
    assert_as_good_as_torch,
    fp64,
    random,
)

SOURCES = [False, True] if HAS_HOPPER or not HAS_GPU else [False]


def operands(rows, n, k, dtype):
    return random(rows, k, seed=0, dtype=dtype), random(n, k, seed=1, dtype=dtype, scale=k**-0.5)


def gated(hidden, weight):
    gate, up = F.linear(hidden, weight).chunk(2, dim=-1)
    return F.silu(gate) * up


@pytest.mark.parametrize("uses_tma", SOURCES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("rows", [0, 1, 16, 63, 100, 144])
def test_product_is_as_exact_as_torch(rows, dtype, uses_tma):
    hidden, weight = operands(rows, 96, 160, dtype)
    tile = Tile(block_n=64, uses_tma=uses_tma, warps=4)
    truth = F.linear(*fp64(hidden, weight))
    assert_as_good_as_torch(skinny_gemm(hidden, weight, tile), F.linear(hidden, weight), truth)


@pytest.mark.parametrize("uses_tma", SOURCES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("splits", [2, 3, 8])
def test_splits_add_up(splits, dtype, uses_tma):
    # 5 tiles of K over 2, 3 and 8 splits: uneven shares, and shares of nothing
    hidden, weight = operands(40, 72, 320, dtype)
    tile = Tile(block_n=64, splits=splits, uses_tma=uses_tma, warps=4)
    parts = skinny_parts(hidden, weight, tile)
    assert parts.shape == (splits, 40, 72) and parts.dtype == torch.float32
    got = skinny_gemm(hidden, weight, tile)
    total = torch.zeros_like(parts[0])
    for part in parts:
        total += part
    assert torch.equal(got, total.to(dtype))
    assert_as_good_as_torch(got, F.linear(hidden, weight), F.linear(*fp64(hidden, weight)))


@pytest.mark.parametrize("uses_tma", SOURCES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("rows", [0, 1, 63, 144])
def test_gated_product_is_as_exact_as_torch(rows, dtype, uses_tma):
    # halves of 72 columns: the second tile of the gate reaches into the rows of the other half
    hidden, weight = operands(rows, 144, 96, dtype)
    # fp32 takes twice the shared memory: two stages still fit beside 144 rows
    tile = Tile(block_n=64, uses_tma=uses_tma, warps=4, stages=2)
    got = skinny_gemm(hidden, weight, tile, is_gated=True)
    assert_as_good_as_torch(got, gated(hidden, weight), gated(*fp64(hidden, weight)))


def test_columns_behind_the_last_whole_tile_are_counted_once():
    # each product is the number of columns, 72 = 64 + 8
    hidden, weight = torch.ones(3, 72, device=DEVICE), torch.ones(5, 72, device=DEVICE)
    for uses_tma in SOURCES:
        out = skinny_gemm(hidden, weight, Tile(block_n=64, uses_tma=uses_tma, warps=4))
        assert out.tolist() == [[72.0] * 5] * 3


def test_a_split_product_of_one_number():
    # 1 + 2 + … + 64
    hidden = torch.arange(1.0, 65.0, device=DEVICE)[None]
    out = skinny_gemm(hidden, torch.ones_like(hidden), Tile(64, 16, splits=3, warps=4))
    assert out.tolist() == [[64 * 65 / 2]]


def test_row_tiles_hold_the_rows_with_the_least_padding():
    for rows in range(1, 257):
        main, tail = row_tiles(rows)
        assert main + tail >= rows and main >= 16
        assert tail < main
    assert [row_tiles(rows) for rows in (1, 17, 32, 96, 100, 128, 144, 161, 200)] == [
        (16, 0), (32, 0), (32, 0), (64, 32), (128, 0), (128, 0), (128, 16), (128, 64), (256, 0),
    ]  # fmt: skip


def test_what_does_not_fit_is_refused():
    hidden, weight = operands(4, 6, 32, torch.float32)
    with pytest.raises(ValueError, match="at most 256 rows"):
        skinny_gemm(hidden.repeat(65, 1), weight, Tile())
    with pytest.raises(ValueError, match="does not fit weight"):
        skinny_gemm(hidden, weight.half(), Tile())
    with pytest.raises(ValueError, match="one split"):
        skinny_gemm(hidden, weight, Tile(splits=2), is_gated=True)
    with pytest.raises(ValueError, match="multiples of 16 bytes"):
        skinny_gemm(*operands(4, 6, 33, torch.float32), Tile(uses_tma=True))

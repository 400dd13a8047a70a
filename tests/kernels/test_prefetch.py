"""Which bytes are asked for ahead: the first columns of every row, of every split's share."""

import pytest
import torch

from kernels import prefetch, routes
from kernels.prefetch import Hint, first_columns, hint
from kernels.routes import Tile


@pytest.fixture
def weight():
    """64 rows of 1024 columns, 2 bytes each."""
    return torch.zeros(64, 1024, dtype=torch.bfloat16)


def test_each_row_gives_an_equal_part_in_whole_lines(weight):
    # 40 000 bytes over 64 rows are 625 each: 4 lines of 128
    assert first_columns(weight, 16, 40_000) == Hint(weight, 64, 1, 2048, 2048, 512)


def test_no_more_is_asked_for_than_there_is(weight):
    assert first_columns(weight, 16, 10**9) == Hint(weight, 64, 1, 2048, 2048, 2048)


def test_a_split_product_gets_the_first_columns_of_every_share(weight, monkeypatch):
    monkeypatch.setattr(prefetch, "product_tile", lambda rows, weight: Tile(splits=4))
    # shares of 256 columns are 512 bytes; 64 rows times 4 shares get 156 bytes each: one line
    assert first_columns(weight, 16, 40_000) == Hint(weight, 256, 4, 2048, 512, 128)
    # 3 shares of 384 columns overlap the end, so the last would reach into the next row
    monkeypatch.setattr(prefetch, "product_tile", lambda rows, weight: Tile(splits=3))
    assert first_columns(weight, 16, 40_000) is None


def test_too_little_for_one_line_a_row_and_unaligned_rows_ask_for_nothing(weight):
    assert first_columns(weight, 16, 64 * 127) is None
    assert first_columns(weight[:, :1020].contiguous(), 16, 40_000) is None
    assert first_columns(weight.T, 16, 40_000) is None


def test_the_table_decides_by_rows_and_architecture(weight, monkeypatch):
    assert hint(weight, 16) is None  # the CPU has no entry
    monkeypatch.setattr(routes, "architecture", lambda device: 90)
    monkeypatch.setitem(routes.PREFETCHED_BYTES, 90, 40_000)
    assert hint(weight, 16) == first_columns(weight, 16, 40_000)
    assert hint(weight, routes.PREFETCH_ROWS + 1) is None
    assert hint(weight, 0) is None
    assert hint(None, 16) is None

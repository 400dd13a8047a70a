"""Intervals and paired tests, worked out by hand."""

from __future__ import annotations

import pytest

from flash_dllm.evaluation.statistics import mcnemar_p, paired_difference, wilson_interval


def test_wilson_interval_of_eight_in_ten():
    # centre (0.8 + z²/20) / (1 + z²/10) = 0.7167, half-width 0.2266, z = 1.959964
    assert wilson_interval(8, 10) == pytest.approx((0.4902, 0.9433), abs=5e-5)


def test_wilson_interval_of_no_success_starts_at_zero():
    # upper end z² / (n + z²) = 3.8415 / 13.8415
    assert wilson_interval(0, 10) == pytest.approx((0.0, 0.27753), abs=5e-6)


def test_wilson_interval_of_nothing_is_an_error():
    with pytest.raises(ValueError, match="at least one item"):
        wilson_interval(0, 0)


@pytest.mark.parametrize(
    ("only_first", "only_second", "p"),
    # two-sided binomial tails: 2 · 1/32, 2 · (1 + 10) / 1024, and 1 where both agree
    [(0, 5, 0.0625), (1, 9, 22 / 1024), (9, 1, 22 / 1024), (3, 3, 1.0), (0, 0, 1.0)],
)
def test_exact_mcnemar(only_first, only_second, p):
    assert mcnemar_p(only_first, only_second) == pytest.approx(p)


def pairs(both: int, only_first: int, only_second: int, neither: int):
    first = [True] * (both + only_first) + [False] * (only_second + neither)
    second = [True] * both + [False] * only_first + [True] * only_second + [False] * neither
    return first, second


def test_paired_difference_is_newcombes_example():
    # by hand: Wilson (0.8654, 0.9890) and (0.6259, 0.8570), φ = -24 / sqrt(48·2·38·12) = -0.1147,
    # below sqrt(0.0946² + 2·0.1147·0.0946·0.0970 + 0.0970²) = 0.1431, above likewise 0.1404
    result = paired_difference(*pairs(36, 12, 2, 0))
    assert result.difference == pytest.approx(0.2)
    assert (result.low, result.high) == pytest.approx((0.0569, 0.3404), abs=1e-4)
    assert (result.only_first, result.only_second) == (12, 2)
    # 2 · (1 + 14 + 91) / 2^14
    assert result.p == pytest.approx(212 / 16384)


def test_positive_correlation_is_corrected_for_continuity():
    # ad - bc = 20·20 - 5·5 = 375, minus n/2 = 25, over sqrt(25^4) = 625: φ = 0.56; both shares 0.5
    # with Wilson half-width 0.13356: half-width 0.13356 · sqrt(2 - 2 · 0.56) = 0.12529
    result = paired_difference(*pairs(20, 5, 5, 20))
    assert (result.low, result.high) == pytest.approx((-0.12529, 0.12529), abs=1e-5)


def test_equal_answers_still_leave_a_width():
    result = paired_difference(*pairs(10, 0, 0, 0))
    assert result.low == pytest.approx(-0.27753, abs=5e-6)
    assert result.high == pytest.approx(0.27753, abs=5e-6)
    assert result.p == 1.0


def test_pairs_of_unequal_length_are_an_error():
    with pytest.raises(ValueError, match="1 and 2"):
        paired_difference([True], [True, False])

"""Attention mass as the loop gets it: ranked with arrays, equal to the plain ranking."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flash_dllm.query import Mass, Query
from flash_dllm.sampling import rank_mass

# few different values, so that ties are common
SHARES = st.sampled_from([0.0, 1e-6, 2e-6, 0.25, 0.333333, 1.0])


def wanting(decided, top):
    return Query("draft", len(decided), wants_mass=True, decided=bytes(decided), top=top)


@given(st.data())
def test_ranking_with_arrays_equals_ranking_position_by_position(data):
    queries, rows = [], []
    width = data.draw(st.integers(1, 12))
    for _ in range(data.draw(st.integers(1, 3))):
        length = data.draw(st.integers(1, width))
        decided = data.draw(st.lists(st.integers(0, 1), min_size=length, max_size=length))
        rows.append(data.draw(st.lists(SHARES, min_size=width, max_size=width)))
        queries.append(wanting(decided, data.draw(st.integers(0, 14))))
    # a padded sequence behind the real ones
    found = rank_mass(np.array([*rows, [0.0] * width]), queries)
    for query, row, mass in zip(queries, rows, found, strict=True):
        expected = Mass.of(row[: query.length], query.decided, query.top)
        assert list(mass.values) == expected.values
        assert mass.top == expected.top
        assert mass.decided == expected.decided


def test_the_top_by_hand():
    # position 1 is not decided; 0 and 3 are tied, so the lower one stands first
    found = rank_mass(np.array([[0.2, 0.5, 0.1, 0.2]]), [wanting([1, 0, 1, 1], 2)])[0]
    assert found.top == ((0, 0.2), (3, 0.2))
    assert found.decided == 0.5


@pytest.mark.parametrize(("width", "top"), [(300, 7), (1552, 64), (127, 64), (128, 64)])
def test_long_rows_with_many_ties_are_ranked_alike(width, top):
    drawn = np.random.default_rng(0)
    # a few heavy keys, many of one or two millionths, most of none
    mass = drawn.choice([0.0, 1e-6, 2e-6, 0.01, 0.3], (3, width), p=[0.5, 0.3, 0.1, 0.09, 0.01])
    flags = drawn.integers(0, 2, (3, width))
    found = rank_mass(mass, [wanting(row.tolist(), top) for row in flags])
    for values, row, ranked in zip(mass.tolist(), flags.tolist(), found, strict=True):
        assert ranked.top == Mass.of(values, bytes(row), top).top


def test_mass_is_rounded_to_six_digits_and_never_above_one():
    found = rank_mass(np.array([[1.0000004, 0.12345649]], np.float32), [wanting([1, 1], 2)])[0]
    assert found.top == ((0, 1.0), (1, 0.123456)) and list(found.values) == [1.0, 0.123456]


def test_the_heaviest_of_some_positions_are_found_behind_the_ranked_ones_too():
    mass = Mass.of([0.1, 0.2, 0.3, 0.2, 0.2], bytes([1] * 5), top=2)
    assert mass.ranked == [2, 1]
    assert mass.heaviest([4, 3, 2, 0], 3) == (2, 3, 4)
    assert mass.heaviest([0, 4], 5) == (4, 0)
    assert mass.heaviest([1], 0) == mass.heaviest([1], -3) == ()


def test_a_query_that_wants_no_mass_gets_none():
    none = Query("verify", 4)
    found = rank_mass(np.array([[0.1] * 4, [0.2] * 4]), [none, wanting([1, 1, 0, 0], 1)])
    assert found[0] is None and found[1].top == ((0, 0.2),)
    assert rank_mass(np.zeros((0, 0)), [none]) == [None]

"""HeadKV: the pool by hand, its conservation, the released floor, rounding and truncation."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvaudit.policies import headkv

IMPORTANCES = [Fraction(text) for text in ("0.05", "0.35", "0.25", "0.1", "0.2", "0.05")]


def test_targets_by_hand():
    """b = 2, beta = 2: a base of one row, and a pool of six shared out by importance."""
    expected = ("1.3", "3.1", "2.5", "1.6", "2.2", "1.3")
    assert headkv.owner_targets(IMPORTANCES, 2, 2) == tuple(map(Fraction, expected))


@given(st.lists(st.integers(0, 50), min_size=1, max_size=30).filter(any), st.integers(0, 100), st.data())
def test_targets_conserve_and_keep_the_base(parts, mean, data):
    beta = data.draw(st.fractions(1, 20, max_denominator=10))
    targets = headkv.owner_targets([Fraction(part, sum(parts)) for part in parts], mean, beta)
    assert sum(targets) == mean * len(parts)
    assert min(targets) >= mean - mean / beta


def test_a_larger_beta_means_a_smaller_pool():
    spreads = [
        max(targets) - min(targets) for targets in (headkv.owner_targets(IMPORTANCES, 8, beta) for beta in (1, 2, 8))
    ]
    assert spreads == sorted(spreads, reverse=True)


def test_beta_below_one_is_refused():
    with pytest.raises(ValueError, match=r"negative"):
        headkv.owner_targets(IMPORTANCES, 2, Fraction(1, 2))


def test_released_rounding_loses_a_row():
    """1.3, 3.1, 2.5, 1.6, 2.2, 1.3 rounded half to even: 11 of 12 rows."""
    found = headkv.pinned_owner_capacities(IMPORTANCES, 2, 2, 6)
    assert found.rounded == found.truncated == (1, 3, 2, 2, 2, 1)


def test_released_floor_of_the_pool():
    """b / beta = 11 / 4 = 2.75 is floored to 2: a base of 9, and 2 * 2 rows in the pool; unfloored it were 14 and 8."""
    assert headkv.pinned_owner_capacities([1, 0], 11, 4, 99).rounded == (13, 9)


def test_released_capacities_above_the_prefix_are_cut():
    found = headkv.pinned_owner_capacities([Fraction("0.9"), Fraction("0.1")], 10, Fraction("1.25"), 12)
    assert (found.rounded, found.truncated) == ((16, 4), (12, 4))

"""Scissorhands against the table of 0x06I, its printed pseudocode, and plain counting."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvaudit.policies import scissorhands
from kvaudit.policies.scissorhands import AttentionRow

HISTORY = [
    AttentionRow(3, dict(enumerate(map(Fraction, ("0.1", "0.4", "0.35", "0.15"))))),
    AttentionRow(4, dict(enumerate(map(Fraction, ("0.05", "0.35", "0.3", "0.2", "0.1"))))),
    AttentionRow(5, dict(enumerate(map(Fraction, ("0.1", "0.3", "0.15", "0.1", "0.2", "0.15"))))),
]


def test_the_table_of_the_specification():
    counts = scissorhands.low_score_counts(range(6), HISTORY, 6)
    assert counts == (3, 0, 1, 2, 1, 1)
    assert scissorhands.compress(range(6), counts, 2, 2) == (1, 2, 4, 5)
    assert scissorhands.compress_as_printed(range(6), counts, 2, 2) == (0, 1, 2, 3)


def test_an_absent_position_is_not_a_low_one():
    """Position 5 is in one row only. Written as 0.0 in the two rows before it existed, it would count three times."""
    padded = [AttentionRow(row.query_position, {**dict.fromkeys(range(6), 0), **row.weights}) for row in HISTORY]
    assert scissorhands.low_score_counts([5], HISTORY, 6) == (1,)
    assert scissorhands.low_score_counts([5], padded, 6) == (3,)


def test_the_baseline_is_strict():
    row = AttentionRow(3, dict.fromkeys(range(4), Fraction(1, 4)))
    assert scissorhands.low_score_counts(range(4), [row], 4) == (0, 0, 0, 0)


def test_a_baseline_per_step_counts_otherwise():
    """0.2 is low among 4 rows, and not low by the baseline 1/6 of the compression."""
    row = AttentionRow(3, {0: Fraction("0.2"), 1: Fraction("0.8")})
    assert scissorhands.low_score_counts_per_step([0, 1], [row]) == (1, 0)
    assert scissorhands.low_score_counts([0, 1], [row], 6) == (0, 0)


@pytest.mark.parametrize("budget", range(1, 6))
@pytest.mark.parametrize("recent", range(4))
def test_drop_limits_are_exactly_what_ends_within_the_budget_and_spares_the_recents(budget, recent):
    n = 6
    least, largest = scissorhands.drop_limits(n, budget, recent)
    legal = [m for m in range(1, n + 1) if n - m <= budget and m <= n - recent]
    assert [m for m in range(1, n + 1) if least <= m <= largest] == legal
    assert all(0 < m <= n - budget + m for m in range(1, n + 1))  # the printed bound excludes no m


@given(st.lists(st.integers(0, 3), min_size=3, max_size=8), st.integers(0, 2), st.data())
def test_compress_by_repeated_removal(counts, recent, data):
    """Removing m rows at once is removing one m times: largest count first, lowest position among equals."""
    drop = data.draw(st.integers(1, len(counts) - recent))
    left = list(range(len(counts)))
    for _ in range(drop):
        history = left[: len(left) - recent]
        worst = max(counts[p] for p in history)
        left.remove(next(p for p in history if counts[p] == worst))
    assert scissorhands.compress(range(len(counts)), counts, recent, drop) == tuple(left)


def test_coverage():
    def pivotal(threshold):
        return [scissorhands.pivotal(row, Fraction(threshold)) for row in HISTORY]

    *earlier, later = pivotal("0.19")
    assert (earlier, later) == ([{1, 2}, {1, 2, 3}], {1, 4})
    assert scissorhands.coverage(earlier, later) == Fraction(1, 2)
    *earlier, later = pivotal("0.3")  # the threshold itself is not above the threshold
    assert later == set()
    assert scissorhands.coverage(earlier, later) is None


def test_a_layer_budget_is_split_evenly():
    assert scissorhands.owner_budget(24, 8) == 3
    with pytest.raises(ValueError, match="25 rows do not divide over 8 owners"):
        scissorhands.owner_budget(25, 8)

"""Rows whose score travels with them: hand tables, and laws that any gather and partition must keep."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvaudit.policies import retention
from kvaudit.policies.retention import Rows

scores = st.lists(st.integers(0, 9).map(lambda n: Fraction(n, 10)), min_size=1, max_size=9)
widths = st.integers(0, 5)


def rows_of(values):
    return Rows(tuple(range(0, 3 * len(values), 3)), tuple(values))


def test_the_seven_phases_follow_one_another():
    names = []
    while (phase := retention.next_phase(len(names))) is not None:
        names.append(phase)
    assert names == ["append", "attend", "score", "protect", "select", "gather", "publish"]


def test_a_new_row_carries_no_score():
    candidate = Rows((0, 2, 3), (4, 5, 6)).appended([7, 8])
    assert candidate == Rows((0, 2, 3, 7, 8), (4, 5, 6, 0, 0))
    assert retention.carried_rows([0, 2, 3], candidate.positions) == [0, 1, 2, None, None]


def test_the_gather_of_0x06j():
    """[0,2,3,4,5] compacted to [0,3,4,5] gathers packed rows [0,2,3,4], not the positions."""
    assert retention.packed_rows([0, 2, 3, 4, 5], [0, 3, 4, 5]) == [0, 2, 3, 4]
    assert Rows((0, 2, 3, 4, 5), (10, 12, 13, 14, 15)).gathered([0, 2, 3, 4]) == Rows((0, 3, 4, 5), (10, 13, 14, 15))


@pytest.mark.parametrize(("width", "expected"), [(0, ()), (1, (9,)), (2, (5, 9)), (3, (1, 5, 9)), (7, (1, 5, 9))])
def test_recent_counts_from_the_newest_and_zero_protects_none(width, expected):
    assert retention.recent((1, 5, 9), width) == expected


@given(scores, widths, widths)
def test_the_partition_by_its_definition(values, largest, recent):
    """No historical row that left has a larger score than one that stayed, nor an equal one at a lower position."""
    rows = rows_of(values)
    kept = retention.largest_and_recent(rows, largest, recent)
    by_position = dict(zip(rows.positions, rows.scores, strict=True))
    assert list(kept) == sorted(set(kept))
    assert len(kept) == min(len(values), largest + recent)
    newest = rows.positions[len(values) - min(recent, len(values)) :]
    assert set(newest) <= set(kept)
    if len(values) > largest + recent:
        left = set(rows.positions) - set(kept)
        for stayed in set(kept) - set(newest):
            assert all((by_position[stayed], -stayed) > (by_position[gone], -gone) for gone in left)


@pytest.mark.parametrize(
    ("reduction", "expected"),
    [("sum", (4, Fraction(3, 2))), ("mean", (2, Fraction(3, 4))), ("max", (3, 1))],
)
def test_reductions_over_query_heads(reduction, expected):
    assert retention.reduced([[1, 1], [3, Fraction(1, 2)]], reduction) == expected


def test_without_a_reduction_there_is_one_query_head():
    assert retention.reduced([[1, 2]], None) == (1, 2)


def test_the_reduction_decides_which_row_stays():
    heads = [[6, 0, 4], [0, 5, 4]]
    largest = {
        name: retention.largest_and_recent(rows_of(retention.reduced(heads, name)), 1, 0) for name in ("sum", "max")
    }
    assert largest == {"sum": (6,), "max": (0,)}


def test_a_row_gets_nothing_from_queries_before_it():
    assert retention.summed_over_queries([[1], [2, 3], [4, 5, 6]], 3) == (7, 8, 6)

"""Ada-KV: global top-B by brute force, ties, the safeguard, the bound over random cases, the released rounding."""

from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvaudit.policies import adakv

score_tables = st.integers(1, 5).flatmap(
    lambda positions: st.lists(
        st.lists(st.integers(0, 4), min_size=positions, max_size=positions), min_size=1, max_size=4
    )
)


@given(score_tables, st.data())
def test_the_winners_hold_the_largest_sum_of_any_set(scores, data):
    cells = [(head, position) for head, row in enumerate(scores) for position in range(len(row))]
    budget = data.draw(st.integers(0, min(5, len(cells))))
    winners = adakv.global_top_b(scores, budget)
    best = max(sum(scores[h][p] for h, p in subset) for subset in combinations(cells, budget))
    assert sum(scores[head][position] for head, position in winners) == best
    # Of all sets with this sum, ties by head and then position give the first in the order of cells.
    ties = [s for s in combinations(cells, budget) if sum(scores[h][p] for h, p in s) == best]
    assert tuple(sorted(winners)) == min(ties)
    counts = adakv.raw_counts(scores, budget)
    assert counts == tuple(sum(head == owner for owner, _ in winners) for head in range(len(scores)))


@given(st.lists(st.lists(st.integers(0, 10**9), min_size=4, max_size=4), min_size=2, max_size=5), st.data())
def test_permuting_heads_with_distinct_scores_permutes_the_counts(scores, data):
    distinct = [[row[p] * 100 + 10 * h + p for p in range(4)] for h, row in enumerate(scores)]
    order = data.draw(st.permutations(range(len(distinct))))
    budget = data.draw(st.integers(0, 4 * len(distinct)))
    counts = adakv.raw_counts(distinct, budget)
    assert adakv.raw_counts([distinct[head] for head in order], budget) == tuple(counts[head] for head in order)


def test_ties_go_to_the_lowest_head_then_position():
    assert adakv.global_top_b([[1, 2, 1], [2, 1, 1]], 4) == ((0, 1), (1, 0), (0, 0), (0, 2))
    assert adakv.tied_at_cut([[1, 2, 1], [2, 1, 1]], 4)
    assert not adakv.tied_at_cut([[1, 2, 1], [2, 1, 1]], 2)
    assert not adakv.tied_at_cut([[1, 1]], 2)
    assert not adakv.tied_at_cut([[1, 1]], 0)
    with pytest.raises(ValueError, match=r"exceeds the 2 candidates"):
        adakv.global_top_b([[1, 1]], 3)


def test_safeguard_by_hand():
    assert adakv.safeguarded_targets([2, 4], Fraction("0.75")) == (Fraction("2.25"), Fraction("3.75"))
    assert adakv.safeguarded_targets([2, 0], Fraction("0.75")) == (Fraction("1.75"), Fraction("0.25"))
    assert adakv.safeguarded_targets([6, 2], 0) == (4, 4)
    assert adakv.safeguarded_targets([6, 2], 1) == (6, 2)


@st.composite
def attention_cases(draw):
    heads, positions, channels = draw(st.integers(1, 3)), draw(st.integers(1, 4)), draw(st.integers(1, 3))
    weights = []
    for _ in range(heads):
        parts = draw(st.lists(st.integers(0, 9), min_size=positions, max_size=positions).filter(any))
        weights.append([Fraction(part, sum(parts)) for part in parts])
    value = st.lists(st.integers(-9, 9), min_size=channels, max_size=channels)
    projected = draw(st.lists(st.lists(value, min_size=positions, max_size=positions), min_size=heads, max_size=heads))
    retained = [draw(st.lists(st.integers(0, positions - 1), unique=True)) for _ in range(heads)]
    return weights, projected, retained


def output(weights, projected, retained, renormalise):
    """A plain second way to y^: add up every retained row under its weight."""
    total = [Fraction(0)] * len(projected[0][0])
    for row, values, kept in zip(weights, projected, retained, strict=True):
        mass = sum(row[position] for position in kept)
        for position in kept:
            weight = row[position] / mass if renormalise and mass else row[position]
            total = [each + weight * channel for each, channel in zip(total, values[position], strict=True)]
    return total


@given(attention_cases())
def test_the_bound_holds_and_so_does_half_of_it_for_dense_weights(case):
    weights, projected, retained = case
    found = adakv.output_bound(weights, projected, retained)
    dense = output(weights, projected, [range(len(row)) for row in weights], renormalise=False)
    for renormalise, difference in ((True, found.difference), (False, found.dense_difference)):
        kept = output(weights, projected, retained, renormalise)
        assert difference == sum(abs(one - other) for one, other in zip(dense, kept, strict=True))
    assert found.difference <= found.bound
    assert 2 * found.dense_difference <= found.bound


def test_the_factor_two_is_needed():
    """Weights .5/.5, values +1 and -1, one row kept: 0 becomes 1, and 2 H C (1 - .5) = 1 is met with equality."""
    found = adakv.output_bound([[Fraction(1, 2)] * 2], [[[1], [-1]]], [[0]])
    assert (found.largest_row_norm, found.retained_mass) == (1, Fraction(1, 2))
    assert found.difference == found.bound == 1
    assert 2 * found.dense_difference == 1


# base, winners, floor share, capacities: the released rounding, restated and run in torch.
GOLDEN = [
    (3, [5, 3, 1], "0.2", (4, 2, 1)),
    (3, [5, 3, 1], "0.5", (4, 2, 2)),
    (4, [7, 3, 3, 3], "0.2", (6, 2, 2, 2)),
    (4, [7, 3, 3, 3], "0.5", (6, 4, 4, 4)),
    (5, [7, 4, 4], "0.2", (7, 4, 4)),
    (5, [7, 4, 4], "0.5", (6, 4, 4)),
    (4, [6, 2], "0.2", (5, 2)),
    (4, [6, 2], "0.8", (4, 3)),
]


@pytest.mark.parametrize(("base", "winners", "share", "capacities"), GOLDEN)
def test_released_rounding(base, winners, share, capacities):
    assert adakv.pinned_head_capacities(base, winners, Fraction(share)) == capacities


def test_kvpress_protects_a_share_of_every_head_first():
    assert adakv.kvpress_retained([[9, 8, 7, 6], [1, 2, 3, 4]], 2, Fraction("0.5")) == ((0, 1, 2), (3,))
    assert adakv.kvpress_retained([[9, 8, 7, 6], [1, 2, 3, 4]], 2, 0) == ((0, 1, 2, 3), ())
    assert adakv.kvpress_retained([[9, 8, 7, 6], [1, 2, 3, 4]], 2, 1) == ((0, 1), (2, 3))


@given(score_tables, st.fractions(0, 1, max_denominator=10), st.data())
def test_kvpress_keeps_heads_times_rows(scores, safeguard, data):
    rows = data.draw(st.integers(0, len(scores[0])))
    retained = adakv.kvpress_retained(scores, rows, safeguard)
    assert sum(map(len, retained)) == rows * len(scores)
    assert min(map(len, retained)) >= int(rows * safeguard)

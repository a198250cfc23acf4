"""ZigZagKV: minimum budgets against a search over all subsets, thresholds that are reached exactly, the targets."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kvaudit.policies import zigzagkv


def decimals(*texts):
    return [Fraction(text) for text in texts]


@st.composite
def rows(draw):
    parts = draw(st.lists(st.integers(0, 9), min_size=1, max_size=6).filter(any))
    return [Fraction(part, sum(parts)) for part in parts]


shares = st.fractions(Fraction(1, 20), 1, max_denominator=20)


@given(rows(), shares)
def test_no_smaller_set_reaches_the_share(weights, share):
    budget = zigzagkv.minimum_budget_of_attention(weights, share)
    reached = [n for n in range(1, len(weights) + 1) if any(sum(s) >= share for s in combinations(weights, n))]
    assert budget == reached[0]


@pytest.mark.parametrize(
    ("weights", "share", "budget"),
    [
        (["0.5", "0.3", "0.1", "0.1"], "0.8", 2),  # reached exactly
        (["0.5", "0.3", "0.1", "0.1"], "0.81", 3),
        (["0.7", "0.1", "0.1", "0.1"], "0.9", 3),  # 0.8999999999999999 in binary64
        (["0.25"] * 4, "0.00000001", 1),  # never nothing
        (["0.1", "0.2", "0.7"], "1", 3),
        (["0", "1", "0"], "1", 1),
    ],
)
def test_thresholds(weights, share, budget):
    assert zigzagkv.minimum_budget_of_attention(decimals(*weights), Fraction(share)) == budget


@given(rows(), st.data())
def test_output_budget_against_float64(weights, data):
    channel = st.integers(-5, 5)
    values = data.draw(
        st.lists(st.lists(channel, min_size=2, max_size=2), min_size=len(weights), max_size=len(weights))
    )
    budget = zigzagkv.minimum_budget_of_output(weights, values, Fraction("0.95"))
    table, mass = np.array(values, dtype=float), np.array([float(weight) for weight in weights])
    full = mass @ table
    if budget is None:
        assert np.allclose(full, 0, atol=1e-12)
        return
    order = np.argsort(-mass, kind="stable")
    cosines = []
    for n in range(1, len(weights) + 1):
        partial = mass[order[:n]] @ table[order[:n]]
        size = np.linalg.norm(partial) * np.linalg.norm(full)
        cosines.append(partial @ full / size if size > 1e-12 else -1.0)
    assume(all(abs(cosine - 0.95) > 1e-9 for cosine in cosines))
    assert budget == next(n for n, cosine in enumerate(cosines, start=1) if cosine >= 0.95)


def test_output_budget_by_hand():
    weights = decimals("0.5", "0.3", "0.2")
    assert zigzagkv.minimum_budget_of_output(weights, [[1, 0], [0, 0], [0, 1]], Fraction(1)) == 3
    # (0.5, 0) against (0.5, 0.2): cosine 0.928; a row of zeros turns nothing.
    assert zigzagkv.minimum_budget_of_output(weights, [[1, 0], [0, 0], [0, 1]], Fraction("0.92")) == 1
    assert zigzagkv.minimum_budget_of_output(weights, [[1, 0], [0, 0], [0, 1]], Fraction("0.93")) == 3
    # The first row points the other way: a squared cosine alone would accept it.
    assert zigzagkv.minimum_budget_of_output(weights, [[-1, 0], [4, 0], [0, 0]], Fraction(1)) == 2
    assert zigzagkv.minimum_budget_of_output(decimals("0.5", "0.5"), [[1], [-1]], Fraction("0.9")) is None


def test_targets_by_hand():
    assert zigzagkv.layer_mean([7, 5]) == 6
    assert zigzagkv.layer_mean([1, 2]) == Fraction(3, 2)
    assert zigzagkv.shares([6, 4, 2]) == (Fraction(1, 2), Fraction(1, 3), Fraction(1, 6))
    assert zigzagkv.layer_targets([6, 4, 2], 4, 1) == (Fraction(11, 2), 4, Fraction(5, 2))
    # The layers need not fall with depth.
    assert zigzagkv.layer_targets([1, 5, 2], 4, 0) == (Fraction(3, 2), Fraction(15, 2), 3)


@given(st.lists(st.integers(1, 99), min_size=1, max_size=40), st.integers(0, 50), st.integers(0, 50))
def test_targets_conserve_above_the_floor(sensitivities, minimum, more):
    targets = zigzagkv.layer_targets(sensitivities, minimum + more, minimum)
    assert sum(targets) == len(sensitivities) * (minimum + more)
    assert min(targets) >= minimum


def test_a_floor_above_the_mean_is_refused():
    with pytest.raises(ValueError, match=r"above the mean"):
        zigzagkv.layer_targets([6, 4, 2], 4, 5)

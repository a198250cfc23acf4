"""Dense and selected attention: the counterexample of 0x02L by hand, float64, and the identities of 0x02K."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvaudit.policies import attention

PROBABILITIES = [Fraction(4, 10), Fraction(3, 10), Fraction(2, 10), Fraction(1, 10)]
VALUES = [[0], [1], [0], [-3]]

hundredths = st.integers(-800, 800).map(lambda n: Fraction(n, 100))


@st.composite
def cases(draw):
    """Draw (logits, values, selection): up to 6 candidates, up to 3 channels, at least one row selected."""
    candidates, channels = draw(st.integers(1, 6)), draw(st.integers(1, 3))
    logits = draw(st.lists(hundredths, min_size=candidates, max_size=candidates))
    rows = st.lists(hundredths, min_size=channels, max_size=channels)
    values = draw(st.lists(rows, min_size=candidates, max_size=candidates))
    selected = draw(st.lists(st.integers(0, candidates - 1), min_size=1, unique=True))
    return logits, values, selected


def selected_output(probabilities, values, selected):
    renormalised = attention.renormalised(probabilities, selected)
    return attention.output(renormalised, [values[position] for position in selected])


def test_the_dense_output_cancels_exactly():
    dense = attention.output(PROBABILITIES, VALUES)
    assert dense == (0,)
    assert attention.norm(dense) == 0
    assert attention.relative_error(Fraction(3, 7), attention.norm(dense)) is None


@pytest.mark.parametrize(
    ("selected", "mass", "error", "recall"),
    [([0, 1], Fraction(7, 10), Fraction(3, 7), 1), ([0, 2], Fraction(6, 10), 0, Fraction(1, 2))],
)
def test_more_mass_and_more_error(selected, mass, error, recall):
    assert attention.retained_mass(PROBABILITIES, selected) == mass
    output = selected_output(PROBABILITIES, VALUES, selected)
    difference = attention.difference(output, attention.output(PROBABILITIES, VALUES))
    assert attention.squared_norm(difference) == error**2
    assert attention.norm(difference) == pytest.approx(error, rel=1e-40) if error else attention.norm(difference) == 0
    assert attention.recall(selected, attention.top_k(PROBABILITIES, 2)) == recall


def test_relative_error_of_a_dense_output_that_is_not_zero():
    assert attention.relative_error(Fraction(1, 2), Fraction(4)) == Fraction(1, 8)
    assert attention.relative_error(Fraction(0), Fraction(4)) == 0


@given(cases())
def test_softmax_is_a_distribution_and_agrees_with_float64(case):
    logits, values, selected = case
    probabilities = attention.softmax(logits)
    assert sum(probabilities) == 1
    weights = np.exp(np.array([float(logit) for logit in logits]))
    assert np.allclose([float(each) for each in probabilities], weights / weights.sum(), rtol=1e-12, atol=0)
    table = np.array([[float(channel) for channel in row] for row in values])
    dense = attention.output(probabilities, values)
    assert np.allclose([float(each) for each in dense], weights @ table / weights.sum(), rtol=1e-9, atol=1e-12)
    kept = weights[selected]
    expected = kept @ table[selected] / kept.sum()
    output = selected_output(probabilities, values, selected)
    assert np.allclose([float(each) for each in output], expected, rtol=1e-9, atol=1e-12)


@given(cases())
def test_renormalising_divides_by_the_retained_mass(case):
    """0x02K: p~_i = p_i / M_S, and a softmax over the selected logits alone gives the same."""
    logits, _, selected = case
    probabilities = attention.softmax(logits)
    mass = attention.retained_mass(probabilities, selected)
    omitted = [position for position in range(len(logits)) if position not in selected]
    assert mass + attention.retained_mass(probabilities, omitted) == 1
    renormalised = attention.renormalised(probabilities, selected)
    assert renormalised == tuple(probabilities[position] / mass for position in selected)
    assert sum(renormalised) == 1
    alone = attention.softmax([logits[position] for position in selected])
    assert all(abs(one - other) < Fraction(1, 10**45) for one, other in zip(alone, renormalised, strict=True))


@given(cases())
def test_selecting_every_row_has_no_error(case):
    logits, values, _ = case
    probabilities = attention.softmax(logits)
    output = selected_output(probabilities, values, range(len(logits)))
    assert attention.norm(attention.difference(output, attention.output(probabilities, values))) == 0


@given(cases(), hundredths)
def test_softmax_does_not_move_when_every_logit_does(case, shift):
    logits, _, _ = case
    assert attention.softmax([logit + shift for logit in logits]) == attention.softmax(logits)


def test_equal_logits_cancel_exactly():
    probabilities = attention.softmax([Fraction("0.7"), Fraction("0.7"), Fraction("-1.3")])
    assert probabilities[0] == probabilities[1]
    assert attention.output(probabilities, [[1], [-1], [0]]) == (0,)


def test_logits_of_logarithms_give_the_ratio_back():
    """exp(ln 3) : exp(0) is 3 : 1, with as many digits as the logarithm is given."""
    probabilities = attention.softmax([Fraction("1.098612288668109691395245236922525704647"), 0])
    assert abs(probabilities[0] - Fraction(3, 4)) < Fraction(1, 10**38)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=6), st.data())
def test_top_k_is_the_first_of_all_rankings(scores, data):
    """Brute force: repeatedly take the lowest position among the largest scores that are left."""
    k = data.draw(st.integers(1, len(scores)))
    left, expected = list(range(len(scores))), []
    while len(expected) < k:
        largest = max(scores[position] for position in left)
        expected.append(next(position for position in left if scores[position] == largest))
        left.remove(expected[-1])
    assert attention.top_k(scores, k) == tuple(expected)


def test_ties_go_to_the_lowest_position():
    assert attention.top_k([Fraction(1, 2), 2, Fraction(1, 2), Fraction(1, 2)], 3) == (1, 0, 2)


@pytest.mark.parametrize(
    ("selected", "wanted", "expected"), [([3, 0], (0, 1), Fraction(1, 2)), ([], (2,), 0), ([1, 0, 4], (0, 1), 1)]
)
def test_recall(selected, wanted, expected):
    assert attention.recall(selected, wanted) == expected


@given(st.lists(hundredths, min_size=1, max_size=4))
def test_norm_is_the_euclidean_length(vector):
    assert float(attention.norm(vector)) == pytest.approx(math.hypot(*map(float, vector)), rel=1e-14)
    assert (attention.norm(vector) == 0) == (not any(vector))

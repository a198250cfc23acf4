"""The vectorised merge and restore agree with the exact ones of policies/."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvaudit.policies import minicache as exact
from kvaudit.selectors import minicache

TOLERANCES = minicache.Tolerances(1e-9, 1e-6)
HOW = exact.Interpolation(Fraction(1, 2), Fraction(1e-9), Fraction(1e-6))

channel = st.floats(-4, 4, allow_subnormal=False).filter(lambda c: c == 0 or abs(c) > 1e-6)


@st.composite
def pairs(draw):
    """Two float rows: unrelated, nearly equal or nearly opposite, with norms from 1e-150 to 1e150."""
    width = draw(st.integers(2, 6))
    low = np.array(draw(st.lists(channel, min_size=width, max_size=width)))
    low[draw(st.integers(0, width - 1))] = 1.0
    other = np.array(draw(st.lists(channel, min_size=width, max_size=width)))
    other[draw(st.integers(0, width - 1))] = -2.0
    kind = draw(st.sampled_from(["unrelated", "near", "opposite"]))
    if kind == "unrelated":
        high = other
    else:
        high = (low if kind == "near" else -low) + other * 10.0 ** -draw(st.integers(1, 5))
        if not high.any():
            high = other
    scales = st.sampled_from([1.0, 1e-150, 1e-30, 1e30, 1e150])
    return low * draw(scales), high * draw(scales)


def fractions(row):
    return [Fraction(float(c)) for c in row]


@given(pairs(), st.sampled_from([0.0, 0.25, 0.5, 1.0]))
def test_one_row_agrees_with_the_exact_definition(pair, rho):
    low, high = pair
    found = minicache.merge(low[None], high[None], rho, TOLERANCES)
    row = exact.merge_row(fractions(low), fractions(high), exact.Interpolation(Fraction(rho), *tolerances()))
    assert found.angles[0] == pytest.approx(float(row.angle), rel=1e-9, abs=1e-14)
    assert found.low_magnitudes[0] == pytest.approx(float(row.low_magnitude), rel=1e-14)
    assert found.high_magnitudes[0] == pytest.approx(float(row.high_magnitude), rel=1e-14)
    if row.direction is None:
        assert np.isnan(found.directions).all()
        return
    # Opposite rows amplify rounding by 1 / sin(Omega).
    slack = 1e-14 / max(float(np.sin(found.angles[0])), 1e-7) if found.angles[0] > 1 else 1e-14
    assert np.abs(found.directions[0] - [float(c) for c in row.direction]).max() < 10 * slack
    assert np.linalg.norm(found.directions[0]) == pytest.approx(1, rel=1e-14)
    retained = np.zeros(1, bool)
    empty = np.empty((0, low.size))
    for restored, wanted in zip(minicache.restore(found, empty, empty, retained), exact.restore(row), strict=True):
        expected = np.array([float(c) for c in wanted])
        assert np.abs(restored[0] - expected).max() <= 20 * slack * np.abs(expected).max()


def tolerances():
    return HOW.near_zero_angle, HOW.near_pi_angle


def test_a_real_layer_pair_in_one_call():
    """Eight K/V heads of 512 positions, d_h 64: the exceptions and the rows are those of the exact definition."""
    noise = np.random.default_rng(0)
    low_key, low_value = noise.normal(size=(2, 8, 512, 64))
    turn = np.linspace(0, 2, 512)[:, None]
    high_key = low_key + turn * noise.normal(size=low_key.shape)
    high_value = -low_value * (turn > 1.99) + (low_value + noise.normal(size=low_value.shape) * 0.1) * (turn <= 1.99)
    keys = minicache.merge(low_key, high_key, 0.5, TOLERANCES)
    values = minicache.merge(low_value, high_value, 0.5, TOLERANCES)
    retained = minicache.exceptions(keys, values, 0.25)
    assert 0 < retained.sum() < retained.size
    assert np.isnan(values.directions[:, -1]).all()
    low, high = minicache.restore(values, low_value[retained], high_value[retained], retained)
    assert (low[retained] == low_value[retained]).all()
    assert (high[retained] == high_value[retained]).all()
    assert np.allclose(np.linalg.norm(low, axis=-1), np.linalg.norm(low_value, axis=-1))
    for head, position in ((0, 0), (3, 100), (5, 250), (7, 511)):
        rows = [
            exact.merge_row(fractions(one[head, position]), fractions(other[head, position]), HOW)
            for one, other in ((low_key, high_key), (low_value, high_value))
        ]
        assert bool(retained[head, position]) == bool(exact.exceptions(rows[:1], rows[1:], Fraction(1, 4)))
        if not retained[head, position]:
            expected = [[float(c) for c in row] for row in exact.restore(rows[1])]
            assert np.allclose([low[head, position], high[head, position]], expected, rtol=1e-12)


def test_one_exception_set_for_keys_and_values():
    """Row 0 is far in K only, row 1 in V only, row 2 in neither; K of row 3 is opposite, whatever the threshold."""
    low = np.array([[1.0, 0.0]] * 4)
    keys = minicache.merge(low, np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 0.1], [-1.0, 0.0]]), 0.5, TOLERANCES)
    values = minicache.merge(low, np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.1], [1.0, 0.0]]), 0.5, TOLERANCES)
    assert minicache.exceptions(keys, values, 0.25).tolist() == [True, True, False, True]
    assert minicache.exceptions(keys, values, 1.0).tolist() == [False, False, False, True]


def test_what_it_refuses():
    row = np.ones((1, 3))
    with pytest.raises(ValueError, match="no direction"):
        minicache.merge(np.zeros((1, 3)), row, 0.5, TOLERANCES)
    with pytest.raises(ValueError, match="no direction"):
        minicache.merge(row, np.array([[1.0, np.nan, 0.0]]), 0.5, TOLERANCES)
    with pytest.raises(ValueError, match="shape"):
        minicache.merge(row, np.ones((2, 3)), 0.5, TOLERANCES)
    opposite = minicache.merge(row, -row, 0.5, TOLERANCES)
    with pytest.raises(ValueError, match="not retained"):
        minicache.restore(opposite, np.empty((0, 3)), np.empty((0, 3)), np.array([False]))


def test_half_precision_rows_are_computed_in_float64():
    low = np.array([[200.0, 200.0, 200.0]], dtype=np.float16)  # whose squared norm overflows float16
    found = minicache.merge(low, low, 0.5, TOLERANCES)
    assert found.low_magnitudes[0] == pytest.approx(200 * np.sqrt(3))
    assert found.angles[0] == 0

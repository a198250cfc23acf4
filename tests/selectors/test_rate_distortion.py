"""The sorted allocation against the one with a heap, and the bound of a multiplier against the exact relaxation."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvaudit.policies import rate_distortion as exact
from kvaudit.selectors import rate_distortion


@st.composite
def worlds(draw):
    """Distortions in whole numbers and bits in powers of two, so that float64 prices tie exactly where they tie."""
    tiers, states = draw(st.integers(1, 4)), draw(st.integers(1, 40))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    values = np.cumsum(rng.integers(0, 5, size=(states, tiers + 1)), axis=1)
    protected = rng.random(states) < draw(st.sampled_from([0.0, 0.2, 1.0]))
    bits = 64 >> np.arange(tiers)
    page_tokens = draw(st.integers(1, 6))
    pages = bits // 8 * page_tokens + draw(st.integers(0, 4))
    return values[:, :-1], values[:, -1], protected, bits, pages, page_tokens


def exact_form(world):
    values, dropped, protected, bits, pages, page_tokens = world
    states = [
        exact.State(tuple(int(v) for v in row), int(drop), bool(held))
        for row, drop, held in zip(values, dropped, protected, strict=True)
    ]
    return states, exact.Tiers(tuple(map(int, bits)), tuple(map(int, pages)), page_tokens)


@given(worlds(), st.floats(0, 1.1))
def test_the_allocation_is_the_exact_one(world, share):
    states, tiers = exact_form(world)
    budget = int(share * exact.page_bytes(exact.counts([0] * len(states), tiers), tiers))
    try:
        expected = exact.allocate(states, tiers, budget)
    except exact.BelowProtectedError:
        with pytest.raises(ValueError, match="protected rows alone"):
            rate_distortion.allocate(*world, budget)
        return
    found = rate_distortion.allocate(*world, budget)
    assert [None if t == rate_distortion.DROPPED else t for t in found.assignment] == list(expected.assignment)
    assert (found.steps, found.page_bytes) == (len(expected.steps), expected.page_bytes)
    assert found.distortion == exact.distortion(states, expected.assignment)


@given(worlds(), st.floats(0, 1.1), st.booleans())
def test_the_bound_comes_close_to_the_relaxation_and_never_past_it(world, share, may_drop):
    values, dropped, protected, bits, _, _ = world
    states, tiers = exact_form(world)
    budget = int(share * exact.row_bits(exact.counts([0] * len(states), tiers), tiers))
    relaxed = exact.relaxed_optimum(states, tiers, budget, may_drop=may_drop)
    found = rate_distortion.lagrangian_bound(values, dropped if may_drop else None, protected, bits, budget)
    if relaxed is not None:
        assert found <= float(relaxed) * (1 + 1e-12) + 1e-9
        assert found == pytest.approx(float(relaxed), rel=1e-9, abs=1e-9)


def test_prices_that_fall_are_taken_with_the_step_before_them():
    """State 0 costs 4 then 1 a bit, state 1 costs 3 then 5: after the 3 comes the 4 with its 1, then the 5."""
    world = (
        np.array([[0, 4, 5], [0, 3, 8]]),
        np.array([9, 9]),
        np.array([False, False]),
        np.array([3, 2, 1]),
        np.array([3, 2, 1]),
        1,
    )
    found = [rate_distortion.allocate(*world, budget).assignment.tolist() for budget in (6, 5, 4, 3, 2, 1, 0)]
    assert found == [[0, 0], [0, 1], [1, 1], [2, 1], [2, 2], [2, -1], [-1, -1]]
    states, tiers = exact_form(world)
    assert [step.price for step in exact.lowering(states, tiers)] == [
        Fraction(3),
        Fraction(4),
        Fraction(1),
        Fraction(5),
    ]

"""PyramidKV: the line by hand, its conservation, and the released code's two floor divisions as golden vectors."""

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvaudit.policies import pyramidkv


def test_by_hand():
    assert pyramidkv.endpoints(12, 3, 2) == (6, 2)
    assert pyramidkv.layer_targets(12, 3, 2) == (6, 4, 2)
    assert pyramidkv.layer_budgets(12, 3, 2, [1] * 3, [12] * 3) == (6, 4, 2)
    # Four layers, mean 16, beta so large that the top gets almost nothing: three steps of 10.67 from 32.
    assert pyramidkv.layer_budgets(64, 4, 10**6, [0] * 4, [64] * 4) == (32, 21, 11, 0)


def test_the_line_with_m_steps_gives_too_many_rows():
    assert pyramidkv.layer_targets_divided_by_m(12, 3, 2) == (6, Fraction(14, 3), Fraction(10, 3))
    assert sum(pyramidkv.layer_targets_divided_by_m(12, 3, 2)) == 14


@given(st.integers(0, 10**6), st.integers(2, 80), st.fractions(Fraction(1, 2), 50, max_denominator=20))
def test_targets_are_a_falling_or_rising_line_that_sums_to_the_total(total, layers, beta):
    targets = pyramidkv.layer_targets(total, layers, beta)
    assert sum(targets) == total
    assert min(targets) >= 0
    steps = {one - other for one, other in pairwise(targets)}
    assert len(steps) == 1
    assert targets[-1] == Fraction(total) / (beta * layers)


@given(st.integers(2, 12), st.integers(0, 200), st.sampled_from([1, 2, 5, 20]), st.data())
def test_budgets_conserve(layers, total, beta, data):
    cap = data.draw(st.integers(-(-total // layers), 200))
    assert sum(pyramidkv.layer_budgets(total, layers, beta, [0] * layers, [cap] * layers)) == total


@pytest.mark.parametrize(("layers", "beta"), [(1, 2), (3, 0), (3, -1), (3, Fraction(49, 100))])
def test_undefined_schedules_are_refused(layers, beta):
    with pytest.raises(ValueError, match=r"layers or more|below 1/2"):
        pyramidkv.layer_targets(12, layers, beta)


# capacity, window, layers, prompt, high, low, step, first, last, total: run from the code at c97f9d7, beta 20.
GOLDEN = [
    (128, 8, 32, 8000, 234, 6, 7, 234, 17, 4016),
    (64, 8, 32, 8000, 110, 2, 3, 110, 17, 2032),
    (96, 8, 32, 8000, 172, 4, 5, 172, 17, 3024),
    (2048, 8, 32, 8000, 3978, 102, 125, 3978, 103, 65296),
    (512, 8, 32, 1100, 983, 25, 30, 983, 53, 16576),
    (128, 8, 32, 240, 232, 8, 7, 232, 15, 3952),
]


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: f"{case[0]}-{case[3]}")
def test_released_schedule(case):
    capacity, window, layers, prompt, high, low, step, first, last, total = case
    schedule = pyramidkv.pinned_capacities(capacity, window, layers, 20, prompt)
    assert (schedule.branch, schedule.high, schedule.low, schedule.step) == ("pyramid", high, low, step)
    assert (schedule.capacities[0], schedule.capacities[-1], sum(schedule.capacities)) == (first, last, total)


def test_released_totals_that_drift():
    assert sum(pyramidkv.pinned_capacities(128, 8, 80, 20, 8000).capacities) == 12_400
    assert pyramidkv.pinned_capacities(20, 4, 4, 20, 100).capacities == (32, 22, 12, 2)


@pytest.mark.parametrize(
    ("prompt", "branch"), [(100, "full"), (127, "full"), (128, "uniform"), (239, "uniform"), (240, "pyramid")]
)
def test_released_branches(prompt, branch):
    """Between one capacity and two bases, PyramidKV runs as SnapKV."""
    schedule = pyramidkv.pinned_capacities(128, 8, 32, 20, prompt)
    assert schedule.branch == branch
    if branch == "uniform":
        assert schedule.capacities == (120,) * 32
    assert (schedule.capacities is None) == (branch == "full")


@given(st.integers(9, 400), st.integers(2, 64), st.integers(1, 40), st.integers(1, 3000))
def test_the_released_excess_is_half_the_lost_remainder_a_layer(capacity, layers, beta, prompt):
    schedule = pyramidkv.pinned_capacities(capacity, 8, layers, beta, prompt + 8)
    if schedule.branch != "pyramid":
        return
    remainder = (schedule.high - schedule.low) % (layers - 1)
    assert 2 * (sum(schedule.capacities) - layers * (capacity - 8)) == layers * remainder

"""Integer apportionment: conservation under floors and caps, the specification's loop as reference, ties, refusals."""

import random
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvaudit.policies import apportionment
from kvaudit.policies.apportionment import apportion

targets_of_any_kind = st.fractions(-20, 60, max_denominator=12)


@st.composite
def problems(draw):
    """Draw (targets, total, floors, caps) that have a solution; targets need not sum to the total."""
    owners = draw(st.integers(1, 6))
    floors = draw(st.lists(st.integers(0, 5), min_size=owners, max_size=owners))
    caps = [floor + draw(st.integers(0, 20)) for floor in floors]
    targets = draw(st.lists(targets_of_any_kind, min_size=owners, max_size=owners))
    return targets, draw(st.integers(sum(floors), sum(caps))), floors, caps


def one_row_at_a_time(targets, total, floors, caps):
    """The rule as it is stated: clamp the floors of the targets, then move single rows."""
    budgets = [min(cap, max(floor, target // 1)) for target, floor, cap in zip(targets, floors, caps, strict=True)]
    while sum(budgets) < total:
        open_owners = [owner for owner, budget in enumerate(budgets) if budget < caps[owner]]
        best = max(targets[owner] - budgets[owner] for owner in open_owners)
        budgets[next(owner for owner in open_owners if targets[owner] - budgets[owner] == best)] += 1
    while sum(budgets) > total:
        open_owners = [owner for owner, budget in enumerate(budgets) if budget > floors[owner]]
        best = max(budgets[owner] - targets[owner] for owner in open_owners)
        budgets[[owner for owner in open_owners if budgets[owner] - targets[owner] == best][-1]] -= 1
    return tuple(budgets)


@given(problems())
def test_budgets_conserve_exactly_under_floors_and_caps(problem):
    targets, total, floors, caps = problem
    budgets = apportion(targets, total, floors, caps)
    assert sum(budgets) == total
    assert all(floor <= budget <= cap for floor, budget, cap in zip(floors, budgets, caps, strict=True))


@given(problems())
def test_the_same_as_moving_one_row_at_a_time(problem):
    assert apportion(*problem) == one_row_at_a_time(*problem)


@given(problems(), st.data())
def test_what_has_no_solution_is_refused(problem, data):
    targets, total, floors, caps = problem
    low, high = sum(floors), sum(caps)
    wrong = data.draw(st.one_of(st.integers(max_value=low - 1), st.integers(min_value=high + 1)))
    for infeasible in ((wrong, floors, caps), (total, [cap + 1 for cap in caps], caps)):
        assert apportionment.why_infeasible(*infeasible)
        with pytest.raises(ValueError, match=r"rows"):
            apportion(targets, *infeasible)
    assert apportionment.why_infeasible(total, floors, caps) is None


@given(problems(), st.randoms(use_true_random=False))
def test_permuting_owners_with_distinct_remainders_permutes_the_budgets(problem, shuffler):
    targets, total, floors, caps = problem
    targets = [target // 1 + Fraction(owner + 1, 50) for owner, target in enumerate(targets)]
    order = list(range(len(targets)))
    shuffler.shuffle(order)
    shuffled = [[items[owner] for owner in order] for items in (targets, floors, caps)]
    permuted = apportion(shuffled[0], total, *shuffled[1:])
    budgets = apportion(targets, total, floors, caps)
    assert permuted == tuple(budgets[owner] for owner in order)


@given(problems())
def test_integer_targets_within_limits_are_kept(problem):
    _, _, floors, caps = problem
    targets = [(floor + cap) // 2 for floor, cap in zip(floors, caps, strict=True)]
    assert apportion(targets, sum(targets), floors, caps) == tuple(targets)


@pytest.mark.parametrize(
    ("targets", "total", "floors", "caps", "budgets"),
    [
        # A row that is left goes to the first of equal remainders, surplus leaves the last.
        (["5.5", "4", "2.5"], 12, [1] * 3, [12] * 3, (6, 4, 2)),
        (["2.5", "2.5"], 5, [0, 0], [9, 9], (3, 2)),
        ([3, 3, 3], 8, [0] * 3, [9] * 3, (3, 3, 2)),
        (["1.3", "3.1", "2.5", "1.6", "2.2", "1.3"], 12, [1] * 6, [6] * 6, (1, 3, 3, 2, 2, 1)),
        # Shares 1 : 2 : 5 of 30 rows: three remainders, then a cap whose rows go to the others.
        (["3.75", "7.5", "18.75"], 30, [0] * 3, [30] * 3, (4, 7, 19)),
        (["3.75", "7.5", "18.75"], 30, [0] * 3, [16] * 3, (5, 9, 16)),
        # A floor lifts the last layer; the rows come from layers that are above their targets.
        (["44", "76/3", "20/3", "-12"], 64, [2] * 4, [99] * 4, (39, 21, 2, 2)),
        (["0.25", "1.75"], 2, [1, 1], [6, 6], (1, 1)),
        ([], 0, [], [], ()),
        ([7, 7], 0, [0, 0], [9, 9], (0, 0)),
    ],
)
def test_by_hand(targets, total, floors, caps, budgets):
    assert apportion([Fraction(target) for target in targets], total, floors, caps) == budgets


def test_many_rows_take_no_longer_than_few():
    """2^50 rows of residual: a walk that moves single rows would never end."""
    huge = 2**50
    budgets = apportion([Fraction(1, 3)] * 256, 256 * huge + 5, [0] * 256, [2 * huge] * 256)
    assert budgets == tuple(huge + (owner < 5) for owner in range(256))


def test_even_split_and_independent_rounding():
    assert apportionment.evenly(7, 3, 0, 9) == (3, 2, 2)
    assert apportionment.rounded_half_even([Fraction("2.5"), Fraction("3.5"), Fraction("-0.5"), 4]) == (2, 4, 0, 4)


def test_a_real_size():
    """HeadKV over 32 layers by 32 heads with a mean of 1,024 rows conserves and follows the order of importance."""
    draw = random.Random(3)
    parts = [draw.randrange(1, 10**6) for _ in range(1024)]
    targets = [Fraction(part * 1024 * 1024, sum(parts)) for part in parts]
    budgets = apportion(targets, 2**20, [8] * 1024, [32_768] * 1024)
    assert sum(budgets) == 2**20
    order = sorted(range(1024), key=lambda owner: parts[owner])
    assert all(budgets[low] <= budgets[high] for low, high in pairwise(order))

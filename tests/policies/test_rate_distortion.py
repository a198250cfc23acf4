"""Rate-distortion retention: a budget by hand, brute force over every assignment, and the laws of the greedy."""

import itertools
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvaudit.policies import rate_distortion as rd
from kvaudit.policies.rate_distortion import State, Tiers

SIXTEENTHS = st.integers(0, 12).map(lambda n: Fraction(n, 16))


@st.composite
def worlds(draw, convex=False):
    """Tiers, pages of up to three rows, and two to six states; at most two of them are protected."""
    tiers = draw(st.integers(1, 3))
    saved = draw(st.lists(st.integers(1, 5), min_size=tiers, max_size=tiers))
    bits = tuple(8 * sum(saved[at:]) for at in range(tiers))
    tokens = draw(st.integers(1, 3))
    header = draw(st.integers(0, 3))
    pages = tuple(header + tokens * each // 8 for each in bits)
    states = []
    for index in range(draw(st.integers(2, 6))):
        steps = draw(st.lists(SIXTEENTHS, min_size=tiers, max_size=tiers))
        if convex:
            steps.sort()
            widths = [bits[at] - (bits[at + 1] if at + 1 < tiers else 0) for at in range(tiers)]
            steps = [step * width for step, width in zip(steps, widths, strict=True)]
        values = [draw(SIXTEENTHS)]
        for step in steps:
            values.append(values[-1] + step)
        states.append(State(tuple(values[:-1]), values[-1], index < 2 and draw(st.booleans())))
    return states, Tiers(bits, pages, tokens)


def every_assignment(states, tiers, may_drop=True):
    options = [*range(len(tiers.row_bits)), *([None] if may_drop else [])]
    return itertools.product(*[(0,) if state.protected else options for state in states])


def brute_force(states, tiers, cost, budget, may_drop):
    fitting = [a for a in every_assignment(states, tiers, may_drop) if cost(a) <= budget]
    return min((sum(s.distortion(t) for s, t in zip(states, a, strict=True)) for a in fitting), default=None)


def optimum(states, tiers, cost, budget, may_drop):
    return rd.optimum(rd.least_distortions(states, tiers, may_drop=may_drop), tiers, cost, budget)


def plain_page_bytes(assignment, tiers):
    total = 0
    for tier, each in enumerate(tiers.page_bytes):
        rows = sum(1 for one in assignment if one == tier)
        while rows > 0:
            total += each
            rows -= tiers.page_tokens
    return total


def test_a_budget_by_hand():
    """Rows of 64, 32 and 16 bits, pages of two rows: 16, 8 and 4 bytes. Four rows, the first protected, take 32 bytes.

    Prices of the first steps: row 1 4/32, row 2 1/32, row 3 2/32; of the second: row 1 8/16, row 2 1/16, row 3 9/16.
    So 2, 2 or 3 next (1/16 each: row 2 first), 3, 1. Rows by tier and bytes: (4,0,0) 32, (3,1,0) 40, (3,0,1) 36,
    (2,1,1) 28, (1,2,1) 28, then row 1 again (1,1,2) 28, row 3 again (1,0,3) 24.
    """
    states = [
        State((0, 100, 200), 300, protected=True),
        State((0, 4, 12), 20),
        State((0, 1, 2), 3),
        State((0, 2, 11), 50),
    ]
    tiers = Tiers((64, 32, 16), (16, 8, 4), 2)
    steps = list(rd.joint_steps(states, tiers))
    assert [(s.state, s.source, s.target) for s in steps] == [
        (2, 0, 1),
        (2, 1, 2),
        (3, 0, 1),
        (1, 0, 1),
        (1, 1, 2),
        (3, 1, 2),
        (2, 2, None),
        (1, 2, None),
        (3, 2, None),
    ]
    found = rd.allocate(states, tiers, 28)
    assert found.assignment == (0, 0, 2, 1)
    assert found.page_bytes == 28
    assert rd.distortion(states, found.assignment) == 4
    assert rd.packed(found.assignment, tiers) == [(0, [0, 1]), (1, [3]), (2, [2])]
    assert rd.mixed_page_bytes(found.assignment, tiers) == 16 + 8
    assert rd.mixed_page_bytes((0, 1, 2, None), tiers) == 16 + 4
    # The first step raises the bytes from 32 to 40, so a budget of 31 is met after three steps only.
    assert [rd.allocate(states, tiers, budget).page_bytes for budget in (32, 31, 24, 23)] == [32, 28, 24, 20]


def test_what_the_single_levers_do():
    """Full 32 bytes. Lowering rows 2 and 3 leaves 16 + 4; lowering row 1 too splits the safe page: 16 + 8."""
    states = [State((0, 100), 300, protected=True), State((0, 4), 20), State((0, 1), 3), State((0, 2), 50)]
    tiers = Tiers((64, 16), (16, 4), 2)
    assert rd.retention_only(states, tiers, 16).assignment == (0, None, None, 0)
    assert rd.lowering_only(states, tiers, 24).assignment == (0, 0, 1, 1)
    assert rd.lowering_only(states, tiers, 19) is None
    assert rd.uniform_only(states, tiers, 31).assignment == (0, 1, 1, 1)
    assert rd.uniform_only(states, tiers, 32).assignment == (0, 0, 0, 0)
    # Half of the excess of 8 bytes is 4: dropping row 2 leaves three rows on two pages, row 1 more leaves 16 bytes.
    assert rd.decoupled(states, tiers, 24, Fraction(1, 2)).assignment == (0, None, None, 0)
    # Half of the excess of one byte is none that dropping must free.
    assert rd.decoupled(states, tiers, 31, Fraction(1, 2)).assignment == (0, 0, 1, 1)
    assert rd.decoupled(states, tiers, 24, 0) == rd.lowering_only(states, tiers, 24)
    assert rd.decoupled(states, tiers, 16, 1) == rd.retention_only(states, tiers, 16)


def test_the_optimum_may_drop_a_worthless_row_before_lowering_a_precious_one():
    """Two rows of 2 bits; lowering saves 1. Row 0 costs 3 to lower, row 1 costs 1 to lower and 1 more to drop."""
    states, tiers = [State((0, 3), 10), State((0, 1), 2)], Tiers((2, 1), (2, 1), 1)
    found = rd.within_row_bits(states, tiers, 2)
    assert rd.distortion(states, found.assignment) == 4
    assert found.steps[-1].added_distortion == 3
    assert optimum(states, tiers, rd.row_bits, 2, may_drop=False) == 4
    assert optimum(states, tiers, rd.row_bits, 2, may_drop=True) == 2


def test_below_the_protected_rows_there_is_no_allocation():
    states, tiers = [State((0, 1), 2, protected=True)] * 3, Tiers((16, 8), (4, 2), 2)
    assert rd.allocate(states, tiers, 8).steps == ()
    with pytest.raises(rd.BelowProtectedError, match="more than 7 bytes"):
        rd.allocate(states, tiers, 7)


@given(worlds(), st.integers(0, 60))
def test_the_budget_holds_and_protected_rows_stay(world, budget):
    states, tiers = world
    protected = plain_page_bytes([0] * sum(state.protected for state in states), tiers)
    if budget < protected:
        with pytest.raises(rd.BelowProtectedError):
            rd.allocate(states, tiers, budget)
        return
    found = rd.allocate(states, tiers, budget)
    assert plain_page_bytes(found.assignment, tiers) == found.page_bytes <= budget
    assert all(tier == 0 for state, tier in zip(states, found.assignment, strict=True) if state.protected)
    pages = rd.packed(found.assignment, tiers)
    assert sorted(s for _, rows in pages for s in rows) == [i for i, t in enumerate(found.assignment) if t is not None]
    assert all(found.assignment[s] == tier for tier, rows in pages for s in rows)
    assert sum(tiers.page_bytes[tier] for tier, _ in pages) == found.page_bytes


@given(worlds(), st.integers(0, 60))
def test_nothing_is_dropped_while_something_can_be_lowered(world, budget):
    states, tiers = world
    try:
        found = rd.allocate(states, tiers, budget)
    except rd.BelowProtectedError:
        return
    if None in found.assignment:
        last = len(tiers.row_bits) - 1
        kept = [tier for state, tier in zip(states, found.assignment, strict=True) if not state.protected]
        assert set(kept) <= {None, last}


@given(worlds())
def test_each_step_is_the_cheapest_there_is(world):
    """The order, replayed by looking at every offer before each step."""
    states, tiers = world
    at = [0] * len(states)
    for step in rd.lowering(states, tiers):
        offers = [
            (
                Fraction(state.distortions[at[index] + 1] - state.distortions[at[index]])
                / (tiers.row_bits[at[index]] - tiers.row_bits[at[index] + 1]),
                index,
            )
            for index, state in enumerate(states)
            if not state.protected and at[index] + 1 < len(tiers.row_bits)
        ]
        assert (step.price, step.state) == min(offers)
        at[step.state] += 1
    assert all(tier == len(tiers.row_bits) - 1 for state, tier in zip(states, at, strict=True) if not state.protected)


@given(worlds(), st.integers(0, 120), st.booleans())
def test_the_optimum_is_that_of_brute_force(world, budget, may_drop):
    states, tiers = world
    bits = [sum(0 if t is None else tiers.row_bits[t] for t in a) for a in every_assignment(states, tiers)]
    assert max(bits) == rd.row_bits(rd.counts([0] * len(states), tiers), tiers)
    for exact, plain in (
        (rd.row_bits, lambda a: sum(0 if t is None else tiers.row_bits[t] for t in a)),
        (rd.page_bytes, lambda a: plain_page_bytes(a, tiers)),
    ):
        expected = brute_force(states, tiers, plain, budget, may_drop)
        assert optimum(states, tiers, exact, budget, may_drop=may_drop) == expected


@given(worlds(), st.integers(0, 120), st.booleans(), st.lists(SIXTEENTHS, max_size=5))
def test_the_relaxed_optimum_is_below_the_optimum_and_above_every_multiplier(world, budget, may_drop, multipliers):
    states, tiers = world
    relaxed = rd.relaxed_optimum(states, tiers, budget, may_drop=may_drop)
    best = optimum(states, tiers, rd.row_bits, budget, may_drop=may_drop)
    if relaxed is None:
        assert best is None
        return
    assert best is None or relaxed <= best
    options = [*range(len(tiers.row_bits)), *([None] if may_drop else [])]
    for multiplier in multipliers:
        dual = -multiplier * budget
        for state in states:
            dual += min(
                state.distortion(t) + multiplier * (0 if t is None else tiers.row_bits[t])
                for t in ([0] if state.protected else options)
            )
        assert dual <= relaxed


@given(worlds(convex=True), st.integers(0, 120))
def test_the_gap_is_at_most_the_last_step(world, budget):
    """Convex distortions, a budget on row bits, no drop needed: against the best allocation that drops nothing."""
    states, tiers = world
    assert all(rd.is_convex(state, tiers) for state in states)
    found = rd.within_row_bits(states, tiers, budget)
    best = brute_force(states, tiers, lambda a: sum(tiers.row_bits[t] for t in a), budget, may_drop=False)
    if found is None:
        assert best is None
        return
    last = found.steps[-1].added_distortion if found.steps else 0
    assert 0 <= rd.distortion(states, found.assignment) - best <= last


def test_convexity_by_hand():
    tiers = Tiers((12, 8, 2), (1, 1, 1), 1)
    assert rd.is_convex(State((0, 4, 10), 10), tiers)
    assert not rd.is_convex(State((0, 4, 9), 10), tiers)
    assert rd.optimum_size(2, 2) == 6

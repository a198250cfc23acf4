"""The frontier against a brute-force reference, its tie-breaks one by one, and its laws."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvaudit.policies.frontier import Point, dominates, envelope, filtered, frontier, gain_memory, representative

DENSE = "dense"


def point(method="m", budget=0, size=100, speed=10, quality=90, traffic=100):
    return Point(method, budget, size, traffic, speed, quality)


values = st.integers(0, 4)
points_of_one_cohort = st.lists(
    st.builds(
        Point,
        st.sampled_from([DENSE, "a", "b"]),
        st.integers(0, 3),
        st.one_of(st.none(), st.integers(1, 4)),
        st.one_of(st.none(), values),
        st.one_of(st.none(), values),
        st.one_of(st.none(), values),
    ),
    max_size=9,
    unique_by=lambda each: each.id,
)


def ids(points):
    return {each.id for each in points}


def brute_force(points, tolerance):
    """Return (retained, envelope, gains) by the words of the definition, all pairs."""
    whole = [p for p in points if None not in (p.resident_bytes_per_token, p.hbm_bytes_per_token, p.tokens_per_second)]
    whole = [p for p in whole if p.quality is not None]
    dense = [p for p in whole if p.method == DENSE]
    if not dense:
        return set(), set(), None, None
    best = max(p.quality for p in dense)
    kept = [p for p in whole if best - p.quality <= tolerance]
    outer = [
        p
        for p in kept
        if not any(
            q.resident_bytes_per_token <= p.resident_bytes_per_token
            and q.tokens_per_second >= p.tokens_per_second
            and (q.resident_bytes_per_token, q.tokens_per_second) != (p.resident_bytes_per_token, p.tokens_per_second)
            for q in kept
        )
    ]
    speed = max(p.tokens_per_second for p in dense if p.quality == best)
    gain_speed = Fraction(max(p.tokens_per_second for p in kept), speed) if speed else None
    reference = min(p.resident_bytes_per_token for p in dense if (p.quality, p.tokens_per_second) == (best, speed))
    smallest = min(p.resident_bytes_per_token for p in kept if p.tokens_per_second >= speed)
    return ids(kept), ids(outer), gain_speed, Fraction(reference, smallest)


@given(points_of_one_cohort, values)
def test_as_the_definition_says(points, tolerance):
    found = frontier(points, DENSE, tolerance)
    retained, outer, speed, memory = brute_force(points, tolerance)
    assert ids(found.overall.retained) == retained
    assert ids(found.overall.envelope) == outer
    assert (found.overall.gain_speed, found.overall.gain_memory) == (speed, memory)
    for method, summary in found.methods.items():
        assert ids(summary.retained) == {each.id for each in found.overall.retained if each.method == method}


@given(points_of_one_cohort, values, st.randoms(use_true_random=False))
def test_order_never_matters(points, tolerance, random):
    shuffled = list(points)
    random.shuffle(shuffled)
    assert frontier(points, DENSE, tolerance) == frontier(shuffled, DENSE, tolerance)


@given(points_of_one_cohort, values)
def test_every_point_has_one_place_and_none_dominates_the_envelope(points, tolerance):
    found = frontier(points, DENSE, tolerance)
    parts = (found.incomplete, found.outside, found.overall.retained)
    if found.reference is not None:
        assert sorted(each.id for part in parts for each in part) == sorted(each.id for each in points)
    outer = found.overall.envelope
    assert not any(dominates(q, p) for p in outer for q in found.overall.retained)
    for each in set(found.overall.retained) - set(outer):
        assert any(dominates(q, each) for q in outer)
    speeds = [(each.resident_bytes_per_token, each.tokens_per_second) for each in outer]
    assert speeds == sorted(speeds)


def test_the_limit_itself_is_within_in_decimals_and_not_in_binary():
    """90.4 - 0.8 is 89.6; binary64 makes it larger than 89.6, and would drop the point."""
    assert 90.4 - 0.8 > 89.6
    dense = point(DENSE, quality=Fraction("90.4"))
    at_limit = point("a", quality=Fraction("89.6"))
    below = point("b", quality=Fraction("89.59"))
    found = frontier([dense, at_limit, below], DENSE, Fraction("0.8"))
    assert found.overall.retained == (at_limit, dense)
    assert found.outside == (below,)


def test_equal_points_both_stay():
    twins = point("a"), point("b")
    assert envelope([*twins, point("c", size=101)]) == twins


def test_the_reference_is_the_best_dense_point_and_then_the_faster_one():
    weaker, slower, best = point(DENSE, 0, speed=99, quality=89), point(DENSE, 1, speed=9), point(DENSE, 2, speed=10)
    assert frontier([weaker, slower, best], DENSE, 5).reference == best


@pytest.mark.parametrize(
    ("winner", "other"),
    [
        (point(size=50, speed=10), point(size=100, speed=19)),  # the ratio: 0.2 against 0.19
        (point(size=100, speed=20), point(size=50, speed=10)),  # equal ratio: the faster one
        (point(size=50, speed=0), point(size=100, speed=0)),  # both ratios are zero: fewer bytes
        (point(size=100, speed=20, traffic=99, budget=1), point(size=50, speed=10, traffic=1, budget=0)),
        (point(traffic=90, budget=1), point(traffic=91, budget=0)),
        (point("b", budget=1), point("a", budget=2)),
        (point("a"), point("b")),
    ],
)
def test_tie_breaks_in_order(winner, other):
    assert representative([winner, other]) == winner
    assert representative([other, winner]) == winner


@given(st.lists(st.builds(point, size=st.integers(1, 4), speed=values, budget=st.integers(0, 3)), min_size=1))
def test_fewer_bytes_decide_at_zero_speed_only(points):
    """F2: equal ratios and equal positive speeds force equal bytes."""
    best = max(Fraction(p.tokens_per_second, p.resident_bytes_per_token) for p in points)
    tied = [p for p in points if Fraction(p.tokens_per_second, p.resident_bytes_per_token) == best]
    fastest = max(p.tokens_per_second for p in tied)
    sizes = {p.resident_bytes_per_token for p in tied if p.tokens_per_second == fastest}
    assert len(sizes) == 1 or fastest == 0
    star = representative(points)
    assert (star.tokens_per_second, star.resident_bytes_per_token) == (fastest, min(sizes))


def test_what_does_not_exist_is_none():
    dense, slow = point(DENSE), point("slow", size=10, speed=9)
    found = frontier([dense, slow, point("gone", quality=1)], DENSE, 1)
    assert found.methods["slow"].gain_memory is None
    assert found.methods["slow"].gain_speed == Fraction(9, 10)
    gone = found.methods["gone"]
    assert (gone.retained, gone.envelope, gone.representative, gone.gain_speed, gone.gain_memory) == (
        (),
        (),
        None,
        None,
        None,
    )
    still = frontier([point(DENSE, speed=0)], DENSE, 0).overall
    assert (still.gain_speed, still.gain_memory) == (None, 1)
    nothing = frontier([point("a")], DENSE, 0)
    assert (nothing.reference, nothing.overall.retained) == (None, ())
    assert gain_memory([dense], None) is None


def test_a_point_that_was_not_measured_is_never_taken_as_zero():
    dense = point(DENSE)
    hidden = Point("a", 0, 1, None, 99, 90)
    found = frontier([dense, hidden], DENSE, 0)
    assert found.incomplete == (hidden,)
    assert found.overall.envelope == (dense,)
    with pytest.raises(ValueError, match="complete tuple"):
        envelope([Point("a", 0, None, 1, 1, 1)])


def test_the_filter_comes_before_the_envelope():
    """A point that fails its witnesses hides no point that passes."""
    dense, unstable, stable = point(DENSE, speed=1), point("a", size=10, speed=30), point("b", size=20, speed=20)
    before = frontier([dense, unstable, stable], DENSE, 1)
    assert before.overall.envelope == (unstable,)
    after = filtered(before.overall.retained, before.reference, 1, lambda each: each is not unstable)
    assert after.envelope == (stable,)
    assert (before.overall.gain_memory, after.gain_memory) == (10, 5)

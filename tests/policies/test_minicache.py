"""MiniCache: the layer pair by hand, and the laws of spherical interpolation over pairs of every kind."""

import math
from fractions import Fraction

import mpmath
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kvaudit.policies import minicache
from kvaudit.policies.transcendental import pi

HALF = minicache.Interpolation(Fraction(1, 2), Fraction(1, 10**9), Fraction(1, 10**6))
CLOSE = Fraction(1, 10**30)

channels = st.integers(-1000, 1000).map(lambda n: Fraction(n, 100))
directions = st.lists(channels, min_size=2, max_size=5).filter(any)
scales = st.integers(-120, 120).map(lambda exponent: Fraction(10) ** exponent)


@st.composite
def pairs(draw):
    """Two rows of one width: unrelated, nearly equal or nearly opposite; norms from 1e-120 to 1e123."""
    low = draw(directions)
    other = draw(st.lists(channels, min_size=len(low), max_size=len(low)))
    kind = draw(st.sampled_from(["unrelated", "near", "opposite"]))
    if kind == "unrelated":
        high = other
    else:
        sign = 1 if kind == "near" else -1
        step = Fraction(10) ** -draw(st.integers(1, 40))
        high = [sign * one + step * two for one, two in zip(low, other, strict=True)]
    assume(any(high))
    a, b = draw(scales), draw(scales)
    return [a * c for c in low], [b * c for c in high]


@st.composite
def interpolations(draw):
    rho = draw(st.sampled_from([0, 1, Fraction(1, 2), Fraction(1, 3)]) | st.fractions(0, 1, max_denominator=50))
    zero = draw(st.sampled_from([Fraction(0), Fraction(1, 10**9), Fraction(1, 10)]))
    return minicache.Interpolation(rho, zero, draw(st.sampled_from([Fraction(1, 10**9), Fraction(1, 10**6)])))


def test_row_zero_by_hand():
    """(4.4, 11.7) has norm 12.5 and direction (.352, .936), (4, 3) has norm 5 and (.8, .6).

    Their sum (1.152, 1.536) has norm 1.92, so the shared direction is (.6, .8).
    """
    row = minicache.merge_row((Fraction("4.4"), Fraction("11.7")), (4, 3), HALF)
    assert (row.low_magnitude, row.high_magnitude) == (Fraction("12.5"), 5)
    assert row.direction == (Fraction("0.6"), Fraction("0.8"))
    low, high = minicache.restore(row)
    assert (low, high) == ((Fraction("7.5"), 10), (3, 4))
    assert float(minicache.error_norm(low, (Fraction("4.4"), Fraction("11.7")))) == pytest.approx(2.5 * math.sqrt(2))
    assert float(minicache.error_norm(high, (4, 3))) == pytest.approx(math.sqrt(2))
    assert float(row.distance) == pytest.approx(math.acos(0.352 * 0.8 + 0.936 * 0.6) / math.pi)


@given(pairs(), interpolations())
def test_the_shared_direction_is_a_unit_vector(pair, how):
    direction = minicache.merge_row(*pair, how).direction
    if direction is not None:
        assert abs(sum(c * c for c in direction) - 1) < CLOSE


@given(pairs(), interpolations())
def test_it_lies_between_both_ends(pair, how):
    """At most Omega from either end, and under SLERP exactly rho Omega and (1 - rho) Omega."""
    row = minicache.merge_row(*pair, how)
    if row.direction is None:
        return
    to_low, to_high = (minicache.angle(row.direction, end) for end in pair)
    # An angle to a direction that is rounded to 40 places is known to about as much.
    slack = Fraction(1, 10**29)
    assert to_low <= row.angle + slack
    assert to_high <= row.angle + slack
    if row.rule == minicache.SLERP:
        assert abs(to_low - how.rho * row.angle) < slack
        assert abs(to_high - (1 - how.rho) * row.angle) < slack


@given(pairs(), st.sampled_from([0, 1]))
def test_rho_zero_and_one_return_an_endpoint(pair, rho):
    row = minicache.merge_row(*pair, minicache.Interpolation(rho, 0, Fraction(1, 10**6)))
    if row.direction is not None:
        end = minicache.unit(pair[rho])
        assert all(abs(one - other) < CLOSE for one, other in zip(row.direction, end, strict=True))


@given(pairs())
def test_restoration_keeps_norms_and_turns_by_the_angle(pair):
    row = minicache.merge_row(*pair, HALF)
    restored = minicache.restore(row)
    if restored is None:
        assert row.angle >= pi() - HALF.near_pi_angle
        return
    for found, source in zip(restored, pair, strict=True):
        norm = minicache.magnitude(source)
        assert abs(minicache.magnitude(found) - norm) <= CLOSE * norm
        # A turn by phi of a row of norm r is a chord of 2 r sin(phi / 2).
        chord = 2 * norm * Fraction(mpmath.nstr(mpmath.sin(mpmath.mpf(float(row.angle)) / 4), 15))
        assert float(minicache.error_norm(found, source) / norm) == pytest.approx(
            float(chord / norm), rel=1e-9, abs=1e-30
        )


@given(directions, scales, scales)
def test_parallel_rows_are_at_zero_and_restored_without_loss(row, a, b):
    low, high = [a * c for c in row], [b * c for c in row]
    merged = minicache.merge_row(low, high, HALF)
    assert (merged.angle, merged.distance, merged.rule) == (0, 0, minicache.NORMALISED_LINEAR)
    assert [list(found) for found in minicache.restore(merged)] == [low, high]


@given(directions, scales)
def test_opposite_rows_have_no_direction(row, scale):
    merged = minicache.merge_row(row, [-scale * c for c in row], HALF)
    assert (merged.direction, merged.rule, merged.distance) == (None, minicache.NO_DIRECTION, 1)
    assert minicache.restore(merged) is None
    assert minicache.exceptions([merged], [minicache.merge_row(row, row, HALF)], 1) == (
        0,
    )  # M1: whatever the threshold


@given(pairs())
def test_the_angle_is_that_of_the_arccosine(pair):
    with mpmath.workdps(400):
        low, high = ([mpmath.mpf(c.numerator) / c.denominator for c in map(Fraction, row)] for row in pair)
        norms = mpmath.sqrt(sum(c * c for c in low)) * mpmath.sqrt(sum(c * c for c in high))
        cosine = sum(a * b for a, b in zip(low, high, strict=True)) / norms
        reference = mpmath.acos(max(-1, min(1, cosine)))
        found = minicache.angle(*pair)
        assert abs(mpmath.mpf(found.numerator) / found.denominator - reference) < mpmath.mpf(10) ** -45


@given(pairs())
def test_scaling_a_row_changes_its_norm_only(pair):
    low, high = pair
    one, other = minicache.merge_row(low, high, HALF), minicache.merge_row([3 * c for c in low], high, HALF)
    # The angle is compared, not tested for identity: the two roots are rounded at 50 digits each.
    assert abs(one.angle - other.angle) <= Fraction(1, 10**45)
    assert abs(other.low_magnitude - 3 * one.low_magnitude) <= CLOSE * one.low_magnitude
    assert other.high_magnitude == one.high_magnitude


def test_fallback_and_interpolation_meet():
    """Just above the fallback angle SLERP and the normalised linear direction agree to its square."""
    low, high = (1, 0), (Fraction(1), Fraction(1, 10**6))
    slerp = minicache.merge_row(low, high, minicache.Interpolation(Fraction(1, 3), 0, Fraction(1, 10**6)))
    linear = minicache.merge_row(
        low, high, minicache.Interpolation(Fraction(1, 3), Fraction(1, 10**3), Fraction(1, 10**6))
    )
    assert (slerp.rule, linear.rule) == (minicache.SLERP, minicache.NORMALISED_LINEAR)
    assert all(abs(a - b) < Fraction(1, 10**17) for a, b in zip(slerp.direction, linear.direction, strict=True))
    assert slerp.direction != linear.direction


def test_a_zero_vector_is_refused():
    for pair in (((0, 0), (1, 0)), ((1, 0), (0, 0))):
        with pytest.raises(ValueError, match="no direction"):
            minicache.merge_row(*pair, HALF)
    with pytest.raises(ValueError, match="no direction"):
        minicache.unit((0, 0))


def test_one_exception_set_for_keys_and_values():
    near, far = minicache.merge_row((1, 0), (1, 0), HALF), minicache.merge_row((1, 0), (0, 1), HALF)
    quarter = Fraction(1, 4)
    assert minicache.exceptions([near, far, near], [near, near, far], quarter) == (1, 2)
    assert minicache.exceptions_by_printed_inequality([near, far, far], [far, near, far], quarter) == (0, 1)


def test_a_distance_that_equals_the_threshold_is_in_neither_set():
    edge = minicache.merge_row((1, 0), (1, 1), HALF)  # 45 degrees: exactly a quarter
    assert edge.distance == Fraction(1, 4)
    assert minicache.exceptions([edge], [edge], Fraction(1, 4)) == ()
    assert minicache.exceptions_by_printed_inequality([edge], [edge], Fraction(1, 4)) == ()


@pytest.mark.parametrize(
    ("layers", "start", "expected"),
    [(6, 4, ((4, 5),)), (8, 4, ((4, 5), (6, 7))), (7, 4, ((4, 5),)), (6, 5, ()), (4, 0, ((0, 1), (2, 3))), (2, 9, ())],
)
def test_layer_pairs(layers, start, expected):
    assert minicache.layer_pairs(layers, start) == expected


TOY, REAL = minicache.Widths(2, 2, 4, 4, 4), minicache.Widths(128, 2, 4, 4, 4)


def test_both_ledgers_by_hand():
    """4*3*4 = 48 against 24 + 48 + 24 + 16 + 4 = 116, and the larger pair of 0x0CH."""
    toy, real = minicache.pair_ledger(3, 1, TOY), minicache.pair_ledger(1024, 51, REAL)
    assert (toy.full, toy.merged()) == (48, 116)
    assert (real.full, real.merged()) == (1048576, 524288 + 16384 + 8192 + 52224 + 204)


@given(st.integers(1, 40), st.builds(minicache.Widths, *[st.integers(1, 40)] * 5))
def test_the_break_even_by_counting(positions, widths):
    saving = [
        count
        for count in range(positions + 1)
        if minicache.pair_ledger(positions, count, widths).merged()
        < minicache.pair_ledger(positions, count, widths).full
    ]
    assert minicache.most_exceptions_that_save(positions, widths) == (saving[-1] if saving else None)

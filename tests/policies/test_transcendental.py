"""The functions that leave the rationals: exact where mathematics is, and within 45 digits elsewhere."""

from fractions import Fraction

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvaudit.policies import transcendental as t

TINY = Fraction(1, 10**45)


@given(st.fractions(min_value=0, max_value=10**9))
def test_the_root_of_a_square_is_exact(root):
    assert t.square_root(root**2) == root


@given(st.fractions(min_value=0, max_value=10**6, max_denominator=10**6))
def test_a_root_squares_back(number):
    assert abs(t.square_root(number) ** 2 - number) <= TINY * max(number, 1)


@pytest.mark.parametrize(
    ("found", "digits"),
    [
        (t.square_root(2), "1.41421356237309504880168872420969807856967187537694"),
        (t.pi(), "3.14159265358979323846264338327950288419716939937510"),
        (t.sine(1), "0.84147098480789650665250232163029899962256306079837"),
        (t.cosine(1), "0.54030230586813971740093660744297660373231042061792"),
        (t.logistic(1), "0.73105857863000487925115924182183627436514464016505"),
        (t.direction_angle(1, 1), "0.78539816339744830961566084581987572104929234984378"),
    ],
)
def test_printed_constants(found, digits):
    assert abs(found - Fraction(digits)) < TINY


def test_exact_values():
    assert (t.sine(0), t.cosine(0), t.logistic(0)) == (0, 1, Fraction(1, 2))
    assert t.direction_angle(0, 3) == 0
    assert t.direction_angle(0, -3) == t.pi()
    assert t.to_places(t.direction_angle(1, 1) / t.pi()) == Fraction(1, 4)
    assert t.to_places(t.direction_angle(1, 0) / t.pi()) == Fraction(1, 2)


@given(st.fractions(min_value=-90, max_value=90, max_denominator=1000))
def test_the_logistic_function_is_symmetric_and_inside_its_range(logit):
    value = t.logistic(logit)
    assert 0 < value < 1
    assert t.logistic(-logit) == 1 - value
    with mpmath.workdps(60):
        reference = 1 / (1 + mpmath.exp(-mpmath.mpf(logit.numerator) / logit.denominator))
        assert abs(mpmath.mpf(value.numerator) / value.denominator - reference) < mpmath.mpf(10) ** -45


def test_rounding_takes_the_noise_off():
    assert t.to_places(Fraction(3, 5) + Fraction(1, 10**50)) == Fraction(3, 5)
    assert t.to_places(Fraction(1, 10**49)) == 0
    assert t.to_digits(Fraction(75, 10**60) * (1 + Fraction(1, 10**48))) == Fraction(75, 10**60)
    assert t.to_digits(0) == 0

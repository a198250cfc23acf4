"""The functions that leave the rationals, each taken once at 50 digits and handed back as an exact Fraction.

A square root of a rational square stays exact, so that [3, 4] has the norm 5 and the direction [3/5, 4/5].
`to_places` and `to_digits` take the last ten digits off again where a value is compared or subtracted: what is zero or
a tie in mathematics is then zero or a tie here.
"""

import math
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

Number = int | Fraction

DIGITS = 50
KEPT_DIGITS = 40
_KEPT = Context(prec=KEPT_DIGITS)


def square_root(number: Number) -> Fraction:
    """Return the root of a number that is not negative; exact if the number is the square of a rational."""
    exact = Fraction(number)
    numerator, denominator = math.isqrt(exact.numerator), math.isqrt(exact.denominator)
    if numerator**2 == exact.numerator and denominator**2 == exact.denominator:
        return Fraction(numerator, denominator)
    return _evaluated("sqrt", exact)


def sine(angle: Number) -> Fraction:
    """Return the sine of an angle in radians; exactly 0 at 0."""
    return _evaluated("sin", angle)


def cosine(angle: Number) -> Fraction:
    """Return the cosine of an angle in radians; exactly 1 at 0."""
    return _evaluated("cos", angle)


def direction_angle(across: Number, along: Number) -> Fraction:
    """Return the angle in [0, pi] of a vector with the components `across` >= 0 and `along`, not both zero.

    The two-argument arctangent is accurate at both ends, where an arccosine loses half of its digits. Exactly 0 or
    exactly `pi()` if `across` is zero.
    """
    if across == 0:
        return Fraction(0) if along > 0 else pi()
    return _evaluated("atan2", across, along)


def pi() -> Fraction:
    """Return pi at 50 digits."""
    return 2 * _evaluated("acos", 0)


def logistic(logit: Number) -> Fraction:
    """Return 1 / (1 + exp(-logit)); exactly 1/2 at 0."""
    if logit < 0:
        return 1 - logistic(-logit)
    return 1 / (1 + _evaluated("exp", -logit))


def to_places(number: Number) -> Fraction:
    """Return a number rounded to 40 decimal places, for values whose scale is one."""
    scale = 10**KEPT_DIGITS
    return Fraction(round(Fraction(number) * scale), scale)


def to_digits(number: Number) -> Fraction:
    """Return a number rounded to 40 significant digits, for values of any scale."""
    exact = Fraction(number)
    return Fraction(_KEPT.divide(Decimal(exact.numerator), Decimal(exact.denominator)))


def _evaluated(name: str, *arguments: Number) -> Fraction:
    """Return a function of mpmath at 50 digits, as the exact binary fraction that it computed."""
    import mpmath

    with mpmath.workdps(DIGITS):
        result: Any = getattr(mpmath, name)(*(mpmath.mpf(each.numerator) / each.denominator for each in arguments))
        numerator, denominator = mpmath.libmp.to_rational(result._mpf_)
    return Fraction(int(numerator), int(denominator))

"""Dense and selected attention over one denominator, for one query, layer and head (specification 0x02K and 0x02L).

    p_i = exp(z_i) / Z        M_S = sum of p_i over S        p~_i = p_i / M_S for i in S        o = sum of p_i v_i

Renormalising the selected logits is dividing by the retained dense mass: there is one softmax, not two. Probabilities
are exact Fractions. Logits leave the rationals once, in the exponential at 50 digits; after it everything is exact
again, so that equal logits cancel to zero and mass that is kept and mass that is left sum to one.
"""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

Number = int | Fraction

DIGITS = 50


def softmax(logits: Sequence[Number]) -> tuple[Fraction, ...]:
    """Return p_i for the logits z_i, shape [n]: positive, summing to exactly one, equal for equal logits.

    The largest logit is subtracted first, which changes no p_i and keeps every exponential at or below one.
    """
    import mpmath

    largest = max(logits)
    with mpmath.workdps(DIGITS):
        exponentials = [_exact(mpmath.exp(_mpf(logit - largest))) for logit in logits]
    normaliser = sum(exponentials, Fraction(0))
    return tuple(exponential / normaliser for exponential in exponentials)


def retained_mass(probabilities: Sequence[Fraction], selected: Iterable[int]) -> Fraction:
    """Return M_S, the dense probability of the selected positions."""
    return sum((probabilities[position] for position in selected), Fraction(0))


def renormalised(probabilities: Sequence[Fraction], selected: Sequence[int]) -> tuple[Fraction, ...]:
    """Return p~_i = p_i / M_S in the order of `selected`. Raises `ZeroDivisionError` if no mass is retained."""
    mass = retained_mass(probabilities, selected)
    return tuple(probabilities[position] / mass for position in selected)


def output(probabilities: Sequence[Fraction], values: Sequence[Sequence[Number]]) -> tuple[Fraction, ...]:
    """Return the sum of p_i v_i, shape [d]; `values` has one row of d numbers for each probability."""
    return tuple(
        sum((probability * value for probability, value in zip(probabilities, channel, strict=True)), Fraction(0))
        for channel in zip(*values, strict=True)
    )


def difference(one: Sequence[Fraction], other: Sequence[Fraction]) -> tuple[Fraction, ...]:
    """Return one - other, channel by channel."""
    return tuple(left - right for left, right in zip(one, other, strict=True))


def squared_norm(vector: Sequence[Fraction]) -> Fraction:
    """Return the exact square of the L2 norm, by which errors are ordered and tested for zero."""
    return sum((channel * channel for channel in vector), Fraction(0))


def norm(vector: Sequence[Fraction]) -> Fraction:
    """Return the L2 norm at 50 digits; zero if and only if every channel is zero."""
    import mpmath

    with mpmath.workdps(DIGITS):
        return _exact(mpmath.sqrt(_mpf(squared_norm(vector))))


def relative_error(error: Fraction, dense_norm: Fraction) -> Fraction | None:
    """Return error / |o|, or None where the dense output is zero: there is nothing to be relative to."""
    return error / dense_norm if dense_norm else None


def top_k(scores: Sequence[Number], k: int) -> tuple[int, ...]:
    """Return the k positions with the largest scores, largest first, equal scores by lowest position. k <= n."""
    ranked = sorted(range(len(scores)), key=lambda position: (-scores[position], position))
    return tuple(ranked[:k])


def recall(selected: Iterable[int], wanted: Sequence[int]) -> Fraction:
    """Return the share of the wanted positions that are selected. `wanted` is not empty."""
    return Fraction(len(set(selected) & set(wanted)), len(wanted))


def _mpf(number: Number) -> Any:
    import mpmath

    return mpmath.mpf(number.numerator) / number.denominator


def _exact(number: Any) -> Fraction:
    import mpmath

    return Fraction(mpmath.nstr(number, DIGITS))

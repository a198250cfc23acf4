"""ZigZagKV: layer budgets from how many rows each layer needs, above a floor (specification 0x08D).

*MBA* of an attention row is the smallest number of its largest weights that reach a share of the mass; *LMBA* of a
layer is the plain mean of MBA over its rows. *MBO* asks the same of the output: how many of those rows until the
partial output points the way the full one does; *LMBO* is its mean.

    u_l = LMBA_l / sum_i LMBA_i        B_l = B_min + (B_mean - B_min) L u_l

The sums need every layer's profile, so the budgets exist only after the whole prompt was prefilled in full.
Source: arXiv 2412.09036, sections 3 and 4; no repository is known.
"""

from collections.abc import Sequence
from fractions import Fraction

from kvaudit.policies.apportionment import Number
from kvaudit.policies.attention import top_k


def minimum_budget_of_attention(weights: Sequence[Number], share: Number) -> int:
    """Return MBA in rows: the least n such that the n largest weights hold `share` of the mass or more.

    `weights` are not negative and sum to one; reaching the share exactly counts; at least one row is always needed.
    """
    held, goal = Fraction(0), share * sum(weights)
    for rows, position in enumerate(top_k(weights, len(weights)), start=1):
        held += weights[position]
        if held >= goal:
            return rows
    return len(weights)


def minimum_budget_of_output(
    weights: Sequence[Number], values: Sequence[Sequence[Number]], similarity: Number
) -> int | None:
    """Return MBO in rows: the least n for which the n rows of largest weight give an output of cosine `similarity`.

    `values` has one row a weight; 0 < `similarity` <= 1. The cosine does not change when the kept weights are
    renormalised. It is compared as a square, exactly. None where the full output is zero and has no direction.
    """
    full = [Fraction(0)] * len(values[0])
    for weight, row in zip(weights, values, strict=True):
        full = [total + weight * channel for total, channel in zip(full, row, strict=True)]
    if not any(full):
        return None
    partial = [Fraction(0)] * len(full)
    for rows, position in enumerate(top_k(weights, len(weights)), start=1):
        partial = [
            total + weights[position] * channel for total, channel in zip(partial, values[position], strict=True)
        ]
        inner = _dot(full, partial)
        if inner > 0 and inner**2 >= similarity**2 * _dot(full, full) * _dot(partial, partial):
            return rows
    return len(weights)


def layer_mean(rows: Sequence[int]) -> Fraction:
    """Return LMBA or LMBO: the plain mean of the minimum budgets of a layer's attention rows, in rows."""
    return Fraction(sum(rows), len(rows))


def shares(sensitivities: Sequence[Number]) -> tuple[Fraction, ...]:
    """Return u_l, the sensitivities divided by their sum. Raises `ZeroDivisionError` where all are zero."""
    whole = Fraction(sum(sensitivities))
    return tuple(each / whole for each in sensitivities)


def layer_targets(sensitivities: Sequence[Number], mean: Number, minimum: Number) -> tuple[Fraction, ...]:
    """Return the real-valued targets B_l in rows, shape [L]; they sum to L B_mean.

    Raises `ValueError` where the floor is above the mean: the remainder to share out would be negative.
    """
    if minimum > mean:
        raise ValueError(f"the floor of {float(minimum)} rows is above the mean of {float(mean)}")
    pool = (mean - minimum) * len(sensitivities)
    return tuple(minimum + pool * share for share in shares(sensitivities))


def _dot(one: Sequence[Fraction], other: Sequence[Fraction]) -> Fraction:
    return sum((left * right for left, right in zip(one, other, strict=True)), Fraction(0))

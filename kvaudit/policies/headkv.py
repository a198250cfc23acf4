"""HeadKV: one pool of rows for all (layer, head) owners, shared out by calibrated importance (specification 0x08G).

    B_pool = (b / beta) L H        b_h = (b - b / beta) + S_h B_pool

b is the mean number of rows a head, S_h the importance of an owner, normalised over all layers and heads. Rows can
move between layers as well as between heads. A larger beta means a larger common base and a smaller pool.
Source: arXiv 2410.19258, section 3; code FYYFU/HeadKV at 0862a0955fe82e9ff611d59541918e02c5def625,
`headkv/snapkv_utils.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor

from kvaudit.policies.apportionment import Number, rounded_half_even


def owner_targets(importances: Sequence[Number], mean: Number, beta: Number) -> tuple[Fraction, ...]:
    """Return the real-valued targets b_h in rows, in owner order; they sum to mean * owners.

    `importances` are not negative and sum to one. Raises `ValueError` for beta < 1: the common base would be negative.
    """
    if beta < 1:
        raise ValueError(f"beta {float(beta)} is below 1 and makes the common base negative")
    pooled = mean / Fraction(beta)
    return tuple(mean - pooled + importance * pooled * len(importances) for importance in importances)


@dataclass(frozen=True, slots=True)
class PinnedCapacities:
    """What the code asks for each owner, and what is left of it where an owner has no more prefix rows."""

    rounded: tuple[int, ...]
    truncated: tuple[int, ...]


def pinned_owner_capacities(importances: Sequence[Number], base: int, beta: Number, prefix: int) -> PinnedCapacities:
    """Return the prefix rows an owner of the released code, in owner order: floor(b / beta), rounding, truncation.

    `base` is the capacity without the window. Each capacity is rounded on its own, halves to even; taking the first
    rows of a shorter prefix then cuts the capacity in silence, and nobody else gets the rows. Computed exactly; the
    code divides and multiplies in floating point.
    """
    pooled = floor(base / Fraction(beta))
    targets = [base - pooled + importance * pooled * len(importances) for importance in importances]
    rounded = rounded_half_even(targets)
    return PinnedCapacities(rounded, tuple(min(rows, prefix) for rows in rounded))

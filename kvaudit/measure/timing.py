"""Times as they were taken, and what is said of them: the median and an interval that assumes no distribution.

The interval is that of order statistics: the two samples between which the median of the distribution lies with at
least 95 % confidence, whatever the distribution is, if the samples are independent. It is closed and exact (binomial
with one half). With fewer than six samples no two of them are that far apart, and there is none.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import comb

METHOD = "order statistics, at least 95 %"


@dataclass(frozen=True, slots=True)
class Summary:
    """The median of samples in their own unit, and the interval; None where there are no or too few samples."""

    median: Fraction | None
    low: int | None
    high: int | None
    count: int


def summary(samples: Sequence[int]) -> Summary:
    """Return the median and the 95 % interval of whole-number samples."""
    ordered = sorted(samples)
    count = len(ordered)
    if not count:
        return Summary(None, None, None, 0)
    middle = Fraction(ordered[(count - 1) // 2] + ordered[count // 2], 2)
    rank = interval_rank(count)
    if rank is None:
        return Summary(middle, None, None, count)
    return Summary(middle, ordered[rank], ordered[count - 1 - rank], count)


def interval_rank(count: int) -> int | None:
    """Return the largest r such that samples r and n - 1 - r, counted from 0, hold the median with 95 % or more.

    The median lies outside with probability 2 * sum of C(n, i) / 2^n for i <= r.
    """
    rank, below = None, 0
    for candidate in range(count // 2):
        below += comb(count, candidate)
        if 40 * below > 2**count:
            break
        rank = candidate
    return rank

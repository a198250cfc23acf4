"""Sets of positions as half-open intervals, so that a view of 131,072 positions is one pair of numbers.

`Intervals` holds (begin, end) pairs with begin < end, ascending, of which no two overlap or touch. Equal sets therefore
have equal intervals. A frontier is exclusive, as the end of an interval is: [0, F) are the first F positions.
"""

from collections.abc import Iterable

Interval = tuple[int, int]
Intervals = tuple[Interval, ...]

EMPTY: Intervals = ()


def union(*parts: Iterable[Interval]) -> Intervals:
    """Return the set of the positions that lie in any part. A pair with begin >= end holds no position."""
    merged: list[Interval] = []
    for begin, end in sorted(pair for part in parts for pair in part):
        if begin >= end:
            continue
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return tuple(merged)


def interval(begin: int, end: int) -> Intervals:
    """Return the set [begin, end), which is empty if begin >= end."""
    return union([(begin, end)])


def difference(whole: Intervals, removed: Intervals) -> Intervals:
    """Return the positions of `whole` that are not in `removed`."""
    remaining: list[Interval] = []
    for begin, end in whole:
        for cut_begin, cut_end in removed:
            if begin < cut_end and cut_begin < end:
                remaining.append((begin, cut_begin))
                begin = cut_end
        remaining.append((begin, end))
    return union(remaining)


def size(intervals: Intervals) -> int:
    """Return the number of positions."""
    return sum(end - begin for begin, end in intervals)


def contains(intervals: Intervals, position: int) -> bool:
    """Return whether `position` lies in one of the intervals."""
    return any(begin <= position < end for begin, end in intervals)

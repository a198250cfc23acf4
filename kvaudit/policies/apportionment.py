"""Exact integer apportionment: real-valued row targets to integer budgets that sum to the total (specification 0x08E).

A cache stores whole rows; the papers' formulas are real-valued. Every allocation method of kvaudit ends in this one
rule: floor each target, bring it between the owner's floor and cap, then give out the rows that are left one at a time
to the owner furthest below its target, or take surplus rows back one at a time from the owner furthest above it.
Equal distances: rows are given to the first owner and taken from the last one.
"""

from collections.abc import Sequence
from fractions import Fraction
from math import ceil, floor

Number = int | Fraction


def why_infeasible(total: int, floors: Sequence[int], caps: Sequence[int]) -> str | None:
    """Return why no budgets between floors and caps sum to `total`, or None if some do."""
    for owner, (least, most) in enumerate(zip(floors, caps, strict=True)):
        if least > most:
            return f"owner {owner} has a floor of {least} rows above its cap of {most}"
    if total < sum(floors):
        return f"the floors need {sum(floors)} rows, the total is {total}"
    if total > sum(caps):
        return f"the caps hold {sum(caps)} rows, the total is {total}"
    return None


def apportion(targets: Sequence[Number], total: int, floors: Sequence[int], caps: Sequence[int]) -> tuple[int, ...]:
    """Return one integer budget an owner: floor <= budget <= cap, summing to exactly `total`.

    Targets, floors and caps have one entry an owner; targets need not sum to `total`. Raises `ValueError` where
    floors and caps leave no solution. Rows are handed out in rounds, so the work does not grow with their number.
    Source: specification 0x08E, `apportion_exact_integer_budget`; infeasible input, which dies there in an empty
    `max` or comes back below its floor, is refused here.
    """
    reason = why_infeasible(total, floors, caps)
    if reason is not None:
        raise ValueError(reason)
    budgets = [min(cap, max(least, floor(target))) for target, least, cap in zip(targets, floors, caps, strict=True)]
    missing = total - sum(budgets)
    if missing >= 0:
        below = [target - budget for target, budget in zip(targets, budgets, strict=True)]
        room = [cap - budget for cap, budget in zip(caps, budgets, strict=True)]
        return tuple(budget + rows for budget, rows in zip(budgets, _largest_first(below, room, missing), strict=True))
    above = [budget - target for target, budget in zip(targets, budgets, strict=True)]
    spare = [budget - least for least, budget in zip(floors, budgets, strict=True)]
    # Surplus is taken from the last of equal owners, so the owners are walked from the end.
    taken = _largest_first(above[::-1], spare[::-1], -missing)[::-1]
    return tuple(budget - rows for budget, rows in zip(budgets, taken, strict=True))


def evenly(total: int, owners: int, least: int, most: int) -> tuple[int, ...]:
    """Return `total` rows split evenly over `owners`, earlier owners taking the remainder. Raises `ValueError`."""
    return apportion([Fraction(total, owners)] * owners, total, [least] * owners, [most] * owners)


def rounded_half_even(targets: Sequence[Number]) -> tuple[int, ...]:
    """Return each target rounded on its own, halves to even. A labelled alternative: the sum is not conserved."""
    return tuple(round(Fraction(target)) for target in targets)


def _largest_first(distances: Sequence[Number], limits: Sequence[int], rows: int) -> list[int]:
    """Return how many of `rows` each owner moves when the owner with the largest distance always moves the next one.

    Each row moved makes the owner's distance smaller by one; an owner moves at most its limit; equal distances go to
    the first owner. `rows` is at most the sum of the limits. Moving rows one at a time is a walk down the distances
    d, d - 1, d - 2, ... of all owners together, so everything above one whole level is moved at once, and only the
    rows between this level and the next are ranked.
    """

    def moved_from(level: int) -> list[int]:
        """Return how many rows each owner moves at a distance of at least `level`."""
        return [min(limit, max(0, floor(each - level) + 1)) for each, limit in zip(distances, limits, strict=True)]

    if rows == 0:
        return [0] * len(limits)
    high = max(ceil(each) for each in distances) + 1
    low = min(floor(each) - limit for each, limit in zip(distances, limits, strict=True))
    while high - low > 1:
        middle = (high + low) // 2
        if sum(moved_from(middle)) <= rows:
            high = middle
        else:
            low = middle
    moved = moved_from(high)
    next_level = moved_from(high - 1)
    ranked = sorted(range(len(moved)), key=lambda owner: (moved[owner] - distances[owner], owner))
    left = rows - sum(moved)
    for owner in [owner for owner in ranked if next_level[owner] > moved[owner]][:left]:
        moved[owner] += 1
    return moved

"""The full cache: every committed row stays visible (specification 0x03).

F is the exclusive committed frontier: F = 0 has no committed positions, F = 4 has [0, 1, 2, 3]. A set is a state after
publication; the row of a token that is still being evaluated, rejected or cancelled is in none.

Full describes the policy, not the model: it says nothing of the position range that the checkpoint was trained for.
"""

from kvaudit.policies.intervals import Intervals, interval


def visible(frontier: int) -> Intervals:
    """Return V_full(F) = {0, ..., F - 1}."""
    return interval(0, frontier)


def visible_rows(frontier: int) -> int:
    """Return |V_full(F)| = F."""
    return frontier

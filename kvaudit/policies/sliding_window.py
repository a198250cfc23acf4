"""The sliding window: the newest W committed rows stay visible (specification 0x04).

A window of W rows holds exactly W positions, the newest row among them. The closed range F - 1 - W to F - 1 would
hold W + 1.
"""

from kvaudit.policies.intervals import Intervals, interval


def visible(frontier: int, window_rows: int) -> Intervals:
    """Return V_win(F; W) = {max(0, F - W), ..., F - 1}, for W > 0."""
    return interval(max(0, frontier - window_rows), frontier)


def visible_rows(frontier: int, window_rows: int) -> int:
    """Return |V_win(F; W)| = F - max(0, F - W) = min(F, W): growing in warm-up, W once saturated."""
    return min(frontier, window_rows)


def ring_slot(position: int, window_rows: int) -> int:
    """Return r_slot = p mod W, where a ring of W rows stores original position p.

    An address, never a position: slot 0 of a ring of three holds position 6 after 0 and 3.
    """
    return position % window_rows


def recomputed_rows(frontier: int, window_rows: int) -> int:
    """Return the K/V rows that one step of the recomputation baseline projects anew: min(W, F).

    The baseline keeps recent token ids only and runs the whole local window again for each token, the newest included;
    F is the frontier after the step. Source: arXiv 2309.17453, figure 1 (c).
    """
    return min(window_rows, frontier)


def recomputed_pairs(frontier: int, window_rows: int) -> int:
    """Return the causal query-key pairs of one recomputation step: n (n + 1) / 2 for its n rows, self included."""
    rows = recomputed_rows(frontier, window_rows)
    return rows * (rows + 1) // 2

"""Ada-KV's global top-B over one layer, vectorised for real sizes: 8 K/V heads by 32,768 positions in milliseconds.

The same selection as `policies.adakv.global_top_b`: equal scores go to the lowest head, then to the lowest position.
A partition finds the score at the cut; only the scores that equal it are ordered, so the work is linear.
"""

import numpy as np
import numpy.typing as npt


def global_top_b(scores: npt.NDArray[np.floating], budget: int) -> npt.NDArray[np.bool_]:
    """Return the winners as a mask of the shape of `scores`, [H, positions], with exactly `budget` entries set.

    Raises `ValueError` for a NaN, which would sort as the largest score, and for a budget that is negative or exceeds
    the candidates.
    """
    if np.isnan(scores).any():
        head, position = np.argwhere(np.isnan(scores))[0]
        raise ValueError(f"the score of head {head}, position {position} is not a number")
    if not 0 <= budget <= scores.size:
        raise ValueError(f"a budget of {budget} rows is not between 0 and the {scores.size} candidates")
    if budget == 0:
        return np.zeros(scores.shape, dtype=np.bool_)
    flat = scores.ravel()
    cut = np.partition(flat, scores.size - budget)[scores.size - budget]
    winners = flat > cut
    at_cut = np.flatnonzero(flat == cut)  # ascending, which is by head, then by position
    winners[at_cut[: budget - np.count_nonzero(winners)]] = True
    mask: npt.NDArray[np.bool_] = winners.reshape(scores.shape)
    return mask


def head_budgets(scores: npt.NDArray[np.floating], budget: int) -> npt.NDArray[np.int64]:
    """Return the number of winners of each head, shape [H], summing to `budget`. Raises as `global_top_b`."""
    counts: npt.NDArray[np.int64] = global_top_b(scores, budget).sum(axis=1, dtype=np.int64)
    return counts

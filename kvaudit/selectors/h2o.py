"""H2O decode selection for real sizes: all owners of a layer at once, in floating point.

The definition is `policies.h2o`. Here scores are float64 arrays of shape [owners, rows], and a step is one addition and
one partition an owner, O(owners * rows). Kept sets equal those of the definition wherever scores are apart by more than
rounding, and for equal scores as well: the lower position stays.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Scores = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]
Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Successor:
    """A published state, shape [owners, kept rows]: positions ascending, their scores, and the one index list by which
    K, V, score and position rows are gathered from the candidate.
    """

    positions: Positions
    scores: Scores
    rows: Indices


def decode_step(
    positions: Positions, scores: Scores, attention: Scores, heavy_rows: int, recent_rows: int
) -> Successor:
    """Score the candidate with the current attention, then keep the heavy and the recent rows of each owner.

    All three arrays have shape [owners, candidate rows], the new row last with score 0; positions ascend. Scores are
    accumulated in float64: a half-precision sum stops growing at 2048. Raises `ValueError` if a weight or score is not
    finite, because a NaN would sort as the largest and always be kept.
    """
    accumulated = np.add(scores, attention, dtype=np.float64)
    rows = select(accumulated, heavy_rows, recent_rows)
    return Successor(np.take_along_axis(positions, rows, axis=1), np.take_along_axis(accumulated, rows, axis=1), rows)


def select(scores: Scores, heavy_rows: int, recent_rows: int) -> Indices:
    """Return the kept rows of each owner, ascending, shape [owners, min(rows, heavy_rows + recent_rows)].

    The newest `recent_rows` stay, and of the rows before them the `heavy_rows` with the largest scores, equal scores by
    lowest row. Raises `ValueError` if a score is not finite.
    """
    owners, rows = scores.shape
    finite = np.isfinite(scores)
    if not finite.all():
        owner, row = np.argwhere(~finite)[0]
        raise ValueError(f"the score of owner {owner}, row {row} is not finite")
    if rows <= heavy_rows + recent_rows:
        return np.broadcast_to(np.arange(rows), (owners, rows)).copy()
    history_rows = rows - recent_rows
    heavy = np.flatnonzero(_largest(scores[:, :history_rows], heavy_rows)).reshape(owners, heavy_rows) % history_rows
    recent = np.broadcast_to(np.arange(history_rows, rows), (owners, recent_rows))
    return np.concatenate((heavy, recent), axis=1)


def reduce_query_heads(attention: Scores, q_to_kv_head_map: Sequence[int], kv_heads: int, reduction: str) -> Scores:
    """Return the attention of each K/V head from that of its mapped query heads, [H_q, rows] to [H_kv, rows].

    `reduction` is sum, mean or max. Every K/V head has a mapped query head.
    """
    mapped = np.asarray(q_to_kv_head_map)
    groups = [attention[mapped == kv_head] for kv_head in range(kv_heads)]
    if reduction == "max":
        return np.stack([group.max(axis=0) for group in groups])
    totals = np.stack([group.sum(axis=0, dtype=np.float64) for group in groups])
    if reduction == "mean":
        totals /= np.array([len(group) for group in groups])[:, np.newaxis]
    return totals


def _largest(history: Scores, count: int) -> npt.NDArray[np.bool_]:
    """Return a mask of the `count` largest of each row of `history`, equal values by lowest column; exactly `count`."""
    columns = history.shape[1]
    if count == 0:
        return np.zeros(history.shape, dtype=bool)
    cut = np.partition(history, columns - count, axis=1)[:, columns - count, np.newaxis]
    largest: npt.NDArray[np.bool_] = history >= cut
    if np.count_nonzero(largest) > largest.shape[0] * count:
        # Equal values cross the cut, so those at the cut are filled from the lowest column upwards.
        above, level = history > cut, history == cut
        missing = count - np.count_nonzero(above, axis=1)[:, np.newaxis]
        largest = above | (level & (np.cumsum(level, axis=1) <= missing))
    return largest

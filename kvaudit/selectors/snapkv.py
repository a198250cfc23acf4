"""SnapKV for real sizes, vectorised with NumPy: the selection of kvaudit.policies.snapkv in floating point.

One layer at a time. K and V are never repeated for the query heads that share them: logits are computed group by
group, and votes are reduced after the softmax. Scores that are apart by more than rounding select the same positions
as the exact definition; closer ones may not.

Shapes: H_q query heads, H_kv K/V heads, O owners (H_kv, or H_q under the owner contract `none`), W window rows,
T prompt rows, L = T - W prefix rows, d channels, K selected rows.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kvaudit.policies import snapkv

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]


def window_logits(queries: Floats, keys: Floats, q_to_kv_head_map: Sequence[int]) -> Floats:
    """Return q . k / sqrt(d), shape [H_q, W, T], for queries [H_q, W, d] and keys [H_kv, T, d]."""
    query_heads, window_rows, channels = queries.shape
    kv_head_of = np.asarray(q_to_kv_head_map)
    logits = np.empty((query_heads, window_rows, keys.shape[1]), dtype=np.float64)
    for kv_head in range(keys.shape[0]):
        readers = np.flatnonzero(kv_head_of == kv_head)
        logits[readers] = queries[readers] @ keys[kv_head].T / np.sqrt(channels)  # [G, W, d] @ [d, T]
    return logits


def window_attention(logits: Floats) -> Floats:
    """Return the causal softmax of window logits, shape [H_q, W, T]: query i sees the keys up to L + i."""
    _, window_rows, prompt_rows = logits.shape
    last_visible = np.arange(prompt_rows - window_rows, prompt_rows)
    visible = np.arange(prompt_rows) <= last_visible[:, None]  # [W, T]
    masked = np.where(visible, logits, -np.inf)
    weights: Floats = np.exp(masked - masked.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return weights


def owner_votes(attention: Floats, q_to_kv_head_map: Sequence[int], contract: str) -> Floats:
    """Return the prefix votes of each owner, shape [O, L], from window attention [H_q, W, T].

    Every K/V head has a query head that reads it, as the exact definition demands.
    """
    _, window_rows, prompt_rows = attention.shape
    votes: Floats = attention[:, :, : prompt_rows - window_rows].sum(axis=1)  # [H_q, L]
    if contract == snapkv.NONE:
        return votes
    kv_head_of = np.asarray(q_to_kv_head_map)
    by_owner = np.argsort(kv_head_of, kind="stable")  # query heads, group after group
    readers = np.bincount(kv_head_of)
    first = np.cumsum(readers) - readers
    if contract == snapkv.MAXIMUM:
        return np.maximum.reduceat(votes[by_owner], first, axis=0)
    means: Floats = np.add.reduceat(votes[by_owner], first, axis=0) / readers[:, None]
    return means


def pooled(votes: Floats, pooling: str, kernel_rows: int) -> Floats:
    """Return the votes [O, L] after pooling along the prefix. Raises `ValueError` for an even kernel.

    Cells are summed from their first position to their last, for all cells at once. So two cells that see the same
    votes get the same sum to the last bit, on every machine, and an exact tie stays one.
    """
    if kernel_rows % 2 == 0:
        raise ValueError(f"a pooling kernel has an odd number of rows, not {kernel_rows}")
    if pooling == snapkv.NO_POOLING:
        return votes
    by_maximum = pooling == snapkv.MAX_POOLING
    outside = -np.inf if by_maximum else 0.0
    prefix_rows, reach = votes.shape[-1], kernel_rows // 2
    padded = np.pad(votes, ((0, 0), (reach, reach)), constant_values=outside)
    scores = padded[:, :prefix_rows].copy()
    combine = np.maximum if by_maximum else np.add
    for offset in range(1, kernel_rows):
        combine(scores, padded[:, offset : offset + prefix_rows], out=scores)
    return scores if by_maximum else scores / _divisors(prefix_rows, pooling, kernel_rows)


def _divisors(prefix_rows: int, pooling: str, kernel_rows: int) -> Floats:
    """Return what the sum of each cell is divided by, shape [L]: the kernel, or the positions that exist."""
    if pooling == snapkv.AVERAGE_PADDING_COUNTED:
        return np.full(prefix_rows, float(kernel_rows))
    positions, reach = np.arange(prefix_rows), kernel_rows // 2
    last, first = np.minimum(positions + reach, prefix_rows - 1), np.maximum(positions - reach, 0)
    return (last - first + 1).astype(np.float64)


def top_k(scores: Floats, selected_rows: int) -> Positions:
    """Return the K best positions of each row of [O, L] scores, best first, equal scores by lowest position.

    A partition finds the K-th largest score in linear time. By itself it leaves open which of several equal scores
    come before the cut, so those are taken from the lowest position upwards. Raises `ValueError` for a NaN.
    """
    if np.isnan(scores).any():
        raise ValueError("a score is not a number")
    owners, prefix_rows = scores.shape
    if selected_rows == 0:
        return np.empty((owners, 0), dtype=np.int64)
    cut = prefix_rows - selected_rows
    at_cut = np.argpartition(scores, cut, axis=-1)[:, cut : cut + 1]
    threshold = np.take_along_axis(scores, at_cut, axis=-1)  # [O, 1]
    above, tied = scores > threshold, scores == threshold
    places_left = selected_rows - above.sum(axis=-1, keepdims=True)
    chosen = above | (tied & (np.cumsum(tied, axis=-1) <= places_left))
    positions = np.nonzero(chosen)[1].reshape(owners, selected_rows)  # ascending in each row
    order = np.argsort(-np.take_along_axis(scores, positions, axis=-1), axis=-1, kind="stable")
    return np.take_along_axis(positions, order, axis=-1)


def packed_positions(
    attention: Floats,
    capacity_rows: int,
    q_to_kv_head_map: Sequence[int],
    *,
    contract: str = snapkv.MEAN,
    pooling: str = snapkv.AVERAGE_PADDING_COUNTED,
    kernel_rows: int = 5,
) -> Positions:
    """Return the original positions that each owner of one layer stores, shape [O, min(C, T)], in packing order.

    `attention` is window attention [H_q, W, T]. A prompt shorter than the capacity keeps every row in its order.
    """
    _, window_rows, prompt_rows = attention.shape
    owners = len(q_to_kv_head_map) if contract == snapkv.NONE else max(q_to_kv_head_map) + 1
    if snapkv.branch(prompt_rows, capacity_rows) == snapkv.FULL_CACHE:
        return np.tile(np.arange(prompt_rows), (owners, 1))
    scores = pooled(owner_votes(attention, q_to_kv_head_map, contract), pooling, kernel_rows)
    selected = top_k(scores, snapkv.selected_rows_of_capacity(capacity_rows, window_rows))
    window = np.tile(np.arange(prompt_rows - window_rows, prompt_rows), (owners, 1))
    return np.concatenate((selected, window), axis=1)

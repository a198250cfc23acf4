"""The views of full cache, sliding window and StreamingLLM with NumPy, for real sizes; tested against `policies`.

Position arrays are what a cache holds at one frontier. Masks are what each query sees where the policy holds from the
first token on: the query at original position q has the view at frontier q + 1, its own row included.
"""

import numpy as np
from numpy.typing import NDArray

from kvaudit.policies import full_cache, sliding_window, streaming_llm
from kvaudit.policies.intervals import Intervals

Positions = NDArray[np.int64]
Mask = NDArray[np.bool_]


def full_positions(frontier: int) -> Positions:
    """Return the positions of the full cache at a frontier, ascending."""
    return _positions(full_cache.visible(frontier))


def sliding_window_positions(frontier: int, window_rows: int) -> Positions:
    """Return the newest W positions at a frontier, ascending."""
    return _positions(sliding_window.visible(frontier, window_rows))


def streaming_llm_positions(frontier: int, sink_rows: int, recent_rows: int) -> Positions:
    """Return the K_s first and W newest positions at a frontier, ascending, each once."""
    return _positions(streaming_llm.visible(frontier, sink_rows, recent_rows))


def full_mask(queries: Positions, keys: Positions) -> Mask:
    """Return which of `keys` [T] each of `queries` [Q] may attend to, shape [Q, T], True for visible."""
    mask: Mask = keys[None, :] <= queries[:, None]
    return mask


def sliding_window_mask(queries: Positions, keys: Positions, window_rows: int) -> Mask:
    """Return the causal mask [Q, T] of a window of W rows: keys q - W + 1 to q."""
    return full_mask(queries, keys) & (keys[None, :] > queries[:, None] - window_rows)


def streaming_llm_mask(queries: Positions, keys: Positions, sink_rows: int, recent_rows: int) -> Mask:
    """Return the causal mask [Q, T] of K_s sinks and a recent window of W rows."""
    kept = (keys[None, :] < sink_rows) | (keys[None, :] > queries[:, None] - recent_rows)
    return full_mask(queries, keys) & kept


def _positions(view: Intervals) -> Positions:
    return np.concatenate([np.empty(0, np.int64), *(np.arange(begin, end) for begin, end in view)])

"""Ragged packing of selected rows with NumPy, for real sizes: the same rows as `policies.packing`, in the same order.

A selection is a list of layers, each a list of K/V heads, each an integer array of original positions. A mask is the
boolean array [L, H_kv, T] of the same selection, where column t stands for original position origin + t.
"""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Positions = NDArray[np.int64]
Selection = Sequence[Sequence[Positions]]
Scalar = TypeVar("Scalar", bound=np.generic)


def lengths(selected: Selection) -> NDArray[np.int64]:
    """Return the number of rows of each owner, shape [L, H_kv]."""
    return np.array([[len(positions) for positions in heads] for heads in selected], dtype=np.int64)


def position_map(selected: Selection) -> Positions:
    """Return the original position of every packed row, shape [R_total]."""
    return np.concatenate([np.empty(0, np.int64), *(positions for heads in selected for positions in heads)])


def flat_offsets(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return L * H_kv + 1 offsets for `rows` [L, H_kv]: owner i holds the packed rows [offsets[i], offsets[i + 1])."""
    return np.concatenate([[0], np.cumsum(rows)])


def global_offsets_per_layer(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the offsets as [L, H_kv + 1], all counted from the first packed row of the whole view."""
    layers, kv_heads = rows.shape
    offsets = flat_offsets(rows)
    table: NDArray[np.int64] = offsets[np.arange(layers)[:, None] * kv_heads + np.arange(kv_heads + 1)]
    return table


def selection_of(mask: NDArray[np.bool_], origin: int = 0) -> list[list[Positions]]:
    """Return the selection of a mask [L, H_kv, T], the positions of each owner ascending."""
    return [[np.flatnonzero(row) + origin for row in heads] for heads in mask]


def gather(source: NDArray[Scalar], selected: Selection, origin: int = 0) -> NDArray[Scalar]:
    """Return the packed rows [R_total, d_h] of `source` [L, H_kv, T, d_h], whose row t is original position origin + t.

    The scalars are copied and nothing else is done to them. Raises `ValueError` if the owners of the selection are not
    those of the source, or if a position lies outside [origin, origin + T), where NumPy would count from the end.
    """
    layers, kv_heads, rows, _ = source.shape
    counts = lengths(selected)
    if counts.shape != (layers, kv_heads):
        raise ValueError(f"the selection has the shape {counts.shape}, the source {(layers, kv_heads)}")
    source_rows = position_map(selected) - origin
    if ((source_rows < 0) | (source_rows >= rows)).any():
        raise ValueError(f"a position lies outside [{origin}, {origin + rows})")
    owners = np.repeat(np.arange(layers * kv_heads), counts.ravel())
    packed: NDArray[Scalar] = source[owners // kv_heads, owners % kv_heads, source_rows]
    return packed

"""MiniCache's merge and restore with NumPy, for real sizes; tested against `policies.minicache`.

Arrays are [..., T, d_h] and computed in float64. Norms are taken of rows scaled by their largest channel, so that
squares neither overflow nor vanish. The angle is twice the arctangent of |u0 - u1| / |u0 + u1|, which is accurate for
nearly equal and for nearly opposite rows, where the arccosine of a float is not.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Merged:
    """K or V of two layers: directions [..., T, d_h]; magnitudes, angles in radians and distances Omega / pi [..., T].

    A direction is all NaN where the rows are too nearly opposite to have one.
    """

    directions: Reals
    low_magnitudes: Reals
    high_magnitudes: Reals
    angles: Reals
    distances: Reals


@dataclass(frozen=True, slots=True)
class Tolerances:
    """In radians: at or below `near_zero_angle` interpolation is linear, within `near_pi_angle` of pi there is none."""

    near_zero_angle: float
    near_pi_angle: float


def merge(low: NDArray[Any], high: NDArray[Any], rho: float, tolerances: Tolerances) -> Merged:
    """Return the shared directions of two layers' rows, with what restores them.

    Raises `ValueError` if the shapes differ or a row has no direction: all zeros, or a channel that is not finite.
    """
    if low.shape != high.shape:
        raise ValueError(f"the lower layer has the shape {low.shape}, the higher one {high.shape}")
    low_units, low_magnitudes = _polar(low)
    high_units, high_magnitudes = _polar(high)
    angles = 2 * np.arctan2(_norm(low_units - high_units), _norm(low_units + high_units))
    opposite = angles >= np.pi - tolerances.near_pi_angle
    linear = angles <= tolerances.near_zero_angle
    whole = np.where(linear | opposite, 1.0, np.sin(angles))
    low_weights = np.where(linear, 1 - rho, np.sin((1 - rho) * angles) / whole)
    high_weights = np.where(linear, rho, np.sin(rho * angles) / whole)
    mixed = low_weights[..., None] * low_units + high_weights[..., None] * high_units
    lengths = np.where(opposite, np.nan, _norm(mixed))
    return Merged(mixed / lengths[..., None], low_magnitudes, high_magnitudes, angles, angles / np.pi)


def exceptions(keys: Merged, values: Merged, distance: float) -> Flags:
    """Return [..., T], true where K or V is farther apart than `distance` or has no direction: one set for both."""
    far = np.maximum(keys.distances, values.distances) > distance
    flags: Flags = far | _undirected(keys) | _undirected(values)
    return flags


def restore(merged: Merged, exact_low: NDArray[Any], exact_high: NDArray[Any], retained: Flags) -> tuple[Reals, Reals]:
    """Return the rows that attention reads of the lower and the higher layer, [..., T, d_h] each.

    `exact_low` and `exact_high` are the rows [n, d_h] that were kept where `retained` [..., T] is true, n of them, in
    row-major order; they overwrite the restored ones. Raises `ValueError` if a row without a direction is not retained.
    """
    if (_undirected(merged) & ~retained).any():
        raise ValueError("a row without a shared direction is not retained")
    low = merged.directions * merged.low_magnitudes[..., None]
    high = merged.directions * merged.high_magnitudes[..., None]
    low[retained], high[retained] = exact_low, exact_high
    return low, high


def _polar(rows: NDArray[Any]) -> tuple[Reals, Reals]:
    """Return unit rows and norms."""
    exact = rows.astype(np.float64)
    largest = np.abs(exact).max(axis=-1, keepdims=True)
    if not (np.isfinite(largest) & (largest > 0)).all():
        raise ValueError("a zero or not finite row has no direction")
    scaled = exact / largest
    lengths = _norm(scaled)[..., None]
    units: Reals = scaled / lengths
    magnitudes: Reals = (lengths * largest)[..., 0]
    return units, magnitudes


def _norm(rows: Reals) -> Reals:
    lengths: Reals = np.sqrt((rows * rows).sum(axis=-1))
    return lengths


def _undirected(merged: Merged) -> Flags:
    flags: Flags = np.asarray(np.isnan(merged.directions).any(axis=-1))
    return flags

"""PyramidKV: layer budgets on a straight line from the bottom layer to the top one (specification 0x08B).

    k_top = K / (beta m)      k_bottom = 2 K / m - k_top      k_l = k_bottom - l (k_bottom - k_top) / (m - 1)

K is the total over the m layers, in whatever unit it is given: rows a layer, or rows a K/V head of the layer. The
paper and the code mean the second, every head gets the layer's capacity; the two differ by the factor H_kv.
Source: arXiv 2406.02069, section 3; code Zefan-Cai/PyramidKV, `pyramidkv/pyramidkv_utils.py`, read at 5d4e2e1 and
c97f9d7 (the pin 94255b6 is in neither public history).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from kvaudit.policies.apportionment import Number, apportion

FULL, UNIFORM, PYRAMID = "full", "uniform", "pyramid"


def endpoints(total: int, layers: int, beta: Number) -> tuple[Fraction, Fraction]:
    """Return (k_bottom, k_top) in rows.

    Raises `ValueError` for one layer, which has no slope, and for beta < 1/2, which makes the bottom layer negative.
    """
    if layers < 2:
        raise ValueError(f"a schedule needs two layers or more, not {layers}")
    if 2 * beta < 1:
        raise ValueError(f"beta {float(beta)} is below 1/2 and makes the bottom budget negative")
    top = total / (Fraction(beta) * layers)
    return Fraction(2 * total, layers) - top, top


def layer_targets(total: int, layers: int, beta: Number) -> tuple[Fraction, ...]:
    """Return the real-valued targets k_l from bottom to top, shape [m]; they sum to `total`. Raises as `endpoints`."""
    bottom, top = endpoints(total, layers, beta)
    return tuple(bottom - layer * (bottom - top) / (layers - 1) for layer in range(layers))


def layer_budgets(total: int, layers: int, beta: Number, floors: Sequence[int], caps: Sequence[int]) -> tuple[int, ...]:
    """Return the integer layer budgets, shape [m], summing to `total`. Raises `ValueError` where there are none."""
    return apportion(layer_targets(total, layers, beta), total, floors, caps)


def layer_targets_divided_by_m(total: int, layers: int, beta: Number) -> tuple[Fraction, ...]:
    """Return the line with m instead of m - 1 steps: it never reaches k_top and sums to more than `total`.

    A labelled alternative: the reading of KVCache-Factory issue 36, which its authors confirm to be off by one.
    """
    bottom, top = endpoints(total, layers, beta)
    return tuple(bottom - layer * (bottom - top) / layers for layer in range(layers))


@dataclass(frozen=True, slots=True)
class PinnedSchedule:
    """What the code gives each layer: the branch it takes, and prefix rows a head, bottom layer first.

    `high`, `low` and `step` are None outside the pyramid branch; `capacities` is None where nothing is dropped.
    """

    branch: str
    high: int | None
    low: int | None
    step: int | None
    capacities: tuple[int, ...] | None


def pinned_capacities(capacity: int, window: int, layers: int, beta: int, prompt: int) -> PinnedSchedule:
    """Return the schedule of the released code: two floor divisions, so the total is not conserved.

    `capacity` includes the `window` rows, which come on top of the capacities here; `prompt` is in rows; two layers or
    more. A prompt below the capacity is kept whole; below twice the base every layer gets the base, which is SnapKV.
    """
    base = capacity - window
    if prompt < capacity:
        return PinnedSchedule(FULL, None, None, None, None)
    if prompt < 2 * base:
        return PinnedSchedule(UNIFORM, None, None, None, (base,) * layers)
    low = base // beta
    high = 2 * base - low
    if high >= prompt - window:
        high = prompt - window
        low = 2 * base - high
    step = (high - low) // (layers - 1)
    return PinnedSchedule(PYRAMID, high, low, step, tuple(high - layer * step for layer in range(layers)))

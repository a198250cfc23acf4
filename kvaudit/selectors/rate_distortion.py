"""Rate-distortion retention with NumPy, for millions of states: the allocation of `policies.rate_distortion`.

No heap is needed. In the greedy order a step waits for the steps of its state before it, so its place is decided by the
largest price up to it: one stable sort by that running maximum gives the order of the heap, ties included (lowest state
first, then tier). The whole is O(n t log(n t)). Prices are float64, so states whose exact prices differ by less than
rounding may change places.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Reals = NDArray[np.float64]

DROPPED = -1


@dataclass(frozen=True, slots=True)
class Allocation:
    """The tier of each state (int8 [n], `DROPPED` if it went), the number of steps, page bytes and distortion."""

    assignment: NDArray[np.int8]
    steps: int
    page_bytes: int
    distortion: float


def allocate(
    distortions: NDArray[Any],
    drop_distortions: NDArray[Any],
    protected: NDArray[np.bool_],
    row_bits: NDArray[Any],
    page_bytes: NDArray[Any],
    page_tokens: int,
    budget_bytes: int,
) -> Allocation:
    """Return the allocation of n states over t tiers.

    `distortions` [n, t] safest tier first, `drop_distortions` [n], `protected` [n], `row_bits` [t] falling,
    `page_bytes` [t] of one page of `page_tokens` rows. Raises `ValueError` if the protected rows alone do not fit.
    """
    states, tiers = distortions.shape
    bits, pages = row_bits.astype(np.int64), page_bytes.astype(np.int64)
    values = distortions.astype(np.float64)
    free = np.flatnonzero(~protected)
    prices = np.diff(values[free], axis=1) / -np.diff(bits)
    np.maximum.accumulate(prices, axis=1, out=prices)
    order = np.argsort(prices, axis=None, kind="stable")
    lowered, source = np.divmod(order, max(1, tiers - 1))
    dropped = np.argsort(drop_distortions[free] - values[free, -1], kind="stable")
    sources = np.concatenate([source, np.full(len(free), tiers - 1)])
    targets = np.concatenate([source + 1, np.full(len(free), tiers)])
    taken = _first_fit(states, sources, targets, pages, page_tokens, budget_bytes)
    if taken is None:
        raise ValueError(f"the protected rows alone need more than {budget_bytes} bytes")
    assignment = np.zeros(states, np.int8)
    # Steps of one state stand in the order of its tiers, so counting them gives its tier.
    assignment[free] = np.bincount(lowered[:taken], minlength=len(free))
    assignment[free[dropped[: max(0, taken - len(order))]]] = DROPPED
    kept = np.flatnonzero(assignment != DROPPED)
    total = values[kept, assignment[kept]].sum() + drop_distortions[assignment == DROPPED].sum()
    counts = np.bincount(assignment[kept], minlength=tiers)
    return Allocation(assignment, taken, int((-(-counts // page_tokens) * pages).sum()), float(total))


def lagrangian_bound(
    distortions: NDArray[Any],
    drop_distortions: NDArray[Any] | None,
    protected: NDArray[np.bool_],
    row_bits: NDArray[Any],
    budget_bits: int,
    rounds: int = 50,
) -> float:
    """Return a lower bound on the distortion of every assignment within `budget_bits` of rows.

    Any multiplier gives a bound; the one used is found by bisection, `rounds` evaluations of O(n t). Without
    `drop_distortions` nothing may be dropped. The multiplier is sought up to the largest price there is, so a budget
    that no assignment meets is bounded too, by what that multiplier gives.
    """
    values, bits = distortions.astype(np.float64), row_bits.astype(np.float64)
    if drop_distortions is not None:
        values = np.column_stack([values, drop_distortions.astype(np.float64)])
        bits = np.append(bits, 0.0)
    fixed = float(values[protected, 0].sum()), float(bits[0] * np.count_nonzero(protected))
    values = values[~protected]
    spread = float(np.ptp(values)) if values.size else 0.0
    low, high, best = 0.0, 1.0 + spread / float(np.abs(np.diff(bits)).min(initial=np.inf)), -np.inf
    for multiplier in (low, high):
        best = max(best, _dual(values, bits, multiplier, budget_bits, fixed)[0])
    for _ in range(rounds):
        middle = (low + high) / 2
        bound, used = _dual(values, bits, middle, budget_bits, fixed)
        best = max(best, bound)
        low, high = (middle, high) if used > budget_bits else (low, middle)
    return best


def _dual(
    values: Reals, bits: Reals, multiplier: float, budget_bits: int, fixed: tuple[float, float]
) -> tuple[float, float]:
    """Return the Lagrangian bound of one multiplier and the bits that its assignment uses."""
    penalised = values + multiplier * bits
    choice = penalised.argmin(axis=1)
    used = float(bits[choice].sum()) + fixed[1]
    chosen = float(values[np.arange(len(values)), choice].sum()) + fixed[0]
    return chosen + multiplier * (used - budget_bits), used


def _first_fit(
    states: int, sources: Integers, targets: Integers, pages: Integers, page_tokens: int, budget_bytes: int
) -> int | None:
    """Return the least number of steps after which the page bytes fit, or None. Tier t = len(pages) stands for out."""
    sizes = np.zeros(len(sources) + 1, np.int64)
    for tier, each in enumerate(pages):
        rows = np.empty(len(sizes), np.int64)
        rows[0] = states if tier == 0 else 0
        np.cumsum((targets == tier).astype(np.int8) - (sources == tier), out=rows[1:])
        rows[1:] += rows[0]
        sizes += -(-rows // page_tokens) * each
    fits = sizes <= budget_bytes
    first = int(fits.argmax())
    return first if fits[first] else None

"""The iso-quality frontier of measured operating points (Spherical KV, arXiv 2605.18856, appendix D; figure 4).

Rules of this module:
- It is given points of *one cohort*; that they are is judged before (kvaudit/reconcile/frontier.py). Inside one cohort,
  and with its objective stated, this is the one place in kvaudit where values are ordered.
- A point without a complete tuple (resident bytes, HBM bytes, tokens per second, quality) is on no frontier. It is
  listed as incomplete; what was not measured is never taken as zero.
- Quality is a score of which more is better. The *reference* is the dense point of best quality, and a point is
  retained if its quality is at least that of the reference minus the tolerance. The comparison is exact: a point that
  reaches the limit is retained.
- A point leaves the envelope only if another retained point has no more resident bytes and no fewer tokens per second
  and is strictly ahead in one of the two. Equal points both stay, so the envelope does not depend on any order.
- The representative has the largest tokens per second a resident byte; then more tokens per second, fewer resident
  bytes, fewer HBM bytes, the smaller budget index. Points that are equal in all of these differ in method only; the
  name decides then, so that a rerun finds the same point. `Fewer resident bytes` can decide at zero tokens per second
  only, because equal ratios and equal positive speeds force equal bytes.

The paper indexes its retained set and both gains by m. We read m as the method and give both: one summary over all
points, as the definitions are printed, and one a method. Dense points of equal best quality are this project's case:
more tokens per second first, then as for the representative.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

Number = int | Fraction


@dataclass(frozen=True, slots=True)
class Point:
    """One measured operating point: a method at one budget of its sweep.

    `resident_bytes_per_token` is b_KV, above zero, paging and metadata included; `hbm_bytes_per_token` is b_HBM, the
    bytes that a decode step moves for each token of context; `tokens_per_second` is s. `quality` is Q in the units of
    its score. None means not measured.
    """

    method: str
    budget_index: int
    resident_bytes_per_token: Number | None
    hbm_bytes_per_token: Number | None
    tokens_per_second: Number | None
    quality: Number | None

    @property
    def id(self) -> str:
        return f"{self.method}/{self.budget_index}"

    @property
    def complete(self) -> bool:
        return None not in (
            self.resident_bytes_per_token,
            self.hbm_bytes_per_token,
            self.tokens_per_second,
            self.quality,
        )


@dataclass(frozen=True, slots=True)
class Summary:
    """What is said of a set of points. `representative` is None where nothing is retained.

    `gain_speed` (Gamma_s) is the most tokens per second among the retained points over those of the reference; None
    where nothing is retained or the reference makes no tokens. `gain_memory` (Gamma_m) is the resident bytes of the
    reference over the fewest among the retained points that are at least as fast; None where there is none.
    """

    retained: tuple[Point, ...]
    envelope: tuple[Point, ...]
    representative: Point | None
    gain_speed: Fraction | None
    gain_memory: Fraction | None


@dataclass(frozen=True, slots=True)
class Frontier:
    """The frontier of one cohort. `reference` is None if there is no complete dense point: then nothing is retained.

    Every point is in `incomplete`, in `outside` (of the tolerance) or in `overall.retained`.
    """

    reference: Point | None
    quality_tolerance: Number
    incomplete: tuple[Point, ...]
    outside: tuple[Point, ...]
    overall: Summary
    methods: Mapping[str, Summary]


def frontier(points: Iterable[Point], dense_method: str, quality_tolerance: Number) -> Frontier:
    """Return the frontier of points of one cohort, whatever their order.

    `quality_tolerance` is Delta, at least zero, in the units of the quality.
    """
    ordered = sorted(points, key=lambda point: (point.method, point.budget_index))
    complete = [point for point in ordered if point.complete]
    best = reference(point for point in complete if point.method == dense_method)
    within = retained(complete, best, quality_tolerance)
    inside = set(within)
    return Frontier(
        reference=best,
        quality_tolerance=quality_tolerance,
        incomplete=tuple(point for point in ordered if not point.complete),
        outside=tuple(point for point in complete if point not in inside),
        overall=summary(within, best),
        methods={
            method: summary([point for point in within if point.method == method], best)
            for method in sorted({point.method for point in ordered})
        },
    )


def reference(dense: Iterable[Point]) -> Point | None:
    """Return the dense point of best quality, None if there is no complete one."""
    return min(dense, key=lambda point: (-_known(point.quality), *_order(point)), default=None)


def retained(points: Iterable[Point], best: Point | None, quality_tolerance: Number) -> tuple[Point, ...]:
    """Return the complete points of which the quality is at least that of `best` minus the tolerance."""
    if best is None:
        return ()
    least = _known(best.quality) - quality_tolerance
    return tuple(point for point in points if point.complete and _known(point.quality) >= least)


def summary(within: Sequence[Point], best: Point | None) -> Summary:
    """Return the envelope, the representative and the two gains of retained points."""
    outer = envelope(within)
    return Summary(tuple(within), outer, representative(outer), gain_speed(within, best), gain_memory(within, best))


def envelope(points: Iterable[Point]) -> tuple[Point, ...]:
    """Return the points that no other dominates in (resident bytes down, tokens per second up), fewest bytes first.

    O(n log n): in the order of bytes a point stays if it is faster than every point with fewer bytes, and as fast as
    any with equal bytes.
    """
    ordered = sorted(points, key=lambda point: (*_plane(point), point.method, point.budget_index))
    outer: list[Point] = []
    for point in ordered:
        last = outer[-1] if outer else None
        ahead = last is None or _known(point.tokens_per_second) > _known(last.tokens_per_second)
        if last is None or ahead or _plane(point) == _plane(last):
            outer.append(point)
    return tuple(outer)


def dominates(one: Point, other: Point) -> bool:
    """Return whether `one` is nowhere behind `other` in bytes and speed, and ahead in one of the two."""
    (bytes_one, slowness_one), (bytes_other, slowness_other) = _plane(one), _plane(other)
    behind = bytes_one > bytes_other or slowness_one > slowness_other
    return not behind and (bytes_one, slowness_one) != (bytes_other, slowness_other)


def representative(points: Iterable[Point]) -> Point | None:
    """Return the point with the most tokens per second a resident byte, with the tie-breaks above; None for none."""
    return min(
        points,
        key=lambda point: (-_known(point.tokens_per_second) / _known(point.resident_bytes_per_token), *_order(point)),
        default=None,
    )


def gain_speed(within: Iterable[Point], best: Point | None) -> Fraction | None:
    """Return Gamma_s, None where it does not exist."""
    fastest = max((_known(point.tokens_per_second) for point in within), default=None)
    if best is None or fastest is None or _known(best.tokens_per_second) == 0:
        return None
    return fastest / _known(best.tokens_per_second)


def gain_memory(within: Iterable[Point], best: Point | None) -> Fraction | None:
    """Return Gamma_m, None where no retained point is at least as fast as the reference."""
    if best is None:
        return None
    speed = _known(best.tokens_per_second)
    smallest = min(
        (_known(point.resident_bytes_per_token) for point in within if _known(point.tokens_per_second) >= speed),
        default=None,
    )
    return None if smallest is None else _known(best.resident_bytes_per_token) / smallest


def filtered(
    points: Iterable[Point], best: Point | None, quality_tolerance: Number, stable: Callable[[Point], bool]
) -> Summary:
    """Return the summary of the retained points that are stable: what a release may publish.

    The filter comes before the envelope, so that a point which fails a witness hides no point that passes. The
    reference stays what it is: the witnesses compare with it.
    """
    return summary([point for point in retained(points, best, quality_tolerance) if stable(point)], best)


def _order(point: Point) -> tuple[Any, ...]:
    """Return what decides between points that are equal in the first criterion."""
    return (
        -_known(point.tokens_per_second),
        _known(point.resident_bytes_per_token),
        _known(point.hbm_bytes_per_token),
        point.budget_index,
        point.method,
    )


def _plane(point: Point) -> tuple[Fraction, Fraction]:
    return _known(point.resident_bytes_per_token), -_known(point.tokens_per_second)


def _known(value: Number | None) -> Fraction:
    if value is None:
        raise ValueError("a point without a complete tuple is on no frontier")
    return Fraction(value)

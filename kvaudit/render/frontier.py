"""Frontiers of sets of operating points as text and JSON.

Points are listed with what became of them. They are ordered by resident bytes inside their set, which is one cohort;
nothing is ordered across sets.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from kvaudit.evidence import canonical
from kvaudit.loops.loop13_spherical.frontier import Drawn, described, tables
from kvaudit.model import Finding, Table
from kvaudit.policies.frontier import Frontier, Point, dominates
from kvaudit.render import check, explain
from kvaudit.render import tables as render_tables
from kvaudit.render.tables import Display, printable

SCHEMA = "kvaudit.frontier-result/1"


def text(path: str, sets: Sequence[Drawn], findings: Sequence[Finding], display: Display) -> str:
    """Return the points and gains of each set, and for a set without a frontier the finding and the explanation."""
    blocks = []
    for each in sets:
        if each.frontier is not None:
            results = canonical.written({"panels": {each.id: described(each.frontier, each.panel)}})
            shown = render_tables.text([_points(each.id, each.frontier), tables(results)[1]], display)
            blocks.append(f"{shown}\n{_summary(each, each.frontier)}\n")
    if findings:
        blocks.append(check.findings_text(findings, display=display))
    blocks.extend(
        f"{printable(each.id)} has no frontier, because these two points are not of one cohort:\n\n"
        f"{explain.text(each.explanation, display)}"
        for each in sets
        if each.explanation is not None
    )
    return "\n".join(blocks) if findings else "\n".join([*blocks, f"{path}: ok\n"])


def document(path: str, sets: Sequence[Drawn], findings: Sequence[Finding]) -> dict[str, Any]:
    """Return the same content as JSON values."""
    return {
        "schema": SCHEMA,
        "ok": not findings,
        "path": path,
        "sets": {
            each.id: {
                "evidence_class": each.evidence_class,
                "frontier": None if each.frontier is None else described(each.frontier, each.panel),
                "points": None if each.frontier is None else _places(each.frontier),
                "explanation": None if each.explanation is None else explain.document(each.explanation),
            }
            for each in sets
        },
        "findings": check.finding_documents(findings),
    }


def standing(found: Frontier, point: Point) -> str:
    """Return what became of a point: on the envelope, dominated (and by which), outside the tolerance, incomplete."""
    if not point.complete:
        return "incomplete: a value was not measured"
    if point in found.outside:
        return "outside the tolerance"
    if point in found.overall.envelope:
        return "envelope, representative" if point == found.overall.representative else "envelope"
    by = next(each for each in found.overall.envelope if dominates(each, point))
    return f"dominated by {by.id}"


def every_point(found: Frontier) -> tuple[Point, ...]:
    """Return all points of a set, fewest resident bytes first; those without a measured size last."""
    points = (*found.incomplete, *found.outside, *found.overall.retained)
    return tuple(
        sorted(
            points,
            key=lambda point: (
                point.resident_bytes_per_token is None,
                point.resident_bytes_per_token or 0,
                point.method,
                point.budget_index,
            ),
        )
    )


def _points(name: str, found: Frontier) -> Table:
    return Table(
        f"Points of {name}, one cohort",
        ("point", "resident B/token", "HBM B/token", "tokens/s", "quality", "standing"),
        tuple(
            (
                point.id,
                *(
                    _number(value)
                    for value in (
                        point.resident_bytes_per_token,
                        point.hbm_bytes_per_token,
                        point.tokens_per_second,
                        point.quality,
                    )
                ),
                standing(found, point) + (", reference" if point == found.reference else ""),
            )
            for point in every_point(found)
        ),
    )


def _summary(each: Drawn, found: Frontier) -> str:
    reference = found.reference
    assert reference is not None  # a drawn set has a dense reference
    least = Fraction(reference.quality or 0) - found.quality_tolerance
    kept, points = len(found.overall.retained), len(every_point(found))
    return printable(
        f"{each.id} ({each.evidence_class}): {points} points, {kept} with quality of at least {_number(least)} "
        f"({_number(reference.quality)} of {reference.id} minus {_number(found.quality_tolerance)}), "
        f"{len(found.overall.envelope)} on the envelope (resident bytes down, tokens per second up)"
    )


def _places(found: Frontier) -> dict[str, Any]:
    return {point.id: standing(found, point) for point in every_point(found)}


def _number(value: int | Fraction | None) -> str:
    return "none" if value is None else f"{canonical.reported(Fraction(value)):.12g}"

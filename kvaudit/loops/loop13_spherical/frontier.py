"""The frontier section of loop 13: operating points of one cohort a panel, and what a release publishes of them.

Judged in this order, panel by panel: the points (no two alike, bytes that add up, coordinates that their keys take),
one cohort, the dense baseline; then the receipt: reference, and for all points together and for each method the
retained points, the envelope, the representative and the two gains.

Decided here:
- A panel is a set of points like any document of `kvaudit.frontier/1`, so that `kvaudit frontier` and the oracle judge
  by the same function, `judged`. Coordinates may be stated for the section, a panel or a point; the nearest counts.
- `resident_parts` is null exactly where the resident bytes are: a total of which nobody knows the parts may leave out
  page tables and metadata, which is how the same cache has two sizes.
- Points are named METHOD/BUDGET_INDEX. Lists of a receipt are sets; their order says nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from kvaudit.errors import ContractViolation, FileDefect
from kvaudit.evidence import canonical
from kvaudit.evidence.summary import summarised
from kvaudit.model import Diagnostic, Document, LedgerRow, Table, pointer
from kvaudit.policies import frontier as policy
from kvaudit.policies.frontier import Frontier, Point, Summary
from kvaudit.reconcile import coordinates as systems
from kvaudit.reconcile import frontier as cohort
from kvaudit.reconcile.explain import Explanation
from kvaudit.reconcile.frontier import Layer, Mixed

POINT_REPEATED = Diagnostic(
    code="spherical.frontier-point-repeated",
    contract="No two points of a panel have the same method and budget index.",
    why="Two runs under one name are two samples of one point; the faster one of them is luck, not a setting.",
    fix="Aggregate repeated runs into one point, or number the budgets of the sweep.",
)
PARTS = Diagnostic(
    code="spherical.frontier-bytes-not-accounted",
    contract="The resident bytes of a point are the sum of payload, paging and metadata, each stated.",
    why="Codes without page tables, tier tables and headers are less than what the cache occupies; the envelope would "
    "reward whoever forgets most.",
    fix="Count all three for each token of context, and state their sum.",
)
COORDINATE_VALUE = Diagnostic(
    code="spherical.frontier-coordinate-value",
    contract="A coordinate of a point has the type of its key and, where the key lists them, an allowed value.",
    why="A misspelt setting separates points that belong together, or hides that they do not.",
    fix="Use a value that the coordinate system result/1 takes.",
)
UNDECLARED = Diagnostic(
    code="spherical.frontier-coordinate-undeclared",
    contract="Every coordinate of a point that the sweep does not vary is stated or not applicable.",
    why="A setting that nobody stated may be the one that made the point faster.",
    fix="State it for the section, the panel or the point; `kvaudit explain` says why it matters.",
)
MIXED = Diagnostic(
    code="spherical.frontier-cohort-mixed",
    contract="All points of a panel are of one cohort: every coordinate that the sweep does not vary is equal.",
    why="On another device, engine setting, workload or accounting a point is ahead for reasons that are not the "
    "method's; an envelope over both compares nothing.",
    fix="Rerun under the settings of the others, or draw a panel of its own.",
)
BASELINE = Diagnostic(
    code="spherical.frontier-dense-baseline-missing",
    contract="The dense method of a panel has at least one point with a complete tuple.",
    why="Without a dense quality there is nothing for the tolerance to be relative to, and no gain to speak of.",
    fix="Measure the dense cache in the same cohort, all four values, and name its method.",
)
REFERENCE = Diagnostic(
    code="spherical.frontier-reference-mismatch",
    contract="The reference is the dense point of best quality; among equals the one with more tokens per second.",
    why="A weaker dense point lowers the bar, and every gain is measured from it.",
    fix="Name the dense point of best quality.",
)
INCOMPLETE_PUBLISHED = Diagnostic(
    code="spherical.frontier-incomplete-tuple-published",
    contract="A retained point has all four of resident bytes, HBM bytes, tokens per second and quality.",
    why="Memory saved without measured traffic, or speed without quality, is half a claim; the other half is unknown.",
    fix="Measure what is missing, or leave the point out.",
)
TOLERANCE = Diagnostic(
    code="spherical.frontier-point-outside-tolerance",
    contract="A retained point has at least the quality of the reference minus the tolerance.",
    why="A point that gave up quality buys its speed with it, and is not on an iso-quality frontier.",
    fix="Leave the point out, or state the wider tolerance for all methods.",
)
DROPPED = Diagnostic(
    code="spherical.frontier-retained-point-missing",
    contract="Every point within the tolerance is retained, one that reaches the limit exactly too.",
    why="A method whose points are left out looks dominated. In binary floating point 90.4 - 0.8 is more than 89.6.",
    fix="Retain by quality alone, computed on decimals.",
)
DOMINATED = Diagnostic(
    code="spherical.frontier-dominated-point-published",
    contract="No point of an envelope is dominated by a retained one in resident bytes (fewer) and tokens per second "
    "(more).",
    why="Nobody who reads the envelope should choose a point that costs more memory for no speed.",
    fix="Remove the dominated point, or show it as retained only.",
)
ENVELOPE_MISSING = Diagnostic(
    code="spherical.frontier-envelope-point-missing",
    contract="An envelope has every retained point that none dominates; equal points are all on it.",
    why="Dropping one of two equal points picks a method by the order of a list.",
    fix="Publish every point that no other dominates.",
)
REPRESENTATIVE = Diagnostic(
    code="spherical.frontier-representative-mismatch",
    contract="The representative is the envelope point with the most tokens per second a resident byte; then more "
    "tokens per second, fewer resident bytes, fewer HBM bytes, smaller budget index.",
    why="A star that is chosen by eye moves with every rerun, and always to where it flatters.",
    fix="Apply the rule with its tie-breaks in order.",
)
GAIN_SPEED = Diagnostic(
    code="spherical.frontier-gain-speed-mismatch",
    contract="The gain in speed is the most tokens per second within the tolerance over those of the reference; null "
    "where there is none.",
    why="Taken over points outside the tolerance, or against a slower dense point, it is another number.",
    fix="Recompute it from the retained points and the reference.",
)
GAIN_MEMORY = Diagnostic(
    code="spherical.frontier-gain-memory-mismatch",
    contract="The gain in memory is the resident bytes of the reference over the fewest among retained points that are "
    "at least as fast; null where there is none.",
    why="A cache that is small and slow saves memory by not doing the work; 0 or 1 in place of null claims a result.",
    fix="Recompute it, and write null if no retained point is as fast as the reference.",
)
METHODS = Diagnostic(
    code="spherical.frontier-methods-mismatch",
    contract="A receipt has one summary for each method of the panel, those with nothing retained too.",
    why="A method that was measured and does not appear was dropped for its result.",
    fix="Write a summary for each method; one that retains nothing has empty lists and nulls.",
)

DIAGNOSTICS = (
    POINT_REPEATED,
    PARTS,
    COORDINATE_VALUE,
    UNDECLARED,
    MIXED,
    BASELINE,
    REFERENCE,
    METHODS,
    INCOMPLETE_PUBLISHED,
    TOLERANCE,
    DROPPED,
    DOMINATED,
    ENVELOPE_MISSING,
    REPRESENTATIVE,
    GAIN_SPEED,
    GAIN_MEMORY,
)

CATEGORIES = ("frontier points", "mixed cohort", "tolerance", "envelope", "tie-break", "gain")

_NAMED = 4


@dataclass(frozen=True, slots=True)
class Drawn:
    """One set of points as `kvaudit frontier` answers it: its frontier, or why there is none.

    `panel` is the document with the points. `evidence_class` is the coordinate that all of them share, None where
    there is no frontier. `explanation` is given where the set is not of one cohort.
    """

    id: str
    panel: Mapping[str, Any]
    evidence_class: str | None
    frontier: Frontier | None
    defect: ContractViolation | None
    explanation: Explanation | None


def check(section: Document, at: str) -> tuple[Document, tuple[LedgerRow, ...]]:
    """Return the results and ledger rows of the section at `at`, or raise the first `ContractViolation`."""
    results: Document = {}
    ledgers: list[LedgerRow] = []
    for name, panel in section["panels"].items():
        place = at + pointer("panels", name)
        found = judged([(at, section), (place, panel)], panel, place)
        _judge_receipt(found, panel["receipt"], place + pointer("receipt"))
        results[name] = described(found, panel)
        ledgers.extend(_ledgers(name, found))
    return {"panels": results}, tuple(ledgers)


def judged(layers: Sequence[Layer], panel: Mapping[str, Any], at: str) -> Frontier:
    """Return the frontier of a panel or document, or raise what is wrong with its points, its cohort or its baseline.

    `layers` are the (pointer, document) pairs that state coordinates, the outermost first and `panel` last.
    """
    place = at + pointer("points")
    points = _points(panel["points"], place)
    try:
        mixed = cohort.mixed(layers, panel["points"], place)
    except FileDefect as defect:
        raise ContractViolation(COORDINATE_VALUE, defect.pointer, defect.message) from None
    if mixed is not None:
        raise ContractViolation(MIXED if mixed.open_in is None else UNDECLARED, mixed.place, separation(mixed, points))
    found = policy.frontier(points, panel["dense_method"], panel["quality_tolerance"])
    if found.reference is None:
        raise ContractViolation(
            BASELINE,
            at + pointer("dense_method"),
            f"expected a point of {panel['dense_method']} with all four values measured, found none",
        )
    return found


def drawn(name: str, layers: Sequence[Layer], panel: Mapping[str, Any], at: str) -> Drawn:
    """Return the frontier of a set as `judged` finds it, or the defect, with an explanation if the cohort is mixed."""
    place = at + pointer("points")
    try:
        found = judged(layers, panel, at)
    except ContractViolation as defect:
        mixed = cohort.mixed(layers, panel["points"], place) if defect.diagnostic in (MIXED, UNDECLARED) else None
        return Drawn(name, panel, None, None, defect, None if mixed is None else mixed.explanation)
    first = cohort.subjects(layers, panel["points"][:1], place)[0]
    return Drawn(name, panel, str(first.coordinates["evidence.class"]), found, None, None)


def read_points(items: Iterable[Mapping[str, Any]]) -> tuple[Point, ...]:
    """Return the points that a document of `kvaudit.frontier/1` lists."""
    return tuple(
        Point(
            method=item["method"],
            budget_index=item["budget_index"],
            resident_bytes_per_token=item["resident_bytes_per_token"],
            hbm_bytes_per_token=item["hbm_bytes_per_token"],
            tokens_per_second=item["tokens_per_second"],
            quality=item["quality"],
        )
        for item in items
    )


def separation(mixed: Mixed, points: Sequence[Point]) -> str:
    """Return in one sentence which points are not of one cohort, and in what."""
    if mixed.open_in is not None:
        name = points[mixed.open_in].id
        return f"{name} leaves {mixed.key} undeclared; a point with an open coordinate has no cohort"
    row = next(row for row in mixed.explanation.rows if row.key == mixed.key and row.blocks)
    one, other = (_text(systems.to_json(value)) for value in (row.a, row.b))
    return f"{points[0].id} and {points[mixed.other].id} are not of one cohort: {mixed.key} is {one} and {other}"


def described(found: Frontier, panel: Mapping[str, Any]) -> Document:
    """Return what a report says of a frontier: its sets by the names of the points, and the envelope with settings."""
    reference = found.reference
    assert reference is not None  # `judged` refuses a panel without one
    settings = {f"{item['method']}/{item['budget_index']}": item for item in panel["points"]}
    return {
        "reference": reference.id,
        "least_quality": Fraction(reference.quality or 0) - panel["quality_tolerance"],
        "incomplete": summarised([point.id for point in found.incomplete]),
        "overall": summary_document(found.overall),
        "methods": {method: summary_document(summary) for method, summary in found.methods.items()},
        "envelope_points": {
            point.id: {
                "resident_bytes_per_token": point.resident_bytes_per_token,
                "hbm_bytes_per_token": point.hbm_bytes_per_token,
                "tokens_per_second": point.tokens_per_second,
                "quality": point.quality,
                "kernel_path": settings[point.id]["kernel_path"],
                "engine_settings": settings[point.id]["engine_settings"],
            }
            for point in found.overall.envelope
        },
    }


def summary_document(summary: Summary) -> Document:
    """Return a summary as reports write it."""
    return {
        "retained": summarised([point.id for point in summary.retained]),
        "envelope": summarised([point.id for point in summary.envelope]),
        "representative": None if summary.representative is None else summary.representative.id,
        "gain_speed": summary.gain_speed,
        "gain_memory": summary.gain_memory,
    }


def judge_summary(
    expected: Summary, least: Fraction, receipt: Mapping[str, Any], known: Mapping[str, Point], at: str
) -> None:
    """Raise the first way in which a published summary is not the expected one. `least` is the quality to reach."""
    retained = {point.id for point in expected.retained}
    for index, name in enumerate(receipt["retained"]):
        if name in retained:
            continue
        point, place = known.get(name), at + pointer("retained", index)
        if point is not None and not point.complete:
            raise ContractViolation(INCOMPLETE_PUBLISHED, place, f"{name} has a value that was not measured")
        quality = "no point of this summary" if point is None else f"quality {_text(point.quality)}"
        raise ContractViolation(TOLERANCE, place, f"expected quality of at least {_text(least)}, found {quality}")
    _require_members(expected.retained, receipt["retained"], DROPPED, at + pointer("retained"))
    envelope = {point.id for point in expected.envelope}
    for index, name in enumerate(receipt["envelope"]):
        if name not in envelope:
            ahead = next(
                (each.id for each in expected.envelope if name in known and policy.dominates(each, known[name])), None
            )
            by = f"{name} is not retained" if name not in retained else f"{name} is dominated by {ahead}"
            raise ContractViolation(DOMINATED, at + pointer("envelope", index), by)
    _require_members(expected.envelope, receipt["envelope"], ENVELOPE_MISSING, at + pointer("envelope"))
    star = None if expected.representative is None else expected.representative.id
    if receipt["representative"] != star:
        message = f"expected {_text(star)}, found {_text(receipt['representative'])}"
        raise ContractViolation(REPRESENTATIVE, at + pointer("representative"), message)
    for member, diagnostic, value in (
        ("gain_speed", GAIN_SPEED, expected.gain_speed),
        ("gain_memory", GAIN_MEMORY, expected.gain_memory),
    ):
        if not same_value(receipt[member], value):
            message = f"expected {_text(value)}, found {_text(receipt[member])}"
            raise ContractViolation(diagnostic, at + pointer(member), message)


def same_value(stated: int | Fraction | None, exact: int | Fraction | None) -> bool:
    """Return whether a receipt states an exact value, to the digits that a report writes."""
    if stated is None or exact is None:
        return stated is exact
    return canonical.reported(Fraction(stated)) == canonical.reported(Fraction(exact))


def tables(results: Mapping[str, Any]) -> tuple[Table, ...]:
    """Return the envelope of each panel, and the gains of each method, from the section's member of a report."""
    envelope = Table(
        "Iso-quality envelope (resident bytes down, tokens per second up)",
        ("panel", "point", "resident B/token", "HBM B/token", "tokens/s", "quality", "kernel path", "marked as"),
        tuple(
            (
                panel,
                name,
                *(
                    _text(point[member])
                    for member in (
                        "resident_bytes_per_token",
                        "hbm_bytes_per_token",
                        "tokens_per_second",
                        "quality",
                        "kernel_path",
                    )
                ),
                _marks(name, found),
            )
            for panel, found in results["panels"].items()
            for name, point in found["envelope_points"].items()
        ),
    )
    gains = Table(
        "Gains within the tolerance, against the dense point of best quality",
        ("panel", "points of", "representative", "speed", "memory"),
        tuple(
            (panel, name, *(_text(summary[member]) for member in ("representative", "gain_speed", "gain_memory")))
            for panel, found in results["panels"].items()
            for name, summary in {"all methods": found["overall"], **found["methods"]}.items()
        ),
    )
    return envelope, gains


def _points(items: Sequence[Mapping[str, Any]], at: str) -> tuple[Point, ...]:
    points = read_points(items)
    seen: set[str] = set()
    for index, (item, point) in enumerate(zip(items, points, strict=True)):
        place = at + pointer(index)
        if point.id in seen:
            raise ContractViolation(POINT_REPEATED, place + "/budget_index", f"{point.id} is there twice")
        seen.add(point.id)
        parts, total = item["resident_parts"], point.resident_bytes_per_token
        if (parts is None) != (total is None):
            stated = "the parts of no total" if total is None else f"{_text(total)} bytes of unknown parts"
            raise ContractViolation(PARTS, place + "/resident_parts", f"expected parts and their sum, found {stated}")
        if parts is not None and sum(map(Fraction, parts.values())) != total:
            found = _text(sum(map(Fraction, parts.values())))
            message = f"payload, paging and metadata add up to {found}, stated are {_text(total)}"
            raise ContractViolation(PARTS, place + "/resident_bytes_per_token", message)
    return points


def _judge_receipt(found: Frontier, receipt: Mapping[str, Any], at: str) -> None:
    reference = found.reference
    assert reference is not None  # `judged` refuses a panel without one
    if receipt["reference"] != reference.id:
        message = f"expected {reference.id}, found {receipt['reference']}"
        raise ContractViolation(REFERENCE, at + pointer("reference"), message)
    if set(receipt["methods"]) != set(found.methods):
        message = f"expected {', '.join(found.methods)}; found {', '.join(sorted(receipt['methods']))}"
        raise ContractViolation(METHODS, at + pointer("methods"), message)
    measured = (*found.incomplete, *found.overall.retained)
    outside = {point.id: point for point in (*measured, *found.outside)}
    least = Fraction(reference.quality or 0) - found.quality_tolerance
    judge_summary(found.overall, least, receipt["overall"], outside, at + pointer("overall"))
    for method, summary in found.methods.items():
        own = {name: point for name, point in outside.items() if point.method == method}
        judge_summary(summary, least, receipt["methods"][method], own, at + pointer("methods", method))


def _require_members(expected: Iterable[Point], stated: Sequence[str], diagnostic: Diagnostic, at: str) -> None:
    missing = [point.id for point in expected if point.id not in stated]
    if missing:
        more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        raise ContractViolation(diagnostic, at, f"expected {', '.join(missing[:_NAMED])}{more}, found none of them")


def _ledgers(panel: str, found: Frontier) -> Iterable[LedgerRow]:
    yield LedgerRow(
        f"frontier_{panel}_envelope_points",
        len(found.overall.envelope),
        "points",
        "retained points that no other dominates in (resident bytes, tokens per second)",
    )
    yield LedgerRow(
        f"frontier_{panel}_gain_speed",
        found.overall.gain_speed,
        "ratio",
        "most tokens/s within the tolerance / tokens/s of the dense point of best quality",
    )
    yield LedgerRow(
        f"frontier_{panel}_gain_memory",
        found.overall.gain_memory,
        "ratio",
        "resident B/token of the reference / fewest among retained points at least as fast",
    )


def _marks(name: str, found: Mapping[str, Any]) -> str:
    marks = ["representative"] if found["overall"]["representative"] == name else []
    marks += [f"representative of {m}" for m, summary in found["methods"].items() if summary["representative"] == name]
    marks += ["reference"] if found["reference"] == name else []
    return ", ".join(marks)


def _text(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Fraction):
        value = canonical.reported(value)
    return f"{value:.12g}" if isinstance(value, float) else str(value)

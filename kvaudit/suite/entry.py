"""One entry of a bundle, from its files to the bytes that its reports must have.

Every stage adds findings and goes on where it can: a broken fixture does not hide a broken suite file, and one broken
entry never hides another.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kvaudit.errors import Defect, FileDefect
from kvaudit.evidence import bundle as bundles
from kvaudit.evidence import canonical, invalid, schema, strict_json
from kvaudit.evidence.bundle import Entry, SuiteEntry
from kvaudit.evidence.declared import declared, observe
from kvaudit.evidence.summary import summarised
from kvaudit.evidence.text import Limits
from kvaudit.loops import loop_by_command
from kvaudit.model import Diagnostic, Document, Evidence, Finding, InvalidCase, Loop, Snapshot, Verdict, pointer
from kvaudit.render import report as render_report
from kvaudit.suite.sources import Sources, input_of, placed_findings

INVALID_REPORT_SCHEMA = "kvaudit.report.invalid/1"


NOT_JUDGED = Diagnostic(
    code="report.not-judged",
    contract="An oracle over reports is judged when the reports that it consumes have no findings.",
    why="What it would say of a broken report is a consequence; until the cause is mended its evidence is open.",
    fix="Mend the findings of the entries named, then check again.",
    example="a reconciliation of a report whose fixture does not parse",
)
DIAGNOSTICS = (NOT_JUDGED,)


@dataclass(frozen=True, slots=True)
class Closure:
    """How the suites of an entry closed: what a report says of them."""

    suite: str
    sha256: str
    cases: int
    rejected: int


@dataclass(slots=True)
class Examined:
    """What is known of an entry after its stages have run. `outputs` is empty if the fixture gave no evidence."""

    entry: Entry
    inputs: dict[str, bytes] = field(default_factory=dict)
    outputs: dict[str, bytes] = field(default_factory=dict)
    closures: list[Closure] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


def examine(
    sources: Sources, entry: Entry, *, broken: frozenset[str] = frozenset(), redeclare: bool = False
) -> Examined:
    """Run every stage of one entry. With `redeclare`, the fixture's declared object is recomputed first.

    `broken` are the ids of entries that have findings of their own in this run: what consumes their reports is not
    judged, because its finding would name a consequence and hide the cause.
    """
    examined = Examined(entry)
    for path in entry.inputs():
        try:
            examined.inputs[path] = sources.read(path)
        except FileDefect as defect:
            examined.findings.append(finding(path, defect))
    loop = loop_by_command(entry.oracle)
    if loop is None:
        message = f"the entry {entry.id} names the oracle {entry.oracle!r}, which this kvaudit does not have"
        examined.findings.append(Finding(bundles.MANIFEST_NAME, "", message, bundles.UNKNOWN_ORACLE))
        return examined
    if any(path not in examined.inputs for path in (entry.fixture, *entry.document_paths())):
        return examined
    data = examined.inputs[entry.fixture]
    try:
        fixture = read_fixture(loop, data, sources.limits)
        own_members = tuple(fixture)
        if loop.collected_schema is not None and broken.intersection(entry.needs):
            unusable = ", ".join(need for need in entry.needs if need in broken)
            message = f"not judged, because it consumes reports of entries that have findings: {unusable}"
            examined.findings.append(Finding(entry.fixture, "", message, NOT_JUDGED))
            return examined
        fixture = input_of(loop, sources, entry, fixture)
        if redeclare:
            fixture = redeclared(loop, fixture)
            own = {name: fixture[name] for name in own_members}
            examined.inputs[entry.fixture] = canonical.exact_json_text(own).encode()
        evidence = observe(loop, fixture)
    except Defect as defect:
        examined.findings.extend(placed_findings(sources, entry, defect, examined.inputs))
        return examined
    if not _judge_suites(examined, loop, fixture, sources.limits):
        return examined  # what the report must say of a suite that cannot be read is not known
    document = canonical.written(report_document(loop, entry, examined, evidence))
    data = canonical.json_text(document).encode()
    try:
        schema.check(loop.report_schema, document)
    except FileDefect as defect:
        # The oracle gave an answer that its own report has no form for: nothing is written, and nothing is hidden.
        examined.findings.extend(schema.findings(entry.report, defect, data))
        return examined
    examined.outputs[entry.report] = data
    examined.outputs[entry.tables] = render_report.markdown(loop, document).encode()
    return examined


def finding(path: str, defect: Defect) -> Finding:
    """Return the finding that a defect in the file at `path` amounts to."""
    return Finding(path, defect.pointer, defect.message, defect.diagnostic, defect.line)


def read_fixture(loop: Loop, data: bytes, limits: Limits) -> Document:
    """Return a fixture that its loop's oracle accepts as input, or raise `FileDefect`."""
    fixture = strict_json.parse_json(data, limits)
    schema.check(loop.fixture_schema, fixture)
    checked: Document = fixture
    return checked


def redeclared(loop: Loop, fixture: Document) -> Document:
    """Return the fixture with derived digests and its declared object recomputed, or raise `ContractViolation`."""
    refreshed = loop.refresh_digests(fixture)
    return {**refreshed, "declared": declared(loop.oracle(refreshed))}


def report_document(loop: Loop, entry: Entry, examined: Examined, evidence: Evidence) -> Document:
    """Return the report of an entry, its members in the order in which they are written."""
    return {
        "schema": loop.report_schema,
        "entry": entry.id,
        "oracle": loop.command,
        "fixture": {
            "path": entry.fixture,
            "schema": loop.fixture_schema,
            "sha256": canonical.sha256(examined.inputs[entry.fixture]),
        },
        **_document_hashes(entry, examined),
        "coordinates": entry.coordinates,
        **evidence_members(loop, evidence),
        "invalid_suites": {
            closure.suite: {
                "sha256": closure.sha256,
                "cases": closure.cases,
                "rejected_as_expected": closure.rejected,
            }
            for closure in examined.closures
        },
    }


def _document_hashes(entry: Entry, examined: Examined) -> Document:
    hashes = {path: canonical.sha256(examined.inputs[path]) for path in entry.document_paths()}
    return {"documents": hashes} if hashes else {}


def evidence_members(loop: Loop, evidence: Evidence) -> Document:
    """Return the members of a report that come from the oracle alone."""
    return {
        "results": evidence.results,
        **({} if evidence.receipts is None else {"receipts": evidence.receipts}),
        "ledgers": {
            row.name: {"value": row.value, "unit": row.unit, "formula": row.formula} for row in evidence.ledgers
        },
        "snapshots": [_snapshot(snapshot) for snapshot in evidence.snapshots],
        "comparisons": {
            each.name: {"unit": each.unit, "shared": each.shared, "members": list(each.members)}
            for each in evidence.comparisons
        },
        "evidence_boundary": {
            "evidence_class": loop.boundary.evidence_class,
            "executed": list(loop.boundary.executed),
            "not_executed": list(loop.boundary.not_executed),
            "measured_latency": None,
            "measured_memory_traffic": None,
            "task_quality": None,
        },
    }


def _snapshot(snapshot: Snapshot) -> Document:
    positions = snapshot.selected_original_positions
    return {
        "policy": snapshot.policy,
        "step": snapshot.step,
        "owner": snapshot.owner,
        "state_generation": snapshot.state_generation,
        "cache_generation": snapshot.cache_generation,
        "selected_original_positions": None if positions is None else summarised(positions),
        "selected_row_count": snapshot.selected_row_count,
        "published": snapshot.published,
    }


def _judge_suites(examined: Examined, loop: Loop, fixture: Document, limits: Limits) -> bool:
    """Run every suite of the entry; return whether all of them could be read."""
    entry = examined.entry
    if any(suite.suite not in examined.inputs for suite in entry.invalid_suites):
        return False
    every_case: list[InvalidCase] = []
    for suite in entry.invalid_suites:
        data = examined.inputs[suite.suite]
        try:
            cases = invalid.parse_suite(data, limits)
        except FileDefect as defect:
            examined.findings.extend(schema.findings(suite.suite, defect, data))
            return False
        every_case.extend(cases)
        verdicts, findings = judge_suite(loop, fixture, suite.suite, data, cases, suite.cases)
        examined.findings.extend(findings)
        rejected = sum(verdict.defect is None for verdict in verdicts)
        examined.closures.append(Closure(suite.suite, canonical.sha256(data), len(cases), rejected))
        document = _invalid_report(examined, loop, suite, verdicts)
        examined.outputs[suite.report] = canonical.json_text(document).encode()
    if entry.complete:
        place = entry.invalid_suites[0].suite if entry.invalid_suites else bundles.MANIFEST_NAME
        for message, diagnostic in invalid.coverage_defects(loop, tuple(every_case)):
            examined.findings.append(Finding(place, "", message, diagnostic))
    return True


def judge_suite(
    loop: Loop, fixture: Document, path: str, data: bytes, cases: tuple[InvalidCase, ...], expected: int
) -> tuple[tuple[Verdict, ...], tuple[Finding, ...]]:
    """Return the verdict of every case, and what is wrong with the cases and with the suite as a whole.

    `path` and `data` are those of the suite file that the cases come from.
    """
    verdicts = tuple(invalid.judge(loop, fixture, case) for case in cases)
    defects = [
        (pointer("cases", verdict.case.id), f"case {verdict.case.id}: {verdict.message}", verdict.defect)
        for verdict in verdicts
        if verdict.defect is not None
    ]
    defects.extend(invalid.suite_defects(loop, cases, expected))
    return verdicts, tuple(
        Finding(path, place, message, diagnostic, strict_json.line_in(data, place))
        for place, message, diagnostic in defects
    )


def _invalid_report(
    examined: Examined, loop: Loop, suite: SuiteEntry, verdicts: tuple[Verdict, ...]
) -> Mapping[str, Any]:
    rejected = [verdict for verdict in verdicts if verdict.defect is None]
    fixture = examined.entry.fixture
    return {
        "schema": INVALID_REPORT_SCHEMA,
        "entry": examined.entry.id,
        "oracle": loop.command,
        "fixture": {
            "path": fixture,
            "schema": loop.fixture_schema,
            "sha256": canonical.sha256(examined.inputs[fixture]),
        },
        "suite": {"path": suite.suite, "sha256": canonical.sha256(examined.inputs[suite.suite])},
        "summary": {
            "cases": len(verdicts),
            "rejected_as_expected": len(rejected),
            "caught_by_schema": sum(verdict.case.targets == "schema" for verdict in rejected),
            "caught_by_declared_results_only": sum(verdict.case.code == loop.drift.code for verdict in rejected),
        },
        "cases": {
            verdict.case.id: {
                "category": verdict.case.category,
                "breaks": verdict.case.breaks,
                "rejected_as_expected": verdict.defect is None,
                "code": verdict.case.code,
                "pointer": verdict.case.pointer,
                "message": verdict.message,
            }
            for verdict in verdicts
        },
    }

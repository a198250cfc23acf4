"""The contracts of loop 10, one function a step of the oracle. Each raises the first violation in its part."""

from collections.abc import Sequence
from typing import Any

from kvaudit.errors import ContractViolation
from kvaudit.evidence import files
from kvaudit.evidence.canonical import written
from kvaudit.loops.loop10_reconciliation import diagnostics as codes
from kvaudit.loops.loop10_reconciliation.receipts import LEGACY, Receipt, legacy_paths, links_of, system
from kvaudit.model import Diagnostic, Document, joined, pointer
from kvaudit.reconcile.relation import metric_relation
from kvaudit.reconcile.subjects import Subject

# Kinds of metric that two reports of unlike fixtures both have, so that a table of them is easily made (0x0FE).
TEMPTING_KINDS = (
    "resident_bytes",
    "workspace",
    "reads",
    "compaction",
    "churn",
    "local_error",
    "compression_ratio",
    "latency",
    "task_quality",
)


def judge_owner(fixture: Document) -> None:
    """The reconciler owns receipts, runs nothing, fails closed and ranks nothing."""
    owner = fixture["owner"]
    _require(codes.NOT_RECONCILER, owner["name"], "reconciler", "/owner/name")
    _require(codes.EXECUTES_POLICY, owner["executes_policies"], False, "/owner/executes_policies")
    _require(codes.FAILS_OPEN, owner["fails_closed"], True, "/owner/fails_closed")
    _require(codes.RANKS, owner["ranks"], False, "/owner/ranks")


def judge_order(fixture: Document) -> None:
    """The order lists what the manifest needs, in its order, then the legacy documents, each once."""
    order = fixture["order"]
    expected = [*fixture["bundle"], *fixture["legacy"]]
    for index, entry_id in enumerate(order):
        if entry_id in order[:index]:
            raise ContractViolation(codes.REPEATED, pointer("order", index), f"{entry_id} is listed twice")
        if entry_id not in expected:
            raise ContractViolation(codes.UNKNOWN_REPORT, pointer("order", index), f"no report is called {entry_id}")
    for entry_id in expected:
        if entry_id not in order:
            raise ContractViolation(
                codes.NOT_LISTED, "/order", f"expected {entry_id}, which the bundle has; found it nowhere"
            )
    for index, (entry_id, other) in enumerate(zip(order, expected, strict=True)):
        _require(codes.ORDER, entry_id, other, pointer("order", index))


def judge_paths(fixture: Document) -> None:
    """Every path stays in the bundle, is the one that was read, and belongs to one entry."""
    owners: dict[str, str] = {}
    for entry_id, entry in fixture["bundle"].items():
        for member, read in (("fixture", fixture["fixtures"][entry_id]), ("report", fixture["reports"][entry_id])):
            path, at = entry[member], pointer("bundle", entry_id, member)
            refused = files.refused_spelling(path)
            if refused is not None:
                form = ", which is not in Unicode normal form C" if refused.diagnostic is files.NOT_NORMAL else ""
                reason = f"expected a relative path inside the bundle, found {path!r}{form}"
                raise ContractViolation(codes.ESCAPES, at, reason)
            _require(codes.PATH_DIFFERS, read["path"], path, pointer(f"{member}s", entry_id, "path"))
        if entry["report"] in owners:
            reason = f"{entry['report']} is the report of {owners[entry['report']]} already"
            raise ContractViolation(codes.PATH_SHARED, pointer("bundle", entry_id, "report"), reason)
        owners[entry["report"]] = entry_id


def judge_hashes(fixture: Document) -> None:
    """The raw bytes of fixtures, reports and suites are those that the lock pins."""
    lock = fixture["lock"]
    for entry_id, entry in fixture["bundle"].items():
        for path in (entry["fixture"], entry["report"], *entry["invalid_suites"]):
            if lock.get(path) is None:
                where = pointer("lock", path) if path in lock else "/lock"
                raise ContractViolation(codes.UNPINNED, where, f"expected a pin for {path}, found none")
        found = fixture["fixtures"][entry_id]["sha256"]
        _require(codes.FIXTURE_HASH, found, lock[entry["fixture"]], pointer("fixtures", entry_id, "sha256"))
        found = fixture["reports"][entry_id]["sha256"]
        _require(codes.REPORT_HASH, found, lock[entry["report"]], pointer("reports", entry_id, "sha256"))


def judge_adapters(fixture: Document) -> None:
    """Each report has the shape that its adapter reads, and says whose it is."""
    entries = fixture["entries"]
    for entry_id, entry in fixture["bundle"].items():
        if entry_id not in entries:
            raise ContractViolation(codes.NO_ADAPTER, "/entries", f"expected an adapter for {entry_id}, found none")
        at = pointer("reports", entry_id, "document")
        document = fixture["reports"][entry_id]["document"]
        _require(
            codes.ADAPTER_VERSION,
            entries[entry_id]["adapter"],
            entry["adapter"],
            pointer("entries", entry_id, "adapter"),
        )
        _require_member(codes.REPORT_SCHEMA, document, "schema", entries[entry_id]["report_schema"], at)
        _require_member(codes.ENTRY_IDENTITY, document, "entry", entry_id, at)
        _require_member(codes.ENTRY_IDENTITY, document, "oracle", entry["oracle"], at)
    for entry_id in entries:
        if entry_id not in fixture["bundle"]:
            raise ContractViolation(
                codes.UNUSED_ADAPTER, pointer("entries", entry_id), f"no report is called {entry_id}"
            )
    for index, path in enumerate(legacy_paths(fixture)):
        if path not in [declared["path"] for declared in fixture["legacy"].values()]:
            where = pointer("documents", "legacy", index)
            raise ContractViolation(codes.NO_ADAPTER, where, f"no legacy adapter reads {path}")


def judge_fixture_identities(fixture: Document) -> None:
    """Each report was made from the fixture at hand, which has the schema that the adapter names."""
    for entry_id, adapter in fixture["entries"].items():
        found = fixture["fixtures"][entry_id]
        _require(
            codes.FIXTURE_SCHEMA, found["schema"], adapter["fixture_schema"], pointer("fixtures", entry_id, "schema")
        )
        at = pointer("reports", entry_id, "document", "fixture")
        for member in ("path", "schema", "sha256"):
            _require_member(
                codes.FIXTURE_IDENTITY, fixture["reports"][entry_id]["document"]["fixture"], member, found[member], at
            )


def judge_prior_suites(fixture: Document) -> None:
    """Every suite of every report is known, is as large as expected, and closed."""
    for entry_id, adapter in fixture["entries"].items():
        manifest = fixture["bundle"][entry_id]["invalid_suites"]
        closed = fixture["reports"][entry_id]["document"]["invalid_suites"]
        at = pointer("reports", entry_id, "document", "invalid_suites")
        for suite in adapter["suites"]:
            if suite not in manifest:
                where = pointer("entries", entry_id, "suites", suite)
                raise ContractViolation(codes.SUITE_MISSING, where, f"the manifest has no suite {suite} for {entry_id}")
        for suite, cases in manifest.items():
            if suite not in closed:
                raise ContractViolation(codes.SUITE_MISSING, at, f"expected the closure of {suite}, found none")
            if suite not in adapter["suites"]:
                where = pointer("entries", entry_id, "suites")
                raise ContractViolation(codes.SUITE_MISSING, where, f"expected the suite {suite}, found none")
            expected = adapter["suites"][suite]["cases"]
            _require(codes.SUITE_COUNT, expected, cases, pointer("entries", entry_id, "suites", suite, "cases"))
            here = at + pointer(suite)
            _require(codes.SUITE_COUNT, closed[suite]["cases"], cases, here + "/cases")
            _require(codes.SUITE_OPEN, closed[suite]["rejected_as_expected"], cases, here + "/rejected_as_expected")
            rejected = fixture["suites"][entry_id][suite]["cases"]
            if len(rejected) != cases:
                where = pointer("suites", entry_id, suite, "cases")
                reason = f"expected {cases} cases rejected as expected in the suite's own report, found {len(rejected)}"
                raise ContractViolation(codes.SUITE_COUNT, where, reason)
            _require(codes.SUITE_HASH, closed[suite]["sha256"], fixture["lock"][suite], here + "/sha256")
        for suite in closed:
            if suite not in manifest:
                raise ContractViolation(codes.SUITE_MISSING, at + pointer(suite), f"the manifest has no suite {suite}")


def judge_scope(fixture: Document, receipts: Sequence[Receipt]) -> None:
    """No report claims more than it executed."""
    for receipt in receipts:
        if receipt.kind == LEGACY:
            continue  # its class is declared in the fixture, and it has no boundary of its own
        at, boundary = receipt.at + "/evidence_boundary", receipt.boundary
        expected = fixture["entries"][receipt.id]["evidence_class"]
        _require(codes.EVIDENCE_CLASS, boundary["evidence_class"], expected, at + "/evidence_class")
        for member in ("measured_latency", "measured_memory_traffic", "task_quality"):
            if boundary[member] is not None:
                reason = f"expected null, because no model was executed; found {boundary[member]}"
                raise ContractViolation(codes.MEASUREMENT_CLAIMED, at + pointer(member), reason)
        for item in fixture["required_not_executed"]:
            if item not in boundary["not_executed"]:
                reason = f"expected {item!r} among {', '.join(boundary['not_executed']) or 'nothing'}"
                raise ContractViolation(codes.SCOPE_MISSING, at + "/not_executed", reason)
        for index, item in enumerate(boundary["executed"]):
            if item in boundary["not_executed"]:
                raise ContractViolation(codes.SCOPE_CONTRADICTION, at + pointer("executed", index), f"{item!r} is both")


def judge_coordinates(fixture: Document, receipts: Sequence[Receipt]) -> None:
    """Every key of the system is required, and every report declares each as the manifest does."""
    required, keys = fixture["required_coordinates"], list(system().keys)
    if required != keys:
        raise ContractViolation(
            codes.REQUIRED_COORDINATES, "/required_coordinates", f"expected {joined(keys)}, found {joined(required)}"
        )
    for receipt in receipts:
        at = receipt.at + "/coordinates" if receipt.kind != LEGACY else pointer("legacy", receipt.id, "coordinates")
        for key in required:
            if key not in receipt.coordinates:
                raise ContractViolation(codes.COORDINATE_MISSING, at, f"expected the coordinate {key}, found none")
            if receipt.coordinates[key] == {"state": "undeclared"}:
                raise ContractViolation(codes.COORDINATE_MISSING, at + pointer(key), f"{key} is undeclared")
            if receipt.kind != LEGACY:
                manifest = fixture["bundle"][receipt.id]["coordinates"].get(key)
                _require(codes.COORDINATE_DIFFERS, receipt.coordinates[key], manifest, at + pointer(key))


def judge_snapshots(fixture: Document, receipts: Sequence[Receipt]) -> None:
    """Each report has the snapshots that are expected of it, each consistent in itself."""
    for receipt in receipts:
        if receipt.kind == LEGACY:
            continue
        expected = fixture["entries"][receipt.id]["snapshots"]
        if len(receipt.snapshots) != expected:
            reason = f"expected {expected} snapshots, found {len(receipt.snapshots)}"
            raise ContractViolation(codes.SNAPSHOT_COUNT, receipt.at + "/snapshots", reason)
        for place, snapshot in receipt.snapshots:
            at, positions = receipt.at + place, snapshot["selected_original_positions"]
            count = len(positions) if isinstance(positions, list) else positions["count"] if positions else None
            if count is not None:
                _require(codes.SNAPSHOT_ROWS, snapshot["selected_row_count"], count, at + "/selected_row_count")
            if snapshot["published"] and snapshot["state_generation"] is None:
                reason = "expected the generation of a published state, found null"
                raise ContractViolation(codes.SNAPSHOT_GENERATION, at + "/state_generation", reason)


def judge_ledgers(fixture: Document, receipts: Sequence[Receipt]) -> None:
    """Each report has the ledger rows that are expected of it, in units that can be compared."""
    units = system().units
    for receipt in receipts:
        names = [row.name for row in receipt.rows]
        if receipt.kind != LEGACY:
            expected = fixture["entries"][receipt.id]["ledger_rows"]
            for name in expected:
                if name not in names:
                    reason = f"expected the row {name}, found none"
                    raise ContractViolation(codes.LEDGER_MISSING, receipt.at + "/ledgers", reason)
            for name in names:
                if name not in expected:
                    reason = f"{name} is not among the rows that are expected of {receipt.id}"
                    raise ContractViolation(codes.LEDGER_UNEXPECTED, receipt.at + pointer("ledgers", name), reason)
        for row in receipt.rows:
            if row.unit not in units:
                at = (
                    pointer("legacy", receipt.id, "ledger_rows", row.name, "unit")
                    if receipt.kind == LEGACY
                    else receipt.at + pointer("ledgers", row.name, "unit")
                )
                raise ContractViolation(
                    codes.LEDGER_UNIT, at, f"expected one of {', '.join(units)}; found {row.unit!r}"
                )


def judge_groups(fixture: Document, receipts: Sequence[Receipt]) -> None:
    """Comparison groups are expected, stay inside their report, and hold values of one unit."""
    for receipt in receipts:
        if receipt.kind == LEGACY:
            continue
        expected, at = fixture["entries"][receipt.id]["comparison_groups"], receipt.at + "/comparisons"
        for name in expected:
            if name not in receipt.groups:
                raise ContractViolation(codes.GROUP_NAMES, at, f"expected the group {name}, found none")
        units = {row.name: row.unit for row in receipt.rows}
        for name, group in receipt.groups.items():
            if name not in expected:
                reason = f"{name} is not among the groups that are expected of {receipt.id}"
                raise ContractViolation(codes.GROUP_NAMES, at + pointer(name), reason)
            for index, member in enumerate(group["members"]):
                where = at + pointer(name, "members", index)
                if member not in units:
                    reason = f"expected a ledger row of {receipt.id}, found {member}"
                    raise ContractViolation(codes.GROUP_MEMBER, where, reason)
                if units[member] != group["unit"]:
                    reason = f"expected the unit {group['unit']} of the group, found {units[member]}"
                    raise ContractViolation(codes.GROUP_UNIT, where, reason)


def judge_links(fixture: Document) -> None:
    """The links of the manifest are the expected ones, and each rests on values that agree."""
    expected = [(link["from"], link["to"], link["kind"]) for link in fixture["links"]]
    for entry_id, entry in fixture["bundle"].items():
        for index, link in enumerate(entry["links"]):
            at = pointer("bundle", entry_id, "links", index)
            if link["to"] == entry_id or link["to"] not in fixture["bundle"]:
                raise ContractViolation(codes.LINK_TARGET, at + "/to", f"{link['to']} is no other report of this order")
            if (entry_id, link["to"], link["kind"]) not in expected:
                reason = f"{link['kind']} from {entry_id} to {link['to']} is not among the links that are expected"
                raise ContractViolation(codes.LINK_UNDECLARED, at, reason)
            if not link["facts"]:
                raise ContractViolation(codes.LINK_WITHOUT_FACTS, at + "/facts", "no values that must agree are named")
            for number, fact in enumerate(link["facts"]):
                _judge_fact(fact, at + pointer("facts", number))
    found = [(link.source, link.target, link.kind) for link in links_of(fixture)]
    for index, link in enumerate(expected):
        if link not in found:
            reason = f"the manifest declares no {link[2]} from {link[0]} to {link[1]}"
            raise ContractViolation(codes.LINK_MISSING, pointer("links", index), reason)


def judge_comparisons(fixture: Document, subjects: dict[str, Subject]) -> None:
    """Tempting kinds are all forbidden, and what is compared across reports is comparable."""
    forbidden = fixture["forbidden_metrics"]
    for kind in TEMPTING_KINDS:
        if kind not in forbidden:
            raise ContractViolation(codes.FORBIDDEN_METRICS, "/forbidden_metrics", f"expected {kind}, found it nowhere")
    for index, comparison in enumerate(fixture["cross_report_comparisons"]):
        at = pointer("cross_report_comparisons", index)
        a, b = comparison["reports"]
        if a == b:
            raise ContractViolation(codes.COMPARISON_OPERAND, at + "/reports", f"both sides are {a}")
        for side, entry_id in enumerate((a, b)):
            if entry_id not in subjects:
                raise ContractViolation(
                    codes.COMPARISON_OPERAND, at + pointer("reports", side), f"no report is called {entry_id}"
                )
            if comparison["row"] not in subjects[entry_id].metrics:
                reason = f"{entry_id} has no ledger row {comparison['row']}"
                raise ContractViolation(codes.COMPARISON_OPERAND, at + "/row", reason)
        if comparison["metric"] in forbidden:
            reason = f"{comparison['metric']} may not be compared between {a} and {b}"
            raise ContractViolation(codes.FORBIDDEN_COMPARISON, at + "/metric", reason)
        relation = metric_relation(subjects[a], subjects[b], comparison["row"])
        if not relation.comparable:
            reason = f"{a} and {b} differ in {', '.join(relation.blocking)}"
            raise ContractViolation(codes.NOT_COMPARABLE, at, reason)


def _judge_fact(fact: Document, at: str) -> None:
    here, there = fact["here"], fact["there"]
    for side, each in (("here", here), ("there", there)):
        if each["value"] is None:
            reason = f"expected a value at {each['pointer']}, found none"
            raise ContractViolation(codes.LINK_FACT_ABSENT, at + pointer(side, "value"), reason)
    if written(here["value"]) != written(there["value"]):
        reason = f"{here['pointer']} is {written(here['value'])} here and {written(there['value'])} there"
        raise ContractViolation(codes.LINK_FACTS, at, reason)


def _require(diagnostic: Diagnostic, found: Any, expected: Any, where: str) -> None:
    if found != expected:
        raise ContractViolation(diagnostic, where, f"expected {shown(expected)}, found {shown(found)}")


def _require_member(diagnostic: Diagnostic, holder: Document, name: str, expected: Any, at: str) -> None:
    if name not in holder:
        raise ContractViolation(diagnostic, at, f"expected the member {name} to be {shown(expected)}, found none")
    _require(diagnostic, holder[name], expected, at + pointer(name))


def shown(value: Any) -> str:
    """Return a value as messages and tables show it."""
    if isinstance(value, bool):
        return str(value).lower()
    return "null" if value is None else str(value)

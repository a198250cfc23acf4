"""Adapters: what is read of a finished report, with the JSON pointer it was read from. Nothing is computed here.

Two kinds of report are read. A report of an entry names its schema, and its adapter has that schema's version. A
legacy document has an integer schema version or none: it is read only after its exact hash has been compared, and only
at the pointers that the fixture names. It gives ledger rows and no snapshots: a file that does not say what a state is
has shown none.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import jsonpointer

from kvaudit.errors import ContractViolation
from kvaudit.loops.loop10_reconciliation.diagnostics import LEGACY_HASH, LEGACY_POINTER, LEGACY_SCHEMA
from kvaudit.model import Document, pointer
from kvaudit.reconcile import coordinates as systems
from kvaudit.reconcile.subjects import Link, Subject, report_subject

REPORT = "report"
LEGACY = "legacy"


@dataclass(frozen=True, slots=True)
class Row:
    """A ledger row as it stands in a report. `pointer` leads to the value in the file."""

    name: str
    pointer: str
    value: Any
    unit: str
    formula: str


@dataclass(frozen=True, slots=True)
class Receipt:
    """What the reconciler holds of one report: R = (id, fixture hash, report hash, adapter, C, S, L, E) of 0x0FA.

    `at` is the pointer to the report in the oracle's input. `snapshots` pairs each snapshot with its pointer in the
    file. A legacy document has no fixture, so its `fixture_sha256` is None.
    """

    id: str
    kind: str
    at: str
    path: str
    fixture_sha256: str | None
    report_sha256: str
    adapter: str
    coordinates: Document
    snapshots: tuple[tuple[str, Document], ...]
    rows: tuple[Row, ...]
    groups: Mapping[str, Document]
    boundary: Document

    def subject(self, links: Iterable[Link]) -> Subject:
        """Return the report as something that can be compared, with the links that start or end at it."""
        rows = {row.name: (row.value, row.unit) for row in self.rows}
        own = tuple(link for link in links if self.id in (link.source, link.target))
        return report_subject(self.id, self.path, self.coordinates, rows, own)


def read_report(fixture: Document, entry_id: str) -> Receipt:
    """Return the receipt of an entry's report. Identity and shape have been judged."""
    report = fixture["reports"][entry_id]
    document = report["document"]
    return Receipt(
        id=entry_id,
        kind=REPORT,
        at=pointer("reports", entry_id, "document"),
        path=report["path"],
        fixture_sha256=fixture["fixtures"][entry_id]["sha256"],
        report_sha256=report["sha256"],
        adapter=fixture["entries"][entry_id]["adapter"],
        coordinates=document["coordinates"],
        snapshots=tuple((pointer("snapshots", index), each) for index, each in enumerate(document["snapshots"])),
        rows=tuple(
            Row(name, pointer("ledgers", name, "value"), row["value"], row["unit"], row["formula"])
            for name, row in document["ledgers"].items()
        ),
        groups=document["comparisons"],
        boundary=document["evidence_boundary"],
    )


def read_legacy(fixture: Document, entry_id: str) -> Receipt:
    """Return the receipt of a legacy document, or raise `ContractViolation` if it is not the one that was pinned."""
    declared = fixture["legacy"][entry_id]
    at = pointer("legacy", entry_id)
    index, item = _document(fixture, declared["path"], at)
    content_at = pointer("documents", "legacy", index, "content")
    if item["sha256"] != declared["sha256"]:
        reason = f"expected the exact bytes {declared['sha256']} of {declared['path']}, found {item['sha256']}"
        raise ContractViolation(LEGACY_HASH, at + "/sha256", reason)
    content = item["content"]
    stated = content.get("schema_version", content.get("schema")) if isinstance(content, dict) else None
    if stated != declared["schema_version"] or isinstance(stated, bool):
        expected = "no schema member" if declared["schema_version"] is None else repr(declared["schema_version"])
        raise ContractViolation(LEGACY_SCHEMA, content_at, f"expected {expected}, found {stated!r}")
    return Receipt(
        id=entry_id,
        kind=LEGACY,
        at=content_at,
        path=item["path"],
        fixture_sha256=None,
        report_sha256=item["sha256"],
        adapter=declared["adapter"],
        coordinates=declared["coordinates"],
        snapshots=(),
        rows=tuple(_legacy_row(content, name, row, at) for name, row in declared["ledger_rows"].items()),
        groups={},
        boundary={"evidence_class": declared["evidence_class"]},
    )


def legacy_paths(fixture: Document) -> tuple[str, ...]:
    """Return the paths of the legacy documents that the entry names."""
    return tuple(item["path"] for item in fixture["documents"].get("legacy", ()))


def links_of(fixture: Document) -> tuple[Link, ...]:
    """Return the links that the manifest declares between the reports at hand, in its order."""
    return tuple(
        Link(entry_id, link["to"], link["kind"], link["basis"])
        for entry_id, entry in fixture["bundle"].items()
        for link in entry["links"]
    )


def system() -> systems.System:
    """Return the coordinate system of reports."""
    return systems.system("report/1")


def _document(fixture: Document, path: str, at: str) -> tuple[int, Document]:
    for index, item in enumerate(fixture["documents"].get("legacy", ())):
        if item["path"] == path:
            return index, item
    reason = f"{path} is not among the legacy documents of the entry: {', '.join(legacy_paths(fixture)) or 'none'}"
    raise ContractViolation(LEGACY_HASH, at + "/path", reason)


def _legacy_row(content: Any, name: str, row: Document, at: str) -> Row:
    missing = object()
    value = jsonpointer.resolve_pointer(content, row["pointer"], missing)
    if value is missing or isinstance(value, bool | str | list | dict):
        found = "nothing" if value is missing else f"a {type(value).__name__}"
        where = at + pointer("ledger_rows", name, "pointer")
        raise ContractViolation(LEGACY_POINTER, where, f"expected a number or null at {row['pointer']}, found {found}")
    return Row(name, row["pointer"], value, row["unit"], row["formula"])

"""Where an entry's bytes come from: the files of the bundle, with what this run has produced laid over them.

An oracle over reports consumes finished reports and nothing else. In a check these are the reports on disk and the
pins of the lock; in a regenerate they are the reports that are about to be written, and their hashes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import jsonpointer

from kvaudit.evidence import canonical, files, strict_json
from kvaudit.evidence.bundle import Bundle, Entry, Link
from kvaudit.evidence.text import Limits
from kvaudit.loops import loop_by_command
from kvaudit.model import Document

# What an oracle over reports is given of a report; `results` are the words of another loop's domain.
REPORT_MEMBERS = (
    "schema",
    "entry",
    "oracle",
    "fixture",
    "coordinates",
    "ledgers",
    "snapshots",
    "comparisons",
    "evidence_boundary",
    "invalid_suites",
)


@dataclass(frozen=True, slots=True)
class Sources:
    """The bytes and pins of a bundle as this run sees them. Without `pins`, a path's pin is the hash of its bytes."""

    bundle: Bundle
    limits: Limits
    pins: Mapping[str, str] | None
    produced: dict[str, bytes] = field(default_factory=dict)

    def read(self, path: str) -> bytes:
        """Return the bytes of a bundle path, or raise `FileDefect`."""
        if path in self.produced:
            return self.produced[path]
        return files.read_in_bundle(self.bundle.root, path, self.limits)

    def pin(self, path: str) -> str | None:
        """Return the SHA-256 that the lock has or will have for a bundle path, None if it has none."""
        return canonical.sha256(self.read(path)) if self.pins is None else self.pins.get(path)


def collected(sources: Sources, entry: Entry) -> Document:
    """Return what an oracle over reports consumes of the entries that `entry` needs, or raise `FileDefect`.

    One in-memory document: the manifest's entries, the lock's pins, and for each needed entry its fixture's identity
    and its report, both with the hash of their raw bytes.
    """
    needed = [each for each in sources.bundle.entries if each.id in entry.needs]
    reports = {each.id: _parsed(sources, each.report) for each in needed}
    return {
        "bundle": {each.id: _entry(each, reports) for each in needed},
        "lock": {path: sources.pin(path) for each in needed for path in (*each.inputs(), each.report)},
        "fixtures": {each.id: _identity(sources, each.fixture) for each in needed},
        "reports": {each.id: _report(sources, each, reports[each.id]) for each in needed},
    }


def _parsed(sources: Sources, path: str) -> Any:
    return strict_json.parse_json(sources.read(path), sources.limits)


def _identity(sources: Sources, path: str) -> Document:
    document = _parsed(sources, path)
    schema = document.get("schema") if isinstance(document, dict) else None
    return {"path": path, "sha256": canonical.sha256(sources.read(path)), "schema": schema}


def _report(sources: Sources, entry: Entry, document: Any) -> Document:
    members = (
        {name: document[name] for name in REPORT_MEMBERS if name in document} if isinstance(document, dict) else {}
    )
    return {"path": entry.report, "sha256": canonical.sha256(sources.read(entry.report)), "document": members}


def _entry(entry: Entry, reports: Mapping[str, Any]) -> Document:
    loop = loop_by_command(entry.oracle)
    return {
        "oracle": entry.oracle,
        "adapter": None if loop is None else loop.adapter,
        "fixture": entry.fixture,
        "report": entry.report,
        "invalid_suites": {suite.suite: suite.cases for suite in entry.invalid_suites},
        "coordinates": entry.coordinates,
        "links": [_link(entry, link, reports) for link in entry.links],
    }


def _link(entry: Entry, link: Link, reports: Mapping[str, Any]) -> Document:
    """Return a link with the values that it says agree: those in this entry's report and in the other's."""
    facts = [
        {
            "here": {"pointer": here, "value": _at(reports.get(entry.id), here)},
            "there": {"pointer": there, "value": _at(reports.get(link.to), there)},
        }
        for here, there in link.agrees
    ]
    return {"to": link.to, "kind": link.kind, "basis": link.basis, "facts": facts}


def _at(document: Any, place: str) -> Any:
    """Return the value at a JSON pointer, None if there is none."""
    return jsonpointer.resolve_pointer(document, place, None)

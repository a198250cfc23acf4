"""Where an entry's bytes come from: the files of the bundle, with what this run has produced laid over them.

An oracle over reports consumes finished reports, and documents that the manifest names, and nothing else. In a check
these are the files on disk and the pins of the lock; in a regenerate they are what is about to be written.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jsonpointer

from kvaudit.errors import Defect, FileDefect
from kvaudit.evidence import canonical, files, schema, strict_json, strict_yaml, text
from kvaudit.evidence.bundle import Bundle, Documents, Entry, Link
from kvaudit.evidence.text import Limits
from kvaudit.loops import loop_by_command
from kvaudit.model import Document, Finding, Loop, pointer

# What every oracle over reports is given of a report. `results` are the words of another loop's domain: only a loop
# that says `reads_results` is given them.
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


def collected(sources: Sources, entry: Entry, *, results: bool = False) -> Document:
    """Return what an oracle over reports consumes besides its fixture, or raise `FileDefect`.

    One in-memory document. Of the entries that `entry` needs: the manifest's entries, the lock's pins, the identity of
    each fixture, each report (with its `results` only if `results`), and what their suites closed; all with the hash
    of their raw bytes. Of `entry` itself: the documents that it names.
    """
    needed = [each for each in sources.bundle.entries if each.id in entry.needs]
    reports = {each.id: _parsed(sources, each.report) for each in needed}
    members = (*REPORT_MEMBERS, "results") if results else REPORT_MEMBERS
    return {
        "bundle": {each.id: _entry(each, reports) for each in needed},
        "lock": {path: sources.pin(path) for each in needed for path in (*each.inputs(), *each.outputs())},
        "fixtures": {each.id: _identity(sources, each.fixture) for each in needed},
        "reports": {each.id: _report(sources, each, reports[each.id], members) for each in needed},
        "suites": {each.id: _suites(sources, each) for each in needed},
        "documents": {named.name: _documents(sources, named) for named in entry.documents},
    }


def input_of(loop: Loop, sources: Sources, entry: Entry, fixture: Document) -> Document:
    """Return what a loop's oracle is given: the fixture and, for an oracle over reports, what it consumes.

    Raises `FileDefect`.
    """
    if loop.collected_schema is None:
        return fixture
    document = {**fixture, **collected(sources, entry, results=loop.reads_results)}
    schema.check(loop.collected_schema, document)
    return document


def placed_findings(sources: Sources, entry: Entry, defect: Defect, inputs: Mapping[str, bytes]) -> Iterable[Finding]:
    """Yield the findings of a defect in what an entry's oracle was given, each in the file that it stands in.

    `inputs` are the bytes that were given in place of files of the bundle.
    """
    for each in schema.places(defect):
        path, place = (defect.path, each.pointer) if defect.path else _placed(entry, sources.bundle, each.pointer)
        line = defect.line
        if line is None and place:  # a place within a file: the file has been read and has parsed
            data = inputs[path] if path in inputs else sources.read(path)
            locate = strict_yaml.line_of if path.endswith((".yaml", ".yml")) else strict_json.line_of
            line = locate(data.decode(), place)
        yield Finding(path, place, each.message, defect.diagnostic, line)


def _placed(entry: Entry, bundle: Bundle, place: str) -> tuple[str, str]:
    """Return the file that a pointer into an oracle's input leads into, and the pointer within that file."""
    match jsonpointer.JsonPointer(place).parts:
        case ["documents", name, "content", *rest]:
            paths = {named.name: named.paths[0] for named in entry.documents if not named.listed}
            if name in paths:
                return paths[name], pointer(*rest)
        case ["documents", name, index, "content", *rest]:
            listed = {named.name: named.paths for named in entry.documents if named.listed}
            if name in listed and index.isdigit() and int(index) < len(listed[name]):
                return listed[name][int(index)], pointer(*rest)
        case ["reports", id, "document", *rest]:
            reports = {each.id: each.report for each in bundle.entries}
            if id in reports:
                return reports[id], pointer(*rest)
    return entry.fixture, place


def _parsed(sources: Sources, path: str) -> Any:
    """Return what a file of the bundle says: a JSON or YAML document, or the text of any other."""
    try:
        data = sources.read(path)
        if path.endswith(".json"):
            return strict_json.parse_json(data, sources.limits)
        if path.endswith((".yaml", ".yml")):
            return strict_yaml.parse_yaml(data, sources.limits)
        return text.decode(data, sources.limits)
    except FileDefect as defect:
        defect.path = path
        raise


def _hash(sources: Sources, path: str) -> str:
    return canonical.sha256(sources.read(path))


def _documents(sources: Sources, named: Documents) -> Any:
    documents = [
        {"path": path, "sha256": _hash(sources, path), "content": _parsed(sources, path)} for path in named.paths
    ]
    return documents if named.listed else documents[0]


def _identity(sources: Sources, path: str) -> Document:
    document = _parsed(sources, path)
    stated = document.get("schema") if isinstance(document, dict) else None
    return {"path": path, "sha256": _hash(sources, path), "schema": stated}


def _report(sources: Sources, entry: Entry, document: Any, members: tuple[str, ...]) -> Document:
    kept = {name: document[name] for name in members if name in document} if isinstance(document, dict) else {}
    return {"path": entry.report, "sha256": _hash(sources, entry.report), "document": kept}


def _suites(sources: Sources, entry: Entry) -> Document:
    """Return, by suite, the code that each of its cases was rejected with, from the suite's report."""
    suites = {}
    for suite in entry.invalid_suites:
        document = _parsed(sources, suite.report)
        cases = document.get("cases") if isinstance(document, dict) else None
        suites[suite.suite] = {
            "report": suite.report,
            "sha256": _hash(sources, suite.report),
            "cases": {
                name: case["code"]
                for name, case in (cases.items() if isinstance(cases, dict) else ())
                if isinstance(case, dict) and case.get("rejected_as_expected") is True and "code" in case
            },
        }
    return suites


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

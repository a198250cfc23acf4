"""`kvaudit.yaml`: which evidence a folder holds, where its files are and what each entry needs.

A bundle is found by --root, else in the nearest folder upwards that has a kvaudit.yaml, else it is the one that kvaudit
brings. Entries run, are regenerated and are digested in one order: what an entry needs comes before it, and otherwise
the order of the manifest stands.
"""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvaudit.errors import FileDefect, KvauditError, UsageError
from kvaudit.evidence import files, schema, strict_yaml
from kvaudit.evidence.lock import LOCK_NAME
from kvaudit.evidence.text import DEFAULT_LIMITS, Limits
from kvaudit.model import Diagnostic, Document, Finding, pointer

MANIFEST_NAME = "kvaudit.yaml"
MANIFEST_SCHEMA = "kvaudit.bundle/1"

DUPLICATE_NAME = Diagnostic(
    code="bundle.duplicate-name",
    contract="An id or alias names one entry.",
    why="`kvaudit explain A B` and every citation would be ambiguous.",
    fix="Rename one of the two.",
    example="two entries with the alias loop2_visibility",
)
UNKNOWN_ENTRY = Diagnostic(
    code="bundle.unknown-entry",
    contract="What an entry needs or links to is an entry of the same bundle.",
    why="A dependency that is not there is never run, and a link to nowhere proves no lineage.",
    fix="Correct the id, or add the entry.",
    example="needs: [loop99_missing]",
)
CYCLE = Diagnostic(
    code="bundle.dependency-cycle",
    contract="No entry needs itself, directly or through others.",
    why="There is no order in which a cycle could be run or digested.",
    fix="Remove one of the `needs` on the cycle.",
    example="a needs b, b needs a",
)
SHARED_PATH = Diagnostic(
    code="bundle.shared-path",
    contract="Every file that kvaudit writes has one owner: no two entries write it, and none of them reads it.",
    why="One regenerate would overwrite what another produced, or an input that a person wrote.",
    fix="Give each report, table and suite report a path of its own.",
    example="two entries with report: reports/report.json",
)
UNKNOWN_ORACLE = Diagnostic(
    code="bundle.unknown-oracle",
    contract="An entry names an oracle that this kvaudit has.",
    why="Evidence without an oracle is not checked.",
    fix="Run `kvaudit --help` for the oracles of this version, or update kvaudit.",
    example="oracle: visibilty",
)
DIAGNOSTICS = (DUPLICATE_NAME, UNKNOWN_ENTRY, CYCLE, SHARED_PATH, UNKNOWN_ORACLE)


@dataclass(frozen=True, slots=True)
class SuiteEntry:
    """A suite of invalid cases: its file, the report it writes, and how many cases it must have."""

    suite: str
    report: str
    cases: int


@dataclass(frozen=True, slots=True)
class Link:
    """A declared relation to another entry, with what it rests on.

    `agrees` holds pairs of JSON pointers, into this entry's report and into the other's, whose values must be equal.
    """

    to: str
    kind: str
    basis: str
    agrees: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Documents:
    """Further inputs of an entry under one name: a registry, or the pages of a publication in the order declared.

    `listed` says whether the manifest gives a list; a list of one path is still a list.
    """

    name: str
    paths: tuple[str, ...]
    listed: bool


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a bundle. Every path is relative to the bundle."""

    id: str
    aliases: tuple[str, ...]
    oracle: str
    fixture: str
    documents: tuple[Documents, ...]
    report: str
    tables: str
    invalid_suites: tuple[SuiteEntry, ...]
    complete: bool
    needs: tuple[str, ...]
    coordinates: Document
    links: tuple[Link, ...]

    def inputs(self) -> tuple[str, ...]:
        """Return the paths that a person writes."""
        return (self.fixture, *self.document_paths(), *(suite.suite for suite in self.invalid_suites))

    def document_paths(self) -> tuple[str, ...]:
        """Return the paths of the documents that the entry names besides its fixture."""
        return tuple(path for named in self.documents for path in named.paths)

    def outputs(self) -> tuple[str, ...]:
        """Return the paths that kvaudit writes."""
        return (self.report, self.tables, *(suite.report for suite in self.invalid_suites))

    def names(self) -> tuple[str, ...]:
        return (self.id, *self.aliases)


@dataclass(frozen=True, slots=True)
class Bundle:
    """A loaded manifest: entries in dependency order, further pinned paths, and what is wrong with the manifest.

    `records` are folders of measurement records: pinned, and checked against the schema that each record names.
    """

    root: Path
    entries: tuple[Entry, ...]
    pins: tuple[str, ...]
    records: tuple[str, ...]
    read_only: bool
    findings: tuple[Finding, ...]


def find_root(given: Path | None, start: Path) -> Path:
    """Return the bundle to work on: the one given, the nearest one from `start` upwards, or the one kvaudit brings."""
    if given is not None:
        return given
    return files.nearest_with(MANIFEST_NAME, start) or schema.shipped_root()


def load_bundle(root: Path, limits: Limits = DEFAULT_LIMITS) -> Bundle:
    """Return the bundle in `root`, or raise `KvauditError` if its manifest cannot be read."""
    try:
        document = strict_yaml.parse_yaml(files.read_in_bundle(root, MANIFEST_NAME, limits), limits)
        schema.check(MANIFEST_SCHEMA, document)
    except FileDefect as defect:
        place = f"{root / MANIFEST_NAME}" + (f":{defect.line}" if defect.line else "")
        at = f" at {defect.pointer}" if defect.pointer else ""
        raise KvauditError(f"no readable manifest: {place}{at}: {defect.message} ({defect.diagnostic.code})") from None
    entries = tuple(_entry(item) for item in document["entries"])
    ordered, cycle = _ordered(entries)
    return Bundle(
        root=root,
        entries=ordered,
        pins=tuple(document.get("pins", ())),
        records=tuple(document.get("records", ())),
        read_only=root.resolve() == schema.shipped_root() and root.resolve().name == "bundle",
        findings=(*_name_findings(entries), *_path_findings(entries), *cycle),
    )


def selected(bundle: Bundle, names: Iterable[str]) -> tuple[Entry, ...]:
    """Return the entries with these ids, aliases or oracles in dependency order; all entries for no name.

    Raises `UsageError`, with suggestions, for a name that no entry has.
    """
    wanted = tuple(names)
    known = {name for entry in bundle.entries for name in (*entry.names(), entry.oracle)}
    for name in wanted:
        if name not in known:
            near = difflib.get_close_matches(name, sorted(known), n=3)
            hint = f"; did you mean {' or '.join(near)}?" if near else f"; known are {', '.join(sorted(known))}"
            raise UsageError(f"no entry of the bundle is called {name!r}{hint}")
    if not wanted:
        return bundle.entries
    return tuple(entry for entry in bundle.entries if {*entry.names(), entry.oracle} & set(wanted))


def with_dependents(bundle: Bundle, entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """Return these entries and every entry that needs one of them, directly or not, in dependency order."""
    affected = {entry.id for entry in entries}
    for entry in bundle.entries:
        if affected & set(entry.needs):
            affected.add(entry.id)
    return tuple(entry for entry in bundle.entries if entry.id in affected)


def _entry(item: Document) -> Entry:
    return Entry(
        id=item["id"],
        aliases=tuple(item.get("aliases", ())),
        oracle=item["oracle"],
        fixture=item["fixture"],
        documents=tuple(_documents(name, value) for name, value in item.get("documents", {}).items()),
        report=item["report"],
        tables=item["tables"],
        invalid_suites=tuple(SuiteEntry(**suite) for suite in item.get("invalid_suites", ())),
        complete=item.get("invalid_coverage") == "complete",
        needs=tuple(item.get("needs", ())),
        coordinates=item["coordinates"],
        links=tuple(_link(link) for link in item.get("links", ())),
    )


def _documents(name: str, value: str | list[str]) -> Documents:
    return Documents(name, (value,), False) if isinstance(value, str) else Documents(name, tuple(value), True)


def _link(item: Document) -> Link:
    agrees = tuple((here, there) for here, there in item.get("agrees", ()))
    return Link(to=item["to"], kind=item["kind"], basis=item["basis"], agrees=agrees)


def _ordered(entries: tuple[Entry, ...]) -> tuple[tuple[Entry, ...], tuple[Finding, ...]]:
    """Return the entries with needs first, otherwise in manifest order, and a finding if there is a cycle."""
    known = {entry.id for entry in entries}
    done: list[Entry] = []
    waiting = list(entries)
    while waiting:
        finished = {entry.id for entry in done}
        ready = next((entry for entry in waiting if set(entry.needs) & known <= finished), None)
        if ready is None:
            cycle = ", ".join(entry.id for entry in waiting)
            where = pointer("entries", entries.index(waiting[0]), "needs")
            return (*done, *waiting), (Finding(MANIFEST_NAME, where, f"these need each other: {cycle}", CYCLE),)
        waiting.remove(ready)
        done.append(ready)
    return tuple(done), ()


def _name_findings(entries: tuple[Entry, ...]) -> Iterable[Finding]:
    owners: dict[str, str] = {}
    for index, entry in enumerate(entries):
        for name in entry.names():
            if name in owners:
                message = f"{name!r} already names the entry {owners[name]}"
                yield Finding(MANIFEST_NAME, pointer("entries", index), message, DUPLICATE_NAME)
            owners[name] = entry.id
    known = {entry.id for entry in entries}
    for index, entry in enumerate(entries):
        targets: list[tuple[str, Any]] = [("needs", name) for name in entry.needs]
        targets += [("links", link.to) for link in entry.links]
        for member, name in targets:
            if name not in known:
                message = f"expected the id of an entry, found {name!r}"
                yield Finding(MANIFEST_NAME, pointer("entries", index, member), message, UNKNOWN_ENTRY)


def _path_findings(entries: tuple[Entry, ...]) -> Iterable[Finding]:
    owners = {path: entry.id for entry in entries for path in entry.inputs()}
    owners |= {MANIFEST_NAME: "the manifest", LOCK_NAME: "the lock"}
    for index, entry in enumerate(entries):
        for path in entry.outputs():
            if path in owners:
                message = f"{path!r} is written here and already belongs to {owners[path]}"
                yield Finding(MANIFEST_NAME, pointer("entries", index), message, SHARED_PATH)
            owners[path] = entry.id

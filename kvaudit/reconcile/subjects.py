"""What may be compared: from an id or a path to a `Subject`, which is coordinates, metrics and declared links.

A *subject* is a report, a policy contract, a result or a measurement record, with nothing left of its format. A reader
is a plain function `(path, document) -> Subject | None`; it returns None for a document of another kind and raises
`FileDefect` for a bad one of its own. Another format is one more function in `READERS`; ids that live in something
other than a report, as those of registries do, are one more function in `CATALOGUES`.

Decided here:
- A report is read as it is written, with its own coordinates. A ledger row is a metric with the name of the row; its
  kind follows from its unit (bytes, rows, pairs). So `full_payload` of two reports is one metric, `B` of two reports is
  not, and what was added up is stated by the report's own `metric_scope`.
- Every metric has the coordinates `unit` and `kind`, and may have more of its own (a statistic, a denominator) where a
  document has several metrics. What it states of its own the document must leave open.
- Units of time compare in seconds, converted exactly. No other unit is converted.
- Links between entries are declared in kvaudit.yaml and hold for those entries' reports, not for copies elsewhere.
- A registry is a document called `contracts` or `results` that an entry of the bundle names. Each of its records is a
  subject with the id that it has there. In a registry null is undeclared: a person writes what no source states.
- A contract has one metric, the attribution of results, which has no value: two contracts are comparable if a result
  under one may be credited to the other.
"""

import difflib
import functools
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from kvaudit.errors import FileDefect, UsageError
from kvaudit.evidence import files, schema, strict_json, strict_yaml
from kvaudit.evidence.bundle import Bundle, Entry
from kvaudit.evidence.text import DEFAULT_LIMITS, Limits
from kvaudit.model import Diagnostic, Document, Finding, pointer
from kvaudit.reconcile import coordinates as systems
from kvaudit.reconcile.coordinates import OTHER, Coordinates, State, System, Value

DOCUMENT_SCHEMA = "kvaudit.coordinates/1"
MEASUREMENT_SCHEMA = "kvaudit.measurement/1"
REPORT_SCHEMAS = "kvaudit.report."
INVALID_REPORT_SCHEMA = "kvaudit.report.invalid/1"
CONTRACTS_SCHEMA = "kvaudit.registry.contracts/1"
RESULTS_SCHEMA = "kvaudit.registry.results/1"
ATTRIBUTION = "policy_attribution"

SECONDS = {"s": Fraction(1), "ms": Fraction(1, 10**3), "us": Fraction(1, 10**6), "ns": Fraction(1, 10**9)}

NO_READER = Diagnostic(
    code="coordinates.no-reader",
    contract="A document that is compared carries coordinates in a form that kvaudit can read.",
    why="A value without coordinates can be set beside anything, and means nothing there.",
    fix="Name a report of kvaudit, or write a document with the schema kvaudit.coordinates/1.",
    example='{"tokens_per_second": 120}',
)
VALUE_NOT_ALLOWED = Diagnostic(
    code="coordinates.value-not-allowed",
    contract="A coordinate has the type of its key and, where the key lists them, one of its allowed values.",
    why="Two spellings of one fact separate what belongs together, and a number written as text equals no number.",
    fix="Use a value that the coordinate system allows; write what is not known as undeclared.",
    example='{"budget.unit": "tokens kept"}',
)
UNKNOWN_KIND = Diagnostic(
    code="coordinates.unknown-kind",
    contract="The kind of a metric is one that its coordinate system has.",
    why="The kind says which coordinates cannot enter the value; a misspelt one would be compared by the wrong rule.",
    fix="Use a kind of the system, or leave the kind out: then no coordinate is ignored.",
    example='{"metrics": {"ttft": {"value": 41, "unit": "ms", "kind": "latncy"}}}',
)
STATED_TWICE = Diagnostic(
    code="coordinates.stated-twice",
    contract="A coordinate is stated for the whole document or for its metrics, not for both; unit and kind have "
    "members of their own.",
    why="Two statements of one fact can contradict each other, and which one was meant is not for a reader to choose.",
    fix="Keep the statement at the metric and leave it out of the document's coordinates.",
    example='{"coordinates": {"metric.scale": 1}, "metrics": {"f1": {"coordinates": {"metric.scale": 100}}}}',
)
DIAGNOSTICS = (NO_READER, VALUE_NOT_ALLOWED, UNKNOWN_KIND, STATED_TWICE)


@dataclass(frozen=True, slots=True)
class Metric:
    """A value with its unit as written, and the coordinates of its own: `unit` (for comparing), `kind` and others."""

    value: int | Fraction | None
    unit: str
    coordinates: Coordinates

    @property
    def kind(self) -> str:
        return str(self.coordinates["kind"])


@dataclass(frozen=True, slots=True)
class Link:
    """A declared link from one entry of a bundle to another, with what it rests on."""

    source: str
    target: str
    kind: str
    basis: str


@dataclass(frozen=True, slots=True)
class Subject:
    """Something that can be compared. `declared` are the coordinates that a reader of the answer supplied.

    `rests_on` says how far its sources were read, for what was read and not measured. `details` are sentences beside
    coordinates; they explain and are not compared.
    """

    id: str
    path: str
    system: System
    coordinates: Coordinates
    metrics: Mapping[str, Metric]
    links: tuple[Link, ...] = ()
    declared: Coordinates = field(default_factory=dict)
    rests_on: tuple[str, ...] = ()
    details: Mapping[str, str] = field(default_factory=dict)

    def effective(self, metric: Metric) -> dict[str, Value]:
        """Return every coordinate of a metric: those of the document and its own."""
        return {**self.coordinates, **metric.coordinates}


@dataclass(frozen=True, slots=True)
class Loaded:
    """A subject, or the findings that say why there is none."""

    subject: Subject | None
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class Registry:
    """A registry of a bundle as it was read: None, with the findings that say why, if it cannot be used."""

    path: str
    data: bytes
    document: Document | None
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class Catalogued:
    """Ids, each with how what it stands for is read, and why further ids could not be listed."""

    names: Mapping[str, Callable[[], Loaded]]
    findings: tuple[Finding, ...] = ()


Reader = Callable[[str, Document], Subject | None]
Catalogue = Callable[[Bundle, str, Limits], Catalogued]


def read_report(path: str, document: Document) -> Subject | None:
    """Read a report that an oracle wrote."""
    name = document.get("schema")
    if not isinstance(name, str) or not name.startswith(REPORT_SCHEMAS) or name == INVALID_REPORT_SCHEMA:
        return None
    if not os.path.isfile(schema.shipped_root() / schema.schema_path(name)):
        return None  # a report of another version of kvaudit
    schema.check(name, document)
    rows = {row: (item["value"], item["unit"]) for row, item in document["ledgers"].items()}
    return report_subject(document["entry"], path, document["coordinates"], rows)


def report_subject(
    entry_id: str,
    path: str,
    coordinates: Mapping[str, Any],
    rows: Mapping[str, tuple[Any, str]],
    links: tuple[Link, ...] = (),
) -> Subject:
    """Return a report, whose rows are (value, unit) by name, in the coordinate system of reports.

    Raises `FileDefect` where a coordinate has a value that its key does not take.
    """
    system = systems.system("report/1")
    metrics = {name: _ledger_metric(system, value, unit) for name, (value, unit) in rows.items()}
    return Subject(entry_id, path, system, _coordinates(system, coordinates), metrics, links)


def read_coordinates(path: str, document: Document) -> Subject | None:
    """Read a document that was written to be compared: `kvaudit.coordinates/1`."""
    if document.get("schema") != DOCUMENT_SCHEMA:
        return None
    schema.check(DOCUMENT_SCHEMA, document)
    return _with_metrics(path, document, systems.system(document["system"]))


def read_measurement(path: str, document: Document) -> Subject | None:
    """Read a record of `kvaudit measure`: `result/1` in full. A record without a result has no metrics."""
    if document.get("schema") != MEASUREMENT_SCHEMA:
        return None
    schema.check(MEASUREMENT_SCHEMA, document)
    return _with_metrics(path, document, systems.system("result/1"))


def _with_metrics(path: str, document: Document, system: System) -> Subject:
    coordinates = _coordinates(system, document["coordinates"])
    _refuse_restated(coordinates, system.metric_keys, pointer("coordinates"))
    metrics = {}
    for name, item in document["metrics"].items():
        at = pointer("metrics", name)
        own = _coordinates(system, item.get("coordinates", {}), at)
        _refuse_restated(own, {*system.metric_keys, *_stated(coordinates)}, at + pointer("coordinates"))
        for key in own.keys() - _stated(own).keys():  # undeclared for one metric is undeclared, and not a value
            coordinates.setdefault(key, State.UNDECLARED)
        metrics[name] = _metric(item["value"], item["unit"], _kind(system, name, item.get("kind"), at), _stated(own))
    return Subject(document["id"], path, system, coordinates, metrics)


# Readers of other tools' result files join here.
READERS: tuple[Reader, ...] = (read_report, read_coordinates, read_measurement)


def contract_subjects(path: str, document: Document) -> dict[str, Subject]:
    """Return the contracts of a registry that has passed its schema, by id, or raise `FileDefect`."""
    system = systems.system("contract/1")
    metrics = {ATTRIBUTION: _metric(None, "claim", ATTRIBUTION, {})}
    return {
        name: Subject(
            name,
            path,
            system,
            _registered(system, item, "contracts", name),
            metrics,
            rests_on=read_levels(item["sources"]),
            details=item["details"],
        )
        for name, item in document["contracts"].items()
    }


def result_subjects(path: str, document: Document) -> dict[str, Subject]:
    """Return the results of a registry that has passed its schema, by id, or raise `FileDefect`.

    The one metric of a result is called by its kind, so that two results of one kind have it in common.
    """
    system = systems.system("result/1")
    subjects = {}
    for name, item in document["results"].items():
        at = pointer("results", name, "metrics")
        metrics = {
            kind: _metric(metric["value"], metric["unit"], _kind(system, kind, kind, at + pointer(kind)), {})
            for kind, metric in item["metrics"].items()
        }
        coordinates = _registered(system, item, "results", name)
        level = (item["source"]["read_level"],)
        subjects[name] = Subject(name, path, system, coordinates, metrics, rests_on=level)
    return subjects


def read_levels(sources: Iterable[Document]) -> tuple[str, ...]:
    """Return how far the sources of a record were read, each level once and in their order."""
    return tuple(dict.fromkeys(source["read_level"] for source in sources))


# The documents of an entry that hold ids, by the name that the manifest gives them.
_REGISTRIES: Mapping[str, tuple[str, Callable[[str, Document], dict[str, Subject]]]] = {
    "contracts": (CONTRACTS_SCHEMA, contract_subjects),
    "results": (RESULTS_SCHEMA, result_subjects),
}


def bundle_reports(bundle: Bundle, shown_root: str, limits: Limits) -> Catalogued:
    """Return the ids and aliases of a bundle's entries, each with how its report is read."""
    return Catalogued(
        {
            name: functools.partial(entry_subject, bundle, entry, shown_root, limits)
            for entry in bundle.entries
            for name in entry.names()
        }
    )


def bundle_registries(bundle: Bundle, shown_root: str, limits: Limits) -> Catalogued:
    """Return the ids of the contracts and results in a bundle's own registries; a bundle without them has none."""
    names: dict[str, Callable[[], Loaded]] = {}
    findings: list[Finding] = []
    for kind, (expected, subjects) in _REGISTRIES.items():
        for registry in registries(bundle, kind, expected, shown_root, limits):
            findings += registry.findings
            for name in () if registry.document is None else registry.document[kind]:
                names[name] = functools.partial(_record, registry, kind, subjects, name)
    return Catalogued(names, tuple(findings))


def registries(
    bundle: Bundle, kind: str, expected: str, shown_root: str = "", limits: Limits = DEFAULT_LIMITS
) -> tuple[Registry, ...]:
    """Return the documents of the schema `expected` that entries of a bundle name `kind`, in dependency order.

    A document with another schema is another thing of that name and is left out; one that cannot be read has findings.
    """
    named = (path for entry in bundle.entries for each in entry.documents if each.name == kind for path in each.paths)
    found = []
    for path in dict.fromkeys(named):
        shown, data = f"{shown_root}/{path}" if shown_root else path, b""
        try:
            data = files.read_in_bundle(bundle.root, path, limits)
            document = strict_yaml.parse_yaml(data, limits)
            if not isinstance(document, dict) or document.get("schema") != expected:
                continue
            schema.check(expected, document)
            found.append(Registry(shown, data, document))
        except FileDefect as defect:
            found.append(Registry(shown, data, None, yaml_findings(shown, defect, data)))
    return tuple(found)


def bundle_records(bundle: Bundle, shown_root: str, limits: Limits) -> Catalogued:
    """Return the measurement records of a bundle by the names of their files; what is wrong with one is said of it."""
    names: dict[str, Callable[[], Loaded]] = {}
    for folder in bundle.records:
        try:
            paths = tuple(files.files_below(bundle.root, folder))
        except FileDefect:
            continue  # a folder that escapes is a finding of the check
        for path in paths:
            if path.endswith(".json"):
                shown = f"{shown_root}/{path}" if shown_root else path
                read = functools.partial(files.read_in_bundle, bundle.root, path, limits)
                names[Path(path).stem] = functools.partial(_loaded, shown, read, limits)
    return Catalogued(names)


CATALOGUES: tuple[Catalogue, ...] = (bundle_reports, bundle_registries, bundle_records)


def resolve(name: str, bundle: Bundle, shown_root: str = "", limits: Limits = DEFAULT_LIMITS) -> Loaded:
    """Return what `name` stands for: an id or alias first, then the path of a document.

    `shown_root` is the path of the bundle as answers show it. Raises `UsageError`, with suggestions, for a name that
    is neither.
    """
    catalogues = [catalogue(bundle, shown_root, limits) for catalogue in CATALOGUES]
    known = {each: load for catalogue in reversed(catalogues) for each, load in catalogue.names.items()}
    if name in known:
        return known[name]()
    if not os.path.exists(name):
        broken = tuple(finding for catalogue in catalogues for finding in catalogue.findings)
        if broken:  # the id may be one of those that could not be listed
            return Loaded(None, broken)
        near = difflib.get_close_matches(name, sorted(known), n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else f"known ids are {_ids(bundle, known)}"
        raise UsageError(
            f"{name!r} is no id or alias of a report, contract or result of the bundle, none of its records, and no "
            f"path of a JSON document that carries coordinates; {hint}"
        )
    path = Path(name)
    for entry in bundle.entries:
        if path.resolve() == (bundle.root / entry.report).resolve():
            return entry_subject(bundle, entry, shown_root, limits)
    return _loaded(name, lambda: files.read_regular(path, limits), limits)


def _ids(bundle: Bundle, known: Iterable[str]) -> str:
    """Return the ids of the entries, and how many there are in registries and of records: too many to list."""
    records = set(bundle_records(bundle, "", DEFAULT_LIMITS).names)
    entries = {name for entry in bundle.entries for name in entry.names()}
    registered = len(set(known) - entries - records)
    more = f", and {registered} of contracts and results (see `kvaudit contracts`)" if registered else ""
    more += f", and {len(records)} of measurement records (see `kvaudit measure table`)" if records else ""
    return ", ".join(entry.id for entry in bundle.entries) + more


def entry_subject(bundle: Bundle, entry: Entry, shown_root: str = "", limits: Limits = DEFAULT_LIMITS) -> Loaded:
    """Return the report of a bundle's entry with the links that the manifest declares from and to it."""
    links = tuple(
        Link(one.id, link.to, link.kind, link.basis)
        for one in bundle.entries
        for link in one.links
        if entry.id in (one.id, link.to)
    )
    shown = f"{shown_root}/{entry.report}" if shown_root else entry.report
    loaded = _loaded(shown, lambda: files.read_in_bundle(bundle.root, entry.report, limits), limits)
    if loaded.subject is None:
        return loaded
    return Loaded(replace(loaded.subject, id=entry.id, links=links))


def read_subject(path: str, data: bytes, limits: Limits = DEFAULT_LIMITS) -> Subject:
    """Return the subject in the bytes of a document, or raise `FileDefect`."""
    document = strict_json.parse_json(data, limits)
    if isinstance(document, dict):
        for reader in READERS:
            subject = reader(path, document)
            if subject is not None:
                return subject
    stated = document.get("schema") if isinstance(document, dict) else None
    found = "no schema" if stated is None else f"the schema {stated!r}"
    raise FileDefect(NO_READER, "", f"expected a report of kvaudit or a document of {DOCUMENT_SCHEMA}, found {found}")


def _loaded(path: str, read: Callable[[], bytes], limits: Limits) -> Loaded:
    data = b""
    try:
        data = read()
        return Loaded(read_subject(path, data, limits))
    except FileDefect as defect:
        return Loaded(None, schema.findings(path, defect, data))


def _record(
    registry: Registry, kind: str, subjects: Callable[[str, Document], dict[str, Subject]], name: str
) -> Loaded:
    """Return one record of a registry; a defect of another record is none of it."""
    assert registry.document is not None
    try:
        return Loaded(subjects(registry.path, {kind: {name: registry.document[kind][name]}})[name])
    except FileDefect as defect:
        return Loaded(None, yaml_findings(registry.path, defect, registry.data))


def yaml_findings(path: str, defect: FileDefect, data: bytes) -> tuple[Finding, ...]:
    """Return the findings that a defect of a YAML file amounts to; a place within it is looked up in its bytes."""
    findings = []
    for place in schema.places(defect):
        line = defect.line or (strict_yaml.line_of(data.decode(), place.pointer) if place.pointer else None)
        findings.append(Finding(path, place.pointer, place.message, defect.diagnostic, line))
    return tuple(findings)


def _registered(system: System, item: Document, kind: str, name: str) -> dict[str, Value]:
    """Return the coordinates of a record of a registry, where null is undeclared."""
    stated = {key: value for key, value in item["coordinates"].items() if value is not None}
    coordinates = _coordinates(system, stated, pointer(kind, name))
    return {key: coordinates.get(key, State.UNDECLARED) for key in item["coordinates"]}


def _stated(coordinates: Coordinates) -> dict[str, Value]:
    return {key: value for key, value in coordinates.items() if value is not State.UNDECLARED}


def _refuse_restated(coordinates: Coordinates, elsewhere: Iterable[str], at: str) -> None:
    for key in elsewhere:
        if key in coordinates:
            raise FileDefect(STATED_TWICE, at + pointer(key), f"{key} has its place elsewhere in this document")


def _ledger_metric(system: System, value: Any, unit: str) -> Metric:
    return _metric(value, unit, system.units.get(unit, OTHER), {})


def _metric(value: Any, unit: str, kind: str, own: Coordinates) -> Metric:
    return Metric(value, unit, {**own, "unit": "s" if unit in SECONDS else unit, "kind": kind})


def _kind(system: System, name: str, stated: str | None, at: str) -> str:
    if stated is None:
        return name if name in system.kinds else OTHER
    if stated not in (*system.kinds, OTHER):
        raise FileDefect(UNKNOWN_KIND, at + "/kind", f"expected one of {', '.join(system.kinds)}; found {stated!r}")
    return stated


def _coordinates(system: System, document: Mapping[str, Any], at: str = "") -> dict[str, Value]:
    """Return the coordinates of a document or of one of its metrics, or raise `FileDefect`."""
    values = {}
    for name, item in document.items():
        value = systems.from_json(item)
        refused = systems.refusal(system.key(name), value)
        if refused:
            raise FileDefect(VALUE_NOT_ALLOWED, at + pointer("coordinates", name), refused)
        values[name] = value
    return values

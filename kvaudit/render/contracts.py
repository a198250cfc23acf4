"""Contracts, boundaries and design branches as lists, cards and JSON.

A terminal shows two lines a contract, because six columns do not fit it; a pipe gets one line a contract. What a
record rests on is printed with it everywhere, and so is the read level of a value that a source reports. Records stand
in the order of their registry, never by a value.
"""

import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kvaudit.evidence.canonical import exact_json_text
from kvaudit.model import Document, Table
from kvaudit.reconcile.registries import Registries
from kvaudit.reconcile.subjects import read_levels
from kvaudit.render import tables
from kvaudit.render.check import finding_documents
from kvaudit.render.tables import Display, printable

LISTING_SCHEMA = "kvaudit.contracts/1"
RECORD_SCHEMA = "kvaudit.contract/1"
BOUNDARIES_SCHEMA = "kvaudit.boundaries/1"

UNDECLARED = "(undeclared)"

_ROLES = {"policy": "Policies", "boundary": "Boundaries of architecture or training"}
_ADDITIONS = "Additions"
_TITLES = {
    "boundaries": "Boundaries",
    "design_branches": "Design branches",
    "compositions": "Compositions",
    "accuracy": "Accuracy boxes without a contract",
}
_INDENT = 20


def listing_text(known: Registries, display: Display) -> str:
    """Return every contract: a table for a pipe, two lines each on a terminal."""
    groups: dict[str, dict[str, Document]] = {}
    for name, item in known.contracts.items():
        title = _ADDITIONS if item["addition"] else _ROLES.get(item["role"], _ADDITIONS)
        groups.setdefault(title, {})[name] = item
    blocks = []
    for title, members in groups.items():
        heading = f"{title} ({len(members)})"
        blocks.append(_table(heading, members) if display.width is None else _short(heading, members, display))
    more = "One in full: kvaudit contracts ID. Where retention ends: kvaudit contracts --boundaries."
    return "\n".join([*blocks, _line("", more, display, 0), ""])


def record_text(known: Registries, kind: str, name: str, record: Document, display: Display) -> str:
    """Return one record in full."""
    lines = _contract(known, name, record, display) if kind == "contracts" else _part(kind, name, record, display)
    return "\n".join(lines) + "\n"


def boundaries_text(known: Registries, display: Display) -> str:
    """Return every boundary, design branch and composition in full, and the steps from a selection to a claim."""
    blocks = []
    for part, records in known.parts.items():
        cards = ("\n".join(_part(part, name, record, display)) for name, record in records.items())
        blocks.append("\n\n".join([_bold(f"{_TITLES[part]} ({len(records)})", display), *cards]))
    steps = [f"  {step}" if number == 0 else f"  -> {step}" for number, step in enumerate(known.evidence_ladder)]
    blocks.append("\n".join([_bold("From a selection to a claim; no step replaces a later one", display), *steps]))
    return "\n\n".join(blocks) + "\n"


def listing_json(known: Registries) -> str:
    """Return every contract as a JSON document."""
    return _json(LISTING_SCHEMA, known, {"contracts": {n: _contract_document(i) for n, i in known.contracts.items()}})


def record_json(known: Registries, kind: str, name: str, record: Document) -> str:
    """Return one record as a JSON document."""
    members: Document = {"id": name, "kind": kind, "record": record}
    if kind == "contracts":
        members["record"] = _contract_document(record)
        members["results"] = known.reported(name)
        members["design_branches"] = list(known.branches(name))
    return _json(RECORD_SCHEMA, known, members)


def boundaries_json(known: Registries) -> str:
    """Return everything that is no contract as a JSON document."""
    return _json(BOUNDARIES_SCHEMA, known, {**known.parts, "evidence_ladder": list(known.evidence_ladder)})


def _json(name: str, known: Registries, members: Mapping[str, Any]) -> str:
    return exact_json_text({"schema": name, **members, "findings": finding_documents(known.findings)})


def _contract_document(item: Document) -> Document:
    return {**item, "rests_on": list(read_levels(item["sources"]))}


def _table(title: str, members: Mapping[str, Document]) -> str:
    rows = tuple((name, item["title"], *_facts(item), _rests_on(item)) for name, item in members.items())
    return tables.text([Table(title, ("id", "title", "object", "phase", "owner", "rests on"), rows)], tables.PIPE)


def _short(title: str, members: Mapping[str, Document], display: Display) -> str:
    lines = [_bold(title, display)]
    for name, item in members.items():
        lines.append(_line(f"  {name}", item["title"], display, 27))
        lines.append(_line("", f"{', '.join(_facts(item))}; rests on {_rests_on(item)}", display, 27))
    return "\n".join(lines) + "\n"


def _facts(item: Document) -> tuple[str, ...]:
    keys = ("persistent_object", "decision_phase", "owner_granularity")
    return tuple(_value(item["coordinates"][key]) for key in keys)


def _rests_on(item: Document) -> str:
    return ", ".join(read_levels(item["sources"]))


def _contract(known: Registries, name: str, item: Document, display: Display) -> Iterator[str]:
    paper = item["paper"]
    counted = "an addition" if item["addition"] else "one of the contracts that the specification counts"
    yield _bold(name, display)
    yield _line("  title", item["title"], display, _INDENT)
    venue = paper["venue"] or "venue not read"
    yield _line("  paper", f"arXiv {paper['arxiv']}, {paper['year']}, {venue}", display, _INDENT)
    yield _line("  role", f"{item['role']}, {counted}", display, _INDENT)
    for number, source in enumerate(item["sources"]):
        lead = "" if number else "  rests on"
        yield _line(lead, f"{source['read_level']}: {source['what']}", display, _INDENT)
    for number, code in enumerate(item["implementations"]):
        yield _line("" if number else "  code", _pin(code), display, _INDENT)
    if not item["implementations"]:
        yield _line("  code", "none pinned", display, _INDENT)
    yield ""
    yield _bold("Coordinates", display)
    for key, value in item["coordinates"].items():
        lead, lines = f"  {key}", [_value(value)]
        if key in item["details"]:
            lines.append(item["details"][key])
        for line in lines:
            yield _line(lead, line, display, 28)
            lead = ""
    yield ""
    yield _bold("Accuracy", display)
    yield from _members(item["accuracy"], display)
    reported = known.reported(name)
    if reported:
        yield ""
        yield _bold("Reported by its sources, not reproduced here; no two of these may be ranked", display)
        for each, result in reported.items():
            yield _line(f"  {each}", _result(result), display, 28)
    branches = known.branches(name)
    if branches:
        yield ""
        yield _bold("Design branches", display)
        for each in branches:
            record = known.parts["design_branches"][each]
            yield _line(f"  {each}", f"{record['bottleneck']} Not given: {record['does_not_give']}", display, 28)
    if item["notes"]:
        yield ""
        yield _bold("Notes", display)
        for note in item["notes"]:
            yield _line("  -", note, display, 4)


def _pin(code: Document) -> str:
    at = f"@{code['commit']}" if code["commit"] else ""
    stated = f", stated as {code['stated']}" if code["stated"] else ""
    status = {
        "exact": "found",
        "nearest": "near the stated one",
        "not_found": "not found in its public history",
        "unpinned": "not pinned by a full hash",
    }[code["status"]]
    source = "" if code["method_source"] else "; has no source of the method"
    checked = {"executed": "executed", "read": "read", "none": "not read"}[code["checked"]]
    note = f". {code['note']}" if code["note"] else ""
    return f"{code['repository']}{at}{stated}: {status}; {checked}{source}{note}"


def _result(item: Document) -> str:
    source = item["source"]
    printed = item["reported"]["as_printed"] or "no number"
    parts = f"; a composition of {' and '.join(item['composed_of'])}" if item["composed_of"] else ""
    [metric] = item["metrics"]
    place = source["location"] or "no location"
    return (
        f"{metric}: {printed} ({_value(item['coordinates']['evidence.class'])}; read level {source['read_level']}; "
        f"{source['version']}, {place}{parts})"
    )


def _part(kind: str, name: str, record: Document, display: Display) -> Iterator[str]:
    """Yield the card of a record that is no contract, its members in the order of the registry."""
    yield _bold(name, display) + f"  ({_TITLES[kind].lower()}, section {record['section']})"
    yield from _members({key: value for key, value in record.items() if key != "section"}, display)


def _members(record: Mapping[str, Any], display: Display) -> Iterable[str]:
    for key, value in record.items():
        label = key.replace("_", " ")
        if value is not None:
            shown = ", ".join(value) or "nothing" if isinstance(value, list) else str(value)
            yield _line(f"  {label}", shown.replace("_", " ") if key in _ENUMERATED else shown, display, 25)


_ENUMERATED = ("kind", "unselected_row", "dense_attention_set", "saving_of", "no_saving_of", "owner")


def _value(value: Any) -> str:
    if value is None:
        return UNDECLARED
    if isinstance(value, Mapping):
        return f"({value['state'].replace('_', ' ')})"
    return value if isinstance(value, str) else exact_json_text(value).strip()


def _bold(words: str, display: Display) -> str:
    return f"\x1b[1m{printable(words)}\x1b[0m" if display.colour else printable(words)


def _line(lead: str, content: str, display: Display, indent: int) -> str:
    """Return a line whose content starts at column `indent`, wrapped to the display."""
    start = f"{lead:{indent}}" if len(lead) < indent or not lead else f"{lead} "
    if display.width is None:
        return start + printable(content)
    width = max(display.width, 40)
    return textwrap.fill(
        printable(content), width, initial_indent=start, subsequent_indent=" " * indent, break_on_hyphens=False
    )

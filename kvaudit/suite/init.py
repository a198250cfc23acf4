"""`kvaudit init`: a bundle of one's own, made from the fixtures that kvaudit brings, that checks green at once.

An entry of the new bundle is called as its oracle. An oracle over reports names other entries in its fixture and its
cases, so those names are rewritten, and it is taken only together with what it needs. Entries with documents of their
own audit what kvaudit itself publishes, and stay behind.
"""

import re
from pathlib import Path
from typing import Any

import yaml

from kvaudit.errors import UsageError
from kvaudit.evidence import bundle as bundles
from kvaudit.evidence import files, schema
from kvaudit.evidence.bundle import Bundle, Entry, Link, SuiteEntry
from kvaudit.loops import is_over_reports
from kvaudit.suite.regenerate import Regeneration, regenerate

_ATTRIBUTES = ".gitattributes"
_HEADER = """\
# The evidence of this folder. `kvaudit check` verifies it; after an edit, run `kvaudit regenerate`.
# Edit the fixtures under fixtures/ until they state your model, your cache and your policy; adapt or delete the
# invalid suites with them, and write the coordinates below in your own words.
"""


def init(folder: Path, oracles: tuple[str, ...]) -> Regeneration:
    """Make a bundle in `folder` with one entry for each of these oracles (all that can stand alone, if none is named).

    Raises `UsageError` if the folder already has a manifest or an oracle cannot be taken, `KvauditError` if the folder
    cannot be written.
    """
    if (folder / bundles.MANIFEST_NAME).exists():
        raise UsageError(f"{folder / bundles.MANIFEST_NAME} exists already; `kvaudit init` makes a new bundle")
    shipped = bundles.load_bundle(schema.shipped_root())
    entries = bundles.selected(shipped, oracles)
    if not oracles:
        entries = tuple(entry for entry in entries if not entry.documents)
    names = {entry.id: entry.oracle for entry in entries}
    contents: dict[str, bytes] = {}
    for entry in entries:
        _refuse_incomplete(shipped, entry, names)
        for path in entry.inputs():
            data = files.read_in_bundle(shipped.root, path)
            contents[_input_path(entry, path)] = _renamed(data, names) if is_over_reports(entry.oracle) else data
    manifest = {
        "schema": bundles.MANIFEST_SCHEMA,
        "title": "the evidence of this repository",
        "entries": [_manifest_entry(entry, names) for entry in entries],
    }
    text = _HEADER + yaml.safe_dump(manifest, sort_keys=False, allow_unicode=True, width=100)
    contents[bundles.MANIFEST_NAME] = text.encode()
    for path in contents:
        if (folder / path).exists():
            raise UsageError(f"{folder / path} exists already; `kvaudit init` overwrites nothing")
    if not (folder / _ATTRIBUTES).exists():
        contents[_ATTRIBUTES] = b"# kvaudit pins raw bytes; a checkout must not rewrite line endings\n* -text\n"
    for path, data in contents.items():
        files.write_atomically(folder / path, data)
    return regenerate(bundles.load_bundle(folder))


def _refuse_incomplete(shipped: Bundle, entry: Entry, names: dict[str, str]) -> None:
    if entry.documents:
        raise UsageError(f"{entry.oracle} audits documents of kvaudit itself; it cannot start a bundle of your own")
    missing = [each.oracle for each in shipped.entries if each.id in entry.needs and each.id not in names]
    if missing and is_over_reports(entry.oracle):
        raise UsageError(
            f"{entry.oracle} consumes the reports of other entries; name these too, or no oracle at all: "
            + ", ".join(missing)
        )


def _renamed(data: bytes, names: dict[str, str]) -> bytes:
    """Return a file of the shipped bundle with the entries called as they are here, in paths and pointers too."""
    shipped = "|".join(re.escape(name) for name in names)
    return re.sub(rf"(?:\b|(?<=~1))(?:{shipped})\b", lambda found: names[found[0]], data.decode()).encode()


def _input_path(entry: Entry, path: str) -> str:
    return f"fixtures/{entry.oracle}/{path.rpartition('/')[2]}"


def _manifest_entry(entry: Entry, names: dict[str, str]) -> dict[str, Any]:
    return {
        "id": entry.oracle,
        "oracle": entry.oracle,
        "fixture": _input_path(entry, entry.fixture),
        "report": f"reports/{entry.oracle}.json",
        "tables": f"reports/{entry.oracle}.md",
        "invalid_suites": [_suite(entry, suite) for suite in entry.invalid_suites],
        "needs": [names[need] for need in entry.needs if need in names],
        "coordinates": entry.coordinates,
        "links": [_link(link, names) for link in entry.links if link.to in names],
    }


def _link(link: Link, names: dict[str, str]) -> dict[str, Any]:
    agrees = {"agrees": [list(pair) for pair in link.agrees]} if link.agrees else {}
    return {"to": names[link.to], "kind": link.kind, "basis": link.basis, **agrees}


def _suite(entry: Entry, suite: SuiteEntry) -> dict[str, Any]:
    name = suite.suite.rpartition("/")[2]
    return {
        "suite": _input_path(entry, suite.suite),
        "report": f"reports/{entry.oracle}.{name}",
        "cases": suite.cases,
    }

"""Measurement records that a bundle commits: pinned and checked against their schemas, never measured again.

A record cannot be recomputed by a check: it is what one machine did on one day. What can be held is that its bytes are
those that were reviewed (the lock) and that it says all that a record must say (its schema, which it names itself).
Other files in a folder of records, such as its tables, are pinned only.
"""

import re
from collections.abc import Iterator
from typing import TypeGuard

from kvaudit.errors import FileDefect
from kvaudit.evidence import files, schema, strict_json
from kvaudit.evidence.bundle import MANIFEST_NAME, Bundle
from kvaudit.evidence.text import DEFAULT_LIMITS, Limits
from kvaudit.model import Diagnostic, Finding, pointer

NO_SCHEMA = Diagnostic(
    code="record.no-schema",
    contract="Every .json file in a folder of records names, in its member `schema`, a schema that this kvaudit has.",
    why="A record without a schema may leave out what a result depends on, and nobody would notice.",
    fix="Write the schema of the record, update kvaudit, or move the file out of the folders under `records`.",
    example='{"tokens_per_second": 120}',
)
DIAGNOSTICS = (NO_SCHEMA,)

_NAME = re.compile(r"kvaudit\.[a-z][a-z0-9.-]*/[1-9][0-9]*")


def paths(bundle: Bundle, findings: list[Finding]) -> tuple[str, ...]:
    """Return every file below the folders of records; a path that escapes becomes a finding."""
    found: list[str] = []
    for index, folder in enumerate(bundle.records):
        try:
            found.extend(files.files_below(bundle.root, folder))
        except FileDefect as defect:
            findings.append(Finding(MANIFEST_NAME, pointer("records", index), defect.message, defect.diagnostic))
    return tuple(found)


def check(bundle: Bundle, record_paths: tuple[str, ...], limits: Limits = DEFAULT_LIMITS) -> Iterator[Finding]:
    """Yield what is wrong with the records among these files."""
    for path in record_paths:
        if not path.endswith(".json"):
            continue
        data = b""
        try:
            data = files.read_in_bundle(bundle.root, path, limits)
            document = strict_json.parse_json(data, limits)
            name = document.get("schema") if isinstance(document, dict) else None
            if not is_known(name):
                at = "/schema" if isinstance(document, dict) and "schema" in document else ""
                raise FileDefect(NO_SCHEMA, at, f"expected the name of a schema of this kvaudit, found {name!r}")
            schema.check(name, document)
        except FileDefect as defect:
            yield from schema.findings(path, defect, data)


def is_known(name: object) -> TypeGuard[str]:
    """Return whether this is the name of a schema that kvaudit brings."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return False
    return (schema.shipped_root() / schema.schema_path(name)).is_file()

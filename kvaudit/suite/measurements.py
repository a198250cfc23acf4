"""Measurement records from files and folders, for what shows them side by side."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from kvaudit.errors import FileDefect
from kvaudit.evidence import files, schema, strict_json
from kvaudit.evidence.text import DEFAULT_LIMITS, Limits
from kvaudit.model import Document, Finding
from kvaudit.reconcile.subjects import MEASUREMENT_SCHEMA


def read(paths: Iterable[Path], limits: Limits = DEFAULT_LIMITS) -> tuple[tuple[Document, ...], tuple[Finding, ...]]:
    """Return the records in these files, and of folders those in their .json files by name; and what is no record."""
    records: list[Document] = []
    findings: list[Finding] = []
    for path in _files(paths):
        data = b""
        try:
            data = files.read_regular(path, limits)
            document = strict_json.parse_json(data, limits)
            schema.check(MEASUREMENT_SCHEMA, document)
            records.append(document)
        except FileDefect as defect:
            findings.extend(schema.findings(path.as_posix(), defect, data))
    return tuple(records), tuple(findings)


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted(each for each in path.iterdir() if each.suffix == ".json")
        else:
            yield path

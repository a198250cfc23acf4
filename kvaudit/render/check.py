"""The result of a check, and findings, for people and as JSON."""

import textwrap
from collections.abc import Iterable
from typing import Any

from kvaudit.evidence.canonical import json_text
from kvaudit.model import CheckResult, Finding, Table
from kvaudit.render import tables
from kvaudit.render.tables import PIPE, Display, printable


def text(result: CheckResult, display: Display = PIPE) -> str:
    """Return a line an entry, every finding with its reason and its remedy, and the closing lines."""
    entries = Table(
        "Entries",
        ("entry", "invalid cases rejected as expected", "findings"),
        tuple(
            (
                entry.id,
                f"{entry.cases_rejected} of {entry.cases}" if entry.cases else "none ran",
                str(len(entry.findings) or "none"),
            )
            for entry in result.entries
        ),
    )
    summary = f"{counted(len(result.entries), 'entry', 'entries')}, {counted(result.artefacts, 'pinned file')}"
    digest = f"suite digest {result.digest}" if result.digest else "no suite digest: the lock does not pin every entry"
    return "\n".join(
        [
            tables.text([entries], display),
            *(finding_text(finding, result.root, display) for finding in result.findings),
            digest,
            f"{summary}: {verdict(result.findings)}",
            "",
        ]
    )


def findings_text(findings: Iterable[Finding], root: str = "", display: Display = PIPE) -> str:
    """Return findings one after the other, then how many there are."""
    listed = tuple(findings)
    return "\n".join([*(finding_text(finding, root, display) for finding in listed), verdict(listed), ""])


def finding_text(finding: Finding, root: str = "", display: Display = PIPE) -> str:
    """Return one finding: where, which contract, expected and found, why it matters, what to do."""
    line = f":{finding.line}" if finding.line is not None else ""
    place = f"#{finding.pointer}" if finding.pointer else ""
    first, *rest = map(printable, finding.message.split("\n"))
    return "\n".join(
        [
            printable(f"{shown_path(finding.path, root)}{line}{place}"),
            _coloured(_wrapped(f"{finding.code}: {first}", display), finding.code, display),
            *(f"    {line}" for line in rest),
            _wrapped(f"why: {finding.diagnostic.why}", display),
            _wrapped(f"fix: {finding.diagnostic.fix}", display),
            "",
        ]
    )


def json(result: CheckResult) -> str:
    """Return the same content as a JSON document."""
    return json_text(
        {
            "schema": "kvaudit.check/1",
            "ok": not result.findings,
            "suite_digest": result.digest,
            "pinned_files": result.artefacts,
            "entries": {
                entry.id: {
                    "oracle": entry.oracle,
                    "fixture_sha256": entry.fixture_sha256,
                    "report_sha256": entry.report_sha256,
                    "invalid_cases": entry.cases,
                    "rejected_as_expected": entry.cases_rejected,
                    "findings": len(entry.findings),
                }
                for entry in result.entries
            },
            "findings": finding_documents(result.findings, result.root),
        }
    )


def finding_documents(findings: Iterable[Finding], root: str = "") -> list[dict[str, Any]]:
    """Return findings as JSON values."""
    return [
        {
            "code": finding.code,
            "path": shown_path(finding.path, root),
            "line": finding.line,
            "pointer": finding.pointer,
            "message": finding.message,
            "why": finding.diagnostic.why,
            "fix": finding.diagnostic.fix,
        }
        for finding in findings
    ]


def shown_path(path: str, root: str) -> str:
    """Return a bundle path as seen from where the command runs."""
    return f"{root}/{path}" if root and root != "." else path


def verdict(findings: Iterable[Finding]) -> str:
    """Return `ok`, or how many findings there are."""
    count = len(tuple(findings))
    return counted(count, "finding") if count else "ok"


def counted(count: int, one: str, many: str | None = None) -> str:
    """Return `1 finding`, `2 findings`."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def _coloured(text: str, code: str, display: Display) -> str:
    """Return the text with its code in red; after wrapping, because escape bytes take no columns."""
    return text.replace(code, f"\x1b[1;31m{code}\x1b[0m", 1) if display.colour else text


def _wrapped(line: str, display: Display) -> str:
    if display.width is None:
        return f"  {line}"
    return textwrap.fill(
        line,
        max(display.width, 40),
        initial_indent="  ",
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )

"""The result of a check, and findings, for people and as JSON."""

from collections.abc import Iterable
from typing import Any

from kvaudit.evidence.canonical import json_text
from kvaudit.model import CheckResult, Finding


def text(result: CheckResult) -> str:
    """Return a line an entry, every finding with its reason and its remedy, and one closing line."""
    width = max((len(entry.id) for entry in result.entries), default=0)
    lines = []
    for entry in result.entries:
        state = "ok" if not entry.findings else counted(len(entry.findings), "finding")
        closed = f"{entry.cases_rejected} of {entry.cases} invalid cases rejected as expected"
        lines.append(f"{entry.id:{width}}  {closed}  {state}")
    lines.append("")
    lines.extend(finding_text(finding, result.root) for finding in result.findings)
    digest = f", suite digest {result.digest}" if result.digest else ""
    verdict = "ok" if not result.findings else counted(len(result.findings), "finding")
    summary = f"{counted(len(result.entries), 'entry', 'entries')}, {counted(result.artefacts, 'pinned file')}"
    return "\n".join([*lines, f"{summary}{digest}", verdict]) + "\n"


def finding_text(finding: Finding, root: str = "") -> str:
    """Return one finding: where, which contract, expected and found, why it matters, what to do."""
    line = f":{finding.line}" if finding.line is not None else ""
    place = f"#{finding.pointer}" if finding.pointer else ""
    message = finding.message.replace("\n", "\n    ")
    return (
        f"{shown_path(finding.path, root)}{line}{place}\n"
        f"  {finding.code}: {message}\n"
        f"  why: {finding.diagnostic.why}\n"
        f"  fix: {finding.diagnostic.fix}\n"
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


def counted(count: int, one: str, many: str | None = None) -> str:
    """Return `1 finding`, `2 findings`."""
    return f"{count} {one if count == 1 else many or one + 's'}"

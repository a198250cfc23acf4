"""What a regenerate changed."""

from kvaudit.evidence.canonical import json_text
from kvaudit.model import FileChange, Finding
from kvaudit.render.check import counted, finding_documents


def text(changes: tuple[FileChange, ...], *, dry_run: bool) -> str:
    """Return each file that was (or would be) written, why, and the first lines of its difference."""
    lines = []
    for change in changes:
        lines.append(f"{change.path}: {change.reason}")
        lines.extend(f"    {line}" for line in change.difference.splitlines())
    verb = "would be written" if dry_run else "written"
    lines.append(f"{counted(len(changes), 'file')} {verb}" if changes else "nothing to write: everything is up to date")
    return "\n".join(lines) + "\n"


def json(changes: tuple[FileChange, ...], findings: tuple[Finding, ...], *, dry_run: bool, root: str = "") -> str:
    """Return the same content as a JSON document."""
    return json_text(
        {
            "schema": "kvaudit.regenerate/1",
            "dry_run": dry_run,
            "changes": [
                {"path": change.path, "reason": change.reason, "difference": change.difference} for change in changes
            ],
            "findings": finding_documents(findings, root),
        }
    )

"""Findings as GitHub Actions workflow commands, which annotate the lines of a pull request."""

from kvaudit.model import CheckResult, Finding
from kvaudit.render.check import counted, shown_path


def github(result: CheckResult) -> str:
    """Return one `::error` command for each finding, then the closing line."""
    lines = [_command(finding, result.root) for finding in result.findings]
    verdict = "ok" if not result.findings else counted(len(result.findings), "finding")
    return "\n".join([*lines, f"kvaudit check: {verdict}"]) + "\n"


def _command(finding: Finding, root: str) -> str:
    line = f",line={finding.line}" if finding.line is not None else ""
    path = _escaped(shown_path(finding.path, root)).replace(":", "%3A").replace(",", "%2C")
    place = f" at {finding.pointer}" if finding.pointer else ""
    message = _escaped(f"{finding.message}{place}\nfix: {finding.diagnostic.fix}")
    return f"::error file={path}{line},title={finding.code}::{message}"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")

"""How a site went: what was written or audited, or the findings that kept it from being written."""

from collections.abc import Sequence

from kvaudit.evidence.canonical import json_text
from kvaudit.model import Finding
from kvaudit.render.check import counted, finding_documents, findings_text

SCHEMA = "kvaudit.site/1"


def text(findings: Sequence[Finding], files: int, formulas: int, *, folder: str, shown: str, built: bool) -> str:
    """Return the answer for people. `shown` is the folder that the paths of findings are below."""
    if findings:
        ending = "nothing was written\n" if built else ""
        return findings_text(findings, shown) + ending
    what = f"{counted(files, 'file')}, {counted(formulas, 'formula')} as MathML"
    return f"{folder}: {what}; the render audit found nothing\n"


def json(findings: Sequence[Finding], *, folder: str, files: int, formulas: int) -> str:
    """Return the same as a JSON document."""
    return json_text(
        {
            "schema": SCHEMA,
            "folder": folder,
            "files": files,
            "formulas": formulas,
            "findings": finding_documents(findings),
        }
    )

"""One oracle's result on one file."""

from typing import Any

from kvaudit.model import Loop, SingleRun, Table
from kvaudit.render import check, tables
from kvaudit.render.report import report_tables
from kvaudit.render.tables import Display


def text(loop: Loop, run: SingleRun, display: Display) -> str:
    """Return the tables of the fixture, or those of its invalid cases, and the findings."""
    shown = []
    if run.verdicts:
        shown.append(_cases(run))
    elif run.document is not None:
        shown.extend(report_tables(loop, run.document))
    closing = check.findings_text(run.findings, display=display) if run.findings else f"{run.path}: ok\n"
    return "\n".join([tables.text(shown, display), closing]) if shown else closing


def document(run: SingleRun) -> dict[str, Any]:
    """Return the same content as JSON values."""
    cases = {
        verdict.case.id: {
            "code": verdict.case.code,
            "pointer": verdict.case.pointer,
            "rejected_as_expected": verdict.defect is None,
            "message": verdict.message,
        }
        for verdict in run.verdicts
    }
    return {
        "schema": "kvaudit.oracle-result/1",
        "ok": not run.findings,
        "result": run.document,
        "invalid_cases": cases or None,
        "findings": check.finding_documents(run.findings),
    }


def _cases(run: SingleRun) -> Table:
    return Table(
        "Invalid cases",
        ("case", "code", "pointer", "verdict"),
        tuple(
            (
                verdict.case.id,
                verdict.case.code,
                verdict.case.pointer,
                "rejected as expected" if verdict.defect is None else verdict.defect.code,
            )
            for verdict in run.verdicts
        ),
    )

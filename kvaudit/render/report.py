"""A report document as tables, and as the Markdown page that lies beside it."""

import json
from collections.abc import Mapping
from typing import Any

from kvaudit.model import Loop, Table
from kvaudit.render import tables


def report_tables(loop: Loop, report: Mapping[str, Any]) -> tuple[Table, ...]:
    """Return the tables of a report: the loop's own, its ledgers, and which of them may be compared."""
    ledgers = Table(
        "Ledgers",
        ("quantity", "value", "unit", "formula"),
        tuple(
            (name.replace("_", " "), number(row["value"]), row["unit"], row["formula"])
            for name, row in report["ledgers"].items()
        ),
    )
    comparisons = Table(
        "May be compared within this report",
        ("group", "unit", "shared by all", "values"),
        tuple(
            (
                name.replace("_", " "),
                group["unit"],
                group["shared"],
                "; ".join(
                    f"{member.replace('_', ' ')} {number(report['ledgers'][member]['value'])}"
                    for member in group["members"]
                ),
            )
            for name, group in report["comparisons"].items()
        ),
    )
    return (*loop.tables(report), ledgers, comparisons)


def number(value: Any) -> str:
    """Return a number as JSON writes it, and `none` for null."""
    return "none" if value is None else json.dumps(value)


def markdown(loop: Loop, report: Mapping[str, Any]) -> str:
    """Return the page that lies beside the report: its tables and its evidence boundary."""
    boundary = report["evidence_boundary"]
    closures = report["invalid_suites"].values()
    rejected = sum(closure["rejected_as_expected"] for closure in closures)
    cases = sum(closure["cases"] for closure in closures)
    return "\n".join(
        [
            f"# {report['entry']}: {loop.title}",
            "",
            f"Written by `kvaudit regenerate` from `{report['fixture']['path']}`; do not edit. "
            f"Specification {loop.section}. {rejected} of {cases} invalid cases are rejected for the expected reason.",
            "",
            tables.markdown(report_tables(loop, report)),
            "## Evidence boundary",
            "",
            f"Evidence class `{boundary['evidence_class']}`. Executed: {', '.join(boundary['executed'])}. "
            f"Not executed and not measured: {', '.join(boundary['not_executed'])}. Task quality: none.",
            "",
        ]
    )

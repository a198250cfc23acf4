"""Findings as SARIF 2.1.0, for code hosts that show them at the line."""

from kvaudit import __version__
from kvaudit.evidence.canonical import json_text
from kvaudit.model import CheckResult, Finding
from kvaudit.render.check import shown_path

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def sarif(result: CheckResult) -> str:
    """Return one run with a rule for each code found and a result for each finding."""
    rules = {finding.code: finding.diagnostic for finding in result.findings}
    codes = sorted(rules)
    return json_text(
        {
            "$schema": _SCHEMA,
            "version": "2.1.0",
            "runs": [
                {
                    "tool": {
                        "driver": {
                            "name": "kvaudit",
                            "version": __version__,
                            "rules": [
                                {
                                    "id": code,
                                    "shortDescription": {"text": rules[code].contract},
                                    "fullDescription": {"text": rules[code].why},
                                    "help": {"text": rules[code].fix},
                                    "defaultConfiguration": {"level": "error"},
                                }
                                for code in codes
                            ],
                        }
                    },
                    "columnKind": "unicodeCodePoints",
                    "results": [_result(finding, codes, result.root) for finding in result.findings],
                }
            ],
        }
    )


def _result(finding: Finding, codes: list[str], root: str) -> dict[str, object]:
    physical: dict[str, object] = {"artifactLocation": {"uri": shown_path(finding.path, root)}}
    if finding.line is not None:
        physical["region"] = {"startLine": finding.line}
    location: dict[str, object] = {"physicalLocation": physical}
    if finding.pointer:
        location["logicalLocations"] = [{"fullyQualifiedName": finding.pointer}]
    return {
        "ruleId": finding.code,
        "ruleIndex": codes.index(finding.code),
        "level": "error",
        "message": {"text": finding.message},
        "locations": [location],
    }

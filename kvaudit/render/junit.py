"""A check as a JUnit XML document: one test case an entry, and one for the bundle itself."""

import re
from collections.abc import Sequence
from xml.etree import ElementTree

from kvaudit.model import CheckResult, Finding
from kvaudit.render.check import finding_text

# XML 1.0 has no form for these characters, escaped or not.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(result: CheckResult) -> str:
    """Return the document; an entry with findings is a failed test case that lists them."""
    cases = [("bundle", result.bundle_findings), *((entry.id, entry.findings) for entry in result.entries)]
    failures = sum(bool(findings) for _, findings in cases)
    counts = {"tests": str(len(cases)), "failures": str(failures), "errors": "0"}
    root = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(root, "testsuite", {"name": "kvaudit check", **counts, "skipped": "0"})
    for name, findings in cases:
        case = ElementTree.SubElement(suite, "testcase", {"classname": "kvaudit.check", "name": name})
        if findings:
            _add_failure(case, findings, result.root)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _add_failure(case: ElementTree.Element, findings: Sequence[Finding], root: str) -> None:
    codes = sorted({finding.code for finding in findings})
    failure = ElementTree.SubElement(case, "failure", {"type": codes[0], "message": ", ".join(codes)})
    failure.text = _NOT_XML.sub("\ufffd", "\n".join(finding_text(finding, root) for finding in findings))

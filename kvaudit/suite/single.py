"""One oracle on one file, outside any bundle."""

from dataclasses import replace
from pathlib import Path

from kvaudit.errors import Defect, FileDefect
from kvaudit.evidence import canonical, files, invalid, schema
from kvaudit.evidence.declared import observe
from kvaudit.evidence.text import Limits
from kvaudit.model import Document, Loop, SingleRun
from kvaudit.suite.entry import evidence_members, judge_suite, read_fixture

RESULT_SCHEMA = "kvaudit.oracle-result/1"


def run(loop: Loop, path: Path, suite: Path | None, limits: Limits) -> SingleRun:
    """Run an oracle on a fixture file and, where a suite file is given, the suite's cases on that fixture.

    The result document has the evidence of a report, but no coordinates and no pinned suites.
    """
    shown = path.as_posix()
    data = b""
    try:
        data = files.read_regular(path, limits)
        fixture = read_fixture(loop, data, limits)
        evidence = observe(loop, fixture)
    except Defect as defect:
        return SingleRun(shown, None, (), schema.findings(shown, defect, data))
    document = {
        "schema": RESULT_SCHEMA,
        "oracle": loop.command,
        "fixture": {"path": shown, "schema": loop.fixture_schema, "sha256": canonical.sha256(data)},
        **evidence_members(loop, evidence),
    }
    run = SingleRun(shown, canonical.written(document), (), ())
    return run if suite is None else _judged(run, loop, fixture, suite, limits)


def _judged(run: SingleRun, loop: Loop, fixture: Document, suite: Path, limits: Limits) -> SingleRun:
    shown = suite.as_posix()
    data = b""
    try:
        data = files.read_regular(suite, limits)
        cases = invalid.parse_suite(data, limits)
    except FileDefect as defect:
        return replace(run, findings=schema.findings(shown, defect, data))
    verdicts, findings = judge_suite(loop, fixture, shown, data, cases, len(cases))
    return replace(run, verdicts=verdicts, findings=findings)

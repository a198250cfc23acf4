"""One oracle on one file. An oracle over reports is given the rest of its input by an entry of a bundle."""

from dataclasses import replace
from pathlib import Path

from kvaudit.errors import Defect, FileDefect
from kvaudit.evidence import canonical, files, invalid, schema
from kvaudit.evidence.bundle import Bundle, Entry
from kvaudit.evidence.declared import observe
from kvaudit.evidence.text import Limits
from kvaudit.model import Document, Loop, SingleRun
from kvaudit.suite.check import read_pins
from kvaudit.suite.entry import evidence_members, judge_suite, read_fixture
from kvaudit.suite.sources import Sources, input_of, placed_findings

RESULT_SCHEMA = "kvaudit.oracle-result/1"


def run(
    loop: Loop, path: Path, suite: Path | None, limits: Limits, within: tuple[Sources, Entry] | None = None
) -> SingleRun:
    """Run an oracle on a fixture file and, where a suite file is given, the suite's cases on that fixture.

    `within` is the bundle and the entry whose reports and documents an oracle over reports consumes; other oracles
    need none. The result document has the evidence of a report, but no coordinates and no pinned suites.
    """
    shown = path.as_posix()
    data = b""
    try:
        data = files.read_regular(path, limits)
        fixture = read_fixture(loop, data, limits)
        if within is not None:
            fixture = input_of(loop, *within, fixture)
        evidence = observe(loop, fixture)
    except Defect as defect:
        if within is None:
            return SingleRun(shown, None, (), schema.findings(shown, defect, data))
        sources, entry = within
        found = placed_findings(sources, entry, defect, {entry.fixture: data})
        root = sources.bundle.root
        paths = {entry.fixture: shown}
        findings = (replace(each, path=paths.get(each.path) or (root / each.path).as_posix()) for each in found)
        return SingleRun(shown, None, (), tuple(findings))
    document = {
        "schema": RESULT_SCHEMA,
        "oracle": loop.command,
        "fixture": {"path": shown, "schema": loop.fixture_schema, "sha256": canonical.sha256(data)},
        **evidence_members(loop, evidence),
    }
    run = SingleRun(shown, canonical.written(document), (), ())
    return run if suite is None else _judged(run, loop, fixture, suite, limits)


def run_in_bundle(
    loop: Loop, bundle: Bundle, entry: Entry, path: Path, suite: Path | None, limits: Limits
) -> SingleRun:
    """Run an entry's oracle on the fixture at `path`, with what it consumes of the bundle, as `run` does."""
    pins, findings = read_pins(bundle, limits)
    if loop.collected_schema is not None and findings:
        return SingleRun(path.as_posix(), None, (), findings)
    return run(loop, path, suite, limits, (Sources(bundle, limits, pins), entry))


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

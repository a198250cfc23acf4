"""`kvaudit check`: every stage over a bundle, every finding, one result. Nothing is written."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from kvaudit.errors import FileDefect
from kvaudit.evidence import bundle as bundles
from kvaudit.evidence import canonical, files, lock, strict_json, strict_yaml
from kvaudit.evidence.bundle import Bundle, Entry
from kvaudit.evidence.text import DEFAULT_LIMITS, Limits
from kvaudit.loops import loop_by_command
from kvaudit.model import CheckResult, EntryOutcome, Finding
from kvaudit.suite import records
from kvaudit.suite.comparison import STALE, difference
from kvaudit.suite.entry import examine, finding
from kvaudit.suite.sources import Sources


def check(
    bundle: Bundle,
    names: Iterable[str] = (),
    *,
    shown_root: str = "",
    limits: Limits = DEFAULT_LIMITS,
    expect_digest: str | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> CheckResult:
    """Check a bundle, or the entries with these names.

    `shown_root` is the path of the bundle as messages show it. `progress` is told the id of each entry before it runs.
    Raises `UsageError` for a name that no entry has.
    """
    entries = bundles.selected(bundle, names)
    pins, unreadable = read_pins(bundle, limits)
    bundle_findings = [*bundle.findings, *unreadable]
    sources = Sources(bundle, limits, pins)  # without a lock, which is a finding already, bytes pin themselves
    outcomes: list[EntryOutcome] = []
    for entry in entries:
        progress(entry.id)
        broken = frozenset(outcome.id for outcome in outcomes if outcome.findings)
        outcomes.append(_check_entry(sources, entry, pins, broken))
    shared = pinned_besides_entries(bundle, bundle_findings)
    if len(entries) == len(bundle.entries):
        bundle_findings.extend(records.check(bundle, records.paths(bundle, []), limits))
    if pins is not None:
        for path in shared:
            found = _pin_findings(bundle, pins, path, limits)
            bundle_findings.extend(each for each in found if each not in bundle_findings)
        if len(entries) == len(bundle.entries):
            bundle_findings.extend(_stale_pins(bundle, pins, shared))
    digest = suite_digest(bundle, pins) if pins is not None else None
    if expect_digest is not None and digest != expect_digest.lower():
        message = f"expected the suite digest {expect_digest.lower()}, found {digest or 'none'}"
        bundle_findings.append(Finding(lock.LOCK_NAME, "", message, lock.DIGEST_MISMATCH))
    return CheckResult(
        root=shown_root,
        entries=tuple(outcomes),
        bundle_findings=tuple(_with_line(bundle, each, limits) for each in bundle_findings),
        artefacts=len(shared) + sum(len(entry.inputs()) + len(entry.outputs()) for entry in entries),
        digest=digest,
    )


def suite_digest(bundle: Bundle, pins: dict[str, str]) -> str | None:
    """Return the digest over the pinned entries in dependency order, or None if a pin or an oracle is missing."""
    lines = []
    for entry in bundle.entries:
        loop = loop_by_command(entry.oracle)
        if loop is None or entry.fixture not in pins or entry.report not in pins:
            return None
        lines.append((entry.id, pins[entry.fixture], pins[entry.report], loop.adapter))
    return lock.suite_digest(lines)


def locked_digest(bundle: Bundle, limits: Limits = DEFAULT_LIMITS) -> tuple[str | None, tuple[Finding, ...]]:
    """Return the digest that the lock gives, or None and the findings that say why there is none."""
    pins, unreadable = read_pins(bundle, limits)
    findings = [*bundle.findings, *unreadable]
    digest = suite_digest(bundle, pins) if pins is not None and not findings else None
    if digest is None and not findings:
        message = "the lock does not pin the fixture and the report of every entry"
        findings = [Finding(lock.LOCK_NAME, "/artefacts", message, lock.UNPINNED)]
    return digest, tuple(findings)


def pinned_besides_entries(bundle: Bundle, findings: list[Finding]) -> tuple[str, ...]:
    """Return the manifest and every file below its `pins` and `records`; a path that escapes becomes a finding."""
    paths = [bundles.MANIFEST_NAME]
    for index, pin in enumerate(bundle.pins):
        try:
            paths.extend(files.files_below(bundle.root, pin))
        except FileDefect as defect:
            where = f"/pins/{index}"
            findings.append(Finding(bundles.MANIFEST_NAME, where, defect.message, defect.diagnostic))
    return tuple(dict.fromkeys((*paths, *records.paths(bundle, findings))))


def read_pins(bundle: Bundle, limits: Limits) -> tuple[dict[str, str] | None, tuple[Finding, ...]]:
    """Return the pins of the lock, or None and the finding that says why it cannot be read."""
    try:
        return lock.parse_lock(files.read_in_bundle(bundle.root, lock.LOCK_NAME, limits)), ()
    except FileDefect as defect:
        return None, (finding(lock.LOCK_NAME, defect),)


def _check_entry(sources: Sources, entry: Entry, pins: dict[str, str] | None, broken: frozenset[str]) -> EntryOutcome:
    examined = examine(sources, entry, broken=broken)
    findings = examined.findings
    hashes: dict[str, str] = {}
    for path, data in examined.inputs.items():
        hashes[path] = canonical.sha256(data)
        findings.extend(_pin_defect(pins, path, data))
    for path in entry.outputs():
        try:
            on_disk = sources.read(path)
        except FileDefect as defect:
            findings.append(finding(path, defect))
            continue
        hashes[path] = canonical.sha256(on_disk)
        findings.extend(_pin_defect(pins, path, on_disk))
        expected = examined.outputs.get(path)
        if expected is not None and expected != on_disk:
            message = "differs from what the oracle writes now:\n" + difference(on_disk, expected)
            findings.append(Finding(path, "", message, STALE))
    return EntryOutcome(
        id=entry.id,
        oracle=entry.oracle,
        cases=sum(closure.cases for closure in examined.closures),
        cases_rejected=sum(closure.rejected for closure in examined.closures),
        fixture_sha256=hashes.get(entry.fixture),
        report_sha256=hashes.get(entry.report),
        findings=tuple(findings),
    )


def _pin_defect(pins: dict[str, str] | None, path: str, data: bytes) -> Iterable[Finding]:
    if pins is not None:
        try:
            lock.require_pinned(pins, path, data)
        except FileDefect as defect:
            yield finding(path, defect)


def _pin_findings(bundle: Bundle, pins: dict[str, str], path: str, limits: Limits) -> Iterable[Finding]:
    try:
        data = files.read_in_bundle(bundle.root, path, limits)
    except FileDefect as defect:
        yield finding(path, defect)
        return
    yield from _pin_defect(pins, path, data)


def _stale_pins(bundle: Bundle, pins: dict[str, str], shared: tuple[str, ...]) -> Iterable[Finding]:
    owned = {path for entry in bundle.entries for path in (*entry.inputs(), *entry.outputs())} | set(shared)
    for path in pins:
        if path not in owned:
            message = f"pins {path}, which is no artefact of the bundle"
            yield Finding(lock.LOCK_NAME, "/artefacts", message, lock.STALE_PIN)


def _with_line(bundle: Bundle, found: Finding, limits: Limits) -> Finding:
    """Return a finding about the manifest or the lock with the line that its pointer names."""
    if found.line is not None or not found.pointer:
        return found
    try:
        text = files.read_in_bundle(bundle.root, found.path, limits).decode("utf-8")
    except (FileDefect, UnicodeDecodeError):
        return found
    locate = strict_yaml.line_of if found.path.endswith((".yaml", ".yml")) else strict_json.line_of
    return replace(found, line=locate(text, found.pointer))

"""`kvaudit regenerate`: write the reports that the evidence gives, then the lock, last.

Everything is computed before anything is written. If an entry has a finding of its own, nothing is written at all. A
crash between two writes leaves reports that the lock does not pin, which `check` reports and the next run mends.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kvaudit.errors import FileDefect, UsageError
from kvaudit.evidence import bundle as bundles
from kvaudit.evidence import canonical, files, lock
from kvaudit.evidence.bundle import Bundle
from kvaudit.evidence.text import DEFAULT_LIMITS, Limits
from kvaudit.model import FileChange, Finding
from kvaudit.suite import records
from kvaudit.suite.check import pinned_besides_entries
from kvaudit.suite.comparison import SHOWN_LINES, difference
from kvaudit.suite.entry import examine, finding
from kvaudit.suite.sources import Sources

REDECLARED = "its declared results were recomputed"


@dataclass(frozen=True, slots=True)
class Regeneration:
    """What a regenerate changed or, in a dry run, would change; or the findings that kept it from writing."""

    changes: tuple[FileChange, ...]
    findings: tuple[Finding, ...]


def regenerate(
    bundle: Bundle,
    names: Iterable[str] = (),
    *,
    redeclare: bool = False,
    dry_run: bool = False,
    limits: Limits = DEFAULT_LIMITS,
    progress: Callable[[str], None] = lambda _: None,
) -> Regeneration:
    """Regenerate a bundle, or the entries with these names and all that need them.

    Raises `UsageError` for a read-only bundle or an unknown name, `KvauditError` where a file cannot be written.
    """
    if bundle.read_only:
        raise UsageError(
            "this is the bundle that kvaudit brings, and it is read-only; make one of your own with `kvaudit init DIR`"
        )
    chosen = bundles.selected(bundle, names)
    entries = bundles.with_dependents(bundle, chosen)
    findings = list(bundle.findings)
    sources = Sources(bundle, limits, pins=None)
    contents = sources.produced
    written: dict[str, str] = {}
    broken: set[str] = set()
    for entry in entries:
        progress(entry.id)
        examined = examine(sources, entry, broken=frozenset(broken), redeclare=redeclare and entry in chosen)
        if examined.findings:
            broken.add(entry.id)
        findings.extend(examined.findings)
        contents.update(examined.inputs)
        contents.update(examined.outputs)
        written |= dict.fromkeys(examined.outputs, f"recomputed by {entry.id}")
        if redeclare and entry in chosen:
            written[entry.fixture] = REDECLARED
    shared = pinned_besides_entries(bundle, findings)
    for path in shared:
        try:
            contents[path] = files.read_in_bundle(bundle.root, path, limits)
        except FileDefect as defect:
            findings.append(finding(path, defect))
    found = records.check(bundle, records.paths(bundle, []), limits)
    findings.extend(each for each in found if each not in findings)
    if findings:
        return Regeneration((), tuple(findings))
    pins = _pins(bundle, contents, limits)
    contents[lock.LOCK_NAME] = lock.lock_bytes(pins)
    written[lock.LOCK_NAME] = "pins changed"
    changes = []
    for path, reason in written.items():
        target = files.confined(bundle.root, path)
        old = files.read_regular(target, limits) if target.exists() else None
        if old == contents[path]:
            continue
        # What was redeclared is shown whole, because a person has to agree with every line of it.
        limit = None if reason is REDECLARED else SHOWN_LINES
        shown = difference(old, contents[path], limit) if old is not None else ""
        changes.append(FileChange(path, reason if old is not None else "new", shown))
        if not dry_run:
            files.write_atomically(target, contents[path])
    return Regeneration(tuple(changes), ())


def _pins(bundle: Bundle, contents: dict[str, bytes], limits: Limits) -> dict[str, str]:
    """Return the pins of the whole bundle: new ones for what was read or written now, old ones for the rest."""
    owned = {path for entry in bundle.entries for path in (*entry.inputs(), *entry.outputs())}
    try:
        old = lock.parse_lock(files.read_in_bundle(bundle.root, lock.LOCK_NAME, limits))
    except FileDefect:
        old = {}  # a lock that cannot be read is written anew
    kept = {path: pin for path, pin in old.items() if path in owned}
    return kept | {path: canonical.sha256(data) for path, data in contents.items()}

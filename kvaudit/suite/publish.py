"""The published document of a bundle: build it as a site, or audit a site that was built.

A site is built only from a publication that its oracle accepts, and written only if the render audit finds nothing.
"""

from dataclasses import dataclass
from pathlib import Path

from kvaudit.errors import FileDefect, UsageError
from kvaudit.evidence import files, pages
from kvaudit.evidence.bundle import Bundle, Entry
from kvaudit.evidence.text import Limits
from kvaudit.loops import is_over_reports, loop_by_command
from kvaudit.model import Finding
from kvaudit.reconcile.relation import relations
from kvaudit.reconcile.subjects import entry_subject
from kvaudit.render import matrix
from kvaudit.site import build as site
from kvaudit.site.audit import STALE, Expected, audit
from kvaudit.site.build import Source
from kvaudit.suite.check import locked_digest
from kvaudit.suite.entry import finding
from kvaudit.suite.single import run_in_bundle

MATRIX_PATH = "matrix.md"


@dataclass(frozen=True, slots=True)
class Site:
    """A site and what its audit found.

    `files` are by name, empty if there were findings before it was built; `expected` is what each of them must hold.
    """

    files: dict[str, bytes]
    expected: dict[str, Expected | None]
    formulas: int
    findings: tuple[Finding, ...]


def built(bundle: Bundle, entry: Entry, limits: Limits) -> Site:
    """Return the site of a publication, audited. Raises `KvauditError` without the `site` extra."""
    loop = loop_by_command(entry.oracle)
    assert loop is not None
    run = run_in_bundle(loop, bundle, entry, bundle.root / entry.fixture, None, limits)
    if run.findings:
        return Site({}, {}, 0, run.findings)
    try:
        sources = _sources(bundle, entry, limits)
        drawings = {path: files.read_in_bundle(bundle.root, path, limits) for path in _paths(entry, "figures")}
        copied = {
            path: files.read_in_bundle(bundle.root, path, limits)
            for each in bundle.entries
            for path in (*each.inputs(), *each.outputs())
            if path.endswith(".json")
        }
    except FileDefect as defect:
        return Site({}, {}, 0, (finding(defect.path or "", defect),))
    digest, _ = locked_digest(bundle, limits)
    foot = f"Built by kvaudit from its evidence; suite digest {digest or 'none: the lock does not pin every entry'}."
    made = site.build(sources, copied, drawings, title="Contracts of KV-cache policies", foot=foot)
    expected = _expected(sources, made)
    formulas = sum(each.display + each.inline for each in expected.values() if each is not None)
    return Site(made, expected, formulas, audit(made, expected))


def write(made: Site, folder: Path) -> None:
    """Write a site into a folder, which may hold an older one and nothing else.

    Raises `UsageError` for a folder with other files, `KvauditError` where it cannot be written.
    """
    if folder.exists():
        others = [name for name in read_site(folder) if name not in made.files]
        if others:
            raise UsageError(f"{folder} holds {others[0]}, which is no file of this site; give an empty folder")
    for name, data in made.files.items():
        files.write_atomically(folder / name, data)


def audited(bundle: Bundle, entry: Entry, folder: Path, limits: Limits) -> Site:
    """Return the site in a folder and what the render audit finds in it. Raises as `built` does.

    The site is also built anew in memory: one that passes, but is not what the publication gives now, is stale.
    """
    now = built(bundle, entry, limits)
    if not now.files:
        return now
    found = read_site(folder)
    findings = audit(found, now.expected)
    stale = (
        Finding(name, "", "differs from what the publication gives now", STALE)
        for name, data in now.files.items()
        if found.get(name, data) != data
    )
    return Site(found, now.expected, now.formulas, findings or tuple(stale))


def read_site(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder by their names below it, or raise `UsageError` if it is no folder of plain files."""
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder")
    try:
        return {
            name.removeprefix("./"): files.read_in_bundle(folder, name.removeprefix("./"))
            for name in files.files_below(folder, ".")
        }
    except FileDefect as defect:
        raise UsageError(f"{folder} is no folder of plain files: {defect.message}") from None


def _sources(bundle: Bundle, entry: Entry, limits: Limits) -> list[Source]:
    """Return the pages of a site: those of the publication, the tables of every report, the matrix of their pairs."""

    def text(path: str) -> str:
        try:
            return files.read_in_bundle(bundle.root, path, limits).decode("utf-8")
        except FileDefect as defect:
            defect.path = path
            raise

    compared = [each for each in bundle.entries if not is_over_reports(each.oracle)]  # as `kvaudit matrix`
    loaded = [entry_subject(bundle, each, "", limits).subject for each in compared]
    subjects = [subject for subject in loaded if subject is not None]
    grid = matrix.markdown([subject.id for subject in subjects], relations(subjects))
    return [
        *(Source(path, text(path), site.CONTRACTS) for path in _paths(entry, "pages")),
        *(Source(each.tables, text(each.tables), site.REPORTS) for each in sorted(bundle.entries, key=_by_id)),
        Source(MATRIX_PATH, f"# Which reports may be compared\n\n{grid}", site.PAIRS),
    ]


def _by_id(entry: Entry) -> str:
    return entry.id


def _paths(entry: Entry, name: str) -> tuple[str, ...]:
    return next((named.paths for named in entry.documents if named.name == name), ())


def _expected(sources: list[Source], made: dict[str, bytes]) -> dict[str, Expected | None]:
    """Return what each file of a site must hold, as the Markdown says."""
    expected: dict[str, Expected | None] = dict.fromkeys(made)
    for source in sources:
        read = pages.parse(source.text)
        expected[site.names(sources)[source.path]] = Expected(len(read.formulas), len(read.inline_formulas))
    return expected

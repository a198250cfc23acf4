"""The frozen values that travel between the parts of kvaudit.

Nothing here reads a file, computes a policy or prints. A JSON document travels as plain Python values: dict, list,
str, int, bool, None, and `Fraction` for every number that is written with a fraction or an exponent.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Document = dict[str, Any]


def pointer(*parts: str | int) -> str:
    """Return the RFC 6901 JSON pointer of a path: `pointer("a/b", 0)` is `/a~1b/0`."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A stable, readable code with its documentation.

    `contract` says what must hold, `why` what goes wrong in a running KV cache when it does not, `fix` what to do.
    `example` is a minimal failing input; the diagnostics of a loop leave it empty, because `kvaudit rule` shows the
    invalid case of the shipped suite that is proved to raise them.
    """

    code: str
    contract: str
    why: str
    fix: str
    example: str = ""


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One defect in evidence: which contract, in which file and where in it, expected and found."""

    path: str
    pointer: str
    message: str
    diagnostic: Diagnostic = field(compare=False)
    line: int | None = field(default=None, compare=False)

    @property
    def code(self) -> str:
        return self.diagnostic.code


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """One counted quantity with its unit and the formula it comes from.

    `value` is an int for bytes, rows and other counts, a Fraction for ratios, None where the quantity does not exist.
    """

    name: str
    value: Any
    unit: str
    formula: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A published or staged state as an oracle observed it. None means that the mechanism has no such thing."""

    policy: str
    step: str
    owner: str
    state_generation: int | None
    cache_generation: int | None
    selected_original_positions: Sequence[int] | None
    selected_row_count: int | None
    published: bool


@dataclass(frozen=True, slots=True)
class Comparison:
    """Ledger rows of one report that share every coordinate, so that they may stand side by side."""

    name: str
    unit: str
    shared: str
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What an oracle recomputed from a fixture. `results` holds facts, `ledgers` counted quantities.

    `receipts` is what an oracle over reports read, hashes among it: reported, but not declared in a fixture, because
    it changes with every report.
    """

    results: Document
    ledgers: tuple[LedgerRow, ...]
    snapshots: tuple[Snapshot, ...]
    comparisons: tuple[Comparison, ...]
    receipts: Document | None = None


@dataclass(frozen=True, slots=True)
class Boundary:
    """What a loop's evidence rests on, and what was never executed or measured for it."""

    evidence_class: str
    executed: tuple[str, ...]
    not_executed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A titled table of short texts, in the order in which it is to be read."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """One unit of evidence: an oracle with its schemas, diagnostics and tables.

    `oracle` takes a fixture that passed `fixture_schema` and returns its evidence or raises the first
    `ContractViolation`. `refresh_digests` returns the fixture with the digests that derive from its other members
    recomputed. `drift` is raised when a declared result differs from the recomputed one. `categories` are the kinds
    of defect that the specification lists for the loop's suite; `cases` is the number of cases it gives.
    `tables` draws the loop's own tables from a report document.

    A loop with a `collected_schema` is an oracle over reports: its oracle is given the fixture together with what the
    suite collects of the entries that it needs and the documents that its entry names, and that whole document passes
    `collected_schema`. With `reads_results` it is given the results of the reports too.
    """

    id: str
    command: str
    title: str
    section: str
    fixture_schema: str
    report_schema: str
    diagnostics: tuple[Diagnostic, ...]
    drift: Diagnostic
    categories: tuple[str, ...]
    boundary: Boundary
    oracle: Callable[[Document], Evidence]
    refresh_digests: Callable[[Document], Document]
    tables: Callable[[Mapping[str, Any]], tuple[Table, ...]]
    collected_schema: str | None = None
    reads_results: bool = False

    @property
    def adapter(self) -> str:
        """The version of the report's shape, as the suite digest binds it: `visibility/1`."""
        return self.report_schema.removeprefix("kvaudit.report.")


def joined(items: Iterable[object]) -> str:
    """Return `[0, 2, 5]` for a sequence of short things, as messages and tables show it."""
    return "[" + ", ".join(str(item) for item in items) + "]"


@dataclass(frozen=True, slots=True)
class EntryOutcome:
    """How one entry of a bundle went. A hash is None where the file could not be read or produced."""

    id: str
    oracle: str
    cases: int
    cases_rejected: int
    fixture_sha256: str | None
    report_sha256: str | None
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What a check found: per entry, and for the bundle as a whole (manifest, lock, digest)."""

    root: str
    entries: tuple[EntryOutcome, ...]
    bundle_findings: tuple[Finding, ...]
    artefacts: int
    digest: str | None

    @property
    def findings(self) -> tuple[Finding, ...]:
        return (*self.bundle_findings, *(finding for entry in self.entries for finding in entry.findings))


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file that `regenerate` writes, and why. `difference` is a unified diff, empty for a new file."""

    path: str
    reason: str
    difference: str


@dataclass(frozen=True, slots=True)
class InvalidCase:
    """One invalid case. `targets` is "schema", "digests" or None (an oracle contract)."""

    id: str
    category: str
    breaks: str
    patch: list[Document]
    code: str
    pointer: str
    targets: str | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a case went: the message it was rejected with, or the defect of the case and its explanation."""

    case: InvalidCase
    message: str
    defect: Diagnostic | None


@dataclass(frozen=True, slots=True)
class SingleRun:
    """What an oracle says of one fixture file: its result document, the verdicts of a suite, or findings."""

    path: str
    document: Document | None
    verdicts: tuple[Verdict, ...]
    findings: tuple[Finding, ...]

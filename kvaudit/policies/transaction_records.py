"""The values of a policy transaction: policy, state, and what a transaction has established (specification 0x0E)."""

from dataclasses import dataclass, field

from kvaudit.policies import packing
from kvaudit.policies.receipts import Capability, Owners, Reason

PHASES = (
    "begin",
    "append_committed",
    "score",
    "protect",
    "select",
    "validate",
    "backend_admit",
    "allocator_reserve",
    "pack",
    "publish",
    "release_parent",
    "export_handoffs",
)
CHECKS = ("in_range", "unique", "ascending", "resident", "protected", "within_budget")

PUBLISHED = "published"
STALE = "stale"
REJECTED = "rejected"
FALLBACK = "fallback"
ALLOCATION_FAILED = "allocation_failed"
FAILED = "failed"
CANCELLED = "cancelled"
COMPENSATED = "compensated"
TERMINAL = "terminal_failure"

# Refusals that say something of the operation and nothing of the transaction, which stays as it was.
WITHOUT_EFFECT = frozenset({Reason.CLOSED})
RESULTS = {
    Reason.STALE: STALE,
    Reason.TERMINAL: REJECTED,
    Reason.ALLOCATION_FAILED: ALLOCATION_FAILED,
}


@dataclass(frozen=True, slots=True)
class Policy:
    """What the manifest of one policy generation fixes. `compaction_trigger_rows` is None unless it is periodic."""

    generation: int
    manifest_sha256: str
    cadence: str
    budget_scope: str
    maximum_rows: int
    compaction_trigger_rows: int | None
    protected_first: int
    protected_newest: int
    representation: str
    omitted_rows: str
    full_view_declared: bool

    def bound(self, compacting: bool) -> int:
        """Return the rows that a unit of the budget's scope may have: the budget bounds compacted views."""
        if compacting or self.compaction_trigger_rows is None:
            return self.maximum_rows
        return self.compaction_trigger_rows


@dataclass(frozen=True, slots=True)
class SourceHistory:
    """A separately identified history of source rows [begin, end), from which omitted rows can be recalled."""

    contract_id: str
    retrieval_plan_id: str
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Costs:
    """Widths and workspaces in bytes. The backend names its own workspace in its capability receipt."""

    row_bytes: int
    selector_bytes: int
    allocator_metadata_bytes: int


@dataclass(frozen=True, slots=True)
class State:
    """One policy state: which positions each owner keeps, shape [L][H_kv][n], and in which blocks, one tuple an owner.

    `committed_frontier` is the exclusive end of the positions that it was derived from.
    """

    state_generation: int
    cache_generation: int
    committed_frontier: int
    decision_epoch: int
    evidence_receipt_id: str
    selected: Owners
    blocks: tuple[tuple[int, ...], ...]

    def rows(self) -> int:
        """Return the rows of all owners."""
        return sum(map(sum, packing.lengths(self.selected)))


@dataclass(slots=True)
class Transaction:
    """What one transaction has established. Members are None, empty or 0 until their phase."""

    name: str
    policy: Policy
    parent: State
    state_generation: int
    request_generation: int
    next_phase: int = 1
    kinds: dict[str, str] = field(default_factory=dict)
    cache_generation: int | None = None
    committed_frontier: int = 0
    appended_rows: int = 0
    compacts: bool = True
    decision_epoch: int = 0
    evidence_receipt_id: str = ""
    protected: tuple[int, ...] = ()
    selected: Owners = ()
    capability: Capability | None = None
    blocks: list[tuple[int, ...]] = field(default_factory=list)
    fresh_rows: int = 0
    reserved_rows: int = 0
    peak_bytes: int = 0
    copied_rows: int = 0
    packed_view_sha256: str | None = None
    retired: dict[int, list[tuple[int, ...]]] = field(default_factory=dict)
    released_rows: int = 0
    discarded_rows: int = 0
    published: bool = False
    running: bool = False
    failed: bool = False
    result: str | None = None
    closed: bool = False
    visible_at_close: State | None = None

    def owner_lengths(self) -> tuple[int, ...]:
        """Return the rows of each owner of the successor, in packing order."""
        return tuple(len(positions) for _, _, positions in packing.owners(self.selected))

    def fresh_lengths(self) -> tuple[int, ...]:
        """Return the rows of each owner that have to be copied: all of them, or the appended ones if it shares."""
        lengths = self.owner_lengths()
        return lengths if self.compacts else tuple(self.appended_rows for _ in lengths)

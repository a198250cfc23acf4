"""What the owners around a policy transaction hand to it, and how the transaction refuses (specification 0x0EA-0x0EI).

Each class is one receipt of one owner: the cache (append), the selector (score, selection), the backend (capability),
the scheduler (admission), the allocator (allocation), and what a publication binds and a hand-off exports. Fields are
named as a fixture names them. A receipt is a claim: the transaction compares every field with what it knows.
"""

from dataclasses import dataclass
from enum import StrEnum

Owners = tuple[tuple[tuple[int, ...], ...], ...]

PERFORMED = "performed"
NO_OP = "no_op"


class Reason(StrEnum):
    """Why an operation is refused."""

    PHASE_ORDER = "phase_out_of_order"
    UNKNOWN = "unknown_transaction"
    EXISTS = "transaction_exists"
    CLOSED = "transaction_closed"
    CANCEL_PUBLISHED = "cancel_after_publication"
    NOT_FAILED = "nothing_to_compensate"
    TERMINAL = "request_terminal"
    READER = "reader_mismatch"
    STILL_READ = "parent_still_read"
    APPEND_ORDER = "append_not_next"
    APPEND_UNCOMMITTED = "append_uncommitted"
    APPEND_CHAIN = "append_chain_broken"
    STALE = "stale_generation"
    KIND = "receipt_kind"
    STRATEGY = "update_strategy_mismatch"
    SCORE_STALE = "score_stale"
    PROTECTED_SET = "protected_set_mismatch"
    SELECTION_STALE = "selection_stale"
    NO_OP_CHANGED = "no_op_changed_rows"
    SELECTION_SHAPE = "selection_shape"
    OUT_OF_RANGE = "position_out_of_range"
    DUPLICATE = "duplicate_position"
    ORDER = "position_order"
    NOT_RESIDENT = "position_not_resident"
    PROTECTED_MISSING = "protected_position_missing"
    BUDGET = "row_budget_exceeded"
    REPRESENTATION = "representation_mismatch"
    LENGTHS = "owner_lengths_mismatch"
    CAPABILITY = "capability_missing"
    HIDDEN_DENSE = "hidden_densification"
    FALLBACK_MISSING = "fallback_missing"
    FALLBACK_CHARGE = "fallback_charge"
    FALLBACK_UNDECLARED = "fallback_undeclared"
    FALLBACK_UNUSED = "fallback_with_admission"
    ADMISSION = "scheduler_admission_mismatch"
    NOT_ADMITTED = "scheduler_refused"
    ALLOCATION = "allocation_mismatch"
    RESERVATION_VISIBLE = "reservation_visible"
    ALLOCATION_FAILED = "allocation_failed"
    BINDING = "publication_binding_mismatch"
    PARTIAL = "partial_publication"
    RELEASE_TARGET = "release_target_mismatch"
    SUPERSEDED = "hand_off_superseded"
    HANDOFF = "hand_off_stale"
    WORK = "hand_off_work_mismatch"
    READINESS = "premature_readiness"
    RECOVERABILITY = "recoverability_mislabelled"


class Refused(Exception):  # noqa: N818 - a refusal is an answer of the protocol
    """An operation that the transaction does not accept.

    `path` leads to the member at fault in the receipt of `phase`; both are empty where the operation itself is.
    """

    def __init__(
        self, reason: Reason, message: str, path: tuple[str | int, ...] = (), phase: str | None = None
    ) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.message = message
        self.path = path
        self.phase = phase


class CallFailed(Exception):  # noqa: N818 - injected: the answer of a foreign owner that did not come
    """A call to a foreign owner failed."""


def require(reason: Reason, found: object, expected: object, *path: str | int) -> None:
    """Raise `Refused` unless a claimed member equals what is known."""
    if found != expected:
        raise Refused(reason, f"expected {_shown(expected)}, found {_shown(found)}", path)


def _shown(value: object) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = str(list(value)) if isinstance(value, tuple) else str(value)
    return text if len(text) <= 80 else f"{text[:76]} ..."


@dataclass(frozen=True, slots=True)
class Parent:
    """The identity that a transaction expects to succeed, and that publication compares again."""

    request_generation: int
    policy_generation: int
    state_generation: int
    cache_generation: int
    committed_frontier: int


@dataclass(frozen=True, slots=True)
class AppendReceipt:
    """One row that the cache accepted: `position` is the exclusive frontier before it (0x0EB)."""

    position: int
    parent_cache_generation: int
    cache_generation: int
    committed: bool


@dataclass(frozen=True, slots=True)
class Score:
    """Which evidence a selector looked at. A no-op restates the epoch and the evidence of the parent."""

    kind: str
    update_strategy: str
    decision_epoch: int
    policy_generation: int
    observed_frontier: int
    observed_cache_generation: int
    evidence_receipt_id: str


@dataclass(frozen=True, slots=True)
class Selection:
    """The original positions that each owner is to keep, shape [L][H_kv][n], and the evidence they come from."""

    kind: str
    decision_epoch: int
    evidence_receipt_id: str
    selected_original_positions: Owners


@dataclass(frozen=True, slots=True)
class Fallback:
    """What is done instead of an unsupported view: `reject`, `full_view`, `padded_view` or `another_backend`.

    `charged_rows` are the rows that it reads: those of the full or padded view, None for the other two.
    """

    action: str
    charged_rows: int | None


@dataclass(frozen=True, slots=True)
class Capability:
    """What a loaded backend says it consumes. Evidence of admission, not that a kernel ran (0x0ED)."""

    receipt_id: str
    representation: str
    owner_lengths: tuple[int, ...]
    ragged_owner_lengths: bool
    explicit_original_positions: bool
    mask_and_position_semantics: bool
    materialized_rows: int
    workspace_bytes: int
    admitted: bool
    fallback: Fallback | None


@dataclass(frozen=True, slots=True)
class Admission:
    """The scheduler's consent to the work of one transaction (0x0EK)."""

    transaction: str
    request_generation: int
    state_generation: int
    peak_bytes: int
    compaction_bytes: int
    admitted: bool


@dataclass(frozen=True, slots=True)
class Allocation:
    """The allocator's reservation, bound to one transaction and not yet visible to any reader (0x0EE)."""

    transaction: str
    request_generation: int
    parent_state_generation: int
    successor_cache_generation: int
    owner_lengths: tuple[int, ...]
    representation: str
    fresh_rows: int
    visible: bool


@dataclass(frozen=True, slots=True)
class Binding:
    """Everything that one publication binds at once (0x0EF). The first five are compared with the live parent."""

    request_generation: int
    policy_generation: int
    parent_state_generation: int
    parent_cache_generation: int
    parent_frontier: int
    state_generation: int
    cache_generation: int
    committed_frontier: int
    policy_manifest_sha256: str
    packed_view_sha256: str
    capability_receipt_id: str
    evidence_receipt_id: str
    published_layers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SchedulerHandoff:
    """Work, peak and readiness for the scheduler (0x0EH). `foreign_readiness` names what decode also waits for."""

    state_generation: int
    policy_generation: int
    persistent_payload_bytes: int
    persistent_metadata_bytes: int
    transaction_peak_bytes: int
    compaction_bytes: int
    fallback_class: str
    foreign_readiness: tuple[tuple[str, bool], ...]
    decode_ready: bool


@dataclass(frozen=True, slots=True)
class RecoveryHandoff:
    """What became of the omitted rows (0x0EI). The two ids are None unless the rows can be recalled."""

    state_generation: int
    source_frontier: int
    omitted_state_class: str
    source_history_contract_id: str | None
    retrieval_plan_id: str | None


@dataclass(frozen=True, slots=True)
class TransferHandoff:
    """The identity of the published object that another worker may receive (0x0EI)."""

    request_id: str
    request_generation: int
    state_generation: int
    cache_generation: int
    packed_view_sha256: str
    representation: str
    payload_bytes: int

"""Loop 9, one generation-fenced policy transaction (0x0E): a state machine that the fixture's events drive.

`policies/transaction.py` holds the machine. A fixture gives the published parent state, the manifest with its update
strategy, and a list of events: rows that the cache accepts, readers, and the phases of every transaction with the
receipt of each. An event is applied to the machine, which accepts or refuses it; the fixture says which (`refused`,
`failed_call`). What the machine then knows is compared with what the receipt states. Rollbacks and counters are
stated after the events and recomputed from the machine.

The contracts are judged in the order of `oracle`: identity of cache, manifest and strategy; the parent state; the
events, one by one; the transaction that the report is about; rollbacks; counters.

Decided here. The row budget bounds a compacted view; under `periodic` the update strategy declares the rows up to which
a view may grow (`compaction_trigger_rows`), so that 24 parent rows and a budget of 4 an owner do not contradict each
other. A chain of append receipts from the state's cache generation to the current one is accepted, because the
equality of the printed pseudocode would refuse every retry after a rejection; the report computes both. Scheduler
admission is recorded inside `allocator_reserve`, and the phases stay twelve. The transaction peak leaves out the
appended row itself, as the specification's sum does; the report names those bytes. The manifest has the shape of
loop 2's, in the schema too; its tensor is another one, so the digests differ. The trigger is no manifest member:
the manifest names the cadence, the update strategy beside it the trigger.
"""

import contextlib
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kvaudit.errors import ContractViolation
from kvaudit.evidence.canonical import canonical_sha256
from kvaudit.evidence.summary import summarised
from kvaudit.model import (
    Boundary,
    Comparison,
    Diagnostic,
    Document,
    Evidence,
    LedgerRow,
    Loop,
    Snapshot,
    Table,
    joined,
    pointer,
)
from kvaudit.policies import compaction, packing
from kvaudit.policies.allocator import Allocator
from kvaudit.policies.geometry import SCALAR_BYTES, Geometry
from kvaudit.policies.manifest import IDENTITY_FIELDS
from kvaudit.policies.protection import protected_positions
from kvaudit.policies.receipts import (
    NO_OP,
    Admission,
    Allocation,
    AppendReceipt,
    Binding,
    CallFailed,
    Capability,
    Fallback,
    Parent,
    Reason,
    RecoveryHandoff,
    Refused,
    SchedulerHandoff,
    Score,
    Selection,
    TransferHandoff,
)
from kvaudit.policies.transaction import Machine
from kvaudit.policies.transaction_records import (
    CHECKS,
    PHASES,
    Costs,
    Policy,
    SourceHistory,
    State,
    Transaction,
)

# The policies that the machine checks: contract, member, and the values that it may have.
SUPPORTED = (
    ("selection_contract", "ordering", "ascending"),
    ("selection_contract", "selection_unit", "layer_head_token"),
    ("selection_contract", "decision_phase", "decode", "both"),
    ("representation_contract", "stored_rows", "original_rows"),
    ("representation_contract", "semantic_class", "lossy_subset"),
)

# What each event has beside its one receipt.
EVENT_MEMBERS = ("worker", "transaction", "refused", "failed_call")

CACHE_ABI_DIGEST = Diagnostic(
    code="transaction.cache-abi-digest-mismatch",
    contract="manifest.logical_cache_abi_sha256 is the canonical SHA-256 of the cache ABI.",
    why="A policy admitted for another cache layout would publish rows of the wrong width or head.",
    fix="Admit the policy anew under this cache ABI.",
)
TENSOR = Diagnostic(
    code="transaction.tensor-mismatch",
    contract="The tensor contract of the manifest has the shape and scalars of the cache ABI.",
    why="Owners are counted and rows are charged by this shape; a wrong one reserves and releases other rows.",
    fix="Take the counts from the checkpoint's configuration.",
)
UNSUPPORTED = Diagnostic(
    code="transaction.manifest-outside-the-machine",
    contract="The policy keeps original rows as a lossy subset, each layer and K/V head its own, ascending, in decode.",
    why="The machine checks exactly such views; another policy would pass without the checks that it needs.",
    fix="Audit another policy with the loop of its representation or selection unit.",
)
STRATEGY_SHAPE = Diagnostic(
    code="transaction.update-strategy-invalid",
    contract="The update strategy has the manifest's cadence; `periodic` alone has a trigger, not below the budget.",
    why="Without a declared trigger, a view above its budget is either a broken contract or a policy nobody named.",
    fix="Declare the cadence of the manifest and, for periodic compaction, compaction_trigger_rows >= maximum_rows.",
)
MANIFEST_DIGEST = Diagnostic(
    code="transaction.manifest-digest-mismatch",
    contract="Parent state and begin receipts name the canonical SHA-256 over the manifest's ten identity fields.",
    why="The state was derived under another meaning of the policy.",
    fix="Derive state and transaction under this manifest.",
)
PARENT_POLICY = Diagnostic(
    code="transaction.parent-policy-generation",
    contract="The parent state carries the policy generation of the manifest.",
    why="A state of an earlier policy would be compacted by the rules of this one.",
    fix="Publish a state of this policy generation first.",
)
PARENT_VIEW = Diagnostic(
    code="transaction.parent-view-invalid",
    contract="The parent keeps ascending committed positions for every owner, the protected ones among them.",
    why="A transaction can only preserve what its parent has; a broken parent makes every successor suspect.",
    fix="Start from a published state that its own transaction validated.",
)
PARENT_BUDGET = Diagnostic(
    code="transaction.parent-above-bound",
    contract="The parent's rows are at most the budget or, under periodic compaction, the declared trigger.",
    why="A view that outgrew its bound has been read, and charged for, beyond what the policy admits.",
    fix="Compact earlier, or declare the trigger that the policy really has.",
)
PARENT_CAPACITY = Diagnostic(
    code="transaction.parent-exceeds-capacity",
    contract="The allocator's capacity holds the parent's rows.",
    why="The published state would lie in memory that does not exist.",
    fix="State the capacity of the pool that holds the parent.",
)
WORKER = Diagnostic(
    code="transaction.worker-mismatch",
    contract="Every event of a transaction comes from the worker that opened it.",
    why="A completion of another worker, late or misrouted, would advance work that it never did.",
    fix="Fence completions by worker and transaction; discard those of others.",
)
OUTCOME = Diagnostic(
    code="transaction.outcome-mismatch",
    contract="An event is refused, or fails in a call, exactly where and why the machine says so.",
    why="A log that calls a refused operation accepted hides that the transaction ended there.",
    fix="Record the outcome that the runtime gave; if the machine is stricter, find out which check was skipped.",
)
ISSUE = Diagnostic(
    code="transaction.state-generation-reissued",
    contract="Each begin is issued the next state generation, also when an earlier transaction failed.",
    why="A generation that two transactions share lets the stale one pass for the published one.",
    fix="Consume a generation at begin and never hand it out again.",
)
FRONTIER = Diagnostic(
    code="transaction.frontier-mismatch",
    contract="An append_committed receipt ends at the cache generation and frontier that its chain leads to.",
    why="Cache and policy generations are two counters; scored against the wrong frontier, a row is never considered.",
    fix="Advance frontier and cache generation by one for each accepted row.",
)
CHECKS_SKIPPED = Diagnostic(
    code="transaction.validation-skipped",
    contract="A validate receipt names every structural check, in the order in which they are made.",
    why="A check that was skipped leaves no other trace: the selection may be right by luck.",
    fix="Run all checks, also on a selection that did not change.",
)
STATED_LENGTHS = Diagnostic(
    code="transaction.stated-lengths-mismatch",
    contract="The owner lengths in a validate or pack receipt are those of the selection.",
    why="Offsets, masks and reservations follow the lengths; the owners after a wrong one are read shifted.",
    fix="Count the selected positions of each owner.",
)
POSITION_MAP = Diagnostic(
    code="transaction.position-map-mismatch",
    contract="The packed original-position map repeats the selected positions in packing order.",
    why="A packed index taken for a position breaks causality and every later score.",
    fix="Copy the selected positions; never number the packed rows anew.",
)
VIEW_DIGEST = Diagnostic(
    code="transaction.packed-view-digest-mismatch",
    contract="The packed-view digest covers request, policy, state and cache generation, manifest and positions.",
    why="One changed row must change the receipt's identity, or a view of another selection is published under it.",
    fix="Hash the packed identity after the selection is final.",
)
COPIED = Diagnostic(
    code="transaction.copied-rows-mismatch",
    contract="The rows that a pack receipt counts are those that were copied into the reservation.",
    why="Compaction traffic and amplification are computed from them.",
    fix="Count the fresh rows: all of a compacted view, the appended ones otherwise.",
)
RELEASED = Diagnostic(
    code="transaction.released-rows-mismatch",
    contract="A release frees the rows that no mapping but the parent's holds.",
    why="Too many are shared rows of the successor, overwritten by the next owner; too few are a leak.",
    fix="Count the rows whose last reference the release dropped.",
)
UNREACHED = Diagnostic(
    code="transaction.failed-call-unreached",
    contract="A call that is said to fail is made by its event.",
    why="A failure that never happened proves nothing about rollback.",
    fix="Name a call that the phase makes, and an occurrence within their number.",
)
SUBJECT = Diagnostic(
    code="transaction.subject-incomplete",
    contract="The transaction that the report is about passes all twelve phases.",
    why="Peak, traffic and churn would be those of a state that nobody can see.",
    fix="Name a transaction that was published, released its parent and exported its hand-offs.",
)
ROLLBACK_MISSING = Diagnostic(
    code="transaction.rollback-missing",
    contract="Every transaction that ended before publication has a rollback record, and no other has.",
    why="An unrecorded end looks like work in progress; its reservation is nobody's to free.",
    fix="Record result and cause when the transaction closes.",
)
ROLLBACK_CAUSE = Diagnostic(
    code="transaction.rollback-cause",
    contract="A rollback record names the result and the cause with which the transaction closed.",
    why="Stale, rejected and failed transactions call for different remedies: retry, repair, or another backend.",
    fix="Record the refusal, the failed call, the fallback or the cancellation as it was.",
)
ROLLBACK_LEAK = Diagnostic(
    code="transaction.rollback-leak",
    contract="A rollback discards every row that its transaction reserved, and keeps none.",
    why="Each leaked reservation takes rows from the pool until admission fails for all requests.",
    fix="Drop the whole reservation, also a partly filled one.",
)
ROLLBACK_EXPOSURE = Diagnostic(
    code="transaction.rollback-exposure",
    contract="A rollback leaves the visible state, its rows and its parent's rows as they were.",
    why="A failure before publication cannot expose a partly compacted cache; this is the hard stop.",
    fix="Never write to a published state; work on an unpublished successor.",
)
COUNTERS = Diagnostic(
    code="transaction.counter-mismatch",
    contract="Counters by policy generation and result, and their totals, agree with the events that they count.",
    why="A counter that disagrees with its events hides the very rollbacks it was built to show.",
    fix="Count at the event, once, under the result with which the transaction ended.",
)
DRIFT = Diagnostic(
    code="transaction.declared-drift",
    contract="The declared results of the fixture are those that the oracle recomputes.",
    why="A number that is cited is no longer the number that the evidence gives.",
    fix="Find out which of the two is wrong; if the fixture's inputs are right, "
    "run `kvaudit regenerate --redeclare` and review the difference.",
)

# One diagnostic for each reason for which the machine refuses.
REFUSALS = {
    Reason.PHASE_ORDER: Diagnostic(
        code="transaction.phase-out-of-order",
        contract="A transaction passes its twelve phases in order, each once.",
        why="Packing before admission or releasing before publication is how a reader meets half a cache.",
        fix="Drive the phases in order; a phase with nothing to do still leaves a no-op receipt.",
    ),
    Reason.UNKNOWN: Diagnostic(
        code="transaction.unknown-transaction",
        contract="An event names a transaction that has begun.",
        why="A completion without a begin is fenced by no generation.",
        fix="Begin the transaction, or discard the completion.",
    ),
    Reason.EXISTS: Diagnostic(
        code="transaction.transaction-exists",
        contract="A transaction id is used once.",
        why="Receipts bound to the id would pass for those of the earlier transaction.",
        fix="Give each attempt, each retry included, an id of its own.",
    ),
    Reason.CLOSED: Diagnostic(
        code="transaction.transaction-closed",
        contract="A closed transaction accepts no further operation.",
        why="A late worker would revive work whose reservation is already gone.",
        fix="Begin a new transaction.",
    ),
    Reason.CANCEL_PUBLISHED: Diagnostic(
        code="transaction.cancel-after-publication",
        contract="A published transaction cannot be cancelled.",
        why="Readers may hold the successor; taking it back would change what they already read.",
        fix="Publish a compensating successor, or end the request.",
    ),
    Reason.NOT_FAILED: Diagnostic(
        code="transaction.nothing-to-compensate",
        contract="Compensation and termination follow a failure behind publication.",
        why="Before publication there is nothing to compensate: the transaction rolls back.",
        fix="Cancel an unpublished transaction; let a healthy one go on.",
    ),
    Reason.TERMINAL: Diagnostic(
        code="transaction.request-terminal",
        contract="After a terminal failure the request begins no transaction.",
        why="Its hand-offs were never completed; nobody knows which workers hold which state.",
        fix="Start a new request generation.",
    ),
    Reason.READER: Diagnostic(
        code="transaction.reader-mismatch",
        contract="A reader acquires the visible state, once, and gives it up once.",
        why="A reader of a state that is not visible reads rows that may be free.",
        fix="Acquire what is visible; keep one hold a reader.",
    ),
    Reason.STILL_READ: Diagnostic(
        code="transaction.parent-still-read",
        contract="Parent rows are released only when no reader holds the parent.",
        why="The next owner of the rows overwrites what a running attention kernel still reads.",
        fix="Wait for the readers of the parent, by epoch, lease or reference.",
    ),
    Reason.APPEND_ORDER: Diagnostic(
        code="transaction.append-not-next",
        contract="An accepted row lies at the frontier and advances frontier and cache generation by one.",
        why="A gap or a repeated generation makes two different caches look the same.",
        fix="Append at the frontier, on the current cache generation.",
    ),
    Reason.APPEND_UNCOMMITTED: Diagnostic(
        code="transaction.append-uncommitted",
        contract="Only committed rows enter the source of a transaction.",
        why="A speculative or cancelled row that was materialised for a moment would be scored and kept.",
        fix="Wait for the append's commitment, or leave the row out.",
    ),
    Reason.APPEND_CHAIN: Diagnostic(
        code="transaction.append-chain-broken",
        contract="The append receipts lead, unbroken, from the state's cache generation to the current one.",
        why="A missing link is a committed row that no policy ever sees.",
        fix="Bind every receipt since the state's cache generation, in order.",
    ),
    Reason.STALE: Diagnostic(
        code="transaction.stale-generation",
        contract="Request, policy, parent state and cache are the live ones, from begin to the compare of publish.",
        why="A slower worker would replace a newer state by one that was derived from an older.",
        fix="Discard the transaction and begin again on the visible state.",
    ),
    Reason.KIND: Diagnostic(
        code="transaction.receipt-kind",
        contract="A receipt says `no_op` exactly where policy and input leave the phase nothing to do.",
        why="A no-op that was due work is a skipped check; work that was not due is charged for nothing.",
        fix="Do the phase's work, or state the no-op that the update strategy gives.",
    ),
    Reason.STRATEGY: Diagnostic(
        code="transaction.update-strategy-mismatch",
        contract="A score receipt was made under the declared update strategy.",
        why="Strategies differ in when they score and in what they copy; their ledgers are not interchangeable.",
        fix="Run the strategy that the manifest names.",
    ),
    Reason.SCORE_STALE: Diagnostic(
        code="transaction.score-stale",
        contract="Scores are of this decision epoch, policy generation, cache generation and frontier.",
        why="A perfectly sorted set from the wrong attention epoch is still stale.",
        fix="Score the committed rows of this transaction; a no-op restates the parent's epoch and evidence.",
    ),
    Reason.PROTECTED_SET: Diagnostic(
        code="transaction.protected-set-mismatch",
        contract="The protected positions are those that the manifest's rule gives at this frontier.",
        why="A protected position that moved or vanished changes the policy without a new generation.",
        fix="Recompute the protected positions from the rule and the frontier.",
    ),
    Reason.SELECTION_STALE: Diagnostic(
        code="transaction.selection-stale",
        contract="A selection names the decision epoch and the evidence that were scored.",
        why="It was made from other scores than those that the transaction bound.",
        fix="Select from the scores of this transaction.",
    ),
    Reason.NO_OP_CHANGED: Diagnostic(
        code="transaction.no-op-changed-rows",
        contract="A selection that was not due keeps the parent's rows and adds the appended ones.",
        why="Rows would be dropped without scores, under a receipt that says nothing happened.",
        fix="Extend the view by the appended rows, or compact with fresh scores when the trigger is passed.",
    ),
    Reason.SELECTION_SHAPE: Diagnostic(
        code="transaction.selection-shape",
        contract="A selection has one list for each layer and K/V head of its parent.",
        why="An owner without a list would be published without rows.",
        fix="Select for every owner.",
    ),
    Reason.OUT_OF_RANGE: Diagnostic(
        code="transaction.position-out-of-range",
        contract="Every selected position is committed: origin <= p < frontier.",
        why="There is no committed row there; the copy would read free or foreign memory.",
        fix="Select committed positions only.",
    ),
    Reason.DUPLICATE: Diagnostic(
        code="transaction.duplicate-position",
        contract="A position occurs once in the selection of one owner.",
        why="The row would be attended to twice and charged twice.",
        fix="Remove the repetition.",
    ),
    Reason.ORDER: Diagnostic(
        code="transaction.position-order",
        contract="An owner's positions ascend.",
        why="A consumer that relies on the order reads the wrong rows.",
        fix="Sort the positions.",
    ),
    Reason.NOT_RESIDENT: Diagnostic(
        code="transaction.position-not-resident",
        contract="A selected row is in the parent's view or was appended since.",
        why="A row that was dropped is not there to be copied; it returns through recall, another owner's work.",
        fix="Select resident rows, or recall the row and publish that first.",
    ),
    Reason.PROTECTED_MISSING: Diagnostic(
        code="transaction.protected-position-missing",
        contract="Every owner keeps every protected position.",
        why="Sinks and the newest rows are protected because dropping them breaks decoding at once.",
        fix="Keep the protected positions; let other rows go first.",
    ),
    Reason.BUDGET: Diagnostic(
        code="transaction.row-budget-exceeded",
        contract="A compacted view stays within the row budget, a growing one within the trigger.",
        why="The reservation is too small, and the rows of another request are overwritten.",
        fix="Select fewer rows, or raise the budget in a new policy generation.",
    ),
    Reason.REPRESENTATION: Diagnostic(
        code="transaction.representation-mismatch",
        contract="The backend admits the representation that the policy requests.",
        why="A kernel that expects another layout reads shape-correct nonsense.",
        fix="Ask for admission of the requested representation, or request another one.",
    ),
    Reason.LENGTHS: Diagnostic(
        code="transaction.admitted-lengths-mismatch",
        contract="The backend admits the owner lengths of this selection.",
        why="Admission of other lengths says nothing about these.",
        fix="Ask for admission after the selection is validated.",
    ),
    Reason.CAPABILITY: Diagnostic(
        code="transaction.capability-missing",
        contract="An admitted backend consumes ragged lengths, original positions and their mask semantics.",
        why="Continue and hope is not a mode: masks by packed row let a query see the future.",
        fix="Reject the policy, fall back and charge the fallback, or choose another backend.",
    ),
    Reason.HIDDEN_DENSE: Diagnostic(
        code="transaction.hidden-densification",
        contract="The backend materialises the rows that were selected, and no more.",
        why="Four rows an owner are reported while the service pads to the source length and reads all of it.",
        fix="Charge the padded or full view as a fallback, or use a backend that reads ragged rows.",
    ),
    Reason.FALLBACK_MISSING: Diagnostic(
        code="transaction.fallback-missing",
        contract="A backend that refuses names what is done instead.",
        why="Without a named fallback the service does something that nobody accounts for.",
        fix="Name reject, full_view, padded_view or another_backend.",
    ),
    Reason.FALLBACK_CHARGE: Diagnostic(
        code="transaction.fallback-charge-mismatch",
        contract="A full or padded view is charged with the rows that it reads; other fallbacks with none.",
        why="An uncharged fallback reports the compressed view's bytes for the dense view's work.",
        fix="Charge owners times committed rows, or owners times the longest owner.",
    ),
    Reason.FALLBACK_UNDECLARED: Diagnostic(
        code="transaction.fallback-undeclared",
        contract="A full-view fallback is one of the actions that the manifest declares.",
        why="The request would silently need the memory that the policy was installed to save.",
        fix="Declare full_cache_fallback in a new policy generation, or fall back otherwise.",
    ),
    Reason.FALLBACK_UNUSED: Diagnostic(
        code="transaction.fallback-with-admission",
        contract="An admitted view has no fallback.",
        why="Two views of one step: nobody can say which one was read and charged.",
        fix="Admit the view or fall back from it.",
    ),
    Reason.ADMISSION: Diagnostic(
        code="transaction.scheduler-admission-mismatch",
        contract="The scheduler admits this transaction's identity, peak and traffic.",
        why="A peak admitted for other work runs the device out of memory in the middle of this one.",
        fix="Estimate after backend admission; ask again when the estimate changes.",
    ),
    Reason.NOT_ADMITTED: Diagnostic(
        code="transaction.scheduler-refused",
        contract="Nothing is reserved for work that the scheduler does not admit.",
        why="The scheduler's other work was admitted against the memory that this would take.",
        fix="Close the transaction and retry when there is room.",
    ),
    Reason.ALLOCATION: Diagnostic(
        code="transaction.allocation-mismatch",
        contract="A reservation is bound to transaction, request, parent state, cache, lengths and representation.",
        why="A reservation of another attempt would be filled, published and freed by two owners.",
        fix="Reserve for this transaction; do not carry reservations over.",
    ),
    Reason.RESERVATION_VISIBLE: Diagnostic(
        code="transaction.reservation-visible",
        contract="A reservation is not visible to any reader before publication.",
        why="Allocation success is not visibility: a reader would map rows that are not yet written.",
        fix="Install the mapping by the compare and swap of publish only.",
    ),
    Reason.ALLOCATION_FAILED: Diagnostic(
        code="transaction.allocation-failed",
        contract="The allocator's capacity holds all live rows and the rows of the reservation.",
        why="Parent and successor coexist until the release; a pool sized for one of them fails here.",
        fix="Free rows first, raise the capacity, or let the transaction close as allocation_failed.",
    ),
    Reason.BINDING: Diagnostic(
        code="transaction.publication-binding-mismatch",
        contract="A publication binds this successor's generations, digest, capability and evidence.",
        why="The visible state would name a view, a backend or scores that are not its own.",
        fix="Bind the receipts of this transaction.",
    ),
    Reason.PARTIAL: Diagnostic(
        code="transaction.partial-publication",
        contract="A publication makes every layer visible at once.",
        why="Layer 0 would read the successor while layer 1 still reads the parent.",
        fix="Publish all layers in one compare and swap.",
    ),
    Reason.RELEASE_TARGET: Diagnostic(
        code="transaction.release-target-mismatch",
        contract="A transaction releases the parent that its publication replaced.",
        why="Rows of the visible state, or of another transaction's parent, would be freed under their readers.",
        fix="Release the parent state generation of this transaction.",
    ),
    Reason.SUPERSEDED: Diagnostic(
        code="transaction.hand-off-superseded",
        contract="Hand-offs are exported from the visible state.",
        why="Another worker would receive a state that a later publication has already replaced.",
        fix="Export the visible state; the superseded one has nothing left to export.",
    ),
    Reason.HANDOFF: Diagnostic(
        code="transaction.hand-off-stale",
        contract="Scheduler, recovery and transfer hand-offs carry the published identity.",
        why="With the request id alone, a stale transfer would satisfy a newer request generation.",
        fix="Export state, cache and request generation, frontier and digest of the published state.",
    ),
    Reason.WORK: Diagnostic(
        code="transaction.hand-off-work-mismatch",
        contract="Hand-offs carry the payload, peak and traffic of this transaction.",
        why="Admission and transfer planning would run on the numbers of another view.",
        fix="Take the bytes from the published view and its transaction.",
    ),
    Reason.READINESS: Diagnostic(
        code="transaction.premature-readiness",
        contract="decode_ready is true only when every foreign owner has confirmed and the cache is not ahead.",
        why="A decode step would read a mapping that its backend or allocator has not installed.",
        fix="Wait for each owner's confirmation; export readiness then.",
    ),
    Reason.RECOVERABILITY: Diagnostic(
        code="transaction.recoverability-mislabelled",
        contract="Omitted rows are recallable only with a named source history that covers them.",
        why="A retrieval plan for rows that exist nowhere fails at the first miss.",
        fix="Name history and plan, or call the rows omitted_irrecoverable.",
    ),
}

DIAGNOSTICS = (
    CACHE_ABI_DIGEST,
    TENSOR,
    UNSUPPORTED,
    STRATEGY_SHAPE,
    MANIFEST_DIGEST,
    PARENT_POLICY,
    PARENT_VIEW,
    PARENT_BUDGET,
    PARENT_CAPACITY,
    *REFUSALS.values(),
    WORKER,
    OUTCOME,
    UNREACHED,
    ISSUE,
    FRONTIER,
    CHECKS_SKIPPED,
    STATED_LENGTHS,
    POSITION_MAP,
    VIEW_DIGEST,
    COPIED,
    RELEASED,
    SUBJECT,
    ROLLBACK_MISSING,
    ROLLBACK_CAUSE,
    ROLLBACK_LEAK,
    ROLLBACK_EXPOSURE,
    COUNTERS,
    DRIFT,
)


def oracle(fixture: Document) -> Evidence:
    """Return the evidence of a transaction fixture, or raise the first `ContractViolation` in the order given above."""
    _judge_identity(fixture)
    _judge_parent(fixture)
    run = _Run(fixture, _machine(fixture))
    for index in range(len(fixture["events"])):
        _apply(run, index)
    subject = _subject(run)
    _judge_rollbacks(run)
    _judge_counters(run)
    return _evidence(run, subject)


def manifest_sha256(manifest: Mapping[str, Any]) -> str:
    """Return the policy identity: the canonical SHA-256 over the ten identity fields and nothing else."""
    return canonical_sha256({name: manifest[name] for name in IDENTITY_FIELDS})


def packed_view_sha256(
    manifest_digest: str, request_generation: int, policy_generation: int, state: int, cache: int, selected: Any
) -> str:
    """Return the identity of a packed view: its four generations, its manifest and its ordered positions (0x0EE)."""
    return canonical_sha256(
        {
            "request_generation": request_generation,
            "policy_generation": policy_generation,
            "state_generation": state,
            "cache_generation": cache,
            "policy_manifest_sha256": manifest_digest,
            "selected_original_positions": selected,
        }
    )


def refresh_digests(fixture: Document) -> Document:
    """Return the fixture with the digests of cache ABI, manifest and packed views recomputed wherever they are named.

    A packed view is hashed as its transaction's receipts state it. Where a receipt is missing, its digest stays.
    """
    manifest = {**fixture["manifest"], "logical_cache_abi_sha256": canonical_sha256(fixture["cache_abi"])}
    digest = manifest_sha256(manifest)
    views: dict[str, str] = {}
    stated: dict[str, Document] = {}
    for event in fixture["events"]:
        stated.setdefault(event["transaction"], {}).setdefault(_action(event), event[_action(event)])
    for name, receipts in stated.items():
        if name is not None and {"begin", "append_committed", "select"} <= receipts.keys():
            begin = receipts["begin"]
            views[name] = packed_view_sha256(
                digest,
                begin["expected"]["request_generation"],
                begin["expected"]["policy_generation"],
                begin["issued_state_generation"],
                receipts["append_committed"]["cache_generation"],
                receipts["select"]["selected_original_positions"],
            )
    return {
        **fixture,
        "manifest": manifest,
        "parent_state": {**fixture["parent_state"], "policy_manifest_sha256": digest},
        "events": [_refreshed(event, digest, views.get(event["transaction"])) for event in fixture["events"]],
    }


def _refreshed(event: Document, manifest_digest: str, view_digest: str | None) -> Document:
    event = dict(event)
    for name in ("begin", "publish"):
        if name in event:
            event[name] = {**event[name], "policy_manifest_sha256": manifest_digest}
    if view_digest is not None:
        for name in ("pack", "publish"):
            if name in event:
                event[name] = {**event[name], "packed_view_sha256": view_digest}
        if "export_handoffs" in event:
            handoffs = event["export_handoffs"]
            transfer = {**handoffs["transfer"], "packed_view_sha256": view_digest}
            event["export_handoffs"] = {**handoffs, "transfer": transfer}
    return event


def _judge_identity(fixture: Document) -> None:
    abi, manifest, strategy = fixture["cache_abi"], fixture["manifest"], fixture["update_strategy"]
    recomputed = canonical_sha256(abi)
    _require(CACHE_ABI_DIGEST, manifest["logical_cache_abi_sha256"], recomputed, "manifest", "logical_cache_abi_sha256")
    for name in ("layers", "query_heads", "kv_heads", "head_dimension", "key_scalar", "value_scalar"):
        _require(TENSOR, manifest["tensor_contract"][name], abi[name], "manifest", "tensor_contract", name)
    for contract, name, *allowed in SUPPORTED:
        found = manifest[contract][name]
        if found not in allowed:
            reason = f"expected {' or '.join(allowed)}, found {found}"
            raise ContractViolation(UNSUPPORTED, pointer("manifest", contract, name), reason)
    selection = manifest["selection_contract"]
    _require(STRATEGY_SHAPE, strategy["cadence"], selection["update_cadence"], "update_strategy", "cadence")
    trigger, where = strategy["compaction_trigger_rows"], pointer("update_strategy", "compaction_trigger_rows")
    if strategy["cadence"] == compaction.PERIODIC:
        if trigger is None or trigger < selection["maximum_rows"]:
            reason = f"expected at least maximum_rows {selection['maximum_rows']}, found {trigger}"
            raise ContractViolation(STRATEGY_SHAPE, where, reason)
    elif trigger is not None:
        reason = f"{strategy['cadence']} compacts in every transaction; expected null, found {trigger}"
        raise ContractViolation(STRATEGY_SHAPE, where, reason)


def _judge_parent(fixture: Document) -> None:
    manifest, state, abi = fixture["manifest"], fixture["parent_state"], fixture["cache_abi"]
    digest = manifest_sha256(manifest)
    _require(MANIFEST_DIGEST, state["policy_manifest_sha256"], digest, "parent_state", "policy_manifest_sha256")
    generation = manifest["policy_generation"]
    _require(PARENT_POLICY, state["policy_generation"], generation, "parent_state", "policy_generation")
    origin, frontier, selected = state["position_origin"], state["committed_frontier"], _selected(state)
    where = pointer("parent_state", "selected_original_positions")
    if frontier < origin:
        reason = f"expected a frontier from the origin {origin} on, found {frontier}"
        raise ContractViolation(PARENT_VIEW, pointer("parent_state", "committed_frontier"), reason)
    if [len(heads) for heads in selected] != [abi["kv_heads"]] * len(selected) or len(selected) != abi["layers"]:
        reason = f"expected {abi['layers']} layers of {abi['kv_heads']} K/V heads"
        raise ContractViolation(PARENT_VIEW, where, f"{reason}, found {joined(len(heads) for heads in selected)} heads")
    rule = manifest["selection_contract"]["protected_positions"]
    protected = set(protected_positions(**rule, origin=origin, frontier=frontier - origin))
    for layer, head, positions in packing.owners(selected):
        ascending = all(one < other for one, other in itertools.pairwise(positions))
        committed = not positions or (origin <= positions[0] and positions[-1] < frontier)
        if not (ascending and committed and protected <= set(positions)):
            reason = f"expected ascending positions in [{origin}, {frontier}) with {_short(sorted(protected))}"
            raise ContractViolation(
                PARENT_VIEW, where + pointer(layer, head), f"{reason}, found {_short(list(positions))}"
            )
    policy = _policy(fixture)
    for path, rows in compaction.unit_rows(packing.lengths(selected), policy.budget_scope):
        if rows > policy.bound(compacting=False):
            reason = f"expected at most {policy.bound(compacting=False)} rows, found {rows}"
            raise ContractViolation(PARENT_BUDGET, where + pointer(*path), reason)
    capacity, rows = fixture["allocator"]["capacity_rows"], sum(map(sum, packing.lengths(selected)))
    if rows > capacity:
        reason = f"expected at least the {rows} rows of the parent, found {capacity}"
        raise ContractViolation(PARENT_CAPACITY, pointer("allocator", "capacity_rows"), reason)


def _policy(fixture: Document) -> Policy:
    manifest, strategy = fixture["manifest"], fixture["update_strategy"]
    selection, actions = manifest["selection_contract"], manifest["quality_and_fallback"]
    return Policy(
        generation=manifest["policy_generation"],
        manifest_sha256=manifest_sha256(manifest),
        cadence=strategy["cadence"],
        budget_scope=selection["budget_scope"],
        maximum_rows=selection["maximum_rows"],
        compaction_trigger_rows=strategy["compaction_trigger_rows"],
        protected_first=selection["protected_positions"]["first"],
        protected_newest=selection["protected_positions"]["newest"],
        representation=fixture["representation"],
        omitted_rows=manifest["recoverability_contract"]["omitted_rows"],
        full_view_declared="full_cache_fallback" in actions.values(),
    )


def _machine(fixture: Document) -> Machine:
    """Return the machine before the first event: the parent is visible, each owner's rows in one block."""
    state, request, history = fixture["parent_state"], fixture["request"], fixture["source_history"]
    allocator = Allocator(fixture["allocator"]["capacity_rows"])
    selected = _selected(state)
    visible = State(
        state_generation=state["state_generation"],
        cache_generation=state["cache_generation"],
        committed_frontier=state["committed_frontier"],
        decision_epoch=state["decision_epoch"],
        evidence_receipt_id=state["evidence_receipt_id"],
        selected=selected,
        blocks=tuple((allocator.take(len(positions)),) for _, _, positions in packing.owners(selected)),
    )
    return Machine(
        request_id=request["request_id"],
        request_generation=request["request_generation"],
        policy=_policy(fixture),
        costs=Costs(
            row_bytes=_geometry(fixture["cache_abi"]).row_bytes(),
            selector_bytes=fixture["workspaces"]["selector_bytes"],
            allocator_metadata_bytes=fixture["workspaces"]["allocator_metadata_bytes"],
        ),
        source_history=None if history is None else SourceHistory(**history),
        position_origin=state["position_origin"],
        visible=visible,
        allocator=allocator,
        cache_generation=state["cache_generation"],
        committed_frontier=state["committed_frontier"],
        next_state_generation=state["state_generation"] + 1,
        ready_state=state["state_generation"],
    )


@dataclass(slots=True)
class _Calls:
    """The calls to foreign owners that one event makes; the one to fail, counted from 1 among those of its name."""

    made: list[str] = field(default_factory=list)
    failing: tuple[str, int] | None = None
    failing_at: int | None = None

    def __call__(self, _transaction: str, call: str) -> None:
        self.made.append(call)
        if len(self.made) == self.failing_at:
            raise CallFailed(call)
        if self.failing is not None and call == self.failing[0] and self.made.count(call) == self.failing[1]:
            raise CallFailed(call)


@dataclass(slots=True)
class _Step:
    """A phase of the subject as it went: its event, its receipt's kind, the machine before it and facts after it."""

    event: Document
    before: Machine
    calls: int
    visible_state_generation: int
    visible_rows: int
    live_rows: int
    decode_ready: bool
    snapshot: Snapshot


@dataclass(slots=True)
class _Run:
    """What the oracle remembers while it drives the machine."""

    fixture: Document
    machine: Machine
    steps: dict[str, _Step] = field(default_factory=dict)
    workers: dict[str, str] = field(default_factory=dict)
    places: dict[tuple[str, str], str] = field(default_factory=dict)
    causes: dict[str, str] = field(default_factory=dict)
    refused_operations: int = 0


def _apply(run: _Run, index: int) -> None:
    """Apply one event to the machine and judge its outcome and what its receipt states."""
    event, machine = run.fixture["events"][index], run.machine
    action, name, where = _action(event), event["transaction"], pointer("events", index)
    _judge_worker(run, event, action, where)
    before = machine.fork() if name == run.fixture["subject"] else machine
    failing = event["failed_call"]
    calls = _Calls(failing=None if failing is None else (failing["call"], failing["occurrence"]))
    machine.on_call = calls
    known = machine.transactions.get(name)
    was_closed = known is not None and known.closed
    refused, message = None, ""
    run.places[name or "", action] = where + pointer(action)
    try:
        OPERATIONS[action](machine, event)
    except Refused as refusal:
        refused, message = refusal.reason.value, refusal.message
        run.refused_operations += 1
        if event["refused"] is None:
            place = run.places.get((name or "", refusal.phase or ""), where + pointer(action))
            raise ContractViolation(REFUSALS[refusal.reason], place + pointer(*refusal.path), refusal.message) from None
    except CallFailed as failed:
        message = str(failed)
    else:
        if failing is not None:
            reason = f"the event makes {len(calls.made)} calls, {failing['call']} {failing['occurrence']} is not there"
            raise ContractViolation(UNREACHED, where + pointer("failed_call"), reason)
    if event["refused"] != refused:
        reason = f"expected {event['refused'] or 'acceptance'}, found {refused or 'acceptance'}"
        raise ContractViolation(OUTCOME, where + pointer("refused"), f"{reason} {message}".rstrip())
    transaction = machine.transactions.get(name)
    if transaction is None:
        return
    if transaction.closed and not was_closed:
        run.causes[name] = refused or message or _fallback_action(event) or action
    if refused is None and failing is None:
        _judge_facts(transaction, event[action], action, where + pointer(action))
        if action in PHASES and name == run.fixture["subject"]:
            run.steps[action] = _step(run, event, before, transaction, len(calls.made))


def _judge_worker(run: _Run, event: Document, action: str, where: str) -> None:
    name = event["transaction"]
    if action in ("append", "acquire", "leave"):
        if name is not None:
            reason = f"expected null, {action} belongs to no transaction; found {name}"
            raise ContractViolation(REFUSALS[Reason.UNKNOWN], where + "/transaction", reason)
        return
    if name is None:
        reason = f"expected the transaction of {action}, found null"
        raise ContractViolation(REFUSALS[Reason.UNKNOWN], where + "/transaction", reason)
    worker = run.workers.setdefault(name, event["worker"])
    if event["worker"] != worker:
        reason = f"{name} was opened by {worker}, found {event['worker']}"
        raise ContractViolation(WORKER, where + "/worker", reason)


def _judge_facts(transaction: Transaction, receipt: Document, action: str, where: str) -> None:
    """Compare what an accepted receipt states with what the machine knows after it."""
    lengths = list(transaction.owner_lengths())
    facts: dict[str, tuple[Diagnostic, Any]] = {}
    if action == "begin":
        facts["issued_state_generation"] = (ISSUE, transaction.state_generation)
        facts["policy_manifest_sha256"] = (MANIFEST_DIGEST, transaction.policy.manifest_sha256)
    elif action == "append_committed":
        facts["cache_generation"] = (FRONTIER, transaction.cache_generation)
        facts["committed_frontier"] = (FRONTIER, transaction.committed_frontier)
    elif action == "validate":
        facts["checks"] = (CHECKS_SKIPPED, list(CHECKS))
        facts["owner_lengths"] = (STATED_LENGTHS, lengths)
    elif action == "pack":
        facts["owner_lengths"] = (STATED_LENGTHS, lengths)
        facts["original_position_map"] = (POSITION_MAP, packing.position_map(transaction.selected))
        facts["copied_rows"] = (COPIED, transaction.copied_rows)
    elif action == "release_parent":
        facts["released_rows"] = (RELEASED, transaction.released_rows)
    elif action == "compensate":
        facts["issued_state_generation"] = (ISSUE, transaction.state_generation)
    if action in ("pack", "compensate"):
        facts["packed_view_sha256"] = (VIEW_DIGEST, _view_digest(transaction))
    for member, (diagnostic, value) in facts.items():
        if receipt[member] != value:
            reason = f"expected {_short(value)}, found {_short(receipt[member])}"
            raise ContractViolation(diagnostic, where + pointer(member), reason)


def _view_digest(transaction: Transaction) -> str:
    assert transaction.cache_generation is not None
    return packed_view_sha256(
        transaction.policy.manifest_sha256,
        transaction.request_generation,
        transaction.policy.generation,
        transaction.state_generation,
        transaction.cache_generation,
        transaction.selected,
    )


def _step(run: _Run, event: Document, before: Machine, transaction: Transaction, calls: int) -> _Step:
    machine = run.machine
    packed = packing.position_map(transaction.selected) if transaction.selected else None
    return _Step(
        event=event,
        before=before,
        calls=calls,
        visible_state_generation=machine.visible.state_generation,
        visible_rows=machine.visible.rows(),
        live_rows=machine.allocator.live_rows,
        decode_ready=machine.decode_ready,
        snapshot=Snapshot(
            policy=run.fixture["manifest"]["policy_manifest_id"],
            step=_action(event),
            owner="every layer and K/V head",
            state_generation=transaction.state_generation,
            cache_generation=transaction.cache_generation,
            selected_original_positions=packed,
            selected_row_count=None if packed is None else len(packed),
            published=transaction.published,
        ),
    )


def _subject(run: _Run) -> Transaction:
    name = run.fixture["subject"]
    missing = [phase for phase in PHASES if phase not in run.steps]
    if missing:
        reason = f"expected {name} to pass twelve phases, found no accepted {missing[0]}"
        raise ContractViolation(SUBJECT, pointer("subject"), reason)
    return run.machine.transactions[name]


def _judge_rollbacks(run: _Run) -> None:
    stated, transactions = run.fixture["rollbacks"], run.machine.transactions
    rolled_back = {name: each for name, each in transactions.items() if each.closed and not each.published}
    for name in stated:
        if name not in rolled_back:
            reason = f"{name} did not end before publication"
            raise ContractViolation(ROLLBACK_MISSING, pointer("rollbacks", name), reason)
    for name, transaction in rolled_back.items():
        if name not in stated:
            reason = f"expected the rollback of {name}, found none"
            raise ContractViolation(ROLLBACK_MISSING, pointer("rollbacks"), reason)
        visible = transaction.visible_at_close
        assert visible is not None
        facts: dict[str, tuple[Diagnostic, Any]] = {
            "result": (ROLLBACK_CAUSE, transaction.result),
            "cause": (ROLLBACK_CAUSE, run.causes[name]),
            "discarded_rows": (ROLLBACK_LEAK, transaction.reserved_rows),
            "reserved_rows_left": (ROLLBACK_LEAK, transaction.reserved_rows - transaction.discarded_rows),
            "released_parent_rows": (ROLLBACK_EXPOSURE, transaction.released_rows),
            "visible_state_generation": (ROLLBACK_EXPOSURE, visible.state_generation),
            "visible_rows": (ROLLBACK_EXPOSURE, visible.rows()),
        }
        for member, (diagnostic, value) in facts.items():
            _require(diagnostic, stated[name][member], value, "rollbacks", name, member)


def _judge_counters(run: _Run) -> None:
    stated, counted = run.fixture["counters"], counters(run.machine)
    totals = {
        "issued_state_generations": run.machine.next_state_generation
        - run.fixture["parent_state"]["state_generation"]
        - 1,
        "refused_operations": run.refused_operations,
        "exported_handoffs": len(run.machine.exports),
    }
    for name, total in totals.items():
        _require(COUNTERS, stated[name], total, "counters", name)
    groups = stated["by_policy_and_result"]
    for index, (found, expected) in enumerate(zip(groups, counted, strict=False)):
        for name, value in expected.items():
            _require(COUNTERS, found[name], value, "counters", "by_policy_and_result", index, name)
    if len(groups) != len(counted):
        reason = f"expected {len(counted)} groups, found {len(groups)}"
        raise ContractViolation(COUNTERS, pointer("counters", "by_policy_and_result"), reason)


def counters(machine: Machine) -> list[Document]:
    """Return the transactions and their rows by policy generation and result, in the order of both (0x0EJ)."""
    groups: dict[tuple[int, str], Document] = {}
    for transaction in machine.transactions.values():
        key = (transaction.policy.generation, transaction.result or "open")
        group = groups.setdefault(
            key,
            {
                "policy_generation": key[0],
                "result": key[1],
                "transactions": 0,
                "no_op_receipts": 0,
                "reserved_rows": 0,
                "copied_rows": 0,
                "discarded_rows": 0,
                "released_rows": 0,
            },
        )
        group["transactions"] += 1
        group["no_op_receipts"] += list(transaction.kinds.values()).count(NO_OP)
        for name in ("reserved_rows", "copied_rows", "discarded_rows", "released_rows"):
            group[name] += getattr(transaction, name)
    return [groups[key] for key in sorted(groups)]


# How each event is applied: its receipt becomes the claims that the machine judges.


def _begin(machine: Machine, event: Document) -> None:
    receipt = event["begin"]
    machine.begin(event["transaction"], Parent(**receipt["expected"]), receipt["kind"])


def _append_committed(machine: Machine, event: Document) -> None:
    receipt = event["append_committed"]
    receipts = tuple(AppendReceipt(**each) for each in receipt["receipts"])
    machine.append_committed(event["transaction"], receipts, receipt["kind"])


def _select(machine: Machine, event: Document) -> None:
    receipt = event["select"]
    machine.select(event["transaction"], Selection(**{**receipt, "selected_original_positions": _selected(receipt)}))


def _backend_admit(machine: Machine, event: Document) -> None:
    receipt = dict(event["backend_admit"])
    kind, fallback = receipt.pop("kind"), receipt.pop("fallback")
    receipt["owner_lengths"] = tuple(receipt["owner_lengths"])
    capability = Capability(**receipt, fallback=None if fallback is None else Fallback(**fallback))
    machine.backend_admit(event["transaction"], capability, kind)


def _allocator_reserve(machine: Machine, event: Document) -> None:
    receipt = event["allocator_reserve"]
    allocation = receipt["allocation"]
    machine.allocator_reserve(
        event["transaction"],
        Admission(**receipt["scheduler_admission"]),
        Allocation(**{**allocation, "owner_lengths": tuple(allocation["owner_lengths"])}),
        receipt["kind"],
    )


def _publish(machine: Machine, event: Document) -> None:
    receipt = dict(event["publish"])
    kind = receipt.pop("kind")
    receipt["published_layers"] = tuple(receipt["published_layers"])
    machine.publish(event["transaction"], Binding(**receipt), kind)


def _export_handoffs(machine: Machine, event: Document) -> None:
    receipt = event["export_handoffs"]
    scheduler = dict(receipt["scheduler"])
    scheduler["foreign_readiness"] = tuple(scheduler["foreign_readiness"].items())
    machine.export_handoffs(
        event["transaction"],
        SchedulerHandoff(**scheduler),
        RecoveryHandoff(**receipt["recovery"]),
        TransferHandoff(**receipt["transfer"]),
        receipt["kind"],
    )


def _compensate(machine: Machine, event: Document) -> None:
    receipt = event["compensate"]
    machine.compensate(receipt["failed_transaction"], event["transaction"], receipt["packed_view_sha256"])


OPERATIONS: dict[str, Callable[[Machine, Document], None]] = {
    "append": lambda machine, event: machine.append(AppendReceipt(**event["append"])),
    "acquire": lambda machine, event: machine.acquire(**event["acquire"]),
    "leave": lambda machine, event: machine.leave(**event["leave"]),
    "begin": _begin,
    "append_committed": _append_committed,
    "score": lambda machine, event: machine.score(event["transaction"], Score(**event["score"])),
    "protect": lambda machine, event: machine.protect(
        event["transaction"], tuple(event["protect"]["protected_original_positions"]), event["protect"]["kind"]
    ),
    "select": _select,
    "validate": lambda machine, event: machine.validate(event["transaction"], event["validate"]["kind"]),
    "backend_admit": _backend_admit,
    "allocator_reserve": _allocator_reserve,
    "pack": lambda machine, event: machine.pack(
        event["transaction"], event["pack"]["packed_view_sha256"], event["pack"]["kind"]
    ),
    "publish": _publish,
    "release_parent": lambda machine, event: machine.release_parent(
        event["transaction"], event["release_parent"]["released_state_generation"], event["release_parent"]["kind"]
    ),
    "export_handoffs": _export_handoffs,
    "cancel": lambda machine, event: machine.cancel(event["transaction"]),
    "compensate": _compensate,
    "terminate": lambda machine, event: machine.terminate(event["transaction"]),
}


def _evidence(run: _Run, subject: Transaction) -> Evidence:
    fixture, costs = run.fixture, run.machine.costs
    parent_rows, successor_rows = subject.parent.rows(), sum(subject.owner_lengths())
    assert subject.capability is not None
    copied_bytes = subject.copied_rows * costs.row_bytes
    ledgers = (
        LedgerRow("parent_payload", parent_rows * costs.row_bytes, "B", "parent rows * d_h * (b_K + b_V)"),
        LedgerRow("successor_payload", successor_rows * costs.row_bytes, "B", "successor rows * d_h * (b_K + b_V)"),
        LedgerRow("selector_workspace", costs.selector_bytes, "B", "given"),
        LedgerRow("backend_workspace", subject.capability.workspace_bytes, "B", "given by the capability receipt"),
        LedgerRow("allocator_metadata", costs.allocator_metadata_bytes, "B", "given"),
        LedgerRow(
            "transaction_peak",
            subject.peak_bytes,
            "B",
            "parent + fresh successor rows + selector + backend + allocator metadata, without the appended rows",
        ),
        LedgerRow("compaction_read", copied_bytes, "B", "copied rows * d_h * (b_K + b_V)"),
        LedgerRow("compaction_write", copied_bytes, "B", "copied rows * d_h * (b_K + b_V)"),
        LedgerRow("compaction_traffic", 2 * copied_bytes, "B", "compaction read + compaction write"),
    )
    return Evidence(
        results=_results(run, subject),
        ledgers=ledgers,
        snapshots=tuple(run.steps[phase].snapshot for phase in PHASES),
        comparisons=(
            Comparison(
                "owner_payload",
                "B",
                f"one request ({fixture['request']['request_id']}), the same owners, payload only",
                ("parent_payload", "successor_payload"),
            ),
        ),
    )


def _results(run: _Run, subject: Transaction) -> Document:
    machine, costs, parent = run.machine, run.machine.costs, subject.parent
    owners = len(subject.owner_lengths())
    admitted_bytes = subject.appended_rows * owners * costs.row_bytes
    traffic_bytes = 2 * subject.copied_rows * costs.row_bytes
    pairs = zip(packing.owners(parent.selected), packing.owners(subject.selected), strict=True)
    return {
        "identity": _identity(run, subject),
        "phases": {
            phase: {
                "kind": step.event[phase]["kind"],
                "calls": step.calls,
                "visible_state_generation": step.visible_state_generation,
                "visible_rows": step.visible_rows,
                "live_rows": step.live_rows,
                "decode_ready": step.decode_ready,
            }
            for phase, step in run.steps.items()
        },
        "budget": {
            "maximum_rows": subject.policy.maximum_rows,
            "scope": subject.policy.budget_scope,
            "compaction_trigger_rows": subject.policy.compaction_trigger_rows,
            "compacts": subject.compacts,
            "row_bytes": costs.row_bytes,
            "parent_rows": parent.rows(),
            "successor_rows": sum(subject.owner_lengths()),
            "successor_owner_lengths": summarised(subject.owner_lengths()),
            "parent_within_post_compaction_budget": all(
                rows <= subject.policy.maximum_rows
                for _, rows in compaction.unit_rows(packing.lengths(parent.selected), subject.policy.budget_scope)
            ),
        },
        "protected_original_positions": summarised(subject.protected),
        "parent_original_positions": summarised(parent.selected),
        "successor_original_positions": summarised(subject.selected),
        "backend": {
            "representation": subject.policy.representation,
            "materialized_rows": sum(subject.owner_lengths()),
            "dense_rows": owners * (subject.committed_frontier - machine.position_origin),
        },
        "scheduler_admission": {"recorded_in": "allocator_reserve", "phases": len(PHASES)},
        "newly_admitted_bytes": admitted_bytes,
        "bytes_outside_the_peak": admitted_bytes,
        "compaction_amplification": compaction.amplification(traffic_bytes, admitted_bytes),
        "churn_by_owner": summarised([compaction.churn(one[2], other[2]) for one, other in pairs]),
        "update_strategies": _update_strategies(subject.policy),
        "transactions": {
            name: {
                "state_generation": each.state_generation,
                "result": each.result,
                "phases_passed": len(each.kinds),
                "reserved_rows": each.reserved_rows,
                "discarded_rows": each.discarded_rows,
            }
            for name, each in machine.transactions.items()
        },
        "final": {
            "visible_state_generation": machine.visible.state_generation,
            "cache_generation": machine.cache_generation,
            "decode_ready": machine.decode_ready,
            "live_rows": machine.allocator.live_rows,
            "unowned_rows": unowned_rows(machine),
        },
        "failure_injection": {
            phase: {
                "first_call": _with_failure(run, phase, 1),
                "last_call": _with_failure(run, phase, step.calls),
            }
            for phase, step in run.steps.items()
        },
        "retry_after_rejection": _retry(run),
    }


def _identity(run: _Run, subject: Transaction) -> Document:
    manifest, parent = run.fixture["manifest"], subject.parent
    return {
        "schema_version": manifest["schema_version"],
        "policy_manifest_sha256": subject.policy.manifest_sha256,
        "logical_cache_abi_sha256": manifest["logical_cache_abi_sha256"],
        "request_id": run.machine.request_id,
        "request_generation": subject.request_generation,
        "policy_generation": subject.policy.generation,
        "parent_state_generation": parent.state_generation,
        "successor_state_generation": subject.state_generation,
        "parent_cache_generation": parent.cache_generation,
        "successor_cache_generation": subject.cache_generation,
        "parent_frontier": parent.committed_frontier,
        "successor_frontier": subject.committed_frontier,
        "accepted_positions": summarised(range(parent.committed_frontier, subject.committed_frontier)),
        "packed_view_sha256": subject.packed_view_sha256,
    }


def _update_strategies(policy: Policy) -> Document:
    """Return what each cadence copies an owner from one compaction to the next, where the budget is an owner's."""
    table: Document = {}
    for cadence in compaction.CADENCES:
        trigger = policy.compaction_trigger_rows
        known = policy.budget_scope == compaction.PER_OWNER and (cadence != compaction.PERIODIC or trigger is not None)
        accepted, copied = compaction.cycle(cadence, policy.maximum_rows, trigger or 0) if known else (None, None)
        table[cadence] = {
            "declared": cadence == policy.cadence,
            "scores_a_cycle": int(compaction.observes(cadence, compacting=True)),
            "accepted_rows_a_cycle": accepted,
            "copied_rows_a_cycle": copied,
        }
    return table


def _with_failure(run: _Run, phase: str, failing_at: int) -> Document:
    """Return what readers see after one call of a phase of the subject fails, and how the transaction ends."""
    step, name = run.steps[phase], run.fixture["subject"]
    machine = step.before.fork()
    before = machine.visible
    machine.on_call = calls = _Calls(failing_at=failing_at)
    with contextlib.suppress(CallFailed):
        OPERATIONS[phase](machine, step.event)
    transaction = machine.transactions.get(name)
    outcome = {
        "failed_call": calls.made[-1],
        "result": transaction.result if transaction else None,
        "visible_state_generation": machine.visible.state_generation,
        "visible_rows": machine.visible.rows(),
        "visible_state_unchanged": machine.visible is before,
        "live_rows": machine.allocator.live_rows,
        "unowned_rows": unowned_rows(machine),
        "decode_ready": machine.decode_ready,
        "compensating_state_generation": None,
    }
    if transaction is not None and transaction.failed:
        machine.on_call = _Calls()
        with contextlib.suppress(Refused):
            machine.compensate(name, _unused(machine, f"{name}-compensation"), "")
            outcome["compensating_state_generation"] = machine.visible.state_generation
    return outcome


def unowned_rows(machine: Machine) -> int:
    """Return live rows that neither the visible state, nor a parent to be released, nor a reservation holds."""
    held = {block for blocks in machine.visible.blocks for block in blocks}
    for transaction in machine.transactions.values():
        held.update(block for blocks in transaction.blocks for block in blocks)
        held.update(block for owners in transaction.retired.values() for blocks in owners for block in blocks)
    return machine.allocator.live_rows - sum(machine.allocator.rows.get(block, 0) for block in held)


def _retry(run: _Run) -> Document:
    """Reject the subject just before it publishes, accept one more row, and begin again: chain against equality."""
    machine = run.steps["publish"].before.fork()
    machine.on_call = _Calls()
    machine.cancel(run.fixture["subject"])
    last = AppendReceipt(machine.committed_frontier, machine.cache_generation, machine.cache_generation + 1, True)
    machine.append(last)
    visible = machine.visible
    chain = tuple(each for each in machine.appends if each.cache_generation > visible.cache_generation)
    name = _unused(machine, f"{run.fixture['subject']}-retry")
    expected = Parent(
        machine.request_generation,
        machine.policy.generation,
        visible.state_generation,
        visible.cache_generation,
        visible.committed_frontier,
    )
    machine.begin(name, expected)
    machine.append_committed(name, chain, "performed")
    return {
        "state_cache_generation": visible.cache_generation,
        "current_cache_generation": machine.cache_generation,
        "append_receipts": len(chain),
        "accepted_with_chain": machine.transactions[name].cache_generation == machine.cache_generation,
        "accepted_with_equality": last.parent_cache_generation == visible.cache_generation,
        "decode_ready_meanwhile": machine.decode_ready,
    }


def _unused(machine: Machine, name: str) -> str:
    return _unused(machine, f"{name}-again") if name in machine.transactions else name


def _action(event: Document) -> str:
    return next(name for name in event if name not in EVENT_MEMBERS)


def _fallback_action(event: Document) -> str | None:
    fallback = event.get("backend_admit", {}).get("fallback")
    return fallback["action"] if fallback else None


def _selected(record: Document) -> tuple[tuple[tuple[int, ...], ...], ...]:
    return tuple(tuple(map(tuple, heads)) for heads in record["selected_original_positions"])


def _geometry(abi: Document) -> Geometry:
    return Geometry(
        batch=1,
        layers=abi["layers"],
        kv_heads=abi["kv_heads"],
        head_dimension=abi["head_dimension"],
        key_scalar_bytes=SCALAR_BYTES[abi["key_scalar"]],
        value_scalar_bytes=SCALAR_BYTES[abi["value_scalar"]],
    )


def _require(diagnostic: Diagnostic, found: object, expected: object, *path: str | int) -> None:
    if found != expected:
        raise ContractViolation(diagnostic, pointer(*path), f"expected {_short(expected)}, found {_short(found)}")


def _short(value: object) -> str:
    text = joined(value) if isinstance(value, list | tuple) else str(value)
    return text if len(text) <= 80 else f"{text[:76]} ..."


def tables(report: Mapping[str, Any]) -> tuple[Table, ...]:
    """Return the twelve phases, the transactions, and what a failure in each phase leaves behind."""
    results = report["results"]
    phases = Table(
        "The twelve phases",
        ("phase", "receipt", "calls", "visible state", "visible rows", "live rows", "decode ready"),
        tuple(
            (
                phase,
                step["kind"],
                str(step["calls"]),
                str(step["visible_state_generation"]),
                str(step["visible_rows"]),
                str(step["live_rows"]),
                "yes" if step["decode_ready"] else "no",
            )
            for phase, step in results["phases"].items()
        ),
    )
    transactions = Table(
        "Transactions",
        ("transaction", "state generation", "result", "phases passed", "reserved rows", "discarded rows"),
        tuple(
            (
                name,
                str(each["state_generation"]),
                each["result"] or "open",
                str(each["phases_passed"]),
                str(each["reserved_rows"]),
                str(each["discarded_rows"]),
            )
            for name, each in results["transactions"].items()
        ),
    )
    failures = Table(
        "A failure in the last call of each phase",
        ("phase", "failed call", "result", "visible state", "visible rows", "unowned rows", "compensated by"),
        tuple(
            (
                phase,
                each["last_call"]["failed_call"],
                each["last_call"]["result"] or "not begun",
                str(each["last_call"]["visible_state_generation"]),
                str(each["last_call"]["visible_rows"]),
                str(each["last_call"]["unowned_rows"]),
                str(each["last_call"]["compensating_state_generation"] or "none"),
            )
            for phase, each in results["failure_injection"].items()
        ),
    )
    return phases, transactions, failures


LOOP = Loop(
    id="loop09_transaction",
    command="transaction",
    title="one generation-fenced policy transaction",
    section="0x0E",
    fixture_schema="kvaudit.fixture.transaction/1",
    report_schema="kvaudit.report.transaction/1",
    diagnostics=DIAGNOSTICS,
    drift=DRIFT,
    categories=(
        "identity",
        "selection",
        "backend admission",
        "hidden densification",
        "allocation",
        "partial publication",
        "early release",
        "premature readiness",
        "missing fallback",
        "stale hand-offs",
        "rollback leaks",
        "counters",
    ),
    boundary=Boundary(
        evidence_class="synthetic_oracle",
        executed=(
            "in-memory transaction with reference-counted blocks",
            "receipt checks in twelve phases",
            "a failed call in every phase",
            "rollback, compensation, retry",
        ),
        not_executed=(
            "model",
            "selector scores",
            "scheduler",
            "allocator of a runtime",
            "attention kernel",
            "retrieval service",
            "transfer path",
            "memory traffic",
            "latency",
            "task quality",
        ),
    ),
    oracle=oracle,
    refresh_digests=refresh_digests,
    tables=tables,
)

"""One generation-fenced policy transaction, in memory (specification 0x0E).

    begin > append_committed > score > protect > select > validate > backend_admit > allocator_reserve > pack
          > publish > release_parent > export_handoffs

A `Machine` holds what the owners around one request know: the committed cache, the visible policy state, the allocator,
the readers. Readers see whole states only: `visible` is one reference to one immutable `State`, and `publish` is the
only place that replaces it. There are no threads and no clock; two workers are two transactions whose operations
come in any order.

Rules that it enforces:
- Every phase leaves a receipt. A no-op is one: it says that the policy had nothing to do, and the machine agrees.
- A state generation is issued at begin (and at compensate), consumed even by a transaction that fails, never reissued.
- An operation out of order, or for a closed transaction, is refused without any effect.
- A refusal or a failed call before publication rolls back: the reservation is dropped, the parent stays visible.
- Staleness is looked for before every phase and in the compare of publish; a stale transaction is closed.
- Publication is never undone. After a failure behind it comes one more successor (`compensate`), or `terminate`.
- Parent rows are dropped only after publication, and only when no reader holds the parent.
- Hand-offs are exported from the visible state only; decode waits for them.
- The committed cache may be ahead of the visible state: a chain of append receipts leads from one to the other.

Decided here, where the specification is silent: a selected row must be resident (in the parent's view, or appended
since), because a row that was dropped comes back only through recall. A transaction that does not compact reserves and
copies its appended rows alone, and shares the parent's blocks from publication on. A refusal behind publication changes
nothing, so that the owner may come again with the right receipt.
"""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace

from kvaudit.policies import compaction, packing
from kvaudit.policies import transaction_checks as checks
from kvaudit.policies.allocator import Allocator, OutOfRows
from kvaudit.policies.protection import protected_positions
from kvaudit.policies.receipts import (
    NO_OP,
    PERFORMED,
    Admission,
    Allocation,
    AppendReceipt,
    Binding,
    CallFailed,
    Capability,
    Owners,
    Parent,
    Reason,
    RecoveryHandoff,
    Refused,
    SchedulerHandoff,
    Score,
    Selection,
    TransferHandoff,
    require,
)
from kvaudit.policies.transaction_records import (
    CANCELLED,
    COMPENSATED,
    FAILED,
    FALLBACK,
    PHASES,
    PUBLISHED,
    REJECTED,
    RESULTS,
    TERMINAL,
    WITHOUT_EFFECT,
    Costs,
    Policy,
    SourceHistory,
    State,
    Transaction,
)


def _no_call(transaction: str, call: str) -> None:
    """Stand in for foreign owners that always answer."""


@dataclass(slots=True)
class Machine:
    """The owners around one request. `on_call` is asked before each call to one of them and may raise `CallFailed`."""

    request_id: str
    request_generation: int
    policy: Policy
    costs: Costs
    source_history: SourceHistory | None
    position_origin: int
    visible: State
    allocator: Allocator
    cache_generation: int
    committed_frontier: int
    next_state_generation: int
    ready_state: int | None
    appends: list[AppendReceipt] = field(default_factory=list)
    transactions: dict[str, Transaction] = field(default_factory=dict)
    readers: dict[str, int] = field(default_factory=dict)
    exports: list[tuple[str, int]] = field(default_factory=list)
    terminal: bool = False
    on_call: Callable[[str, str], None] = _no_call

    def fork(self) -> "Machine":
        """Return an independent copy; states, being immutable, are shared."""
        transactions = {
            name: replace(
                each,
                kinds=dict(each.kinds),
                blocks=list(each.blocks),
                retired={generation: list(blocks) for generation, blocks in each.retired.items()},
            )
            for name, each in self.transactions.items()
        }
        return replace(
            self,
            allocator=self.allocator.fork(),
            appends=list(self.appends),
            transactions=transactions,
            readers=dict(self.readers),
            exports=list(self.exports),
        )

    @property
    def decode_ready(self) -> bool:
        """Whether the next decode step may run: the visible state is that of the cache, and its hand-offs are out."""
        current = self.visible.cache_generation == self.cache_generation
        return current and self.ready_state == self.visible.state_generation and not self.terminal

    # The cache and its readers.

    def append(self, receipt: AppendReceipt) -> None:
        """Accept one row into the committed cache; what the policy makes visible does not change (0x0EB)."""
        if not receipt.committed:
            raise Refused(Reason.APPEND_UNCOMMITTED, "the row was never accepted", ("committed",))
        require(Reason.APPEND_ORDER, receipt.position, self.committed_frontier, "position")
        require(Reason.APPEND_ORDER, receipt.parent_cache_generation, self.cache_generation, "parent_cache_generation")
        require(Reason.APPEND_ORDER, receipt.cache_generation, self.cache_generation + 1, "cache_generation")
        self.appends.append(receipt)
        self.cache_generation += 1
        self.committed_frontier += 1

    def acquire(self, reader: str, state_generation: int) -> None:
        """Let a reader hold the visible state: its rows stay until `leave`."""
        if reader in self.readers:
            raise Refused(Reason.READER, f"{reader} already holds state {self.readers[reader]}", ("reader",))
        require(Reason.READER, state_generation, self.visible.state_generation, "state_generation")
        self.readers[reader] = state_generation

    def leave(self, reader: str) -> None:
        """Let a reader give up the state that it holds."""
        if reader not in self.readers:
            raise Refused(Reason.READER, f"{reader} holds no state", ("reader",))
        del self.readers[reader]

    # The twelve phases. `kind` is the receipt's claim: performed, or a no-op.

    def begin(self, name: str, expected: Parent, kind: str = PERFORMED) -> None:
        """Open a transaction on the visible state and issue the generation of its successor."""
        if name in self.transactions:
            raise Refused(Reason.EXISTS, f"{name} has begun before")
        self._require_not_terminal()
        if kind != PERFORMED:
            raise Refused(Reason.KIND, f"begin: expected {PERFORMED}, found {kind}", ("kind",))
        self.on_call(name, "begin.bind_parent")
        for member, live in asdict(self._live_parent()).items():
            require(Reason.STALE, getattr(expected, member), live, "expected", member)
        transaction = Transaction(name, self.policy, self.visible, self.next_state_generation, self.request_generation)
        self.next_state_generation += 1
        transaction.kinds["begin"] = PERFORMED
        self.transactions[name] = transaction

    def append_committed(self, name: str, receipts: tuple[AppendReceipt, ...], kind: str) -> None:
        """Bind the committed rows between the parent's cache generation and the current one; none is a no-op."""
        with self._phase(name, "append_committed", kind) as transaction:
            policy, parent = transaction.policy, transaction.parent
            chain = [each for each in self.appends if each.cache_generation > parent.cache_generation]
            checks.append_chain(receipts, chain)
            _expect_kind(transaction, kind, bool(chain))
            self._call(transaction, "cache.read_append_receipts")
            transaction.cache_generation = parent.cache_generation + len(chain)
            transaction.committed_frontier = parent.committed_frontier + len(chain)
            transaction.appended_rows = len(chain)
            grown = [[count + len(chain) for count in heads] for heads in packing.lengths(parent.selected)]
            trigger = policy.compaction_trigger_rows
            transaction.compacts = compaction.compacts(policy.cadence, grown, policy.budget_scope, trigger)

    def score(self, name: str, receipt: Score) -> None:
        """Take the selector's evidence, or its statement that the strategy needs none in this transaction."""
        with self._phase(name, "score", receipt.kind) as transaction:
            cadence = transaction.policy.cadence
            require(Reason.STRATEGY, receipt.update_strategy, cadence, "update_strategy")
            observes = compaction.observes(cadence, transaction.compacts)
            _expect_kind(transaction, receipt.kind, observes)
            checks.score(transaction, receipt, observes)
            self._call(transaction, "selector.observe")
            transaction.decision_epoch = receipt.decision_epoch
            transaction.evidence_receipt_id = receipt.evidence_receipt_id

    def protect(self, name: str, protected: tuple[int, ...], kind: str) -> None:
        """Fix the protected positions at this frontier; a rule that protects nothing is a no-op."""
        with self._phase(name, "protect", kind) as transaction:
            expected = self._protected(transaction.policy, transaction.committed_frontier)
            _expect_kind(transaction, kind, bool(expected))
            require(Reason.PROTECTED_SET, protected, expected, "protected_original_positions")
            self._call(transaction, "selector.protect")
            transaction.protected = expected

    def select(self, name: str, receipt: Selection) -> None:
        """Take the selector's candidate; without compaction it is the parent's view with the appended rows."""
        with self._phase(name, "select", receipt.kind) as transaction:
            _expect_kind(transaction, receipt.kind, transaction.compacts)
            for member in ("decision_epoch", "evidence_receipt_id"):
                require(Reason.SELECTION_STALE, getattr(receipt, member), getattr(transaction, member), member)
            selected = receipt.selected_original_positions
            if not transaction.compacts:
                checks.unchanged(selected, _extended(transaction.parent, transaction.committed_frontier))
            self._call(transaction, "selector.select")
            transaction.selected = selected

    def validate(self, name: str, kind: str = PERFORMED) -> None:
        """Check the candidate: in range, unique, ascending, resident, protected, within budget (0x0EC)."""
        with self._phase(name, "validate", kind) as transaction:
            _expect_kind(transaction, kind, due=True)
            checks.candidate(transaction, self.position_origin)
            self._call(transaction, "policy.validate")

    def backend_admit(self, name: str, receipt: Capability, kind: str = PERFORMED) -> None:
        """Admit the backend, or close the transaction with the fallback that a refusing backend must name (0x0ED)."""
        with self._phase(name, "backend_admit", kind) as transaction:
            _expect_kind(transaction, kind, due=True)
            checks.capability(transaction, receipt, self.position_origin)
            self._call(transaction, "backend.admit")
            transaction.capability = receipt
            if receipt.fallback is not None:
                self._close(transaction, REJECTED if receipt.fallback.action == "reject" else FALLBACK)

    def allocator_reserve(self, name: str, admission: Admission, allocation: Allocation, kind: str = PERFORMED) -> None:
        """Check the scheduler's admission, then reserve blocks for a successor that nobody can see yet (0x0EE)."""
        with self._phase(name, "allocator_reserve", kind) as transaction:
            _expect_kind(transaction, kind, due=True)
            self._estimate(transaction)
            checks.admission(transaction, admission, self.costs)
            checks.allocation(transaction, allocation)
            self._call(transaction, "scheduler.admit")
            self._reserve(transaction)

    def pack(self, name: str, packed_view_sha256: str, kind: str) -> None:
        """Copy the fresh rows of each owner into the reservation, then seal the view under its digest."""
        with self._phase(name, "pack", kind) as transaction:
            _expect_kind(transaction, kind, transaction.fresh_rows > 0)
            for fresh in transaction.fresh_lengths():
                self._call(transaction, "allocator.copy_rows")
                transaction.copied_rows += fresh
            self._call(transaction, "allocator.seal_view")
            transaction.packed_view_sha256 = packed_view_sha256

    def publish(self, name: str, receipt: Binding, kind: str = PERFORMED) -> None:
        """Make the whole successor visible at once, if every field of the parent is still the live one (0x0EF)."""
        with self._phase(name, "publish", kind) as transaction:
            _expect_kind(transaction, kind, due=True)
            checks.binding(transaction, receipt, self._live_parent())
            self._compare_and_swap(transaction)

    def release_parent(self, name: str, state_generation: int, kind: str = PERFORMED) -> None:
        """Drop the rows of the parent, which no reader holds any more; rows that the successor shares stay."""
        with self._phase(name, "release_parent", kind) as transaction:
            _expect_kind(transaction, kind, due=True)
            parent = transaction.parent.state_generation
            require(Reason.RELEASE_TARGET, state_generation, parent, "released_state_generation")
            self._release(transaction)

    def export_handoffs(
        self,
        name: str,
        scheduler: SchedulerHandoff,
        recovery: RecoveryHandoff,
        transfer: TransferHandoff,
        kind: str = PERFORMED,
    ) -> None:
        """Tell scheduler, recovery and transfer of the visible state; decode may then run (0x0EH, 0x0EI)."""
        with self._phase(name, "export_handoffs", kind) as transaction:
            _expect_kind(transaction, kind, due=True)
            self._require_visible(transaction)
            current = self.visible.cache_generation == self.cache_generation
            checks.scheduler_handoff(transaction, scheduler, self.costs, current)
            checks.recovery_handoff(transaction, recovery, self.source_history, self.position_origin)
            checks.transfer_handoff(transaction, transfer, self.request_id, self.costs)
            for owner in ("scheduler", "recovery", "transfer"):
                self._call(transaction, f"{owner}.export")
                self._require_visible(transaction)
                self.exports.append((owner, transaction.state_generation))
            if scheduler.decode_ready:
                self.ready_state = transaction.state_generation
            transaction.closed = True

    # How a transaction ends otherwise.

    def cancel(self, name: str) -> None:
        """Give up a transaction that is not published."""
        transaction = self._known(name)
        if transaction.closed:
            raise Refused(Reason.CLOSED, f"{name} is closed: {transaction.result}")
        if transaction.published:
            raise Refused(Reason.CANCEL_PUBLISHED, f"{name} has published state {transaction.state_generation}")
        self._close(transaction, CANCELLED)

    def compensate(self, failed: str, name: str, packed_view_sha256: str) -> None:
        """After a failure behind publication, publish one more successor: the visible view, on the current cache.

        The new transaction takes over what the failed one still has to release; `release_parent` and
        `export_handoffs` remain to be done.
        """
        earlier = self._failed(failed)
        if name in self.transactions:
            raise Refused(Reason.EXISTS, f"{name} has begun before")
        self._require_not_terminal()
        successor = Transaction(
            name,
            self.policy,
            self.visible,
            self.next_state_generation,
            self.request_generation,
            next_phase=PHASES.index("release_parent"),
            cache_generation=self.cache_generation,
            committed_frontier=self.committed_frontier,
            appended_rows=self.committed_frontier - self.visible.committed_frontier,
            compacts=False,
            decision_epoch=self.visible.decision_epoch,
            evidence_receipt_id=self.visible.evidence_receipt_id,
            protected=self._protected(self.policy, self.committed_frontier),
            selected=_extended(self.visible, self.committed_frontier),
            capability=earlier.capability,
            packed_view_sha256=packed_view_sha256,
        )
        checks.candidate(successor, self.position_origin)
        self._estimate(successor)
        self.next_state_generation += 1
        self.transactions[name] = successor
        try:
            self._reserve(successor)
            successor.copied_rows = successor.fresh_rows
            self._compare_and_swap(successor)
        except Refused as refusal:
            if refusal.reason not in WITHOUT_EFFECT:
                self._close(successor, RESULTS[refusal.reason])
            raise
        except CallFailed:
            self._close(successor, FAILED)
            raise
        successor.retired = {**earlier.retired, **successor.retired}
        earlier.retired = {}
        earlier.closed = True
        earlier.result = COMPENSATED

    def terminate(self, name: str) -> None:
        """After a failure behind publication, end the request: no further transaction, no decode step."""
        transaction = self._failed(name)
        self._release(transaction)
        transaction.closed = True
        transaction.result = TERMINAL
        self.terminal = True

    # What the operations share.

    @contextmanager
    def _phase(self, name: str, phase: str, kind: str) -> Iterator[Transaction]:
        """Check order and staleness, run the body, and roll back if it stops before publication."""
        transaction = self._known(name)
        if transaction.closed or transaction.failed:
            raise Refused(Reason.CLOSED, f"{name} is closed: {'failed' if transaction.failed else transaction.result}")
        expected = PHASES[transaction.next_phase]
        if phase != expected or transaction.running:
            found = f"{phase} during {expected}" if transaction.running else phase
            raise Refused(Reason.PHASE_ORDER, f"expected {expected}, found {found}")
        transaction.running = True
        try:
            if not transaction.published:
                self._fence(transaction)
            yield transaction
        except Refused as refusal:
            if not (transaction.published or refusal.reason in WITHOUT_EFFECT):
                self._close(transaction, RESULTS.get(refusal.reason, REJECTED))
            raise
        except CallFailed:
            if transaction.published:
                transaction.failed = True
            elif not transaction.closed:
                self._close(transaction, FAILED)
            raise
        finally:
            transaction.running = False
        transaction.kinds[phase] = kind
        transaction.next_phase += 1

    def _call(self, transaction: Transaction, call: str) -> None:
        """Ask a foreign owner. While it answers, others may act: the transaction may have been cancelled meanwhile."""
        self.on_call(transaction.name, call)
        if transaction.closed:
            raise Refused(Reason.CLOSED, f"{transaction.name} was closed during {call}")

    def _known(self, name: str) -> Transaction:
        if name not in self.transactions:
            raise Refused(Reason.UNKNOWN, f"{name} has not begun")
        return self.transactions[name]

    def _failed(self, name: str) -> Transaction:
        transaction = self._known(name)
        if transaction.closed:
            raise Refused(Reason.CLOSED, f"{name} is closed: {transaction.result}")
        if not transaction.failed:
            raise Refused(Reason.NOT_FAILED, f"{name} has not failed behind its publication")
        return transaction

    def _require_not_terminal(self) -> None:
        if self.terminal:
            raise Refused(Reason.TERMINAL, "an earlier transaction of this request ended in terminal failure")

    def _require_visible(self, transaction: Transaction) -> None:
        """Close a transaction whose state another publication has replaced: it has nothing left to export."""
        if self.visible.state_generation != transaction.state_generation:
            transaction.closed = True
            reason = f"state {transaction.state_generation} is no longer visible"
            raise Refused(Reason.SUPERSEDED, f"{reason}, state {self.visible.state_generation} is")

    def _live_parent(self) -> Parent:
        visible = self.visible
        return Parent(
            self.request_generation,
            self.policy.generation,
            visible.state_generation,
            visible.cache_generation,
            visible.committed_frontier,
        )

    def _fence(self, transaction: Transaction) -> None:
        """Refuse a transaction whose request, policy, parent state or cache is no longer the live one."""
        self._require_not_terminal()
        bound = {
            "request generation": (transaction.request_generation, self.request_generation),
            "policy generation": (transaction.policy.generation, self.policy.generation),
            "parent state generation": (transaction.parent.state_generation, self.visible.state_generation),
        }
        if transaction.cache_generation is not None:
            bound["cache generation"] = (transaction.cache_generation, self.cache_generation)
        for what, (mine, live) in bound.items():
            if mine != live:
                raise Refused(Reason.STALE, f"{transaction.name} is bound to {what} {mine}, live is {live}")

    def _close(self, transaction: Transaction, result: str) -> None:
        """End an unpublished transaction: drop its reservation; the visible state is not touched."""
        for block in itertools.chain.from_iterable(transaction.blocks):
            transaction.discarded_rows += self.allocator.drop(block)
        transaction.blocks = []
        transaction.result = result
        transaction.closed = True
        transaction.visible_at_close = self.visible

    def _compare_and_swap(self, transaction: Transaction) -> None:
        """Replace the visible state by the successor in one assignment; its parent awaits release."""
        self._call(transaction, "publish.compare_and_swap")
        self._fence(transaction)
        assert transaction.cache_generation is not None
        retiring = self.visible
        blocks = tuple(transaction.blocks)
        if not transaction.compacts:
            for block in itertools.chain.from_iterable(retiring.blocks):
                self.allocator.share(block)
            blocks = tuple(shared + fresh for shared, fresh in zip(retiring.blocks, blocks, strict=True))
        self.visible = State(
            transaction.state_generation,
            transaction.cache_generation,
            transaction.committed_frontier,
            transaction.decision_epoch,
            transaction.evidence_receipt_id,
            transaction.selected,
            blocks,
        )
        transaction.blocks = []
        transaction.retired = {retiring.state_generation: list(retiring.blocks)}
        transaction.published = True
        transaction.result = PUBLISHED

    def _release(self, transaction: Transaction) -> None:
        """Drop what the transaction retired, owner by owner, unless a reader still holds it."""
        for reader, held in self.readers.items():
            if held in transaction.retired:
                raise Refused(Reason.STILL_READ, f"{reader} still holds state {held}")
        for owners in transaction.retired.values():
            while owners:
                self._call(transaction, "allocator.release_blocks")
                for block in owners.pop():
                    transaction.released_rows += self.allocator.drop(block)
        transaction.retired = {}

    def _protected(self, policy: Policy, frontier: int) -> tuple[int, ...]:
        length = frontier - self.position_origin
        return tuple(protected_positions(policy.protected_first, policy.protected_newest, self.position_origin, length))

    def _estimate(self, transaction: Transaction) -> None:
        """Work out what the scheduler is asked to admit: fresh rows and the transaction's peak (0x0EH)."""
        transaction.fresh_rows = sum(transaction.fresh_lengths())
        transaction.peak_bytes = compaction.peak_bytes(
            transaction.parent.rows() * self.costs.row_bytes,
            transaction.fresh_rows * self.costs.row_bytes,
            self.costs.selector_bytes,
            transaction.capability.workspace_bytes if transaction.capability else 0,
            self.costs.allocator_metadata_bytes,
        )

    def _reserve(self, transaction: Transaction) -> None:
        """Take a fresh block for each owner. Rows that the successor shares with its parent are held at publication."""
        for fresh in transaction.fresh_lengths():
            self._call(transaction, "allocator.reserve_blocks")
            try:
                transaction.blocks.append((self.allocator.take(fresh),) if fresh else ())
            except OutOfRows as full:
                raise Refused(Reason.ALLOCATION_FAILED, str(full)) from None
            transaction.reserved_rows += fresh


def _expect_kind(transaction: Transaction, kind: str, due: bool) -> None:
    expected = PERFORMED if due else NO_OP
    if kind != expected:
        phase = PHASES[transaction.next_phase]
        raise Refused(Reason.KIND, f"{phase}: expected {expected}, found {kind}", ("kind",))


def _extended(state: State, frontier: int) -> Owners:
    """Return the view of a state with every row that was committed since."""
    tail = tuple(range(state.committed_frontier, frontier))
    return tuple(tuple(positions + tail for positions in heads) for heads in state.selected)

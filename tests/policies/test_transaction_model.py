"""The transaction machine under random operations of several workers, readers and the cache (hypothesis, stateful).

After each step the invariants of 0x0EA hold; at the end, the visible state is that of a serial order: the published
transactions one after another, nothing else.
"""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kvaudit.policies.receipts import CallFailed, Reason, Refused, Selection
from tests.policies.transaction_world import PHASES, FailAt, accept_row, check_invariants, drive, policy, step, world

WORKERS = st.sampled_from(["a", "b"])
SMALL = (((0, 2, 5, 7), (0, 3, 4, 7)),)
# What an operation may answer when its receipts are true: order, lifecycle, staleness, room, readers.
HONEST = {
    Reason.PHASE_ORDER,
    Reason.UNKNOWN,
    Reason.EXISTS,
    Reason.CLOSED,
    Reason.CANCEL_PUBLISHED,
    Reason.NOT_FAILED,
    Reason.TERMINAL,
    Reason.READER,
    Reason.STILL_READ,
    Reason.STALE,
    Reason.BUDGET,
    Reason.ALLOCATION_FAILED,
    Reason.SUPERSEDED,
}


class Workers(RuleBasedStateMachine):
    @initialize(cadence=st.sampled_from(["periodic", "every_decode_step"]), capacity=st.sampled_from([24, 40, 200]))
    def start(self, cadence, capacity):
        self.rules = policy(cadence, maximum_rows=4, trigger=5)
        self.machine = world(SMALL, frontier=8, capacity_rows=capacity, rules=self.rules)
        self.states = {30: self.machine.visible}
        self.order = []  # the publications, in order: state, and whether it compensates
        self.begun = {"a": 0, "b": 0}

    def attempt(self, operation, *arguments, compensates=False, **named):
        """Run an operation with true receipts: it may be refused, but only for an honest reason."""
        before = self.machine.visible
        try:
            operation(*arguments, **named)
        except (Refused, CallFailed) as stopped:
            if isinstance(stopped, Refused) and stopped.reason not in HONEST:
                raise
            if self.machine.visible is not before:
                raise AssertionError("an operation that was not accepted changed what readers see") from stopped
        if self.machine.visible is not before:
            assert self.machine.visible.state_generation > before.state_generation
            self.states[self.machine.visible.state_generation] = self.machine.visible
            self.order.append((self.machine.visible, compensates))

    def name(self, worker):
        return f"{worker}{self.begun[worker]}"

    @rule()
    def append(self):
        accept_row(self.machine)

    @rule(worker=WORKERS)
    def begin(self, worker):
        """Begin another transaction; the one before is abandoned as it is, if it is not closed."""
        self.begun[worker] += 1
        self.attempt(step, self.machine, self.name(worker), "begin")

    @rule(worker=WORKERS, pick=st.integers(0, 3), phases=st.integers(1, 12))
    def go_on(self, worker, pick, phases):
        """Let a worker do the next phases of its transaction, or begin one."""
        transaction = self.machine.transactions.get(self.name(worker))
        if transaction is None or transaction.closed:
            self.begin(worker)
        for _ in range(phases):
            transaction = self.machine.transactions.get(self.name(worker))
            if transaction is None or transaction.closed or transaction.failed:
                return
            self.attempt(step, self.machine, transaction.name, PHASES[transaction.next_phase], pick=pick)

    @rule(worker=WORKERS, pick=st.integers(0, 3))
    def finish(self, worker, pick):
        self.go_on(worker, pick, len(PHASES))

    @rule(worker=WORKERS, phase=st.sampled_from(["validate", "release_parent"]))
    def out_of_order(self, worker, phase):
        """A late or confused worker: refused without effect unless the phase happens to be the next one."""
        transaction = self.machine.transactions.get(self.name(worker))
        if transaction is not None and not transaction.closed and PHASES[transaction.next_phase] == phase:
            return
        before = repr(self.machine)
        self.attempt(step, self.machine, self.name(worker), phase)
        assert repr(self.machine) == before

    @rule(worker=WORKERS, number=st.integers(1, 4))
    def fail(self, worker, number):
        """Let a call in the next phase of a transaction fail."""
        ordinary, self.machine.on_call = self.machine.on_call, FailAt(number)
        self.go_on(worker, 0, 1)
        self.machine.on_call = ordinary

    @rule(worker=WORKERS, number=st.integers(1, 5))
    def fail_behind_publication(self, worker, number):
        """Let a transaction publish, if it can, and then fail while it releases its parent or exports."""
        self.go_on(worker, 0, PHASES.index("publish") + 1)
        self.go_on(worker, 0, PHASES.index("publish") + 1)
        for _ in range(2):
            self.fail(worker, number)

    @rule(worker=WORKERS)
    def cancel(self, worker):
        self.attempt(self.machine.cancel, self.name(worker))

    @precondition(lambda self: any(each.failed and not each.closed for each in self.machine.transactions.values()))
    @rule(worker=WORKERS, number=st.none() | st.integers(1, 3))
    def compensate(self, worker, number):
        """Compensate whatever has failed behind its publication; a call of the compensation may fail too."""
        failed = next(each for each in self.machine.transactions.values() if each.failed and not each.closed)
        self.begun[worker] += 1
        name = self.name(worker)
        ordinary, self.machine.on_call = self.machine.on_call, FailAt(number)
        self.attempt(self.machine.compensate, failed.name, name, f"view-{name}", compensates=True)
        self.machine.on_call = ordinary

    @rule(reader=st.sampled_from(["r0", "r1"]))
    def acquire(self, reader):
        self.attempt(self.machine.acquire, reader, self.machine.visible.state_generation)

    @rule(reader=st.sampled_from(["r0", "r1"]))
    def leave(self, reader):
        self.attempt(self.machine.leave, reader)

    @invariant()
    def holds(self):
        if hasattr(self, "machine"):
            check_invariants(self.machine, self.states)

    def teardown(self):
        if not hasattr(self, "machine"):
            return
        machine = self.machine
        # Let every reader leave and everything that was published finish: what is left is the visible state.
        machine.readers.clear()
        for name, transaction in list(machine.transactions.items()):
            if not transaction.published and not transaction.closed:
                machine.cancel(name)
        for name, transaction in list(machine.transactions.items()):
            if transaction.failed and not transaction.closed:
                self.attempt(machine.terminate, name)
            elif transaction.published and not transaction.closed:
                for phase in PHASES[transaction.next_phase :]:
                    self.attempt(step, machine, name, phase)
        self.holds()
        assert machine.allocator.live_rows == machine.visible.rows()
        self.serial()

    def serial(self):
        """Publish the same states one after another on a fresh request; only generations may differ."""
        fresh = world(SMALL, frontier=8, rules=self.rules)
        for number, (state, compensates) in enumerate(self.order):
            while fresh.committed_frontier < state.committed_frontier:
                accept_row(fresh)
            name = f"serial-{number}"
            if compensates:
                fresh.on_call = FailAt(1)
                earlier = f"serial-{number - 1}"
                self.fails(fresh, earlier)
                fresh.on_call = FailAt()
                fresh.compensate(earlier, name, f"view-{name}")
            else:
                drive(fresh, name, PHASES[:4], evidence=state.evidence_receipt_id)
                select_as(fresh, name, state)
                drive(fresh, name, PHASES[5:10])
            assert fresh.visible.selected == state.selected
            assert fresh.visible.cache_generation == state.cache_generation
            assert fresh.visible.decision_epoch == state.decision_epoch
            assert fresh.visible.evidence_receipt_id == state.evidence_receipt_id
            if not (number + 1 < len(self.order) and self.order[number + 1][1]):
                drive(fresh, name, PHASES[10:])
        assert fresh.allocator.live_rows == self.machine.visible.rows()

    @staticmethod
    def fails(machine, name):
        with pytest.raises(CallFailed):
            step(machine, name, "release_parent")


def select_as(machine, name, state):
    transaction = machine.transactions[name]
    kind = "performed" if transaction.compacts else "no_op"
    machine.select(name, Selection(kind, transaction.decision_epoch, transaction.evidence_receipt_id, state.selected))


TestWorkers = Workers.TestCase
TestWorkers.settings = settings(
    max_examples=3 * settings.default.max_examples,
    stateful_step_count=50,
    derandomize=settings.default.derandomize,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)

"""A request with a published state, workers that claim the truth, and the invariants of 0x0EA stated independently."""

from collections import Counter

from kvaudit.policies.allocator import Allocator
from kvaudit.policies.receipts import (
    Admission,
    Allocation,
    AppendReceipt,
    Binding,
    CallFailed,
    Capability,
    Parent,
    RecoveryHandoff,
    SchedulerHandoff,
    Score,
    Selection,
    TransferHandoff,
)
from kvaudit.policies.transaction import Machine
from kvaudit.policies.transaction_records import Costs, Policy, SourceHistory, State

REPRESENTATION = "ragged"
ROW_BYTES = 256
PHASES = [
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
]
# What the parent of 0x0E keeps: six rows for each of four owners, frontier 63.
PARENT = (
    ((0, 9, 18, 33, 47, 62), (0, 4, 21, 40, 55, 62)),
    ((0, 12, 28, 36, 51, 62), (0, 7, 30, 44, 58, 62)),
)


def policy(cadence="periodic", maximum_rows=4, trigger=6, first=1, newest=1):
    return Policy(
        generation=7,
        manifest_sha256="m" * 64,
        cadence=cadence,
        budget_scope="per_layer_kv_head",
        maximum_rows=maximum_rows,
        compaction_trigger_rows=trigger if cadence == "periodic" else None,
        protected_first=first,
        protected_newest=newest,
        representation=REPRESENTATION,
        omitted_rows="recallable_nonresident",
        full_view_declared=True,
    )


def world(selected=PARENT, frontier=63, capacity_rows=1000, rules=None, history=True, origin=0):
    allocator = Allocator(capacity_rows)
    blocks = tuple((allocator.take(len(positions)),) for heads in selected for positions in heads)
    return Machine(
        request_id="request-1",
        request_generation=11,
        policy=rules or policy(),
        costs=Costs(ROW_BYTES, 1024, 512),
        source_history=SourceHistory("history-1", "plan-1", 0, 10_000) if history else None,
        position_origin=origin,
        visible=State(30, 500, frontier, 12, "evidence-0", selected, blocks),
        allocator=allocator,
        cache_generation=500,
        committed_frontier=frontier,
        next_state_generation=31,
        ready_state=30,
    )


def accept_row(machine):
    cache = machine.cache_generation
    machine.append(AppendReceipt(machine.committed_frontier, cache, cache + 1, True))


def live_parent(machine):
    visible = machine.visible
    return Parent(
        machine.request_generation,
        machine.policy.generation,
        visible.state_generation,
        visible.cache_generation,
        visible.committed_frontier,
    )


def compacts(machine, transaction):
    rules = machine.policy
    if rules.cadence != "periodic":
        return True
    longest = max(len(positions) for heads in transaction.parent.selected for positions in heads)
    return longest + transaction.appended_rows > rules.compaction_trigger_rows


def protected(rules, origin, frontier):
    committed = range(origin, frontier)
    return (
        *committed[: rules.protected_first],
        *committed[max(rules.protected_first, len(committed) - rules.protected_newest) :],
    )


def chosen(machine, transaction, pick=0):
    """A legal selection: the protected rows and, from the others, every (pick + 1)th until the budget is full."""
    rules = machine.policy
    tail = tuple(range(transaction.parent.committed_frontier, transaction.committed_frontier))
    kept = protected(rules, machine.position_origin, transaction.committed_frontier)
    result = []
    for heads in transaction.parent.selected:
        layer = []
        for positions in heads:
            grown = positions + tail
            if compacts(machine, transaction):
                others = [position for position in grown if position not in kept]
                others = others[pick % (len(others) or 1) :] + others[: pick % (len(others) or 1)]
                grown = tuple(sorted((*kept, *others[: max(0, rules.maximum_rows - len(kept))])))
            layer.append(grown)
        result.append(tuple(layer))
    return tuple(result)


def step(machine, name, phase, expected=None, pick=0, evidence=None):
    """Drive one phase with receipts that are true of the transaction as the machine knows it."""
    transaction = machine.transactions.get(name)
    if phase == "begin":
        return machine.begin(name, expected or live_parent(machine))
    if transaction is None or transaction.closed:
        return machine.validate(name) if phase == "validate" else machine.release_parent(name, 0)
    parent, generation = transaction.parent, transaction.state_generation
    lengths = tuple(len(positions) for heads in transaction.selected for positions in heads)
    performed = "performed" if compacts(machine, transaction) else "no_op"
    if phase == "append_committed":
        chain = tuple(each for each in machine.appends if each.cache_generation > parent.cache_generation)
        machine.append_committed(name, chain, "performed" if chain else "no_op")
    elif phase == "score":
        scores = performed == "performed" and machine.policy.cadence in ("periodic", "every_decode_step")
        machine.score(
            name,
            Score(
                "performed" if scores else "no_op",
                machine.policy.cadence,
                parent.decision_epoch + scores,
                machine.policy.generation,
                transaction.committed_frontier,
                transaction.cache_generation,
                (evidence or f"evidence-{name}") if scores else parent.evidence_receipt_id,
            ),
        )
    elif phase == "protect":
        kept = protected(machine.policy, machine.position_origin, transaction.committed_frontier)
        machine.protect(name, kept, "performed" if kept else "no_op")
    elif phase == "select":
        selection = chosen(machine, transaction, pick)
        machine.select(
            name, Selection(performed, transaction.decision_epoch, transaction.evidence_receipt_id, selection)
        )
    elif phase == "validate":
        machine.validate(name)
    elif phase == "backend_admit":
        machine.backend_admit(
            name,
            Capability(f"capability-{name}", REPRESENTATION, lengths, True, True, True, sum(lengths), 2048, True, None),
        )
    elif phase == "allocator_reserve":
        fresh = sum(lengths) if performed == "performed" else transaction.appended_rows * len(lengths)
        peak = (sum(len(p) for heads in parent.selected for p in heads) + fresh) * ROW_BYTES + 1024 + 2048 + 512
        request = machine.request_generation
        machine.allocator_reserve(
            name,
            Admission(name, request, generation, peak, 2 * fresh * ROW_BYTES, True),
            Allocation(
                name,
                request,
                parent.state_generation,
                transaction.cache_generation,
                lengths,
                REPRESENTATION,
                fresh,
                False,
            ),
        )
    elif phase == "pack":
        machine.pack(name, f"view-{name}", "performed" if transaction.fresh_rows else "no_op")
    elif phase == "publish":
        machine.publish(name, truthful_binding(machine, name))
    elif phase == "release_parent":
        machine.release_parent(name, parent.state_generation)
    else:
        machine.export_handoffs(name, *truthful_handoffs(machine, name))
    return None


def truthful_binding(machine, name):
    transaction, live = machine.transactions[name], live_parent(machine)
    return Binding(
        live.request_generation,
        live.policy_generation,
        live.state_generation,
        live.cache_generation,
        live.committed_frontier,
        transaction.state_generation,
        transaction.cache_generation,
        transaction.committed_frontier,
        transaction.policy.manifest_sha256,
        f"view-{name}",
        transaction.capability.receipt_id,
        transaction.evidence_receipt_id,
        tuple(range(len(transaction.selected))),
    )


def truthful_handoffs(machine, name):
    transaction = machine.transactions[name]
    lengths = [len(positions) for heads in transaction.selected for positions in heads]
    generation, payload = transaction.state_generation, sum(lengths) * ROW_BYTES
    everything = all(length == transaction.committed_frontier - machine.position_origin for length in lengths)
    omitted = "recallable_nonresident" if machine.source_history else "omitted_irrecoverable"
    omitted = "none" if everything else omitted
    named = omitted == "recallable_nonresident"
    current = machine.visible.cache_generation == machine.cache_generation
    return (
        SchedulerHandoff(
            generation,
            machine.policy.generation,
            payload,
            512,
            transaction.peak_bytes,
            2 * transaction.copied_rows * ROW_BYTES,
            "none",
            (("allocator_mapping", True),),
            current,
        ),
        RecoveryHandoff(
            generation,
            transaction.committed_frontier,
            omitted,
            "history-1" if named else None,
            "plan-1" if named else None,
        ),
        TransferHandoff(
            "request-1",
            transaction.request_generation,
            generation,
            transaction.cache_generation,
            transaction.packed_view_sha256,
            REPRESENTATION,
            payload,
        ),
    )


def drive(machine, name, phases=PHASES, **how):
    for phase in phases:
        step(machine, name, phase, **how)


class FailAt:
    """Let the n-th call to a foreign owner fail, counted from 1; remember the calls."""

    def __init__(self, number=None):
        self.number = number
        self.calls = []

    def __call__(self, name, call):
        self.calls.append((name, call))
        if len(self.calls) == self.number:
            raise CallFailed(call)


def check_invariants(machine, states):
    """Assert what must hold whenever anybody may look. `states` are all that were ever visible, by generation."""
    visible, allocator = machine.visible, machine.allocator
    # Visible is a whole state, never a mixture: the very object that one publication installed.
    assert states[visible.state_generation] is visible
    for positions, blocks in zip((p for heads in visible.selected for p in heads), visible.blocks, strict=True):
        assert list(positions) == sorted(set(positions))
        assert all(machine.position_origin <= position < visible.committed_frontier for position in positions)
        assert sum(allocator.rows[block] for block in blocks) == len(positions)
        kept = protected(machine.policy, machine.position_origin, visible.committed_frontier)
        assert set(kept) <= set(positions)
        assert len(positions) <= (machine.policy.compaction_trigger_rows or machine.policy.maximum_rows)
    # Every live block is held by the visible state, by a parent to be released or by an open reservation, and counted.
    held = Counter(block for blocks in visible.blocks for block in blocks)
    for transaction in machine.transactions.values():
        held.update(block for blocks in transaction.blocks for block in blocks)
        held.update(block for owners in transaction.retired.values() for blocks in owners for block in blocks)
        if transaction.closed:
            assert transaction.blocks == []
            assert transaction.published or not transaction.retired
            if not transaction.published:
                assert transaction.discarded_rows == transaction.reserved_rows
        if not transaction.published:
            assert transaction.state_generation not in states
    assert held == allocator.references
    assert set(held) == set(allocator.rows)
    assert allocator.live_rows == sum(allocator.rows.values()) <= allocator.capacity_rows
    # A reader's state is whole for as long as it is held.
    for generation in machine.readers.values():
        assert all(block in allocator.rows for blocks in states[generation].blocks for block in blocks)
    # Generations are unique and issued in order.
    issued = [transaction.state_generation for transaction in machine.transactions.values()]
    assert issued == sorted(set(issued))
    assert all(generation < machine.next_state_generation for generation in issued)
    # Hand-offs name published states; decode waits for all three of the visible one, and for the cache.
    assert all(generation in states for _, generation in machine.exports)
    if machine.decode_ready:
        assert visible.cache_generation == machine.cache_generation
        exported = {owner for owner, generation in machine.exports if generation == visible.state_generation}
        assert exported == {"scheduler", "recovery", "transfer"} or visible.state_generation == 30

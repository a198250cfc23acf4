"""The transaction of 0x0E: its phases, a failure in every call, and every interleaving of two workers."""

import math
from dataclasses import replace

import pytest

from kvaudit.policies.receipts import CallFailed, Fallback, Reason, Refused, Score
from kvaudit.policies.transaction_records import PHASES as MACHINE_PHASES
from tests.policies.transaction_world import (
    PARENT,
    PHASES,
    FailAt,
    accept_row,
    check_invariants,
    drive,
    live_parent,
    policy,
    step,
    truthful_binding,
    truthful_handoffs,
    world,
)

# Four rows an owner: a view that may grow before it compacts.
SHORT = tuple(tuple(positions[:3] + positions[-1:] for positions in heads) for heads in PARENT)


def refusal(action, *arguments, **named):
    with pytest.raises(Refused) as caught:
        action(*arguments, **named)
    return caught.value.reason


def ready_to_race(parent=PARENT):
    machine = world(parent)
    accept_row(machine)
    return machine


def test_the_phases_are_those_of_the_specification():
    assert list(MACHINE_PHASES) == PHASES


def test_one_accepted_transaction():
    machine = ready_to_race()
    assert not machine.decode_ready  # the cache is ahead of the visible state
    drive(machine, "a", PHASES[:9])
    assert machine.visible.selected == PARENT
    assert machine.allocator.live_rows == 24 + 16
    assert machine.transactions["a"].peak_bytes == 13824
    step(machine, "a", "publish")
    assert machine.visible.state_generation == 31
    assert machine.visible.cache_generation == 501
    assert machine.visible.committed_frontier == 64
    assert machine.allocator.live_rows == 24 + 16  # the parent stays until it is released
    step(machine, "a", "release_parent")
    assert machine.allocator.live_rows == 16
    assert not machine.decode_ready
    step(machine, "a", "export_handoffs")
    assert machine.decode_ready
    assert machine.exports == [("scheduler", 31), ("recovery", 31), ("transfer", 31)]


def test_a_view_grows_without_compaction_until_its_trigger():
    """4 rows an owner and a trigger of 6: two no-op selections, then a compaction; shared rows are never copied."""
    machine = ready_to_race()
    drive(machine, "a")
    seen = []
    for name in ("b", "c", "d"):
        accept_row(machine)
        drive(machine, name)
        transaction = machine.transactions[name]
        lengths = {len(positions) for heads in machine.visible.selected for positions in heads}
        seen.append((transaction.kinds["select"], lengths, transaction.copied_rows, machine.allocator.live_rows))
        assert machine.decode_ready
    assert seen == [
        ("no_op", {5}, 4, 20),
        ("no_op", {6}, 4, 24),
        ("performed", {4}, 16, 16),
    ]


@pytest.mark.parametrize(
    ("cadence", "score", "epoch"),
    [("every_decode_step", "performed", 13), ("static", "no_op", 12), ("learned_transition", "no_op", 12)],
)
def test_the_other_update_strategies(cadence, score, epoch):
    machine = world(SHORT, rules=policy(cadence))
    accept_row(machine)
    drive(machine, "a")
    kinds = machine.transactions["a"].kinds
    assert (kinds["score"], kinds["select"]) == (score, "performed")
    assert machine.visible.decision_epoch == epoch


def test_a_transaction_without_an_accepted_row():
    """Policy state and cache may advance without each other: no append, a no-op receipt, a new state generation."""
    machine = world()
    drive(machine, "a")
    assert machine.transactions["a"].kinds["append_committed"] == "no_op"
    assert machine.transactions["a"].kinds["pack"] == "no_op"
    assert machine.visible.state_generation == 31
    assert machine.visible.selected == PARENT
    assert machine.allocator.live_rows == 24


def test_a_rule_that_protects_nothing_leaves_a_no_op():
    machine = world(rules=policy(first=0, newest=0))
    accept_row(machine)
    drive(machine, "a")
    assert machine.transactions["a"].kinds["protect"] == "no_op"


def test_nothing_is_omitted_while_everything_fits():
    machine = world((((0, 1, 2),),), frontier=3)
    accept_row(machine)
    drive(machine, "a")
    assert machine.visible.selected == (((0, 1, 2, 3),),)


def test_a_retry_binds_the_chain_of_append_receipts():
    """0x0EG against 0x0EK: after a rejected transaction the cache is two generations ahead of the state."""
    machine = ready_to_race()
    drive(machine, "a", PHASES[:5])
    machine.cancel("a")
    accept_row(machine)
    drive(machine, "b")
    assert machine.transactions["a"].state_generation == 31  # consumed, never reissued
    assert machine.visible.state_generation == 32
    assert machine.visible.cache_generation == 502
    assert all(64 in positions for heads in machine.visible.selected for positions in heads)


@pytest.mark.parametrize("done", range(1, 12))
def test_every_other_phase_is_out_of_order_and_without_effect(done):
    machine = ready_to_race()
    drive(machine, "a", PHASES[:done])
    before = repr(machine.fork())
    for phase in PHASES[1:]:
        if phase != PHASES[done]:
            assert refusal(out_of_order, machine, phase) == Reason.PHASE_ORDER
    assert repr(machine.fork()) == before
    drive(machine, "a", PHASES[done:])
    assert machine.visible.state_generation == 31


def out_of_order(machine, phase):
    """Call a phase whose receipts need not be true: it is refused before they are looked at."""
    receipt = Score("performed", "periodic", 13, 7, 64, 501, "evidence")
    arguments = {
        "append_committed": ((), "no_op"),
        "score": (receipt,),
        "protect": ((0, 63), "performed"),
        "select": (receipt,),
        "validate": (),
        "backend_admit": (receipt,),
        "allocator_reserve": (None, None),
        "pack": ("view", "performed"),
        "publish": (None,),
        "release_parent": (30,),
        "export_handoffs": (None, None, None),
    }[phase]
    getattr(machine, phase)("a", *arguments)


def test_a_closed_transaction_and_an_unknown_one():
    machine = ready_to_race()
    drive(machine, "a")
    before = repr(machine.fork())
    assert refusal(machine.validate, "a") == Reason.CLOSED
    assert refusal(machine.cancel, "a") == Reason.CLOSED
    assert refusal(machine.validate, "b") == Reason.UNKNOWN
    assert refusal(machine.begin, "a", live_parent(machine)) == Reason.EXISTS
    assert refusal(machine.compensate, "a", "c", "view-c") == Reason.CLOSED
    assert repr(machine.fork()) == before


def test_a_failure_in_every_call():
    """The hard stop: whichever call fails, readers see the parent or the whole successor, and no row leaks."""
    rehearsal = ready_to_race()
    rehearsal.on_call = calls = FailAt()
    drive(rehearsal, "a")
    assert len(calls.calls) == 7 + 5 + 5 + 1 + 4 + 3
    publication = [call for _, call in calls.calls].index("publish.compare_and_swap") + 1
    for number in range(1, len(calls.calls) + 1):
        machine = ready_to_race()
        parent = machine.visible
        machine.on_call = FailAt(number)
        with pytest.raises(CallFailed):
            drive(machine, "a")
        machine.on_call = FailAt()
        published = machine.visible is not parent
        assert published == (number > publication)
        check_invariants(machine, {30: parent, machine.visible.state_generation: machine.visible})
        assert not machine.decode_ready
        if not published:
            assert machine.allocator.live_rows == 24
            drive(machine, "b")  # the parent is intact: another transaction succeeds on it
            assert machine.visible.state_generation == (31 if number == 1 else 32)
        else:
            assert machine.visible.selected == rehearsal.visible.selected
            assert refusal(machine.cancel, "a") == Reason.CANCEL_PUBLISHED
            assert refusal(machine.export_handoffs, "a", None, None, None) == Reason.CLOSED
            compensated(machine.fork())
            terminated(machine.fork())
        assert machine.transactions.get("a") is None or machine.transactions["a"].result in ("failed", "published")


def compensated(machine):
    failed = machine.visible
    machine.compensate("a", "b", "view-b")
    assert machine.transactions["a"].result == "compensated"
    assert machine.visible is not failed  # the published object is not edited
    assert machine.visible.state_generation == 32
    assert machine.visible.selected == failed.selected
    drive(machine, "b", PHASES[10:])
    assert machine.decode_ready
    assert machine.allocator.live_rows == 16


def terminated(machine):
    machine.terminate("a")
    assert machine.transactions["a"].result == "terminal_failure"
    assert machine.allocator.live_rows == 16
    assert not machine.decode_ready
    assert refusal(machine.begin, "b", live_parent(machine)) == Reason.TERMINAL


def test_a_failure_in_every_call_of_a_compensation():
    machine = ready_to_race()
    drive(machine, "a", PHASES[:11])
    accept_row(machine)
    machine.on_call = FailAt(1)
    with pytest.raises(CallFailed):
        step(machine, "a", "export_handoffs")
    failed, states = machine.visible, {30: None, 31: machine.visible}
    for number in range(1, 6):  # four reservations, one compare and swap
        attempt = machine.fork()
        attempt.on_call = FailAt(number)
        with pytest.raises(CallFailed):
            attempt.compensate("a", "b", "view-b")
        assert attempt.visible is failed
        check_invariants(attempt, states)
        attempt.on_call = FailAt()
        attempt.compensate("a", "c", "view-c")  # a second attempt takes over
        states_after = {**states, 33: attempt.visible}
        assert attempt.visible.committed_frontier == 65  # bound to the current cache
        assert all(64 in positions for heads in attempt.visible.selected for positions in heads)
        check_invariants(attempt, states_after)
        drive(attempt, "c", PHASES[10:])
        assert attempt.decode_ready


def test_a_compensation_that_outgrows_its_bound_is_refused():
    machine = ready_to_race()
    drive(machine, "a", PHASES[:11])
    machine.on_call = FailAt(1)
    with pytest.raises(CallFailed):
        step(machine, "a", "export_handoffs")
    for _ in range(3):
        accept_row(machine)
    generations = machine.next_state_generation
    assert refusal(machine.compensate, "a", "b", "view-b") == Reason.BUDGET
    assert machine.next_state_generation == generations
    assert "b" not in machine.transactions


def run_race(schedule, machine):
    """Two workers, both bound to the parent that they saw first; return the reasons of refusal a worker."""
    expected, states = live_parent(machine), {30: machine.visible}
    refused = {"a": [], "b": []}
    done = {"a": 0, "b": 0}
    for worker in schedule:
        attempt(machine, worker, PHASES[done[worker]], expected, refused[worker])
        done[worker] += 1
        states[machine.visible.state_generation] = machine.visible
        check_invariants(machine, states)
    return machine, refused


def attempt(machine, worker, phase, expected, refused):
    if refused:
        return  # a worker stops at its first refusal
    try:
        step(machine, worker, phase, expected=expected, pick=2 if worker == "b" else 0)
    except Refused as stopped:
        refused.append(stopped.reason)


@pytest.mark.parametrize(("parent", "rows"), [(PARENT, 16), (SHORT, 20)], ids=["compacting", "growing"])
def test_every_interleaving_of_two_workers(parent, rows):
    """All C(24, 12) orders of the operations of two workers that race on one parent.

    Orders that lead to the same state of the machine go on together; how many each state stands for is counted.
    A growing view shares the rows of its parent, which must survive the rollback of the other worker.
    """
    machine = ready_to_race(parent)
    expected = live_parent(machine)
    serial = {worker: run_race([worker] * 12, machine.fork())[0].visible for worker in "ab"}
    front = {(0, 0, ""): (machine, {"a": [], "b": []}, {30: machine.visible}, 1)}
    outcomes = {}
    for _ in range(2 * len(PHASES)):
        following = {}
        for (done_a, done_b, _), (before, refused_before, states_before, orders) in front.items():
            for worker, done in (("a", done_a), ("b", done_b)):
                if done == len(PHASES):
                    continue
                after, refused = before.fork(), {name: list(each) for name, each in refused_before.items()}
                attempt(after, worker, PHASES[done], expected, refused[worker])
                states = {**states_before, after.visible.state_generation: after.visible}
                check_invariants(after, states)
                key = (done_a + (worker == "a"), done_b + (worker == "b"), repr((after, refused)))
                known = following.get(key, (after, refused, states, 0))
                following[key] = (*known[:3], known[3] + orders)
        front = following
    for final, refused, _, orders in front.values():
        winner, loser = ("a", "b") if not refused["a"] else ("b", "a")
        assert refused == {winner: [], loser: [Reason.STALE]}
        assert final.transactions[winner].result == "published"
        assert loser not in final.transactions or final.transactions[loser].result == "stale"
        assert final.visible.selected == serial[winner].selected
        assert final.visible.cache_generation == 501
        assert final.allocator.live_rows == rows
        assert final.decode_ready
        outcomes[winner] = outcomes.get(winner, 0) + orders
    assert sum(outcomes.values()) == math.comb(24, 12)
    assert outcomes["a"] == outcomes["b"]


def test_the_other_worker_acts_inside_every_call():
    """While a call of the first worker is under way, the second has done some phases and does some more."""
    rehearsal = ready_to_race()
    rehearsal.on_call = calls = FailAt()
    drive(rehearsal, "a")
    for number in range(1, len(calls.calls) + 1):
        for already in range(len(PHASES) + 1):
            for more in sorted({already, (already + len(PHASES)) // 2, len(PHASES)}):
                preempted(number, already, more)


def preempted(number, already, more):
    machine = ready_to_race()
    expected, refused = live_parent(machine), {"a": [], "b": []}
    states, calls = {30: machine.visible}, []

    def work(worker, phases):
        for phase in phases:
            attempt(machine, worker, phase, expected, refused[worker])
            states[machine.visible.state_generation] = machine.visible

    def interrupt(name, call):
        states[machine.visible.state_generation] = machine.visible
        if name == "a":
            calls.append(call)
            if len(calls) == number:
                work("b", PHASES[already:more])
        check_invariants(machine, states)

    work("b", PHASES[:already])
    machine.on_call = interrupt
    work("a", PHASES)
    work("b", PHASES[max(already, more if len(calls) >= number else already) :])
    check_invariants(machine, states)
    results = {name: transaction.result for name, transaction in machine.transactions.items()}
    assert list(results.values()).count("published") == 1
    assert sorted(refused.values()) == [[], [Reason.STALE]]
    assert machine.allocator.live_rows == 16
    assert machine.decode_ready


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_state_that_is_superseded_during_its_export(number):
    """Another worker publishes while a hand-off is under way: the rest is not exported, and nothing leaks."""
    machine = ready_to_race()
    drive(machine, "a", PHASES[:11])

    def interrupt(name, _call):
        interrupt.calls += name == "a"
        if name == "a" and interrupt.calls == number:
            drive(machine, "b")

    interrupt.calls = 0
    machine.on_call = interrupt
    assert refusal(step, machine, "a", "export_handoffs") == Reason.SUPERSEDED
    assert [generation for _, generation in machine.exports] == [31] * (number - 1) + [32] * 3
    assert machine.decode_ready
    assert machine.allocator.live_rows == 16
    assert refusal(step, machine, "a", "release_parent") == Reason.CLOSED


@pytest.mark.parametrize("number", range(2, 19))
def test_a_cancel_inside_every_call_before_publication(number):
    machine = ready_to_race()
    parent = machine.visible

    def interrupt(_name, _call):
        interrupt.calls += 1
        if interrupt.calls == number:
            machine.cancel("a")

    interrupt.calls = 0
    machine.on_call = interrupt
    assert refusal(drive, machine, "a") == Reason.CLOSED
    assert machine.visible is parent
    assert machine.transactions["a"].result == "cancelled"
    check_invariants(machine, {30: parent})
    assert machine.allocator.live_rows == 24


def test_a_worker_does_not_race_itself():
    machine = ready_to_race()
    drive(machine, "a", PHASES[:7])
    reasons = []

    def interrupt(_name, call):
        if call == "allocator.reserve_blocks" and not reasons:
            reasons.append(refusal(step, machine, "a", "allocator_reserve"))

    machine.on_call = interrupt
    step(machine, "a", "allocator_reserve")
    assert reasons == [Reason.PHASE_ORDER]
    assert machine.allocator.live_rows == 24 + 16


@pytest.mark.parametrize("done", range(1, 10))
@pytest.mark.parametrize("change", ["request", "policy", "row"])
def test_a_transaction_is_stale_when_what_it_is_bound_to_moves(change, done):
    """Every field of the compare: the request, the policy, and the cache once it is bound."""
    machine = ready_to_race()
    drive(machine, "a", PHASES[:done])
    if change == "request":
        machine.request_generation += 1
    elif change == "policy":
        machine.policy = replace(machine.policy, generation=8)
    else:
        accept_row(machine)
    if change == "row" and done == 1:
        drive(machine, "a", PHASES[done:])  # the cache is bound in the next phase only
        assert machine.visible.cache_generation == 502
        return
    assert refusal(step, machine, "a", PHASES[done]) == Reason.STALE
    assert machine.transactions["a"].result == "stale"
    assert machine.visible.state_generation == 30
    assert machine.allocator.live_rows == 24


@pytest.mark.parametrize(
    "member",
    [
        "request_generation",
        "policy_generation",
        "parent_state_generation",
        "parent_cache_generation",
        "parent_frontier",
    ],
)
def test_publish_compares_every_field_of_the_parent(member):
    machine = ready_to_race()
    drive(machine, "a", PHASES[:9])
    binding = truthful_binding(machine, "a")
    wrong = replace(binding, **{member: getattr(binding, member) - 1})
    assert refusal(machine.publish, "a", wrong) == Reason.STALE
    assert machine.transactions["a"].result == "stale"
    assert machine.allocator.live_rows == 24


def test_a_reader_keeps_the_parent():
    machine = ready_to_race()
    machine.acquire("reader", 30)
    drive(machine, "a", PHASES[:10])
    assert refusal(step, machine, "a", "release_parent") == Reason.STILL_READ
    assert machine.allocator.live_rows == 40
    assert refusal(machine.acquire, "other", 30) == Reason.READER  # the parent is no longer visible
    machine.leave("reader")
    drive(machine, "a", PHASES[10:])
    assert machine.allocator.live_rows == 16


def test_a_refused_hand_off_may_be_repeated():
    machine = ready_to_race()
    drive(machine, "a", PHASES[:11])
    scheduler, recovery, transfer = truthful_handoffs(machine, "a")
    early = replace(scheduler, foreign_readiness=(("backend", False),))
    assert refusal(machine.export_handoffs, "a", early, recovery, transfer) == Reason.READINESS
    machine.export_handoffs("a", replace(early, decode_ready=False), recovery, transfer)
    assert not machine.decode_ready
    assert machine.exports


def test_without_history_omitted_rows_are_irrecoverable():
    machine = world(history=False)
    accept_row(machine)
    drive(machine, "a", PHASES[:11])
    scheduler, recovery, transfer = truthful_handoffs(machine, "a")
    assert recovery.omitted_state_class == "omitted_irrecoverable"
    minted = replace(recovery, omitted_state_class="recallable_nonresident", retrieval_plan_id="plan-1")
    assert refusal(machine.export_handoffs, "a", scheduler, minted, transfer) == Reason.RECOVERABILITY
    machine.export_handoffs("a", scheduler, recovery, transfer)


@pytest.mark.parametrize(
    ("fallback", "reason", "result"),
    [
        (None, Reason.FALLBACK_MISSING, "rejected"),
        (Fallback("reject", None), None, "rejected"),
        (Fallback("another_backend", None), None, "fallback"),
        (Fallback("padded_view", 16), None, "fallback"),
        (Fallback("full_view", 4 * 64), None, "fallback"),
        (Fallback("full_view", 16), Reason.FALLBACK_CHARGE, "rejected"),
        (Fallback("another_backend", 16), Reason.FALLBACK_CHARGE, "rejected"),
    ],
)
def test_a_backend_that_refuses(fallback, reason, result):
    machine = ready_to_race()
    drive(machine, "a", PHASES[:7])
    admitted = machine.transactions["a"].capability
    machine = ready_to_race()
    drive(machine, "a", PHASES[:6])
    refusing = replace(admitted, admitted=False, fallback=fallback)
    if reason is None:
        machine.backend_admit("a", refusing)
    else:
        assert refusal(machine.backend_admit, "a", refusing) == reason
    assert machine.transactions["a"].result == result
    assert machine.visible.state_generation == 30
    assert machine.allocator.live_rows == 24


@pytest.mark.parametrize("capacity", [24, 27, 28, 39])
def test_a_full_pool_rolls_back_whatever_it_had_given(capacity):
    machine = world(capacity_rows=capacity)
    accept_row(machine)
    assert refusal(drive, machine, "a") == Reason.ALLOCATION_FAILED
    assert machine.transactions["a"].result == "allocation_failed"
    assert machine.transactions["a"].reserved_rows == (capacity - 24) // 4 * 4
    assert machine.allocator.live_rows == 24
    check_invariants(machine, {30: machine.visible})

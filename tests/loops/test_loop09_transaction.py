"""Loop 9 beyond its suites: a real model's shape, other stories and strategies, and no input that crashes it."""

import contextlib
import copy
import random
from fractions import Fraction
from pathlib import Path

import pytest

from kvaudit.errors import ContractViolation
from kvaudit.evidence import schema
from kvaudit.evidence.declared import observe
from kvaudit.evidence.strict_json import parse_json
from kvaudit.loops import loop02_visibility, loop09_transaction
from kvaudit.policies.receipts import Reason
from kvaudit.suite.entry import redeclared

LOOP = loop09_transaction.LOOP
ROOT = Path(__file__).parents[2]
SHIPPED = parse_json((ROOT / "fixtures" / LOOP.id / "fixture.json").read_bytes())
LOOP02 = parse_json((ROOT / "fixtures" / "loop02_visibility" / "fixture.json").read_bytes())
MEMBERS = ("worker", "transaction", "refused", "failed_call")


def action(event):
    return next(name for name in event if name not in MEMBERS)


def at(fixture, transaction, wanted, number=0):
    """The place of the n-th event of a kind."""
    places = [
        index
        for index, event in enumerate(fixture["events"])
        if event["transaction"] == transaction and action(event) == wanted
    ]
    return places[number]


def receipt(fixture, transaction, wanted, number=0):
    return fixture["events"][at(fixture, transaction, wanted, number)][wanted]


def violation(fixture):
    with pytest.raises(ContractViolation) as caught:
        observe(LOOP, fixture)
    return caught.value.diagnostic.code, caught.value.pointer


def group(result, **counted):
    names = ("transactions", "no_op_receipts", "reserved_rows", "copied_rows", "discarded_rows", "released_rows")
    return {"policy_generation": 7, "result": result, **{name: counted.get(name, 0) for name in names}}


def positions_of(selected):
    return [position for heads in selected for positions in heads for position in positions]


def alone():
    """The shipped story reduced to the accepted transaction."""
    fixture = copy.deepcopy(SHIPPED)
    fixture["events"] = [
        event
        for event in fixture["events"][: at(fixture, "txn-a", "export_handoffs") + 1]
        if (event["transaction"] == "txn-a" and event["refused"] is None) or action(event) == "append"
    ]
    fixture["rollbacks"] = {}
    fixture["counters"] = {
        "issued_state_generations": 1,
        "refused_operations": 0,
        "exported_handoffs": 3,
        "by_policy_and_result": [
            group("published", transactions=1, reserved_rows=16, copied_rows=16, released_rows=24),
        ],
    }
    return fixture


def shaped(layers, query_heads, kv_heads, head_dimension, frontier, parent, selected, origin=0):
    """One accepted transaction of another shape; its numbers come from plain sums here."""
    fixture = alone()
    shape = {"layers": layers, "query_heads": query_heads, "kv_heads": kv_heads, "head_dimension": head_dimension}
    fixture["cache_abi"].update(shape)
    head_map = [head * kv_heads // query_heads for head in range(query_heads)]
    fixture["manifest"]["tensor_contract"].update(shape, q_to_kv_head_map=head_map)
    fixture["manifest"]["selection_contract"]["maximum_rows"] = len(selected[0][0])
    fixture["update_strategy"]["compaction_trigger_rows"] = len(parent[0][0])
    row = 4 * head_dimension
    lengths = [len(positions) for heads in selected for positions in heads]
    rows, before = sum(lengths), sum(len(positions) for heads in parent for positions in heads)
    peak = (before + rows) * row + 1024 + 2048 + 512
    fixture["allocator"]["capacity_rows"] = before + rows
    fixture["source_history"].update(begin=origin, end=frontier + 1)
    fixture["parent_state"].update(
        position_origin=origin, committed_frontier=frontier, selected_original_positions=parent
    )
    accepted = {"position": frontier, "parent_cache_generation": 500, "cache_generation": 501, "committed": True}
    fixture["events"][0]["append"] = accepted
    changes = {
        "begin": {"expected": {**receipt(fixture, "txn-a", "begin")["expected"], "committed_frontier": frontier}},
        "append_committed": {"receipts": [accepted], "committed_frontier": frontier + 1},
        "score": {"observed_frontier": frontier + 1},
        "protect": {"protected_original_positions": [origin, frontier]},
        "select": {"selected_original_positions": selected},
        "validate": {"owner_lengths": lengths},
        "backend_admit": {"owner_lengths": lengths, "materialized_rows": rows},
        "pack": {
            "owner_lengths": lengths,
            "copied_rows": rows,
            "original_position_map": positions_of(selected),
        },
        "publish": {
            "parent_frontier": frontier,
            "committed_frontier": frontier + 1,
            "published_layers": list(range(layers)),
        },
        "release_parent": {"released_rows": before},
    }
    for phase, change in changes.items():
        receipt(fixture, "txn-a", phase).update(change)
    reserve = receipt(fixture, "txn-a", "allocator_reserve")
    reserve["scheduler_admission"].update(peak_bytes=peak, compaction_bytes=2 * rows * row)
    reserve["allocation"].update(owner_lengths=lengths, fresh_rows=rows)
    handoffs = receipt(fixture, "txn-a", "export_handoffs")
    handoffs["scheduler"].update(
        persistent_payload_bytes=rows * row, transaction_peak_bytes=peak, compaction_bytes=2 * rows * row
    )
    handoffs["recovery"]["source_frontier"] = frontier + 1
    handoffs["transfer"]["payload_bytes"] = rows * row
    fixture["counters"]["by_policy_and_result"] = [
        group("published", transactions=1, reserved_rows=rows, copied_rows=rows, released_rows=before)
    ]
    return redeclared(LOOP, fixture)


def test_the_accepted_transaction_alone():
    evidence = observe(LOOP, redeclared(LOOP, alone()))
    assert {row.name: int(row.value) for row in evidence.ledgers} == SHIPPED["declared"]["ledgers"]
    assert evidence.results["final"] == {
        "visible_state_generation": 31,
        "cache_generation": 501,
        "decode_ready": True,
        "live_rows": 16,
        "unowned_rows": 0,
    }
    assert len(evidence.snapshots) == 12
    assert [snapshot.published for snapshot in evidence.snapshots] == [False] * 9 + [True] * 3


def test_a_real_models_shape():
    """Llama-3.1-8B: 32 layers, 8 K/V heads, d_h 128; 131,071 rows, 64 of 256 kept by each of 256 owners."""
    frontier, owners = 131_071, 32 * 8
    parent = [[[0, *range(500, 500 + 254), frontier - 1]] * 8] * 32
    selected = [[[0, *range(600, 600 + 62), frontier]] * 8] * 32
    fixture = shaped(32, 32, 8, 128, frontier, parent, selected)
    assert schema.defects(LOOP.fixture_schema, fixture) == ()
    evidence = observe(LOOP, fixture)
    ledgers = {row.name: row.value for row in evidence.ledgers}
    assert ledgers["parent_payload"] == owners * 256 * 512
    assert ledgers["successor_payload"] == owners * 64 * 512
    assert ledgers["transaction_peak"] == owners * (256 + 64) * 512 + 3584
    assert ledgers["compaction_traffic"] == 2 * owners * 64 * 512
    assert evidence.results["compaction_amplification"] == 128
    assert evidence.results["backend"]["dense_rows"] == owners * 131_072
    assert evidence.results["phases"]["pack"]["calls"] == owners + 1
    assert evidence.results["budget"]["successor_owner_lengths"]["count"] == owners
    for phase in evidence.results["failure_injection"].values():
        for outcome in phase.values():
            assert outcome["visible_rows"] in (owners * 256, owners * 64)
            assert outcome["unowned_rows"] == 0


def test_a_moved_origin():
    parent, selected = [[[100, 104, 107]]], [[[100, 108]]]
    evidence = observe(LOOP, shaped(1, 2, 1, 8, 108, parent, selected, origin=100))
    assert evidence.results["backend"]["dense_rows"] == 9
    assert evidence.results["churn_by_owner"] == [Fraction(3, 4)]


@pytest.mark.parametrize(
    ("cadence", "kind", "epoch", "scores"),
    [("every_decode_step", "performed", 13, 1), ("static", "no_op", 12, 0), ("learned_transition", "no_op", 12, 0)],
)
def test_the_other_update_strategies(cadence, kind, epoch, scores):
    parent = [[[0, 5, 8, 11]]]
    fixture = shaped(1, 2, 1, 8, 12, parent, [[[0, 5, 8, 12]]])
    fixture["manifest"]["selection_contract"]["update_cadence"] = cadence
    fixture["update_strategy"] = {"cadence": cadence, "compaction_trigger_rows": None}
    evidence_id = "attention-501-a" if scores else "attention-498"
    receipt(fixture, "txn-a", "score").update(
        kind=kind, update_strategy=cadence, decision_epoch=epoch, evidence_receipt_id=evidence_id
    )
    receipt(fixture, "txn-a", "select").update(decision_epoch=epoch, evidence_receipt_id=evidence_id)
    receipt(fixture, "txn-a", "publish")["evidence_receipt_id"] = evidence_id
    fixture["counters"]["by_policy_and_result"][0]["no_op_receipts"] = 1 - scores
    evidence = observe(LOOP, redeclared(LOOP, fixture))
    assert evidence.results["phases"]["score"]["kind"] == kind
    strategies = evidence.results["update_strategies"]
    assert [name for name, strategy in strategies.items() if strategy["declared"]] == [cadence]
    assert strategies["periodic"]["copied_rows_a_cycle"] is None  # no trigger, no cycle


@pytest.mark.parametrize(("scope", "maximum", "trigger"), [("per_layer", 8, 12), ("global", 16, 24)])
def test_a_budget_that_owners_share(scope, maximum, trigger):
    fixture = alone()
    fixture["manifest"]["selection_contract"].update(budget_scope=scope, maximum_rows=maximum)
    fixture["update_strategy"]["compaction_trigger_rows"] = trigger
    evidence = observe(LOOP, redeclared(LOOP, fixture))
    assert evidence.results["update_strategies"]["periodic"]["copied_rows_a_cycle"] is None
    fixture["manifest"]["selection_contract"]["maximum_rows"] = maximum - 1
    found = violation(loop09_transaction.refresh_digests(fixture))
    unit = "/0" if scope == "per_layer" else ""
    place = f"/events/{at(fixture, 'txn-a', 'select')}/select/selected_original_positions{unit}"
    assert found == ("transaction.row-budget-exceeded", place)


def test_a_transaction_without_history_or_accepted_row():
    """Nothing appended, no source history: a no-op chain, an irrecoverable label, no denominator for amplification."""
    fixture = alone()
    fixture["source_history"] = None
    del fixture["events"][0]
    changes = {
        "append_committed": {"kind": "no_op", "receipts": [], "cache_generation": 500, "committed_frontier": 63},
        "score": {
            "kind": "no_op",
            "decision_epoch": 12,
            "observed_frontier": 63,
            "observed_cache_generation": 500,
            "evidence_receipt_id": "attention-498",
        },
        "protect": {"protected_original_positions": [0, 62]},
        "select": {
            "kind": "no_op",
            "decision_epoch": 12,
            "evidence_receipt_id": "attention-498",
            "selected_original_positions": fixture["parent_state"]["selected_original_positions"],
        },
        "validate": {"owner_lengths": [6] * 4},
        "backend_admit": {"owner_lengths": [6] * 4, "materialized_rows": 24},
        "pack": {
            "kind": "no_op",
            "owner_lengths": [6] * 4,
            "copied_rows": 0,
            "original_position_map": positions_of(fixture["parent_state"]["selected_original_positions"]),
        },
        "publish": {"cache_generation": 500, "committed_frontier": 63, "evidence_receipt_id": "attention-498"},
        "release_parent": {"released_rows": 0},
    }
    for phase, change in changes.items():
        receipt(fixture, "txn-a", phase).update(change)
    reserve = receipt(fixture, "txn-a", "allocator_reserve")
    reserve["scheduler_admission"].update(peak_bytes=6144 + 3584, compaction_bytes=0)
    reserve["allocation"].update(successor_cache_generation=500, owner_lengths=[6] * 4, fresh_rows=0)
    handoffs = receipt(fixture, "txn-a", "export_handoffs")
    handoffs["scheduler"].update(persistent_payload_bytes=6144, transaction_peak_bytes=6144 + 3584, compaction_bytes=0)
    handoffs["recovery"].update(
        source_frontier=63,
        omitted_state_class="omitted_irrecoverable",
        source_history_contract_id=None,
        retrieval_plan_id=None,
    )
    handoffs["transfer"].update(cache_generation=500, payload_bytes=6144)
    fixture["counters"]["by_policy_and_result"] = [group("published", transactions=1, no_op_receipts=4)]
    evidence = observe(LOOP, redeclared(LOOP, fixture))
    assert evidence.results["compaction_amplification"] is None
    assert evidence.results["newly_admitted_bytes"] == 0
    assert evidence.results["churn_by_owner"] == [0] * 4
    assert evidence.results["retry_after_rejection"]["accepted_with_equality"] is True


def compensated_story():
    """A later transaction fails in its export; another worker publishes a compensating successor."""
    fixture = alone()
    row = {"position": 64, "parent_cache_generation": 501, "cache_generation": 502, "committed": True}
    before = copy.deepcopy(fixture["events"])
    late = [copy.deepcopy(event) for event in SHIPPED["events"] if event["transaction"] == "txn-c"]
    for event in late:
        event.update(worker="worker-c", transaction="txn-c")
    late[0]["begin"]["issued_state_generation"] = 32
    late[-1]["backend_admit"].update(
        explicit_original_positions=True, materialized_rows=20, admitted=True, fallback=None
    )
    model = {action(event): event[action(event)] for event in before}
    owners = late[4]["select"]["selected_original_positions"]
    reserve = copy.deepcopy(model["allocator_reserve"])
    peak = 4096 + 1024 + 3584
    reserve["scheduler_admission"].update(
        transaction="txn-c", state_generation=32, peak_bytes=peak, compaction_bytes=2048
    )
    reserve["allocation"].update(
        transaction="txn-c",
        parent_state_generation=31,
        successor_cache_generation=502,
        owner_lengths=[5] * 4,
        fresh_rows=4,
    )
    pack = {
        **model["pack"],
        "owner_lengths": [5] * 4,
        "copied_rows": 4,
        "original_position_map": positions_of(owners),
    }
    publish = {
        **model["publish"],
        "parent_state_generation": 31,
        "parent_cache_generation": 501,
        "parent_frontier": 64,
        "state_generation": 32,
        "cache_generation": 502,
        "committed_frontier": 65,
        "capability_receipt_id": "capability-c",
    }
    handoffs = copy.deepcopy(model["export_handoffs"])
    handoffs["scheduler"].update(
        state_generation=32, persistent_payload_bytes=20 * 256, transaction_peak_bytes=peak, compaction_bytes=2048
    )
    handoffs["recovery"].update(state_generation=32, source_frontier=65)
    handoffs["transfer"].update(state_generation=32, cache_generation=502, payload_bytes=20 * 256)
    released = {"kind": "performed", "released_state_generation": 31, "released_rows": 0}

    def of(name, kind, document, failed=None):
        worker = "worker-c" if name == "txn-c" else "worker-d"
        return {"worker": worker, "transaction": name, "refused": None, "failed_call": failed, kind: document}

    again = copy.deepcopy(handoffs)
    again["scheduler"].update(state_generation=33, transaction_peak_bytes=5120 + 3584, compaction_bytes=0)
    again["recovery"]["state_generation"] = 33
    digest = loop09_transaction.packed_view_sha256(
        loop09_transaction.manifest_sha256(SHIPPED["manifest"]), 11, 7, 33, 502, owners
    )
    again["transfer"].update(state_generation=33, packed_view_sha256=digest)
    fixture["events"] += [
        {"worker": "cache", "transaction": None, "refused": None, "failed_call": None, "append": row},
        *late,
        of("txn-c", "allocator_reserve", reserve),
        of("txn-c", "pack", pack),
        of("txn-c", "publish", publish),
        of("txn-c", "release_parent", released),
        of("txn-c", "export_handoffs", handoffs, {"call": "recovery.export", "occurrence": 1}),
        of(
            "txn-d",
            "compensate",
            {"failed_transaction": "txn-c", "issued_state_generation": 33, "packed_view_sha256": digest},
        ),
        of("txn-d", "release_parent", {**released, "released_state_generation": 32}),
        of("txn-d", "export_handoffs", again),
    ]
    fixture["counters"].update(
        issued_state_generations=3,
        exported_handoffs=3 + 1 + 3,
        by_policy_and_result=[
            group("compensated", transactions=1, no_op_receipts=2, reserved_rows=4, copied_rows=4),
            group("published", transactions=2, reserved_rows=16, copied_rows=16, released_rows=24),
        ],
    )
    return fixture


STORY = redeclared(LOOP, compensated_story())


def test_a_failure_behind_publication_is_compensated():
    fixture = STORY
    assert schema.defects(LOOP.fixture_schema, fixture) == ()
    evidence = observe(LOOP, fixture)
    assert evidence.results["transactions"]["txn-c"]["result"] == "compensated"
    assert evidence.results["final"] == {
        "visible_state_generation": 33,
        "cache_generation": 502,
        "decode_ready": True,
        "live_rows": 20,
        "unowned_rows": 0,
    }


def test_the_receipt_of_a_compensation_is_checked():
    fixture = STORY
    place = f"/events/{at(fixture, 'txn-d', 'compensate')}/compensate"
    wrong = copy.deepcopy(fixture)
    receipt(wrong, "txn-d", "compensate")["packed_view_sha256"] = "0" * 64
    assert violation(wrong) == ("transaction.packed-view-digest-mismatch", place + "/packed_view_sha256")
    wrong = copy.deepcopy(fixture)
    receipt(wrong, "txn-d", "compensate")["issued_state_generation"] = 32
    assert violation(wrong) == ("transaction.state-generation-reissued", place + "/issued_state_generation")


@pytest.mark.parametrize(
    ("phase", "call", "occurrences"),
    [("allocator_reserve", "allocator.reserve_blocks", 4), ("pack", "allocator.copy_rows", 4)],
)
def test_a_failure_that_the_events_record(phase, call, occurrences):
    """The second worker fails while it reserves or packs an owner; its rollback gives back what it had."""
    for occurrence in range(1, occurrences + 1):
        fixture = copy.deepcopy(SHIPPED)
        failing = at(fixture, "txn-b", phase)
        fixture["events"][failing]["failed_call"] = {"call": call, "occurrence": occurrence}
        fixture["events"] = [
            event
            for index, event in enumerate(fixture["events"])
            if index <= failing or event["transaction"] != "txn-b"
        ]
        reserved = 4 * (occurrence - 1) if phase == "allocator_reserve" else 16
        copied = 4 * (occurrence - 1) if phase == "pack" else 0
        fixture["rollbacks"]["txn-b"].update(
            result="failed", cause=call, discarded_rows=reserved, visible_state_generation=30, visible_rows=24
        )
        fixture["counters"]["refused_operations"] = 1
        groups = fixture["counters"]["by_policy_and_result"]
        groups[2] = group("failed", transactions=1, reserved_rows=reserved, copied_rows=copied, discarded_rows=reserved)
        groups.sort(key=lambda each: each["result"])
        evidence = observe(LOOP, redeclared(LOOP, fixture))
        assert evidence.results["transactions"]["txn-b"]["result"] == "failed"
        assert evidence.results["final"]["unowned_rows"] == 0


def test_the_hard_stop_in_the_report():
    """Until the compare and swap every failure leaves the parent, whole; behind it the successor, whole."""
    injected = SHIPPED["declared"]["results"]["failure_injection"]
    for number, (phase, outcomes) in enumerate(injected.items()):
        published = number > 9
        for outcome in outcomes.values():
            assert outcome["visible_state_generation"] == (31 if published else 30), phase
            assert outcome["visible_rows"] == (16 if published else 24)
            assert outcome["unowned_rows"] == 0
            assert not outcome["decode_ready"]
            assert (outcome["compensating_state_generation"] is not None) == published


def test_both_workers_may_win():
    """The order of the two publications decides, not the order in which the workers began."""
    fixture = copy.deepcopy(SHIPPED)
    first, second = at(fixture, "txn-a", "publish"), at(fixture, "txn-b", "publish")
    events = fixture["events"]
    events[first], events[second] = events[second], events[first]
    assert violation(fixture) == ("transaction.outcome-mismatch", f"/events/{first}/refused")
    events[first]["refused"] = None
    assert violation(fixture) == ("transaction.stale-generation", f"/events/{second}/publish")


def test_every_refusal_has_a_diagnostic_of_its_own():
    assert set(loop09_transaction.REFUSALS) == set(Reason)
    codes = [diagnostic.code for diagnostic in loop09_transaction.DIAGNOSTICS]
    assert len(set(codes)) == len(codes)


def test_the_manifest_is_of_loop_2s_schema_and_of_another_identity():
    """The two loops share schema, ten identity fields and policy generation; not the tensor, hence not the digest."""
    assert loop02_visibility.IDENTITY_FIELDS == loop09_transaction.IDENTITY_FIELDS
    assert schema.defects(loop02_visibility.LOOP.fixture_schema, {**LOOP02, "manifest": SHIPPED["manifest"]}) == ()
    for member in ("schema_version", "policy_generation"):
        assert LOOP02["manifest"][member] == SHIPPED["manifest"][member]
    ours = loop09_transaction.manifest_sha256(SHIPPED["manifest"])
    assert ours == loop02_visibility.manifest_sha256(SHIPPED["manifest"])
    assert ours != loop02_visibility.manifest_sha256(LOOP02["manifest"])


def test_one_selected_row_changes_the_packed_view():
    identity = ("m" * 64, 11, 7, 31, 501)
    one = loop09_transaction.packed_view_sha256(*identity, [[[0, 18, 63]]])
    assert one != loop09_transaction.packed_view_sha256(*identity, [[[0, 19, 63]]])
    for index in range(5):
        moved = [*identity]
        moved[index] = "n" * 64 if index == 0 else identity[index] + 1
        assert one != loop09_transaction.packed_view_sha256(*moved, [[[0, 18, 63]]])


@pytest.mark.parametrize("index", range(len(SHIPPED["events"])))
def test_no_event_can_be_left_out_or_repeated(index):
    """Every event counts: without it, or with it twice, the story is another one."""
    shorter, longer = copy.deepcopy(SHIPPED), copy.deepcopy(SHIPPED)
    del shorter["events"][index]
    longer["events"].insert(index, copy.deepcopy(SHIPPED["events"][index]))
    refused = SHIPPED["events"][index]["refused"] == "parent_still_read"
    for fixture in (shorter, longer):
        code, _ = violation(loop09_transaction.refresh_digests(fixture))
        assert code != "transaction.declared-drift"
        if refused:
            assert code == "transaction.counter-mismatch"


def places(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in items:
        yield from places(member, (*path, key))


def member(document, path):
    for part in path:
        document = document[part]
    return document


@pytest.mark.parametrize("seed", range(400))
def test_no_valid_document_crashes_the_oracle(seed):
    """One to three random edits; if the schema lets them pass, the oracle answers or names a contract."""
    choose = random.Random(seed)
    fixture = copy.deepcopy(SHIPPED if seed % 4 else STORY)
    del fixture["declared"]
    for _ in range(choose.randint(1, 3)):
        path = choose.choice([path for path in places(fixture) if path])
        parent, value = member(fixture, path[:-1]), member(fixture, path)
        if isinstance(value, bool):
            parent[path[-1]] = not value
        elif isinstance(value, int):
            parent[path[-1]] = choose.choice([0, 1, value + 1, max(0, value - 1), 2 * value, 10**6])
        elif isinstance(value, list):
            edits = [[], value[:-1], value + value[-1:], value[::-1], choose.sample(value, len(value))]
            parent[path[-1]] = choose.choice(edits)
        elif value is None:
            parent[path[-1]] = choose.choice(
                ["stale_generation", "txn-a", {"call": "allocator.copy_rows", "occurrence": 2}]
            )
        elif isinstance(value, str):
            parent[path[-1]] = choose.choice(["txn-a", "txn-b", "no_op", "every_decode_step", "static", value + "x"])
        elif isinstance(parent, dict) and choose.random() < 0.3:
            parent[path[-1]] = None
    fixture["declared"] = SHIPPED["declared"]
    if schema.defects(LOOP.fixture_schema, fixture):
        return
    refreshed = loop09_transaction.refresh_digests(fixture) if choose.random() < 0.8 else fixture
    with contextlib.suppress(ContractViolation):
        observe(LOOP, refreshed)

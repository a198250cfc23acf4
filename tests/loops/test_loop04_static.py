"""Loop 4 beyond its suites: real shapes, other designs and traces, and no input that crashes or stalls it."""

import copy
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvaudit.errors import ContractViolation
from kvaudit.evidence import schema
from kvaudit.evidence.declared import declared, observe
from kvaudit.evidence.strict_json import parse_json
from kvaudit.loops import loop04_static as loop04
from kvaudit.suite.entry import redeclared

LOOP = loop04.LOOP
ROOT = Path(__file__).parents[2]
SHIPPED = parse_json((ROOT / "fixtures" / LOOP.id / "fixture.json").read_bytes())
POLICIES = ("full", "sliding_window", "sink_recent")


def spans(positions):
    """Half-open intervals of ascending positions, by a plain loop."""
    found = []
    for position in positions:
        if found and found[-1][1] == position:
            found[-1][1] = position + 1
        else:
            found.append([position, position + 1])
    return found


class Runtime:
    """A serving loop that keeps three caches as lists, and writes down receipts as it goes."""

    def __init__(self, window_rows, sink_rows, recent_rows):
        self.widths = window_rows, sink_rows, recent_rows
        self.frontier, self.generation, self.parent = 0, 100, None
        self.states = {}
        self.events = []
        self.held = {policy: [] for policy in POLICIES}
        self.note("origin", "origin", [], None, {policy: [] for policy in POLICIES}, True)

    def cut(self, held):
        window_rows, sink_rows, recent_rows = self.widths
        newest = len(held["full"]) - 1
        return {
            "full": held["full"],
            "sliding_window": held["sliding_window"][-window_rows:],
            "sink_recent": [p for p in held["sink_recent"] if p < sink_rows or p > newest - recent_rows],
        }

    def note(self, name, kind, rows, content, before, published):
        after = self.cut({policy: before[policy] + rows for policy in POLICIES})
        committed = before["full"] + rows
        views = {
            policy: {
                "selected": spans(after[policy]),
                "omitted_from_source": spans(sorted(set(committed) - set(after[policy]))),
                "removed_from_parent": spans(sorted(set(before[policy]) - set(after[policy]))),
            }
            for policy in POLICIES
        }
        parent = self.parent
        event = {
            "event": name,
            "kind": kind,
            "appended": spans(rows),
            "content_id": content,
            "cache_generation": self.generation,
            "state_generation": self.generation - 100,
            "parent_cache_generation": None if parent is None else parent["cache_generation"],
            "parent_state_generation": None if parent is None else parent["state_generation"],
            "frontier": len(committed),
            "published": published,
            "views": views,
        }
        self.events.append(event)
        if published:
            self.parent, self.held, self.frontier = event, after, len(committed)
        return event

    def append(self, rows, kind="publish"):
        self.generation += 1
        name = f"{kind}_{self.generation}"
        fresh = list(range(self.frontier, self.frontier + rows))
        return self.note(name, kind, fresh, f"rows-{self.generation}", self.held, kind == "publish")

    def publish_candidate(self):
        staged = self.events[-1]
        rows = [position for begin, end in staged["appended"] for position in range(begin, end)]
        return self.note(f"commit_{self.generation}", "publish", rows, staged["content_id"], self.held, True)

    def cancel(self):
        restored = {**copy.deepcopy(self.parent), "event": f"cancel_{self.generation}", "kind": "cancel"}
        self.events.append({**restored, "appended": [], "content_id": None})


def row_counts(held):
    return {policy: len(held[policy]) for policy in POLICIES}


def fixture_of(window_rows, sink_rows, recent_rows, prompt, decode, chunks):
    """A valid fixture of other widths and lengths, written down by `Runtime` and not by the code under test."""
    fixture = copy.deepcopy(SHIPPED)
    fixture["policies"]["sliding_window"]["window_rows"] = window_rows
    fixture["policies"]["sink_recent"].update(sink_rows=sink_rows, recent_rows=recent_rows)
    runtime = Runtime(window_rows, sink_rows, recent_rows)
    runtime.append(prompt)
    views = runtime.events[-1]["views"]
    fixture["prompt_handoff"] = {
        "event": runtime.events[-1]["event"],
        "prompt_rows": prompt,
        "source": [[0, prompt]],
        **{
            policy: {
                "design": "materialise_then_publish",
                "published": views[policy]["selected"],
                "release_intent": views[policy]["omitted_from_source"],
            }
            for policy in POLICIES[1:]
        },
    }
    final = {policy: views[policy]["selected"] for policy in POLICIES}
    fixture["chunked_prefill"] = {"chunks": {"chunk_rows": chunks, "final_views": final}}
    fixture["decode_steps"] = []
    for _ in range(decode):
        history = row_counts(runtime.held)
        window = min(window_rows, runtime.frontier + 1)
        runtime.append(1)
        work = {
            "recompute_rows": window,
            "recompute_pairs": sum(range(window + 1)),
            "retained_rows": 1,
            "retained_pairs": len(runtime.held["sink_recent"]),
        }
        step = {"history_frontier": runtime.frontier - 1, "history_rows": history, "work": work}
        fixture["decode_steps"].append(step)
    fixture["events"] = runtime.events
    return finish(fixture, runtime)


def finish(fixture, runtime):
    window_rows, sink_rows, recent_rows = runtime.widths
    capacity = sink_rows + recent_rows
    table = []
    for frontier in (0, 1, sink_rows, recent_rows, capacity, capacity + 1, runtime.frontier):
        held = runtime.cut({policy: list(range(frontier)) for policy in POLICIES})
        overlap = set(range(frontier)[:sink_rows]) & set(range(frontier)[-recent_rows:])
        table.append(
            {
                "frontier": frontier,
                **{f"{policy}_rows": len(held[policy]) for policy in POLICIES},
                "overlap_rows": len(overlap),
                "sliding_window": spans(held["sliding_window"]),
                "sink_recent": spans(held["sink_recent"]),
            }
        )
    fixture["frontier_receipts"] = table
    fixture["landmarks"] = {"first_upper_bound": capacity, "first_middle_omission": capacity + 1}
    held, newest = runtime.held, runtime.frontier - 1
    fixture["ring"] = {
        "frontier": runtime.frontier,
        "rows": [{"original_position": newest, "slot": newest % window_rows, "attention_position": newest}],
    }
    fixture["attention_positions"] = {
        "absolute": {
            "policy": "sink_recent",
            "frontier": runtime.frontier,
            "key_stage": "post_rope_absolute",
            "attention_path": "stock",
            "original_positions": spans(held["sink_recent"]),
            "packed_rows": len(held["sink_recent"]),
            "key_attention_positions": spans(held["sink_recent"]),
            "query_attention_position": newest,
        }
    }
    asked = [
        {"original_position": position, "visible": {policy: position in held[policy] for policy in POLICIES}}
        for position in sorted({0, newest // 2, newest})
    ]
    fixture["delayed_reference"] = {"frontier": runtime.frontier, "references": asked, "task_quality": None}
    fixture["contract_variants"] = {}
    return redeclared(LOOP, fixture)


def trace_of(runtime):
    """The shipped fixture with another trace; its prompt has four rows and its widths are the shipped ones."""
    fixture = copy.deepcopy(SHIPPED)
    fixture["events"] = runtime.events
    published = [event for event in runtime.events if event["kind"] == "publish"]
    fixture["prompt_handoff"]["event"] = next(event["event"] for event in published if event["frontier"] == 4)
    return redeclared(LOOP, fixture)


def shipped_runtime(prompt=4):
    runtime = Runtime(3, 2, 3)
    if prompt:
        runtime.append(prompt)
    return runtime


def violation(fixture):
    with pytest.raises(ContractViolation) as caught:
        observe(LOOP, fixture)
    return caught.value.diagnostic.code, caught.value.pointer


def test_a_real_models_shape():
    """131,072 prompt positions in chunks of 512, a window of 4,096, four sinks; 32 layers, 8 K/V heads, d 128."""
    fixture = fixture_of(4096, 4, 4092, 131_072, 3, [512] * 256)
    assert schema.defects(LOOP.fixture_schema, fixture) == ()
    evidence = observe(LOOP, fixture)
    ledgers = {row.name: row.value for row in evidence.ledgers}
    assert ledgers == {
        "cached_history_read_full": (131_072 + 131_073 + 131_074) * 131_072,
        "cached_history_read_window": 3 * 2**29,  # 4,096 rows of 128 KiB are 512 MiB
        "cached_history_read_sink_recent": 3 * 2**29,
        "recompute_rows_projected": 3 * 4096,
        "recompute_pairs": 3 * 4096 * 4097 // 2,
        "retained_rows_projected": 3,
        "retained_pairs": 3 * 4096,
    }
    handoff = evidence.results["prompt_handoff"]
    assert handoff["sliding_window"]["release_intent"]["materialise_then_publish"] == [[0, 126_976]]
    assert handoff["sink_recent"]["published"] == [[0, 4], [126_980, 131_072]]
    assert evidence.results["chunked_prefill"]["chunks"]["window_if_restarted_in_each_chunk"] == [[130_560, 131_072]]
    counts = [snapshot.selected_row_count for snapshot in evidence.snapshots]
    assert counts == [0, 0, 0, 131_072, 4096, 4096, 131_073, 4096, 4096, 131_074, 4096, 4096, 131_075, 4096, 4096]
    assert list(evidence.snapshots[5].selected_original_positions[:5]) == [0, 1, 2, 3, 126_980]


@given(st.integers(1, 9), st.integers(1, 6), st.integers(1, 9), st.integers(1, 30), st.integers(0, 6))
def test_any_widths_and_any_prompt(window_rows, sink_rows, recent_rows, prompt, decode):
    """What a runtime with lists writes down is accepted: warm-up, early overlap, rollover, saturation."""
    fixture = fixture_of(window_rows, sink_rows, recent_rows, prompt, decode, [1] * prompt)
    assert schema.defects(LOOP.fixture_schema, fixture) == ()
    evidence = observe(LOOP, fixture)
    assert len(evidence.snapshots) == 3 * (2 + decode)


def test_a_million_positions_cost_no_more_than_eight():
    """No contract walks the positions: a view is one or two intervals."""
    fixture = copy.deepcopy(SHIPPED)
    frontier = 10**6
    fixture["frontier_receipts"].append(
        {
            "frontier": frontier,
            "full_rows": frontier,
            "sliding_window_rows": 3,
            "sink_recent_rows": 5,
            "overlap_rows": 0,
            "sliding_window": [[frontier - 3, frontier]],
            "sink_recent": [[0, 2], [frontier - 3, frontier]],
        }
    )
    last = fixture["events"][-1]
    last.update(appended=[[7, frontier]], frontier=frontier)
    last["views"] = {
        "full": {"selected": [[0, frontier]], "omitted_from_source": [], "removed_from_parent": []},
        "sliding_window": {
            "selected": [[frontier - 3, frontier]],
            "omitted_from_source": [[0, frontier - 3]],
            "removed_from_parent": [[4, 7]],
        },
        "sink_recent": {
            "selected": [[0, 2], [frontier - 3, frontier]],
            "omitted_from_source": [[2, frontier - 3]],
            "removed_from_parent": [[4, 7]],
        },
    }
    evidence = loop04.oracle(fixture)
    assert isinstance(evidence.snapshots[-3].selected_original_positions, range)
    assert evidence.results["frontiers"][-1]["full_rows"] == frontier


def test_several_rows_in_one_append_are_omitted_without_having_been_removed():
    """From frontier 4 to 10 the window loses 1 to 3; 4 to 6 were never published, so no reader had them."""
    runtime = shipped_runtime()
    event = runtime.append(6)
    evidence = observe(LOOP, trace_of(runtime))
    window = evidence.results["events"][event["event"]]["views"]["sliding_window"]
    assert window == {
        "selected": [[7, 10]],
        "omitted_from_source": [[0, 7]],
        "removed_from_parent": [[1, 4]],
    }


def test_a_prompt_row_of_a_published_chunk_is_removed_from_a_view():
    """Published whole, the prompt omits row 0 and removes nothing; published in halves, readers have had row 0."""
    runtime = shipped_runtime(prompt=0)
    runtime.append(2)
    runtime.append(2)
    handoff = observe(LOOP, trace_of(runtime)).results["prompt_handoff"]["sliding_window"]
    whole = SHIPPED["declared"]["results"]["prompt_handoff"]["sliding_window"]
    assert (handoff["omitted_from_source"], handoff["removed_from_parent"]) == ([[0, 1]], [[0, 1]])
    assert (whole["omitted_from_source"], whole["removed_from_parent"]) == ([[0, 1]], [])
    assert handoff["published"] == whole["published"] == [[1, 4]]


def test_a_candidate_may_be_published_as_it_was_staged():
    runtime = shipped_runtime()
    runtime.append(1, "stage")
    runtime.publish_candidate()
    runtime.append(1)
    fixture = trace_of(runtime)
    assert observe(LOOP, fixture).results["cancellations"] == []
    for name, value in (("content_id", "rows-9"), ("state_generation", 3), ("appended", [[4, 6]])):
        changed = copy.deepcopy(fixture)
        changed["events"][3][name] = value
        assert violation(changed) == ("static.candidate-pending", f"/events/3/{name}")


def test_a_staged_prompt_is_handed_off_when_it_is_published():
    runtime = shipped_runtime(prompt=0)
    staged = runtime.append(4, "stage")
    runtime.publish_candidate()
    fixture = trace_of(runtime)
    assert observe(LOOP, fixture).results["prompt_handoff"]["sliding_window"]["published"] == [[1, 4]]
    fixture["prompt_handoff"]["event"] = staged["event"]
    assert violation(fixture) == ("static.handoff-prompt-mismatch", "/prompt_handoff/event")


def test_a_second_stage_waits_for_the_first():
    runtime = shipped_runtime()
    runtime.append(1, "stage")
    fixture = trace_of(runtime)
    runtime.append(1, "stage")
    assert violation({**fixture, "events": runtime.events}) == ("static.candidate-pending", "/events/3/kind")


def test_two_cancels_in_a_row_restore_the_same_parent():
    runtime = shipped_runtime()
    for _ in range(2):
        runtime.append(1, "stage")
        runtime.cancel()
    first, second = observe(LOOP, trace_of(runtime)).results["cancellations"]
    assert first["restored"]["cache_generation"] == second["restored"]["cache_generation"] == 101
    assert first["resume"]["event"] == second["candidate"]["event"]
    assert first["cancelled_content_id"] != first["resumed_content_id"] == second["cancelled_content_id"]
    assert (second["resume"], second["resumed_content_id"]) == (None, None)


def test_a_cancelled_prompt_restores_the_empty_origin():
    runtime = shipped_runtime(prompt=0)
    runtime.append(4, "stage")
    runtime.cancel()
    runtime.append(4)
    (cancelled,) = observe(LOOP, trace_of(runtime)).results["cancellations"]
    assert cancelled["restored"]["views"] == {policy: [] for policy in POLICIES}
    assert cancelled["resume"]["cache_generation"] == 102


def test_a_cancelled_rows_content_stays_cancelled():
    """Not only the next append, but every later one."""
    runtime = shipped_runtime()
    stale = runtime.append(1, "stage")["content_id"]
    runtime.cancel()
    runtime.append(1)
    runtime.append(1)
    fixture = trace_of(runtime)
    fixture["events"][-1]["content_id"] = stale
    assert violation(fixture) == ("static.cancelled-content-published", "/events/5/content_id")


def test_architecture_local_attention_never_materialises_its_prompt():
    fixture = copy.deepcopy(SHIPPED)
    fixture["policies"]["sliding_window"].update(design="architecture_local", checkpoint="local-attention")
    fixture["prompt_handoff"]["sliding_window"].update(design="never_materialised", release_intent=[])
    fixture["contract_variants"]["architecture-local-window"]["claimed_as"] = "retention"
    evidence = observe(LOOP, redeclared(LOOP, fixture))
    assert evidence.results["contract_variants"]["architecture-local-window"]["differs_in"] == []
    assert evidence.results["prompt_handoff"]["sliding_window"]["published"] == [[1, 4]]
    fixture["checkpoints"]["local-attention"]["trained_window_rows"] = 4096
    assert violation(fixture) == ("static.local-window-mismatch", "/policies/sliding_window/window_rows")


def test_a_variant_that_differs_in_nothing_is_no_other_contract():
    fixture = copy.deepcopy(SHIPPED)
    fixture["contract_variants"]["repositioned-keys"]["contract"].update(
        key_stage="post_rope_absolute", attention_path="stock"
    )
    assert violation(fixture) == ("static.variant-misclaimed", "/contract_variants/repositioned-keys/claimed_as")


def test_a_ring_under_repositioned_keys_counts_from_its_oldest_row():
    """The window [5, 6, 7] is taken at 0, 1, 2, whatever slots its rows lie in."""
    fixture = copy.deepcopy(SHIPPED)
    fixture["policies"]["sliding_window"].update(key_stage="pre_rope_repositioned", attention_path="position_shift")
    for row, position in zip(fixture["ring"]["rows"], (0, 1, 2), strict=True):
        row["attention_position"] = position
    rows = observe(LOOP, redeclared(LOOP, fixture)).results["ring"]["rows"]
    assert [(row["original_position"], row["slot"], row["attention_position"]) for row in rows] == [
        (5, 2, 0),
        (6, 0, 1),
        (7, 1, 2),
    ]


def test_a_trained_sink_token_is_legal_over_a_checkpoint_that_has_it():
    fixture = copy.deepcopy(SHIPPED)
    fixture["checkpoints"]["sink-token"]["trained_sink_tokens"] = 2
    fixture["contract_variants"]["trained-sink-token"]["contract"]["sink_rows"] = 2
    fixture["policies"]["sink_recent"].update(checkpoint="sink-token", sink_kind="trained_sink_token")
    fixture["contract_variants"]["trained-sink-token"]["claimed_as"] = "retention"
    observe(LOOP, redeclared(LOOP, fixture))
    fixture["policies"]["sink_recent"]["sink_kind"] = "retained_rows"
    assert violation(fixture) == ("static.sink-kind-mismatch", "/policies/sink_recent/sink_kind")


@pytest.mark.parametrize(
    ("frontiers", "accepted"),
    [((4, 5, 6), True), ((4, 6, 7), False), ((4, 5, 7), False), ((0, 5, 6), False)],
)
def test_the_table_needs_an_overlap_the_upper_bound_and_the_first_omission(frontiers, accepted):
    fixture = copy.deepcopy(SHIPPED)
    fixture["frontier_receipts"] = [row for row in fixture["frontier_receipts"] if row["frontier"] in frontiers]
    found = outcome(fixture)
    assert (found is None) == accepted
    assert accepted or found.diagnostic.code == "static.early-frontiers-missing"


def test_snapshots_list_the_positions_of_every_state():
    """Three views an event, in the order of the events, published or not."""
    snapshots = loop04.oracle(SHIPPED).snapshots
    listed = [list(snapshot.selected_original_positions) for snapshot in snapshots]
    full, window, retained = listed[0::3], listed[1::3], listed[2::3]
    assert full == [list(range(frontier)) for frontier in (0, 4, 5, 6, 7, 6, 7, 8)]
    assert window == [[], [1, 2, 3], [2, 3, 4], [3, 4, 5], [4, 5, 6], [3, 4, 5], [4, 5, 6], [5, 6, 7]]
    assert retained[3:6] == [[0, 1, 3, 4, 5], [0, 1, 4, 5, 6], [0, 1, 3, 4, 5]]
    assert [snapshot.selected_row_count for snapshot in snapshots] == [len(positions) for positions in listed]
    assert [snapshot.published for snapshot in snapshots[2::3]] == [True] * 4 + [False] + [True] * 3


def test_publishing_a_staged_candidate_is_no_generation_collision():
    fixture = copy.deepcopy(SHIPPED)
    staged = {"kind": "stage", "cache_generation": 7, "state_generation": 3}
    other = {"appended": [], "parent_cache_generation": None, "parent_state_generation": None, "frontier": 0}
    events = [{"event": "s", "published": False, **staged, **other}]
    events.append({**events[0], "event": "p", "kind": "publish", "published": True})
    fixture["alternative_trace"]["events"] = events
    assert loop04.oracle(fixture).results["alternative_trace"]["generation_collisions"] == []
    events.append({**events[1], "event": "again"})
    assert loop04.oracle(fixture).results["alternative_trace"]["generation_collisions"] == [[7, 3]]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("member", ["selected", "omitted_from_source", "removed_from_parent"])
def test_every_wrong_position_of_every_receipt_is_found(policy, member):
    """A receipt with one position more or one less is rejected at its own place, whichever event it belongs to."""
    for index, event in enumerate(SHIPPED["events"]):
        right = {p for begin, end in event["views"][policy][member] for p in range(begin, end)}
        for position in range(9):
            fixture = copy.deepcopy(SHIPPED)
            fixture["events"][index]["views"][policy][member] = spans(sorted(right ^ {position}))
            assert violation(fixture)[1] == f"/events/{index}/views/{policy}/{member}"


def test_the_declared_object_is_the_recomputed_one():
    evidence = loop04.oracle(SHIPPED)
    assert declared(evidence)["ledgers"] == {name: int(v) for name, v in SHIPPED["declared"]["ledgers"].items()}


def test_the_report_tables_show_positions_and_not_exclusive_ends():
    evidence = loop04.oracle(SHIPPED)
    frontiers = loop04.tables({"results": evidence.results})[0]
    assert frontiers.rows[6] == ("6", "6", "3", "5", "0", "3..5", "0..1, 3..5")
    assert frontiers.rows[0][-1] == "none"


def places(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in items:
        yield from places(member, (*path, key))


def at(document, path):
    for step in path:
        document = document[step]
    return document


# Edits of declared results only ever meet the comparison, so the fuzz leaves them alone.
EDITABLE = [path for path in places(SHIPPED) if path and path[0] != "declared"]


@pytest.mark.parametrize("seed", range(600))
def test_no_valid_document_crashes_the_oracle(seed):
    """One to three random edits; if the schema lets them pass, the oracle answers or names a contract."""
    choose = random.Random(seed)
    fixture = copy.deepcopy(SHIPPED)
    touched = set()
    for _ in range(choose.randint(1, 3)):
        path = choose.choice(EDITABLE)
        touched.add(path[0])
        try:
            parent, value = at(fixture, path[:-1]), at(fixture, path)
        except (KeyError, IndexError, TypeError):
            continue  # an earlier edit removed the place
        if isinstance(value, bool):
            parent[path[-1]] = not value
        elif isinstance(value, int):
            parent[path[-1]] = choose.choice([0, 1, value + 1, max(0, value - 1), 2 * value, 10**6, 2**53 - 1])
        elif isinstance(value, list):
            parent[path[-1]] = choose.choice([[], value[:-1], value + value[-1:], value[::-1], [[5, 2]], [[0, 10**6]]])
        elif isinstance(value, str):
            parent[path[-1]] = choose.choice(["full", "architecture_local", "stage", "cancel", "publish", "stock"])
        elif value is None:
            parent[path[-1]] = choose.choice([0, 100, 3])
    if schema.member_defects(LOOP.fixture_schema, fixture, touched):
        return
    found = outcome(fixture)
    if found is not None:
        assert found.diagnostic in LOOP.diagnostics
        assert at_pointer(fixture, found.pointer)


def outcome(fixture):
    """The violation that the oracle raises, or None if it accepts the fixture; anything else fails the test."""
    try:
        loop04.oracle(fixture)
    except ContractViolation as found:
        return found
    return None


def at_pointer(document, place):
    """Whether a JSON pointer without escapes leads somewhere."""
    for part in place.split("/")[1:]:
        document = document[int(part)] if isinstance(document, list) else document[part]
    return True


INTEGERS = [path for path in EDITABLE if type(at(SHIPPED, path)) is int]


@pytest.mark.parametrize("change", [1, -1])
def test_every_integer_that_is_one_off_is_judged(change):
    """An integer that is one off passes the schema, breaks a contract at a place that exists, or is free to choose."""
    accepted = []
    for path in INTEGERS:
        fixture = copy.deepcopy(SHIPPED)
        at(fixture, path[:-1])[path[-1]] += change
        if at(fixture, path) < 0 or schema.member_defects(LOOP.fixture_schema, fixture, [path[0]]):
            continue
        found = outcome(fixture)
        if found is None:
            accepted.append(path)
        else:
            assert at_pointer(fixture, found.pointer)
    # Still valid is what asks another question without a wrong answer: widths of a variant or of the running shape, the
    # last generation issued, the alternative trace, a reservation or reference with the same outcome, an unused fact.
    questions = {"contract_variants", "running_shape", "alternative_trace", "checkpoints"}
    for path in accepted:
        assert path[0] in questions or path[-1] in {
            "cache_generation",
            "state_generation",
            "resident_rows",
            "sink_rows",
            "recent_rows",
            "frontier",
            "original_position",
        }

"""The cost oracle: a real model's shape by hand, other valid fixtures, the order of contracts, and fuzzed fixtures."""

import copy
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kvaudit.errors import ContractViolation
from kvaudit.evidence import canonical, schema
from kvaudit.evidence.declared import declared, observe
from kvaudit.evidence.text import DEFAULT_LIMITS
from kvaudit.loops.loop03_cost import LOOP
from kvaudit.suite.entry import evidence_members, read_fixture, redeclared

ROOT = Path(__file__).parents[2]
SHIPPED = read_fixture(LOOP, (ROOT / "fixtures/loop03_cost/fixture.json").read_bytes(), DEFAULT_LIMITS)

LEDGERS = [
    "full_payload",
    "ragged_payload",
    "ragged_position_map",
    "ragged_offsets",
    "ragged_score_state",
    "ragged_protected_bits",
    "ragged_receipt",
    "ragged_total",
    "padded_payload",
    "padded_position_map",
    "padded_validity",
    "padded_score_state",
    "padded_protected_bits",
    "padded_receipt",
    "padded_total",
    "tombstone_payload",
    "tombstone_validity",
    "tombstone_score_state",
    "tombstone_protected_bits",
    "tombstone_receipt",
    "tombstone_total",
    "topk_workspace",
    "backend_workspace",
    "peak_full_to_ragged",
    "peak_ragged_to_ragged",
    "score_scan_read",
    "selected_payload_read",
    "persistent_write",
    "publication_traffic",
    "unique_read_per_query_step",
    "query_expanded_demand",
    "cumulative_full_read",
    "cumulative_bounded_read",
]


def changed(**edits):
    """Return the shipped fixture with members replaced; `a__b=1` replaces the member b of a. Digests are renewed."""
    fixture = copy.deepcopy(SHIPPED)
    for path, value in edits.items():
        *parents, last = path.split("__")
        record = fixture
        for parent in parents:
            record = record[parent]
        record[last] = value
    assert schema.defects(LOOP.fixture_schema, fixture) == ()
    return LOOP.refresh_digests(fixture)


def ledgers(fixture):
    return {row.name: row.value for row in LOOP.oracle(fixture).ledgers}


def results(fixture):
    return LOOP.oracle(fixture).results


def violation(fixture):
    with pytest.raises(ContractViolation) as raised:
        LOOP.oracle(fixture)
    return raised.value.diagnostic.code, raised.value.pointer


def llama(**edits):
    """Return a fixture of Llama-3.1-8B at 131,072 positions: each owner retains 4,096 rows, all others are lost."""
    owners, positions, kept = 32 * 8, 131072, 4096
    shape = {"batch": 1, "layers": 32, "kv_heads": 8, "head_dimension": 128, "key_scalar_bytes": 2}
    lost = {"rows": owners * (positions - kept), "owner": "policy", "quality_contract": "perplexity within 1 %"}
    unused = {"rows": 0}
    return changed(
        geometry={
            **shape,
            "value_scalar_bytes": 2,
            "query_heads": 32,
            "positions": positions,
            "q_to_kv_head_map": [query_head // 4 for query_head in range(32)],
        },
        retention__rows_per_owner=[[[kept] * 8 for _ in range(32)]],
        row_bytes={"key": 256, "value": 256},
        layouts__padded__slots_per_owner=kept,
        score_state__candidates=owners * positions,
        protected_state__positions=positions,
        workspace__topk_rows=owners * kept,
        workspace__topk_bytes=owners * kept * 8,
        update_traffic={
            "scheme": "rebuild",
            "score_candidates_read": owners * positions,
            "selected_rows_read": owners * kept,
            "selected_rows_written": owners * kept,
            "new_token_rows": owners,
        },
        fallback={
            "irrecoverable": lost,
            "recomputable": {**SHIPPED["fallback"]["recomputable"], **unused},
            "recallable": {**SHIPPED["fallback"]["recallable"], **unused},
            "full_cache_fallback": {
                **SHIPPED["fallback"]["full_cache_fallback"],
                **unused,
                "reserved_requests": 0,
                "reserved_capacity_bytes": 0,
            },
        },
        **edits,
    )


def test_the_shipped_fixture():
    evidence = observe(LOOP, SHIPPED)
    assert [row.name for row in evidence.ledgers] == LEDGERS
    assert len(LEDGERS) == 33
    assert {row.unit for row in evidence.ledgers} == {"B"}
    (snapshot,) = evidence.snapshots
    assert (snapshot.state_generation, snapshot.cache_generation) == (None, None)
    assert (snapshot.selected_original_positions, snapshot.selected_row_count) == (None, 10)
    assert snapshot.published is False
    assert [comparison.members for comparison in evidence.comparisons] == [
        ("ragged_total", "padded_total", "tombstone_total"),
        ("peak_full_to_ragged", "peak_ragged_to_ragged"),
        ("cumulative_full_read", "cumulative_bounded_read"),
    ]


@pytest.mark.parametrize("layout", ["ragged", "padded", "tombstone"])
def test_a_total_is_the_sum_of_its_ledger_rows(layout):
    rows = ledgers(SHIPPED)
    terms = [value for name, value in rows.items() if name.startswith(layout) and not name.endswith("total")]
    assert rows[f"{layout}_total"] == sum(terms)


def test_a_real_models_shape():
    """Every byte here is worked out by hand: 256 owners, rows of 512 B, 131,072 positions, 4,096 kept by each."""
    mib, gib = 2**20, 2**30
    expected = {
        "full_payload": 16 * gib,
        "ragged_payload": 512 * mib,  # 256 * 4,096 * 512
        "ragged_position_map": 4 * mib,  # 2^20 rows * 4
        "ragged_offsets": 1152,  # 32 layers * 9 * 4
        "ragged_score_state": 128 * mib,  # 256 * 131,072 * 4: history, not the view
        "ragged_protected_bits": 16384,  # 131,072 / 8
        "ragged_receipt": 192,
        "padded_payload": 512 * mib,
        "padded_validity": 131072,  # 2^20 slots / 8
        "tombstone_payload": 16 * gib,
        "tombstone_validity": 4 * mib,  # 2^25 rows / 8
        "topk_workspace": 8 * mib,
        "score_scan_read": 128 * mib,
        "selected_payload_read": 512 * mib,
        "unique_read_per_query_step": 512 * mib,
        "query_expanded_demand": 2048 * mib,  # four query heads a K/V head
    }
    ragged_total = 512 * mib + 4 * mib + 1152 + 128 * mib + 16384 + 192
    expected["ragged_total"] = ragged_total
    expected["peak_full_to_ragged"] = 16 * gib + ragged_total + 8 * mib
    expected["peak_ragged_to_ragged"] = 2 * ragged_total + 8 * mib
    expected["persistent_write"] = ragged_total
    expected["publication_traffic"] = 128 * mib + 512 * mib + ragged_total
    fixture = llama()
    found = ledgers(fixture)
    assert {name: found[name] for name in expected} == expected
    assert results(fixture)["update_traffic"]["new_token_bytes"] == 131072
    assert results(fixture)["update_traffic"]["compaction_amplification"] == 8192


def test_a_real_models_report_is_short_and_can_be_declared():
    fixture = redeclared(LOOP, llama())
    assert schema.defects(LOOP.fixture_schema, fixture) == ()
    evidence = observe(LOOP, fixture)
    assert evidence.results["retention"]["rows_per_owner"]["count"] == 32 * 8
    assert len(canonical.json_text(evidence_members(LOOP, evidence)).splitlines()) < 600


def test_no_work_grows_with_positions_or_tokens():
    """2^50 positions and 2^48 decode steps: a loop over either would not end."""
    positions = 2**50
    fixture = changed(
        geometry__positions=positions,
        layouts__ragged__position_entry_bytes=8,
        layouts__padded__position_entry_bytes=8,
        workspace__topk_index_entry_bytes=8,
        workspace__topk_bytes=120,
        score_state__candidates=4 * positions,
        protected_state__positions=positions,
        update_traffic__score_candidates_read=4 * positions,
        running_shape__context_lengths=[positions],
        decode={
            "initial_rows": 1,
            "generated_tokens": 2**48,
            "last_prefix_rows": 2**48,
            "bounded_rows": 2**40,
        },
        fallback__irrecoverable__rows=4 * positions - 10 - 8,
        fallback__recomputable__source_tokens_per_sequence=positions,
        fallback__full_cache_fallback={
            "rows": 0,
            "owner": "allocator",
            "reserved_requests": 0,
            "reserved_capacity_bytes": 0,
        },
    )
    found = results(fixture)
    assert found["fallback"]["recomputable"]["recomputed_causal_pairs"] == 8 * (positions * (positions + 1) // 2)
    assert found["decode"]["steps_below_bound"] == 2**40 - 1


@pytest.mark.parametrize(
    ("convention", "offset_bytes"), [("global_rows_per_layer", 24), ("flat", 20), ("layer_base_head_local", 32)]
)
def test_offset_conventions(convention, offset_bytes):
    fixture = changed(layouts__ragged__offset_convention=convention)
    assert ledgers(fixture)["ragged_offsets"] == offset_bytes
    assert ledgers(fixture)["ragged_total"] == 521 + offset_bytes


@pytest.mark.parametrize(("encoding", "protected_bytes"), [("none", 0), ("shared_by_owners", 1), ("per_owner", 4)])
def test_protected_encodings(encoding, protected_bytes):
    fixture = changed(protected_state={"encoding": encoding, "positions": 8})
    assert ledgers(fixture)["padded_protected_bits"] == protected_bytes


@pytest.mark.parametrize(
    ("scope", "candidates", "score_bytes"),
    [("every_committed_position", 32, 128), ("retained_rows", 10, 40), ("recallable_rows", 14, 56)],
)
def test_score_scopes(scope, candidates, score_bytes):
    """A narrower scope makes every layout, both peaks and the publication smaller by the scores it does not keep."""
    fixture = changed(
        score_state={"scope": scope, "entry_bytes": 4, "candidates": candidates},
        update_traffic__score_candidates_read=candidates,
    )
    saved, found, shipped = 128 - score_bytes, ledgers(fixture), ledgers(SHIPPED)
    assert found["tombstone_total"] == shipped["tombstone_total"] - saved
    assert found["peak_full_to_ragged"] == shipped["peak_full_to_ragged"] - saved
    assert found["peak_ragged_to_ragged"] == shipped["peak_ragged_to_ragged"] - 2 * saved
    assert found["publication_traffic"] == shipped["publication_traffic"] - 2 * saved
    assert [name for name, each in results(fixture)["score_scopes"].items() if each["declared"]] == [scope]


def test_a_prefix_shorter_than_the_bound_is_read_whole():
    """Prefixes 2, 3, 4, 5, 6 under a bound of 4: 2 + 3 + 4 + 4 + 4 = 17 rows of 128 KiB."""
    fixture = changed(
        decode={"initial_rows": 2, "generated_tokens": 5, "last_prefix_rows": 6, "bounded_rows": 4},
    )
    found = results(fixture)["decode"]
    assert (found["full_row_time_instances"], found["bounded_row_time_instances"]) == (20, 17)
    assert found["steps_below_bound"] == 2
    assert found["reduction_ratio"] == Fraction(20, 17)
    assert ledgers(fixture)["cumulative_bounded_read"] == 17 * 131072


def test_a_context_shorter_than_the_bound_is_kept_whole():
    """Contexts of 1,024 and 65,536 rows of 128 KiB under a bound of 4,096; 256 owners with a 4 B score a row."""
    fixture = changed(running_shape__context_lengths=[1024, 65536])
    short, long = results(fixture)["running_shape"]["contexts"]
    assert (short["full_payload_bytes"], short["bounded_payload_bytes"]) == (128 * 2**20, 128 * 2**20)
    assert (long["full_payload_gib"], long["bounded_payload_bytes"]) == (8, 512 * 2**20)
    history, bounded = "score_bytes_of_every_committed_position", "score_bytes_of_bounded_rows"
    assert (short[history], short[bounded]) == (2**20, 2**20)
    assert (long[history], long[bounded]) == (64 * 2**20, 4 * 2**20)


def test_a_second_sequence_doubles_what_belongs_to_sequences():
    fixture = changed(
        geometry__batch=2,
        retention__rows_per_owner=[[[4, 2], [3, 1]], [[4, 2], [3, 1]]],
        score_state__candidates=64,
        workspace__topk_rows=20,
        workspace__topk_bytes=160,
        update_traffic={
            "scheme": "rebuild",
            "score_candidates_read": 64,
            "selected_rows_read": 20,
            "selected_rows_written": 20,
            "new_token_rows": 8,
        },
        fallback__irrecoverable__rows=32,
    )
    shipped = ledgers(SHIPPED)
    alone = {"ragged_receipt", "padded_receipt", "tombstone_receipt", "cumulative_full_read", "cumulative_bounded_read"}
    for name, value in ledgers(fixture).items():
        if name in alone:
            assert value == shipped[name], name
        elif not name.endswith("_total") and name not in ("persistent_write", "publication_traffic"):
            expected = 2 * shipped[name]
            expected -= {"peak_full_to_ragged": 192, "peak_ragged_to_ragged": 384}.get(name, 0)
            assert value == expected, name
    assert results(fixture)["fallback"]["full_cache_fallback"]["capacity_bytes"] == 512


def test_full_retention_needs_no_marks_and_no_fallback():
    fixture = changed(
        retention__rows_per_owner=[[[8, 8], [8, 8]]],
        layouts__padded={
            "slots_per_owner": 8,
            "position_entry_bytes": 4,
            "position_sentinel": None,
            "validity_bits_per_slot": 0,
        },
        layouts__tombstone__validity_bits_per_row=0,
        workspace__topk_rows=32,
        workspace__topk_bytes=256,
        update_traffic__selected_rows_read=32,
        update_traffic__selected_rows_written=32,
        fallback__irrecoverable={"rows": 0, "owner": "policy", "quality_contract": None},
        fallback__recomputable={
            "rows": 0,
            "owner": "scheduler",
            "model_path": None,
            "source_tokens_per_sequence": 0,
        },
        fallback__recallable={"rows": 0, "owner": "recall", "handoff_id": None},
        fallback__full_cache_fallback={
            "rows": 0,
            "owner": "allocator",
            "reserved_requests": 0,
            "reserved_capacity_bytes": 0,
        },
    )
    assert ledgers(fixture)["ragged_payload"] == ledgers(fixture)["full_payload"] == 512
    assert all(mode["capacity_bytes"] == 0 for mode in results(fixture)["fallback"].values())
    assert results(fixture)["padding_efficiency"] == 1


def test_slots_may_be_reserved_beyond_the_largest_owner():
    fixture = changed(layouts__padded__slots_per_owner=8)
    assert ledgers(fixture)["padded_payload"] == 512
    assert results(fixture)["padding_efficiency"] == Fraction(10, 32)


def test_the_counterexample_is_exact():
    case = results(SHIPPED)["attention"]["cancellation"]
    assert case["dense_output"] == [0]
    assert case["dense_output_norm"] == 0
    heavy, zero = case["selections"]["two_heaviest"], case["selections"]["two_zero_values"]
    assert (heavy["retained_mass"], heavy["omitted_mass"], heavy["output"]) == (
        Fraction(7, 10),
        Fraction(3, 10),
        [Fraction(3, 7)],
    )
    assert (zero["retained_mass"], zero["output_error"]) == (Fraction(6, 10), 0)
    assert heavy["relative_error"] is None
    assert zero["relative_error"] is None
    assert case["more_mass_and_more_error"] == [["two_heaviest", "two_zero_values"]]


def test_equal_masses_never_disagree_and_the_heavier_comes_first():
    """Positions 0 and 3 have the same mass; position 1 has more mass and, with its value of 9, more error than both."""
    fixture = changed(
        attention={
            "one_row": {
                "given_as": "probabilities",
                "scores": [Fraction("0.25"), Fraction("0.5"), 0, Fraction("0.25")],
                "values": [[1], [9], [0], [-8]],
                "top_k": 1,
                "selections": {"a": [0], "b": [1], "c": [3]},
            }
        }
    )
    case = results(fixture)["attention"]["one_row"]
    assert case["dense_output"] == [Fraction(11, 4)]
    errors = {name: each["output_error"] for name, each in case["selections"].items()}
    assert errors == {"a": Fraction(7, 4), "b": Fraction(25, 4), "c": Fraction(43, 4)}
    assert case["more_mass_and_more_error"] == [["b", "a"]]


def test_the_logits_case_agrees_with_float64():
    """The shipped case of logits with vector values, recomputed with NumPy from the fixture alone."""
    stated = SHIPPED["attention"]["logits_with_a_tie"]
    found = results(SHIPPED)["attention"]["logits_with_a_tie"]
    weights = np.exp([float(score) for score in stated["scores"]])
    values = np.array([[float(channel) for channel in row] for row in stated["values"]])
    dense = weights @ values / weights.sum()
    assert [float(each) for each in found["dense_probabilities"]] == pytest.approx(weights / weights.sum(), rel=1e-14)
    assert [float(each) for each in found["dense_output"]] == pytest.approx(dense, rel=1e-14)
    assert found["oracle_top_k"] == [3, 0, 1]  # positions 1 and 4 tie at 0.5, and the lower one is taken
    for name, positions in stated["selections"].items():
        kept = weights[positions]
        output = kept @ values[positions] / kept.sum()
        error = float(np.linalg.norm(output - dense))
        each = found["selections"][name]
        assert float(each["retained_mass"]) == pytest.approx(kept.sum() / weights.sum(), rel=1e-14)
        assert [float(channel) for channel in each["output"]] == pytest.approx(output, rel=1e-13)
        assert float(each["output_error"]) == pytest.approx(error, rel=1e-13, abs=1e-15)
        relative = error / float(np.linalg.norm(dense))
        assert float(each["relative_error"]) == pytest.approx(relative, rel=1e-13, abs=1e-15)
        assert each["top_k_recall"] == Fraction(len({3, 0, 1} & set(positions)), 3)


def test_the_first_broken_contract_is_the_one_named():
    """Two broken contracts at once: geometry comes before layouts, layouts before decode, decode before attention."""
    slots = {"layouts__padded__slots_per_owner": 3}
    bound = {"decode__bounded_rows": 10**6}
    top_k = {"attention__cancellation__top_k": 5}
    head_map = {"geometry__q_to_kv_head_map": [0, 0, 1]}
    assert violation(changed(**top_k, **bound, **slots, **head_map)) == (
        "cost.head-map-length",
        "/geometry/q_to_kv_head_map",
    )
    assert violation(changed(**top_k, **bound, **slots))[0] == "cost.padded-slots-short"
    assert violation(changed(**top_k, **bound))[0] == "cost.bound-never-binds"
    assert violation(changed(**top_k))[0] == "cost.top-k-above-candidates"


@pytest.mark.parametrize("term", ["live_state", "unpublished_successor", "topk_workspace", "backend_workspace"])
@pytest.mark.parametrize("transaction", ["full_to_ragged", "ragged_to_ragged"])
def test_no_term_of_a_peak_may_be_left_out(transaction, term):
    counted = [each for each in SHIPPED["transactions"][transaction]["counted_terms"] if each != term]
    fixture = changed(**{f"transactions__{transaction}__counted_terms": counted})
    assert violation(fixture) == ("cost.peak-term-missing", f"/transactions/{transaction}/counted_terms")


def test_multi_head_attention_with_a_wrong_count_is_a_matter_of_shape():
    """Where query heads equal K/V heads, nobody can have counted one for the other."""
    fixture = changed(
        geometry__query_heads=2, geometry__q_to_kv_head_map=[0, 1], retention__rows_per_owner=[[[4, 2, 1], [3, 1]]]
    )
    assert violation(fixture) == ("cost.retention-shape", "/retention/rows_per_owner/0/0")


@pytest.mark.parametrize("sentinel", [-1, 8, None])
def test_sentinels_outside_the_committed_positions(sentinel):
    fixture = changed(layouts__padded__position_sentinel=sentinel)
    assert ledgers(fixture) == ledgers(SHIPPED)


def test_only_the_receipt_is_refreshed():
    stale = {**SHIPPED, "receipt": {**SHIPPED["receipt"], "geometry_sha256": "0" * 64, "retention_sha256": "0" * 64}}
    assert LOOP.refresh_digests(stale) == SHIPPED
    assert violation(stale) == ("cost.receipt-digest-mismatch", "/receipt/geometry_sha256")


def test_tables_have_a_cell_for_each_column():
    report = canonical.written({"results": observe(LOOP, SHIPPED).results})
    for table in LOOP.tables(report):
        assert table.rows
        assert all(len(row) == len(table.columns) for row in table.rows)
        assert all(isinstance(cell, str) for row in table.rows for cell in row)


def places(value, path=()):
    """Yield the path of every member and item below the inputs of a fixture."""
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in members:
        if path or key not in ("schema", "declared"):
            yield (*path, key)
            yield from places(child, (*path, key))


PLACES = list(places(SHIPPED))
INTEGERS = [-1, 0, 1, 2, 3, 4, 5, 7, 9, 10, 32, 64, 255, 256, 4096, 2**31, 2**53 - 1, 2**53]
DECIMALS = [Fraction(text) for text in ("-0.1", "0.05", "1e-30", "1e-31", "5e-324", "-1e12", "1e308", "199.5", "1e3")]


@st.composite
def perturbed(draw):
    """Draw the shipped fixture with one to three members changed, and its digests renewed or not."""
    fixture = copy.deepcopy(SHIPPED)
    touched = set()
    for _ in range(draw(st.integers(1, 3))):
        *parents, last = draw(st.sampled_from(PLACES))
        touched.add(parents[0] if parents else last)
        record = fixture
        try:
            for parent in parents:
                record = record[parent]
            record[last] = draw(replacements(record[last]))
        except (KeyError, IndexError, TypeError):
            assume(False)  # an earlier change has removed the place
    assume(schema.member_defects(LOOP.fixture_schema, fixture, touched) == ())
    return LOOP.refresh_digests(fixture) if draw(st.booleans()) else fixture


def replacements(value):
    if isinstance(value, bool):
        return st.just(not value)
    if isinstance(value, list):
        return st.sampled_from([[], value[:-1], value[::-1], value + value[-1:], value[1:] + value[:1]])
    if isinstance(value, dict):
        return st.just({key: value[key] for key in reversed(value)})
    if value is None or isinstance(value, str):
        return st.sampled_from([None, "", "full", "none", "per_owner", "logits", "probabilities", "flat", "policy"])
    near = [value - 1, value + 1, 2 * value]
    return st.sampled_from([*near, *INTEGERS, *DECIMALS])


@given(perturbed())
def test_the_oracle_answers_every_fixture_that_passes_the_schema(fixture):
    """It returns evidence that can be written as a report, or names a broken contract; nothing else is raised."""
    outcome = outcome_of(fixture)
    if isinstance(outcome, ContractViolation):
        assert outcome.diagnostic in LOOP.diagnostics
        assert resolves(fixture, outcome.pointer)
    else:
        assert canonical.json_text(evidence_members(LOOP, outcome))
        recomputed = {**fixture, "declared": declared(outcome)}
        assert schema.member_defects(LOOP.fixture_schema, recomputed, ["declared"]) == ()


def outcome_of(fixture):
    try:
        return LOOP.oracle(fixture)
    except ContractViolation as violation:
        return violation


def resolves(document, pointer):
    for part in pointer.split("/")[1:]:
        document = document[int(part)] if isinstance(document, list) else document[part]
    return True

"""Loop 2 beyond its suites: a real model's shape, other conventions, identity laws, and no input that crashes it."""

import contextlib
import copy
import random
from pathlib import Path

import pytest

from kvaudit.errors import ContractViolation
from kvaudit.evidence import schema
from kvaudit.evidence.declared import declared, observe
from kvaudit.evidence.strict_json import parse_json
from kvaudit.loops import loop02_visibility as loop02
from kvaudit.suite.entry import redeclared

LOOP = loop02.LOOP
ROOT = Path(__file__).parents[2]
SHIPPED = parse_json((ROOT / "fixtures" / LOOP.id / "fixture.json").read_bytes())


def fixture_of(layers, query_heads, kv_heads, head_dimension, frontier, selected, origin=0, **selection):
    """A valid fixture of another shape; its rows come from a plain loop here, not from the code under test."""
    fixture = copy.deepcopy(SHIPPED)
    shape = {"layers": layers, "query_heads": query_heads, "kv_heads": kv_heads, "head_dimension": head_dimension}
    fixture["cache_abi"].update(shape)
    tensor = fixture["manifest"]["tensor_contract"]
    tensor.update(shape, q_to_kv_head_map=[head * kv_heads // query_heads for head in range(query_heads)])
    fixture["manifest"]["selection_contract"].update(
        maximum_rows=max(len(p) for heads in selected for p in heads), **selection
    )
    position_stride = head_dimension
    head_stride = position_stride * frontier
    layer_stride = head_stride * kv_heads
    value_offset = layer_stride * layers
    strides = {"layer_stride": layer_stride, "kv_head_stride": head_stride, "position_stride": position_stride}
    moved = {"committed_frontier": frontier, "position_origin": origin}
    fixture["source_cache"].update(moved, symbolic_content={**strides, "value_offset": value_offset})
    protected = [origin, origin + frontier - 1]
    fixture["policy_state"].update(
        moved,
        selected_original_positions=selected,
        protected_original_positions=protected,
        omitted_intervals=[[gaps(positions, origin, frontier) for positions in heads] for heads in selected],
    )
    rows, offsets, flat = [], [], []
    for layer, heads in enumerate(selected):
        offsets.append([len(flat)])
        for head, positions in enumerate(heads):
            for position in positions:
                first = layer * layer_stride + head * head_stride + (position - origin) * position_stride
                rows.append([first + channel for channel in range(head_dimension)])
                flat.append(position)
            offsets[-1].append(len(flat))
    fixture["packed_view"].update(
        row_offsets=offsets,
        original_position_map=flat,
        packed_key_rows=rows,
        packed_value_rows=[[scalar + value_offset for scalar in row] for row in rows],
    )
    fixture["physical_mapping"].update(rows_per_page=16, pages=list(range(-(-len(flat) // 16))))
    fixture["decode_query"]["original_position"] = origin + frontier - 1
    return redeclared(LOOP, fixture)


def gaps(positions, origin, frontier):
    missing = set(range(origin, origin + frontier)) - set(positions)
    starts = sorted(p for p in missing if p - 1 not in missing)
    ends = sorted(p + 1 for p in missing if p + 1 not in missing)
    return [list(pair) for pair in zip(starts, ends, strict=True)]


def violation(fixture):
    with pytest.raises(ContractViolation) as caught:
        observe(LOOP, fixture)
    return caught.value.diagnostic.code, caught.value.pointer


def test_a_real_models_shape():
    """Llama-3.1-8B: 32 layers, 32 query heads on 8 K/V heads, d_h 128; 131,072 positions, 3 rows an owner."""
    frontier = 131_072
    selected = [[[0, 7 + layer, frontier - 1] for _ in range(8)] for layer in range(32)]
    fixture = fixture_of(32, 32, 8, 128, frontier, selected)
    assert schema.defects(LOOP.fixture_schema, fixture) == ()
    evidence = observe(LOOP, fixture)
    ledgers = {row.name: row.value for row in evidence.ledgers}
    rows = 32 * 8 * 3
    assert ledgers == {
        "full_payload": 16 * 2**30,  # 128 KiB a token times 131,072
        "selected_payload": rows * 512,
        "position_map": rows * 4,
        "row_offsets": 32 * 9 * 4,
        "ragged_total": rows * 512 + rows * 4 + 32 * 9 * 4,
    }
    assert evidence.results["gather_scalars_checked"] == 2 * rows * 128
    assert evidence.results["original_position_map"]["count"] == rows
    assert evidence.results["selected_original_positions"]["count"] == rows
    assert len(evidence.snapshots) == 256


def test_ragged_owners_and_a_moved_origin():
    selected = [[[100, 107], [100, 101, 102, 107]], [[100, 103, 107], [100, 107]]]
    evidence = observe(LOOP, fixture_of(2, 6, 2, 3, 8, selected, origin=100))
    assert evidence.results["row_offsets"] == {
        "global_rows_per_layer": [[0, 2, 6], [6, 9, 11]],
        "flat": [0, 2, 6, 9, 11],
        "layer_base_head_local": {"layer_base": [0, 6], "head_local": [[0, 2, 6], [0, 3, 5]]},
    }
    assert evidence.results["packed_rows"] == 11
    assert evidence.results["materializations"]["padded"]["row_slots"] == 4 * 4


@pytest.mark.parametrize(
    ("convention", "offsets", "entries"),
    [("flat", [[0, 4, 8, 12, 16]], 5), ("layer_base_head_local", [[0, 8], [0, 4, 8], [0, 4, 8]], 8)],
)
def test_the_other_offset_conventions(convention, offsets, entries):
    fixture = copy.deepcopy(SHIPPED)
    fixture["cache_abi"]["packed_layout"]["offset_convention"] = convention
    fixture["packed_view"].update(offset_convention=convention, row_offsets=offsets)
    evidence = observe(LOOP, redeclared(LOOP, fixture))
    assert {row.name: row.value for row in evidence.ledgers}["row_offsets"] == entries * 4
    fixture["packed_view"]["row_offsets"] = [[0, 4, 8], [8, 12, 16]]
    assert violation(loop02.refresh_digests(fixture))[0] == "visibility.row-offset-drift"


def test_a_selector_order_may_be_unsorted_but_not_repeated():
    fixture = copy.deepcopy(SHIPPED)
    fixture["manifest"]["selection_contract"]["ordering"] = "selector_order"
    fixture["policy_state"]["selected_original_positions"][0][0] = [7, 5, 0, 2]
    view = fixture["packed_view"]
    for name in ("original_position_map", "packed_key_rows", "packed_value_rows"):
        rows = view[name]
        rows[:4] = [rows[3], rows[2], rows[0], rows[1]]
    assert observe(LOOP, redeclared(LOOP, fixture)).results["packed_rows"] == 16
    fixture["policy_state"]["selected_original_positions"][0][0] = [7, 5, 0, 7]
    assert violation(loop02.refresh_digests(fixture))[0] == "visibility.duplicate-position"


def test_a_full_cache_is_exact():
    selected = [[list(range(8))] * 2] * 2
    fixture = fixture_of(2, 4, 2, 4, 8, selected)
    fixture["manifest"]["representation_contract"]["semantic_class"] = "full_cache_exact"
    fixture["manifest"]["recoverability_contract"]["omitted_rows"] = "none"
    evidence = observe(LOOP, redeclared(LOOP, fixture))
    ledgers = {row.name: row.value for row in evidence.ledgers}
    assert ledgers["selected_payload"] == ledgers["full_payload"] == 512


def test_a_recallable_policy_with_a_hand_off_is_legal():
    fixture = copy.deepcopy(SHIPPED)
    fixture["manifest"]["recoverability_contract"] = {"omitted_rows": "recallable_nonresident", "handoff_id": "h-1"}
    fixture["manifest"]["quality_and_fallback"]["quality_regression_action"] = "recall_omitted_rows"
    observe(LOOP, redeclared(LOOP, fixture))


@pytest.mark.parametrize("name", loop02.IDENTITY_FIELDS)
def test_every_identity_field_changes_the_digest(name):
    manifest = copy.deepcopy(SHIPPED["manifest"])
    before = loop02.manifest_sha256(manifest)
    value = manifest[name]
    if isinstance(value, dict):
        value[next(iter(value))] = "changed"
    else:
        manifest[name] = "changed"
    assert loop02.manifest_sha256(manifest) != before


def test_state_and_placement_do_not_change_the_digest():
    """The manifest identity excludes mutable facts: a new state or other pages is not a new policy."""
    moved = copy.deepcopy(SHIPPED)
    moved["physical_mapping"]["pages"] = [70, 71, 72, 73]
    for record in ("policy_state", "packed_view", "physical_mapping"):
        moved[record]["state_generation"] = 12
    evidence = observe(LOOP, redeclared(LOOP, moved))
    assert evidence.results["identity"] == SHIPPED["declared"]["results"]["identity"]
    key_order = dict(reversed(SHIPPED["manifest"].items()))
    assert loop02.manifest_sha256(key_order) == evidence.results["identity"]["policy_manifest_sha256"]


def test_axis_and_head_map_order_is_semantic():
    manifest = copy.deepcopy(SHIPPED["manifest"])
    manifest["tensor_contract"]["q_to_kv_head_map"] = [0, 1, 0, 1]
    assert loop02.manifest_sha256(manifest) != loop02.manifest_sha256(SHIPPED["manifest"])


def test_every_wrong_scalar_is_found():
    for name in ("packed_key_rows", "packed_value_rows"):
        for row in range(16):
            for channel in range(4):
                fixture = copy.deepcopy(SHIPPED)
                fixture["packed_view"][name][row][channel] += 1
                assert violation(fixture) == ("visibility.gather-misaligned", f"/packed_view/{name}/{row}/{channel}")


def test_causality_is_by_original_position_not_by_packed_row():
    fixture = copy.deepcopy(SHIPPED)
    fixture["decode_query"]["original_position"] = 4  # packed row 2 of the first owner is 2 <= 4, its position 5 is not
    assert violation(fixture) == ("visibility.future-position-visible", "/packed_view/original_position_map/2")


def test_the_declared_object_is_the_recomputed_one():
    evidence = loop02.oracle(SHIPPED)
    assert declared(evidence)["ledgers"] == {name: int(v) for name, v in SHIPPED["declared"]["ledgers"].items()}


def places(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in items:
        yield from places(member, (*path, key))


def at(document, path):
    for step in path:
        document = document[step]
    return document


@pytest.mark.parametrize("seed", range(300))
def test_no_valid_document_crashes_the_oracle(seed):
    """One to three random edits; if the schema lets them pass, the oracle answers or names a contract."""
    choose = random.Random(seed)
    fixture = copy.deepcopy(SHIPPED)
    for _ in range(choose.randint(1, 3)):
        path = choose.choice([path for path in places(fixture) if path])
        parent, value = at(fixture, path[:-1]), at(fixture, path)
        if isinstance(value, bool) or value is None or isinstance(value, str):
            continue
        if isinstance(value, int):
            parent[path[-1]] = choose.choice([0, 1, value + 1, max(0, value - 1), 2 * value, 10**6])
        elif isinstance(value, list):
            edits = [[], value[:-1], value + value[-1:], value[::-1]]
            parent[path[-1]] = choose.choice(edits)
    if schema.defects(LOOP.fixture_schema, fixture):
        return
    refreshed = loop02.refresh_digests(fixture) if choose.random() < 0.8 else fixture
    with contextlib.suppress(ContractViolation):
        observe(LOOP, refreshed)

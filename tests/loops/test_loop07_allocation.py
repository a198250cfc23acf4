"""Loop 7 beyond its suites: a real model's shape, every method and scope, undefined quantities, no input that crashes.

Receipts of other fixtures come from plain references in this file: one row moved at a time, one sort of all scores.
"""

import contextlib
import copy
import random
from fractions import Fraction
from pathlib import Path

import pytest

from kvaudit.errors import ContractViolation
from kvaudit.evidence import schema
from kvaudit.evidence.declared import declared, observe
from kvaudit.evidence.strict_json import parse_json
from kvaudit.loops import loop07_allocation as loop07
from kvaudit.suite.entry import redeclared

LOOP = loop07.LOOP
ROOT = Path(__file__).parents[2]
SHIPPED = parse_json((ROOT / "fixtures" / LOOP.id / "fixture.json").read_bytes())
INPUTS = tuple(name for name in SHIPPED if name != "declared")


def apportioned(targets, total, floors, caps):
    budgets = [min(cap, max(floor, target // 1)) for target, floor, cap in zip(targets, floors, caps, strict=True)]
    while sum(budgets) < total:
        owners = [owner for owner, budget in enumerate(budgets) if budget < caps[owner]]
        budgets[max(owners, key=lambda owner: (targets[owner] - budgets[owner], -owner))] += 1
    while sum(budgets) > total:
        owners = [owner for owner, budget in enumerate(budgets) if budget > floors[owner]]
        budgets[max(owners, key=lambda owner: (budgets[owner] - targets[owner], owner))] -= 1
    return budgets


def best(scores, rows):
    return sorted(range(len(scores)), key=lambda position: (-scores[position], position))[:rows]


def winners(scores, pool):
    cells = [(-score, head, position) for head, row in enumerate(scores) for position, score in enumerate(row)]
    counts = [0] * len(scores)
    for _, head, _ in sorted(cells)[:pool]:
        counts[head] += 1
    return counts


def allocation_fixture(scores, query_heads, head_dimension, window, total, **manifest):
    """A valid fixture for scores of shape [L][H_kv][prefix], with one append after publication."""
    fixture = copy.deepcopy(SHIPPED)
    layers, kv_heads, prefix = len(scores), len(scores[0]), len(scores[0][0])
    frontier, owners = prefix + window, layers * kv_heads
    fixture["geometry"].update(
        layers=layers,
        query_heads=query_heads,
        kv_heads=kv_heads,
        prompt_positions=frontier,
        head_dimension=head_dimension,
    )
    fixture["manifest"].update(
        {
            "prompt_frontier": frontier,
            "q_to_kv_head_map": [head * kv_heads // query_heads for head in range(query_heads)],
            "prefix_rows": prefix,
            "protected_positions": list(range(prefix, frontier)),
            "total_prefix_rows": total,
            "owner_cap_rows": prefix,
            **manifest,
        }
    )
    fixture["source_receipt"].update(frontier=frontier, materialized_positions=frontier)
    fixture["owner_scores"] = scores
    rule = fixture["manifest"]
    share = kv_heads if rule["layer_budget_scope"] == "rows_per_kv_head" else 1
    floor, cap = rule["owner_floor_rows"], rule["owner_cap_rows"]
    layer_floor, layer_cap = (kv_heads // share) * floor, (kv_heads // share) * cap

    def layer_budgets(targets):
        return apportioned(targets, total, [layer_floor] * layers, [layer_cap] * layers)

    # PyramidKV with beta 2: the top layer gets half the mean, the bottom one and a half.
    mean = Fraction(total, layers)
    step = mean / (layers - 1)
    pyramid = [mean * Fraction(3, 2) - layer * step for layer in range(layers)]
    pyramid_budgets = layer_budgets(pyramid)
    fixture["layer_allocation"]["pyramidkv"]["receipt"] = {
        "bottom_rows": mean * Fraction(3, 2),
        "top_rows": mean / 2,
        "target_rows": pyramid,
        "budget_rows": pyramid_budgets,
    }
    # ZigZagKV: one uniform row over 1, 2, 3, 1, ... positions, so that every threshold needs all of them.
    needs = [1 + layer % 3 for layer in range(layers)]
    pool = mean - 1
    zigzag = [1 + pool * layers * Fraction(need, sum(needs)) for need in needs]
    zigzag_budgets = layer_budgets(zigzag)
    fixture["layer_allocation"]["zigzagkv"].update(
        attention_share=1,
        output_similarity=1,
        mean_rows_per_layer=mean,
        profile=[
            [
                {
                    "weights": [Fraction(position < need, need) for position in range(frontier)],
                    "values": [[int(position == channel) for channel in range(3)] for position in range(frontier)],
                }
            ]
            for need in needs
        ],
        receipt={
            "mba_rows": [[need] for need in needs],
            "lmba_rows": needs,
            "mbo_rows": [[need] for need in needs],
            "lmbo_rows": needs,
            "target_rows": zigzag,
            "budget_rows": zigzag_budgets,
        },
    )
    # HeadKV, beta 2: half the pool is common, half by an importance that falls with the owner index.
    parts = range(owners, 0, -1)
    importances = [Fraction(part, sum(parts)) for part in parts]
    pooled = total * share
    head_targets = [Fraction(pooled, 2 * owners) + importance * Fraction(pooled, 2) for importance in importances]
    headkv = apportioned(head_targets, pooled, [floor] * owners, [cap] * owners)
    fixture["head_allocation"]["headkv"].update(
        importances=importances,
        mean_rows_per_head=Fraction(pooled, owners),
        receipt={"target_rows": head_targets, "budget_rows": headkv},
    )
    headkv_layers = [headkv[layer * kv_heads : (layer + 1) * kv_heads] for layer in range(layers)]
    uniform = layer_budgets([mean] * layers)
    layer_rows = {"pyramidkv": pyramid_budgets, "zigzagkv": zigzag_budgets, "uniform": uniform}
    if rule["layer_method"] == "all_owners":
        pools = published_layers = [sum(row) for row in headkv_layers]
    else:
        published_layers = layer_rows[rule["layer_method"]]
        pools = [rows * share for rows in published_layers]
    limits = [floor] * kv_heads, [cap] * kv_heads
    raw = [winners(scores[layer], pool) for layer, pool in enumerate(pools)]
    blend = [[(3 * count + Fraction(sum(row), kv_heads)) / 4 for count in row] for row in raw]
    adakv = [apportioned(targets, pool, *limits) for targets, pool in zip(blend, pools, strict=True)]
    fixture["head_allocation"]["adakv"]["receipt"] = {"raw_counts": raw, "target_rows": blend, "budget_rows": adakv}
    split = [apportioned([Fraction(pool, kv_heads)] * kv_heads, pool, *limits) for pool in pools]
    budgets = {"adakv": adakv, "uniform": split, "headkv": headkv_layers}[rule["head_method"]]
    _patterns(fixture, frontier)
    _publish(fixture, scores, published_layers, budgets)
    return redeclared(LOOP, fixture)


def _patterns(fixture, frontier):
    family = fixture["fastgen"]
    uniform = [Fraction(1, frontier)] * frontier
    receipt = {"policy": "full", "rows": frontier, "recovery": 1, "fallback": False}
    family.update(
        patterns={"special": [0], "punctuation": [], "locality": [], "frequency": [], "full": list(range(frontier))},
        heads={"head_0": {"mass": uniform, "receipt": receipt}},
        probes={},
        transitions=[],
        current_policies={"head_0": "full"},
    )


def _publish(fixture, scores, layer_budgets, budgets):
    rule, receipt, geometry = fixture["manifest"], fixture["receipt"], fixture["geometry"]
    kept = [
        [best(row, rows) for row, rows in zip(*owners, strict=True)] for owners in zip(scores, budgets, strict=True)
    ]
    ascending = [[sorted(positions) for positions in heads] for heads in kept]
    packed = kept if rule["pack_order"] == "score" else ascending
    positions = [[rows + rule["protected_positions"] for rows in heads] for heads in packed]
    owners = [(layer, head, rows) for layer, heads in enumerate(positions) for head, rows in enumerate(heads)]
    width = geometry["head_dimension"]
    head_stride = width * geometry["prompt_positions"]
    layer_stride = head_stride * geometry["kv_heads"]
    value_offset = layer_stride * geometry["layers"]
    fixture["symbolic_content"] = {
        "layer_stride": layer_stride,
        "kv_head_stride": head_stride,
        "position_stride": width,
        "value_offset": value_offset,
    }
    keys = [
        [layer * layer_stride + head * head_stride + position * width + channel for channel in range(width)]
        for layer, head, rows in owners
        for position in rows
    ]
    lengths = [len(rows) for _, _, rows in owners]
    receipt.update(
        publications=[
            {**receipt["publications"][0], "layer": layer, "validated_owners": geometry["kv_heads"]}
            for layer in range(geometry["layers"])
        ],
        layer_budget_rows=layer_budgets,
        owner_budget_rows=budgets,
        owner_positions=positions,
        row_lengths=lengths,
        row_offsets=[sum(lengths[:owner]) for owner in range(len(lengths) + 1)],
        original_position_map=[position for _, _, rows in owners for position in rows],
        packed_key_rows=keys,
        packed_value_rows=[[scalar + value_offset for scalar in row] for row in keys],
    )
    prefix = sum(map(sum, budgets))
    group = geometry["query_heads"] // geometry["kv_heads"]
    fixture["accounting"] = {
        "charged_owners": len(owners),
        "prefix_rows": prefix,
        "protected_rows": sum(lengths) - prefix,
        "row_bytes": 4 * width,
        "query_expanded_rows": group * sum(lengths),
    }
    layers = [[len(rows) for rows in heads] for heads in positions]
    slots = sum(max(heads) * len(heads) for heads in layers)
    fixture["execution"]["receipts"] = {
        "native_ragged": {"row_slots": sum(lengths), "launches": len(layers)},
        "padded_to_longest": {"row_slots": slots, "launches": len(layers)},
        "grouped_by_length": {"row_slots": sum(lengths), "launches": sum(len(set(heads)) for heads in layers)},
    }
    frontier = geometry["prompt_positions"]
    fixture["lifecycle"] = [
        {
            **SHIPPED["lifecycle"][0],
            "position": frontier,
            "frontier": frontier + 1,
            "total_prefix_rows": rule["total_prefix_rows"],
            "owner_budget_rows": budgets,
            "owner_prefix_positions": ascending,
        }
    ]
    newest = [[layer, head] for layer, head, rows in owners if frontier - 1 in rows]
    fixture["probes"] = [{"original_position": frontier - 1, "visible_owners": newest, "task_quality": None}]
    fixture["proxy"]["retained_score_per_layer"] = [
        sum(scores[layer][head][position] for head, rows in enumerate(heads) for position in rows)
        for layer, heads in enumerate(ascending)
    ]


def drawn_scores(layers, kv_heads, prefix, seed=1, most=10**6):
    draw = random.Random(seed)
    return [[[draw.randrange(most) for _ in range(prefix)] for _ in range(kv_heads)] for _ in range(layers)]


def violation(fixture, changed=INPUTS):
    """Return code and pointer of the contract that a fixture breaks; its schema is judged for the changed members."""
    assert schema.member_defects(LOOP.fixture_schema, fixture, changed) == ()
    with pytest.raises(ContractViolation) as caught:
        observe(LOOP, fixture)
    return caught.value.diagnostic.code, caught.value.pointer


def edited(*edits):
    """Return the shipped fixture with (path, value) edits, its digest renewed."""
    fixture = copy.deepcopy(SHIPPED)
    for path, value in edits:
        *parents, last = path.split("/")
        record = fixture
        for parent in parents:
            record = record[int(parent) if isinstance(record, list) else parent]
        record[int(last) if isinstance(record, list) else last] = value
    return LOOP.refresh_digests(fixture)


def test_the_shipped_fixture():
    evidence = observe(LOOP, SHIPPED)
    ledgers = {"full_prompt_payload": 576, "allocated_payload": 288, "position_map": 96, "cumulative_offsets": 28}
    assert {row.name: row.value for row in evidence.ledgers} == declared(evidence)["ledgers"] == ledgers
    assert [row.name for row in evidence.ledgers] == list(ledgers)
    assert [snapshot.selected_row_count for snapshot in evidence.snapshots] == [4, 6, 5, 3, 3, 3]
    assert {(each.state_generation, each.cache_generation, each.published) for each in evidence.snapshots} == {
        (21, 301, True)
    }
    assert [each.members for each in evidence.comparisons] == [("full_prompt_payload", "allocated_payload")]


def test_a_real_models_shape():
    """Llama-3.1-8B: 32 layers, 32 query heads on 8 K/V heads, d_h 128; three prefix rows an owner in the mean."""
    fixture = allocation_fixture(drawn_scores(32, 8, 255), 32, 128, 1, 32 * 8 * 3)
    assert schema.defects(LOOP.fixture_schema, fixture) == ()
    evidence = observe(LOOP, fixture)
    rows = 32 * 8 * 4
    assert {row.name: row.value for row in evidence.ledgers} == {
        "full_prompt_payload": 32 * 2**20,  # 128 KiB a token times 256
        "allocated_payload": rows * 512,
        "position_map": rows * 4,
        "cumulative_offsets": 257 * 4,
    }
    assert len(evidence.snapshots) == 256
    assert evidence.results["published"]["query_expanded_rows"] == 4 * rows
    assert evidence.results["pyramidkv"]["budgets"][:3] == [36, 35, 34]
    assert evidence.results["adakv"]["bound_trials"]["held"] == 200
    fixture["receipt"]["owner_positions"][31][7][0] ^= 1
    assert violation(fixture)[1].startswith("/receipt/owner_positions/31/7")


@pytest.mark.parametrize("pack_order", ["ascending", "score"])
@pytest.mark.parametrize("scope", ["rows_per_layer", "rows_per_kv_head"])
@pytest.mark.parametrize(
    ("layer_method", "head_method"),
    [
        *((layers, heads) for layers in ("pyramidkv", "zigzagkv", "uniform") for heads in ("adakv", "uniform")),
        ("all_owners", "headkv"),
    ],
)
def test_every_method_scope_and_order(layer_method, head_method, scope, pack_order):
    """Four layers of three K/V heads, six query heads; scores repeat, so that ties decide."""
    per_head = scope == "rows_per_kv_head"
    fixture = allocation_fixture(
        drawn_scores(4, 3, 9, most=5),
        6,
        2,
        2,
        17 if per_head else 35,
        layer_method=layer_method,
        head_method=head_method,
        layer_budget_scope=scope,
        pack_order=pack_order,
    )
    assert schema.member_defects(LOOP.fixture_schema, fixture, INPUTS) == ()
    published = observe(LOOP, fixture).results["published"]
    assert published["prefix_rows"] == (51 if per_head else 35)
    assert published["protected_rows"] == 4 * 3 * 2


def test_multi_query_attention_and_no_suffix():
    """One K/V head a layer, and no protected window: lengths are budgets."""
    evidence = observe(LOOP, allocation_fixture(drawn_scores(3, 1, 8), 4, 2, 0, 10))
    assert evidence.results["published"]["lengths"] == [5, 3, 2]  # 5, 3 1/3 and 1 2/3
    assert evidence.results["published"]["query_expanded_rows"] == 40
    # Five rows for a single head leave Ada-KV nothing to decide.
    assert evidence.results["adakv"]["tied_at_cut"] == [False] * 3


def test_an_explicit_head_map():
    explicit = edited(
        ("manifest/head_map_mode", "explicit"),
        ("manifest/q_to_kv_head_map", [0, 1, 1, 1]),
        ("accounting/query_expanded_rows", (4 + 5 + 3) + 3 * (6 + 3 + 3)),
    )
    assert observe(LOOP, redeclared(LOOP, explicit)).results["published"]["query_expanded_rows"] == 48
    assert violation(edited(("manifest/q_to_kv_head_map", [0, 1, 1, 1])))[0] == "allocation.head-map-ownership"


def test_floors_at_the_mean_make_ada_kv_uniform():
    """Where every owner's floor is the mean, no score can move a row, and the report says so."""
    fixture = allocation_fixture(drawn_scores(3, 2, 6), 4, 2, 1, 12, layer_method="uniform", owner_floor_rows=2)
    ada = observe(LOOP, fixture).results["adakv"]
    assert ada["scores_can_move_budgets"] is False
    assert ada["budgets"] == [[2, 2]] * 3
    assert SHIPPED["declared"]["results"]["adakv"]["scores_can_move_budgets"] is True


def test_an_output_without_direction_has_no_minimum_budget():
    profile = "layer_allocation/zigzagkv/profile/2/0/values"
    receipt = "layer_allocation/zigzagkv/receipt"
    nothing = edited((profile, [[0, 0]] * 8), (f"{receipt}/mbo_rows/2/0", None), (f"{receipt}/lmbo_rows/2", None))
    results = observe(LOOP, redeclared(LOOP, nothing)).results["zigzagkv"]
    assert results["from_lmbo"] is None
    assert results["lmbo_rows"] == [5, 5, None]
    invented = edited((profile, [[0, 0]] * 8), (f"{receipt}/mbo_rows/2/0", 0))
    assert violation(invented) == (
        "allocation.minimum-budget-mismatch",
        "/layer_allocation/zigzagkv/receipt/mbo_rows/2/0",
    )


def test_sevenths_are_stated_with_twelve_digits():
    """Sensitivities 1, 2, 3, 1: no decimal is a seventh, so a receipt gives the digits that a report writes."""
    fixture = allocation_fixture(drawn_scores(4, 2, 6), 4, 2, 1, 17)
    receipt = fixture["layer_allocation"]["zigzagkv"]["receipt"]
    exact = receipt["target_rows"]
    assert exact[0] == 1 + Fraction(13, 7)
    receipt["target_rows"] = [Fraction(f"{float(target):.12g}") for target in exact]
    assert receipt["target_rows"] != exact
    observe(LOOP, fixture)
    receipt["target_rows"][3] += Fraction(1, 10**10)
    place = "/layer_allocation/zigzagkv/receipt/target_rows/3"
    assert violation(fixture) == ("allocation.layer-target-mismatch", place)


def test_one_layer_has_no_schedule():
    fixture = copy.deepcopy(SHIPPED)
    fixture["geometry"]["layers"] = 1
    fixture["owner_scores"] = fixture["owner_scores"][:1]
    fixture["layer_allocation"]["zigzagkv"]["profile"] = fixture["layer_allocation"]["zigzagkv"]["profile"][:1]
    fixture["layer_allocation"]["zigzagkv"]["mean_rows_per_layer"] = 12
    fixture["head_allocation"]["headkv"]["mean_rows_per_head"] = 6
    assert violation(LOOP.refresh_digests(fixture)) == ("allocation.pyramid-undefined", "/geometry/layers")


def test_every_wrong_scalar_is_found():
    for name in ("packed_key_rows", "packed_value_rows"):
        for row in range(24):
            for channel in range(3):
                fixture = copy.deepcopy(SHIPPED)
                fixture["receipt"][name][row][channel] += 1
                assert violation(fixture, ()) == ("allocation.key-value-positions-differ", f"/receipt/{name}/{row}")


def test_every_owner_keeps_its_own_best_rows():
    """Any other row in any place of any owner is found, whatever else it breaks."""
    for layer in range(3):
        for head in range(2):
            kept = SHIPPED["receipt"]["owner_positions"][layer][head][:-2]
            for index in range(len(kept)):
                for other in set(range(6)) - set(kept):
                    fixture = copy.deepcopy(SHIPPED)
                    fixture["receipt"]["owner_positions"][layer][head][index] = other
                    place = f"/receipt/owner_positions/{layer}/{head}"
                    assert violation(fixture, ()) == ("allocation.selection-mismatch", place)


def test_a_recalibration_may_be_below_zigzags_floor():
    """Two rows over three layers have a mean below the floor of one row: the transaction has no solution."""
    fixture = edited(
        ("manifest/layer_method", "zigzagkv"),
        ("manifest/owner_floor_rows", 0),
        ("lifecycle/2/total_prefix_rows", 2),
    )
    ada = fixture["head_allocation"]["adakv"]["receipt"]
    ada["budget_rows"] = fixture["receipt"]["owner_budget_rows"] = [[2, 4], [3, 1], [2, 0]]
    receipt = fixture["receipt"]
    receipt["owner_positions"][2] = [[0, 3, 6, 7], [6, 7]]
    receipt["row_lengths"][4:] = [4, 2]
    receipt["row_offsets"][5] = 22
    receipt["original_position_map"][18:] = [0, 3, 6, 7, 6, 7]
    places = [(2, 0, 0), (2, 0, 3), (2, 0, 6), (2, 0, 7), (2, 1, 6), (2, 1, 7)]
    for name, offset in (("packed_key_rows", 0), ("packed_value_rows", 5000)):
        receipt[name][18:] = [
            [offset + 1000 * layer + 100 * head + 10 * position + channel for channel in range(3)]
            for layer, head, position in places
        ]
    fixture["execution"]["receipts"]["padded_to_longest"]["row_slots"] = 30
    fixture["execution"]["receipts"]["grouped_by_length"]["launches"] = 6
    for event in fixture["lifecycle"][:2]:
        event["owner_budget_rows"] = [[2, 4], [3, 1], [2, 0]]
        event["owner_prefix_positions"][2] = [[0, 3], []]
    fixture["lifecycle"][2]["owner_prefix_positions"][2] = [[0], []]
    assert violation(fixture) == ("allocation.budget-infeasible", "/lifecycle/2/total_prefix_rows")


def test_the_manifest_digest_ignores_key_order():
    reordered = {**SHIPPED, "manifest": dict(reversed(SHIPPED["manifest"].items()))}
    assert LOOP.refresh_digests(reordered)["receipt"] == SHIPPED["receipt"]


def places(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in items:
        yield from places(member, (*path, key))


def at(document, path):
    for step in path:
        document = document[step]
    return document


SWITCHES = {
    "layer_method": ["pyramidkv", "zigzagkv", "uniform", "all_owners"],
    "head_method": ["adakv", "uniform", "headkv"],
    "layer_budget_scope": ["rows_per_layer", "rows_per_kv_head"],
    "pack_order": ["ascending", "score"],
    "head_map_mode": ["contiguous_gqa", "explicit"],
    "execution_layout": ["native_ragged", "padded_to_longest", "grouped_by_length"],
    "event": ["append", "recalibrate"],
    "rows_from": ["retained_rows", "prompt_prefilled_again"],
}


@pytest.mark.parametrize("seed", range(120))
def test_no_valid_document_crashes_the_oracle(seed):
    """One to three random edits; if the schema lets them pass, the oracle answers or names a contract."""
    choose = random.Random(seed)
    fixture = copy.deepcopy(SHIPPED)
    inputs = [path for path in places(fixture) if path and path[0] != "declared"]
    touched = set()
    for _ in range(choose.randint(1, 3)):
        # Members are drawn evenly, so that long lists of scalars do not take all edits.
        member = choose.choice(sorted({path[0] for path in inputs}))
        path = choose.choice([path for path in inputs if path[0] == member])
        touched.add(member)
        try:
            parent, value = at(fixture, path[:-1]), at(fixture, path)
        except (IndexError, KeyError):
            continue  # an earlier edit removed it
        if path[-1] in SWITCHES:
            parent[path[-1]] = choose.choice(SWITCHES[path[-1]])
        elif isinstance(value, bool) or value is None:
            parent[path[-1]] = choose.choice([True, False, None, 0])
        elif isinstance(value, int):
            parent[path[-1]] = choose.choice([0, 1, value + 1, max(0, value - 1), 2 * value, 2**24, None])
        elif isinstance(value, Fraction):
            parent[path[-1]] = choose.choice([0, 1, value / 2, -value, Fraction("0.1")])
        elif isinstance(value, list):
            parent[path[-1]] = choose.choice([[], value[:-1], value + value[-1:], value[::-1]])
    if schema.member_defects(LOOP.fixture_schema, fixture, touched):
        return
    refreshed = LOOP.refresh_digests(fixture) if choose.random() < 0.9 else fixture
    with contextlib.suppress(ContractViolation):
        evidence = LOOP.oracle(refreshed)
        declared(evidence)

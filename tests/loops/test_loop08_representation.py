"""Loop 8 beyond its suites: a real model's shape, every other legal setting, and no input that crashes it."""

import contextlib
import copy
import random
from fractions import Fraction
from pathlib import Path

import mpmath
import pytest

from kvaudit.errors import ContractViolation
from kvaudit.evidence import schema
from kvaudit.evidence.declared import declared, observe
from kvaudit.evidence.strict_json import parse_json
from kvaudit.loops import loop08_representation as loop08
from kvaudit.suite.entry import redeclared

LOOP = loop08.LOOP
ROOT = Path(__file__).parents[2]
SHIPPED = parse_json((ROOT / "fixtures" / LOOP.id / "fixture.json").read_bytes())
SIDES = loop08.SIDES


def fresh():
    return copy.deepcopy(SHIPPED)


def violation(fixture):
    with pytest.raises(ContractViolation) as caught:
        observe(LOOP, loop08.refresh_digests(fixture))
    return caught.value.diagnostic.code.removeprefix("representation."), caught.value.pointer


def stated(number):
    """What a runtime would write: 12 significant digits."""
    return Fraction(mpmath.nstr(number, 12, strip_zeros=False))


def merged(low, high, rho):
    """One pair in mpmath: angle by arccosine, SLERP; a second way to what the oracle derives exactly."""
    low, high = ([mpmath.mpf(c) for c in row] for row in (low, high))
    norms = [mpmath.sqrt(sum(c * c for c in row)) for row in (low, high)]
    one, other = ([c / norm for c in row] for row, norm in zip((low, high), norms, strict=True))
    angle = mpmath.acos(sum(a * b for a, b in zip(one, other, strict=True)))
    weights = [mpmath.sin((1 - rho) * angle) / mpmath.sin(angle), mpmath.sin(rho * angle) / mpmath.sin(angle)]
    return angle, [weights[0] * a + weights[1] * b for a, b in zip(one, other, strict=True)], norms


def tensor_state(lows, highs, rho):
    rows = [merged(low, high, rho) for low, high in zip(lows, highs, strict=True)]
    return {
        "angles": [stated(angle) for angle, _, _ in rows],
        "directions": [[stated(c) for c in direction] for _, direction, _ in rows],
        "low_magnitudes": [stated(norms[0]) for _, _, norms in rows],
        "high_magnitudes": [stated(norms[1]) for _, _, norms in rows],
    }


def pair_state(sources, positions, widths, rho=0.5, threshold=0.25):
    """State and restored rows of a pair whose rows are neither parallel nor opposite."""
    state = {name: tensor_state(sources[f"low_{name}"], sources[f"high_{name}"], rho) for name in ("key", "value")}
    far = [
        index
        for index in range(len(positions))
        if max(state[name]["angles"][index] for name in ("key", "value")) / mpmath.pi > threshold
    ]
    rows, d = len(positions), widths["head_dimension"]
    state["exception_positions"] = [positions[index] for index in far]
    state["exception_rows"] = {side: [sources[side][index] for index in far] for side in SIDES}
    state["full_bytes"] = 4 * rows * d * widths["scalar_bytes"]
    state["merged_bytes"] = (
        2 * rows * d * widths["scalar_bytes"]
        + 4 * rows * widths["magnitude_bytes"]
        + 2 * rows * widths["angle_bytes"]
        + len(far) * (4 * d * widths["scalar_bytes"] + widths["index_bytes"])
    )
    restored = {side: [] for side in SIDES}
    for name in ("key", "value"):
        for index in range(rows):
            low, high = sources[f"low_{name}"][index], sources[f"high_{name}"][index]
            _, direction, norms = merged(low, high, rho)
            kept = index in far
            restored[f"low_{name}"].append(low if kept else [stated(c * norms[0]) for c in direction])
            restored[f"high_{name}"].append(high if kept else [stated(c * norms[1]) for c in direction])
    return state, restored


def put_pair(fixture, sources, positions, newest, rho=0.5):
    """Replace the trace of the layer pair: `newest` is the decoded row of each side."""
    with mpmath.workdps(60):
        pair, widths = fixture["minicache"], fixture["minicache"]["widths"]
        state, restored = pair_state(sources, positions, widths, rho)
        pair["prefill"].update(
            sources, low_positions=positions, high_positions=positions, state=state, restored=restored
        )
        after = {side: [*sources[side], newest[side]] for side in SIDES}
        position = positions[-1] + 1
        decoded, _ = pair_state(after, [*positions, position], widths, rho)
        pair["decode"].update(newest, position=position, state=decoded)


def test_a_real_models_shape():
    """32 layers, 8 K/V heads: 64 decisions an owner, eight merged pairs with 24 traced rows, a 32-layer sandwich."""
    choose = random.Random(8)
    fixture = fresh()
    for checkpoint in fixture["checkpoints"].values():
        checkpoint["layers"] = 32
    identity = list(range(32))
    alpha = [[[0, *(choose.randint(0, 1) for _ in range(63))] for _ in range(8)] for _ in range(32)]
    lengths = [[decisions.count(0) for decisions in heads] for heads in alpha]
    rows = sum(map(sum, lengths))
    fixture["manifests"]["dmc"].update(producer_layer_map=identity, consumer_layer_map=identity)
    fixture["dmc"]["ragged"].update(
        alpha=alpha,
        lengths=lengths,
        page_rows=16,
        pages=sum(-(-length // 16) for heads in lengths for length in heads),
        payload_bytes=rows * 8,
        padded_payload_bytes=256 * max(map(max, lengths)) * 8,
    )
    for objective in fixture["dmc"]["objectives"]:
        allowed = Fraction(32 * 8 * 64) / objective["target_ratio"]
        loss = max(Fraction(0), rows - allowed) / (32 * 8 * 64)
        objective.update(appended_rows=rows, loss=stated(mpmath.mpf(loss.numerator) / loss.denominator))
    pairs = [[layer, layer + 1] for layer in range(16, 32, 2)]
    consumers = [layer if layer < 16 else layer - layer % 2 for layer in range(32)]
    fixture["manifests"]["minicache"].update(producer_layer_map=identity, consumer_layer_map=consumers)
    fixture["manifests"]["minicache"]["parameters"].update(start_layer=16, merged_pairs=pairs)
    fixture["minicache"].update(layer_caches=["layer_local"] * 16 + ["shared_pair"] * 16)
    fixture["minicache"]["pair"] = {"low_layer": 30, "high_layer": 31}
    fixture["minicache"]["widths"]["head_dimension"] = 8

    def row(near=None):
        base = near or [choose.randint(-50, 50) or 7 for _ in range(8)]
        return [c + choose.randint(-15, 15) for c in base] if near else base

    lows = {name: [row() for _ in range(25)] for name in ("key", "value")}
    sources = {}
    for name, low in lows.items():
        sources[f"low_{name}"] = low
        sources[f"high_{name}"] = [row(near) if index % 5 else row() for index, near in enumerate(low)]
    put_pair(
        fixture,
        {side: sources[side][:24] for side in SIDES},
        list(range(0, 48, 2)),
        {side: sources[side][24] for side in SIDES},
    )
    condensed = fixture["manifests"]["lckv"]
    condensed.update(consumer_layer_map=[0, *[30] * 30, 31], producer_layer_map=[0, 30, 31])
    condensed["parameters"]["diagonal_masked"] = [False, *[True] * 29, False, False]
    fixture["lckv"]["visibility"][3]["layer"] = 31
    fixture["lckv"].update(
        stored_layers=[0, 30, 31],
        geometry={"batch": 1, "positions": 131_072, "kv_heads": 8, "head_dimension": 128, "scalar_bytes": 2},
        payload={"standard_bytes": 16 * 2**30, "condensed_bytes": 3 * 2**29},
    )
    fixture = redeclared(LOOP, fixture)
    assert schema.defects(LOOP.fixture_schema, fixture) == ()
    evidence = observe(LOOP, fixture)
    ledgers = {row.name: row.value for row in evidence.ledgers}
    assert ledgers["standard_layer_caches"] == 16 * 2**30  # 128 KiB a token times 131,072
    assert ledgers["condensed_layer_caches"] == 3 * 2**29
    assert ledgers["layer_pair_full"] == 4 * 24 * 8 * 2
    assert evidence.results["dmc"]["ragged"]["payload_bytes"] == rows * 8
    assert evidence.results["dmc"]["ragged"]["lengths"]["count"] == 32 * 8
    assert evidence.results["lckv"]["iteration_trace"]["first_exact_iterations"] == list(range(1, 13))
    assert evidence.results["lckv"]["sandwich"]["no_even_warmup_gives_this_map"] is False
    assert evidence.results["minicache"]["parallel_rows_restore_exactly"] is None
    assert len(evidence.snapshots) == 1


@pytest.mark.parametrize("rho", [0.25, 0.75])
def test_another_rho(rho):
    fixture = fresh()
    fixture["manifests"]["minicache"]["parameters"]["rho"] = Fraction(rho)
    sources = {
        "low_key": [[3, 4], [5, 1]],
        "high_key": [[4, 3], [1, 5]],
        "low_value": [[1, 2], [2, 1]],
        "high_value": [[2, 1], [3, 1]],
    }
    put_pair(fixture, sources, [4, 9], {side: [7, 1 + index] for index, side in enumerate(SIDES)}, rho)
    results = observe(LOOP, redeclared(LOOP, fixture)).results["minicache"]["prefill"]
    turned = results["key"]["low_directional_errors"][0] / results["key"]["angles"][0]
    assert float(turned) == pytest.approx(rho)
    assert results["exception_positions"] == [9]  # (5, 1) and (1, 5) are 67 degrees apart


def test_an_opposite_pair_is_retained_whatever_the_threshold():
    fixture = fresh()
    parameters = fixture["manifests"]["minicache"]["parameters"]
    parameters["exception_distance"] = 1
    prefill, decode = fixture["minicache"]["prefill"], fixture["minicache"]["decode"]
    prefill["state"].update(
        exception_positions=[], exception_rows={side: [] for side in SIDES}, merged_bytes=24 + 48 + 24
    )
    decode["state"].update(
        exception_positions=[3], exception_rows={side: [decode[side]] for side in SIDES}, merged_bytes=148
    )
    with mpmath.workdps(60):
        for name in ("key", "value"):
            _, direction, norms = merged(prefill[f"low_{name}"][2], prefill[f"high_{name}"][2], 0.5)
            for side, norm in zip((f"low_{name}", f"high_{name}"), norms, strict=True):
                prefill["restored"][side][2] = [stated(c * norm) for c in direction]
    evidence = observe(LOOP, redeclared(LOOP, fixture))
    assert evidence.results["minicache"]["decode"]["exception_positions"] == [3]
    assert evidence.results["minicache"]["prefill"]["exception_positions"] == []


@pytest.mark.parametrize(
    ("method", "represents", "rule", "consumer", "payload"),
    [
        ("minicache", [[4, 5]], "direction_times_magnitude_then_exceptions", "restore_then_attend", 116),
        ("lckv", [[1, 5], [2, 5], [3, 5], [4, 5]], "read_producer_layer", "condensed_attention", 1024),
    ],
)
def test_the_other_publications(method, represents, rule, consumer, payload):
    fixture = fresh()
    fixture["publication"].update(
        method=method, represents=represents, reconstruction_rule=rule, consumer=consumer, payload_bytes=payload
    )
    (snapshot,) = observe(LOOP, redeclared(LOOP, fixture)).snapshots
    assert (snapshot.policy, snapshot.selected_original_positions, snapshot.selected_row_count) == (method, None, None)
    fixture["publication"]["represents"] = [[0, 1], [2, 4]]
    assert violation(fixture)[0] == "replacement-receipt-mismatch"


def test_a_graph_without_condensed_layers_is_an_ordinary_one():
    """Every layer produces: no diagonal is masked, one pass is exact, nothing is saved."""
    fixture = fresh()
    manifest, record = fixture["manifests"]["lckv"], fixture["lckv"]
    identity = list(range(6))
    manifest.update(consumer_layer_map=identity, producer_layer_map=identity)
    manifest["parameters"].update(
        diagonal_masked=[False] * 6, first_token="nothing", forward_iterations=0, backward_iterations=1
    )
    record.update(
        stored_layers=identity, prompt_iterations=1, payload={"standard_bytes": 3072, "condensed_bytes": 3072}
    )
    record["iteration_trace"].update(first_exact_iterations=[1] * 12, exact_after_prompt_iterations=12)
    for receipt in record["visibility"]:
        receipt["visible_tokens"] = receipt["token"] + 1
    results = observe(LOOP, redeclared(LOOP, fixture)).results["lckv"]
    assert (results["payload_ratio"], results["cycles_without_mask"]) == (1, [])


def test_a_layer_that_reads_from_below_keeps_its_diagonal():
    fixture = fresh()
    fixture["manifests"]["lckv"]["consumer_layer_map"][4] = 0
    assert violation(fixture) == (
        "ordinary-diagonal-masked",
        "/manifests/lckv/parameters/diagonal_masked/4",
    )


def test_scaled_weights_give_the_same_segments():
    """Contradiction 1: with weights a sigmoid can give, the masses are .5 and 1 and every mean stays."""
    fixture = fresh()
    fixture["dmc"]["omega"] = fixture["dmc"]["in_range_omega"]
    for segment, mass in zip(fixture["dmc"]["segments"], (Fraction(1, 2), 1), strict=True):
        segment["mass"] = mass
    relative = observe(LOOP, redeclared(LOOP, fixture)).results["dmc"]["relative_weights"]
    assert relative["some_weight_outside_sigmoid_range"] is False
    assert relative["in_range_masses"] == [Fraction(1, 2), 1]


def test_a_later_first_position_moves_spans_and_anchors():
    fixture = fresh()
    fixture["dmc"]["first_position"] = 100
    for segment in fixture["dmc"]["segments"]:
        for name in ("first", "last", "anchor"):
            segment[name] += 100
    fixture["publication"]["represents"] = [[100, 101], [102, 104]]
    assert observe(LOOP, redeclared(LOOP, fixture)).results["dmc"]["stored_rows"] == 2


def test_summaries_that_keep_their_tokens():
    fixture = fresh()
    fixture["summaries"]["retention"] = "summaries_and_tokens"
    assert violation(fixture) == ("discard-not-allowed", "/summaries/segments/0/discarded/0")
    for segment in fixture["summaries"]["segments"]:
        segment["discarded"] = ["segment_activations"]
    fixture["summaries"]["stated_size"]["replaces"] = "whole_document"
    results = observe(LOOP, redeclared(LOOP, fixture)).results["summaries"]
    assert results["stated_size"]["vectors_for_the_document"] == 50


def test_a_quantised_manifest_names_its_composition():
    fixture = fresh()
    fixture["manifests"]["minicache"]["quantization_contract_id"] = "mini-int4"
    observe(LOOP, redeclared(LOOP, fixture))
    del fixture["compositions"]["minicache-4-bit"]["quantisation"]["components"]["magnitudes"]
    assert violation(fixture) == ("quantisation-component-undeclared", "/compositions/minicache-4-bit/decision")


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize("channel", [0, 1])
def test_every_wrong_restored_scalar_is_found(side, index, channel):
    fixture = fresh()
    fixture["minicache"]["prefill"]["restored"][side][index][channel] += Fraction(1, 10**6)
    where = f"/minicache/prefill/restored/{side}/{index}/{channel}"
    assert violation(fixture) == ("restored-row-mismatch", where)


def test_the_manifest_digest_covers_every_field():
    before = LOOP.refresh_digests(fresh())["publication"]["manifest_sha256"]
    for name in SHIPPED["manifests"]["dmc"]:
        fixture = fresh()
        fixture["manifests"]["dmc"][name] = "changed"
        assert LOOP.refresh_digests(fixture)["publication"]["manifest_sha256"] != before


def test_the_declared_object_is_the_recomputed_one():
    evidence = loop08.oracle(SHIPPED)
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


INPUTS = {name: member for name, member in SHIPPED.items() if name not in ("schema", "declared")}
PATHS = [path for path in places(INPUTS) if path]
TEXTS = sorted({at(INPUTS, path) for path in PATHS if isinstance(at(INPUTS, path), str)})


@pytest.mark.parametrize("seed", range(300))
def test_no_valid_document_crashes_the_oracle(seed):
    """One to three random edits in one member; if the schema lets them pass, the oracle answers or names a contract.

    What it answers is a document that the schema of results takes.
    """
    choose = random.Random(seed)
    fixture = fresh()
    member = choose.choice(PATHS)[0]
    for _ in range(choose.randint(1, 3)):
        path = choose.choice([path for path in PATHS if path[0] == member])
        try:
            parent, value = at(fixture, path[:-1]), at(fixture, path)
        except (KeyError, IndexError, TypeError):
            continue  # an earlier edit took the place away
        if isinstance(value, bool):
            parent[path[-1]] = not value
        elif value is None or isinstance(value, str):
            parent[path[-1]] = choose.choice([None, *TEXTS])
        elif isinstance(value, int | Fraction):
            edits = [0, 1, -1, value + 1, -value, 2 * value, Fraction(1, 10**300), 10**6, Fraction(value) / 3]
            parent[path[-1]] = choose.choice(edits)
        elif isinstance(value, list):
            parent[path[-1]] = choose.choice([[], value[:-1], value + value[-1:], value[::-1]])
    if schema.member_defects(LOOP.fixture_schema, fixture, [member]):
        return
    with contextlib.suppress(ContractViolation):
        if choose.random() < 0.2:
            observe(LOOP, fixture)
        accepted = redeclared(LOOP, fixture)
        assert schema.member_defects(LOOP.fixture_schema, accepted, ["declared"]) == ()

"""Loop 11 beyond its suites: a second way to the ledger, the law of one control, cohorts that do exist, closure."""

import copy
import json
import math
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kvaudit.errors import ContractViolation
from kvaudit.evidence import schema
from kvaudit.evidence.bundle import load_bundle
from kvaudit.evidence.declared import observe
from kvaudit.evidence.strict_json import parse_json
from kvaudit.evidence.text import DEFAULT_LIMITS
from kvaudit.loops import LOOPS, loop11_papers
from kvaudit.loops.loop11_papers import sensitivity
from kvaudit.reconcile import coordinates as systems
from kvaudit.suite.entry import examine
from kvaudit.suite.sources import Sources, collected, input_of

LOOP = loop11_papers.LOOP
ROOT = Path(__file__).parents[2]
BUNDLE = load_bundle(ROOT)
ENTRY = next(entry for entry in BUNDLE.entries if entry.id == LOOP.id)
SUITES = [json.loads((ROOT / suite.suite).read_bytes())["cases"] for suite in ENTRY.invalid_suites]
CONTRACTS = "/documents/contracts/content/contracts"
RESULTS = "/documents/results/content/results"


def given_input():
    fixture = parse_json((ROOT / ENTRY.fixture).read_bytes())
    return input_of(LOOP, Sources(BUNDLE, DEFAULT_LIMITS, None), ENTRY, fixture)


SHIPPED = given_input()


@pytest.fixture
def document():
    return copy.deepcopy(SHIPPED)


def rejected(document):
    with pytest.raises(ContractViolation) as raised:
        LOOP.oracle(document)
    return raised.value.diagnostic.code, raised.value.pointer


# --- the ledger, a second way: one row after another, and nothing from the module under test


def plain_rows(inputs, attention, rows):
    """Which prompt positions an owner of `rows` rows sees: sinks, recents, then one best position at a time."""
    prompt = inputs["prompt_rows"]
    scores = [Fraction(0)] * prompt
    for distance in range(inputs["observation_queries"]):
        query = prompt - 1 - distance
        scores[query] += attention[distance]["own"]
        for item in attention[distance]["history"]:
            scores[item["position"]] += item["weight"]
    seen = set(range(inputs["sink_rows"])) | set(range(prompt - inputs["recent_rows"], prompt))
    while len(seen) < rows:
        best = None
        for position in range(prompt):
            if position not in seen and (best is None or scores[position] > scores[best]):
                best = position
        seen.add(best)
    return sorted(seen)


def plain_ledger(inputs, attention):
    """Full and policy payload, visible rows of each owner and the owners that see the reference, counted row by row."""
    row = 2 * inputs["head_dimension"] * inputs["scalar_bytes"]
    full = policy = seeing = 0
    rows_of = {}
    for layer in range(inputs["layers"]):
        in_layer = inputs["rows_per_owner"] * inputs["kv_heads"]
        if inputs["layer_budget_rows"] != "uniform":
            in_layer = inputs["layer_budget_rows"][layer]
        for head in range(inputs["kv_heads"]):
            budget = in_layer // inputs["kv_heads"]
            if inputs["head_budget_rows"] != "uniform":
                budget = inputs["head_budget_rows"][layer][head]
            rows = rows_of[layer, head] = plain_rows(inputs, attention, budget)
            full += row * (inputs["prompt_rows"] + inputs["decode_rows"])
            policy += row * (len(rows) + inputs["decode_rows"])
            seeing += inputs["reference_position"] in rows
    return full, policy, seeing, rows_of


def agree(state, inputs, attention):
    full, policy, seeing, rows_of = plain_ledger(inputs, attention)
    assert state.terms["full_payload"] == full
    assert state.terms["policy_payload"] == policy
    assert state.terms["payload_ratio"] == Fraction(full, policy)
    assert state.terms["reference_visibility"] == Fraction(seeing, inputs["layers"] * inputs["kv_heads"])
    for (layer, head), rows in rows_of.items():
        assert list(state.selected[layer][head]) == rows


@pytest.mark.parametrize(
    ("group", "name"), [(g, n) for g in ("cases", "further_cases") for n in SHIPPED["sensitivity"][g]]
)
def test_every_shipped_case_agrees_with_the_plain_ledger(group, name):
    attention = SHIPPED["sensitivity"]["attention"]
    case = SHIPPED["sensitivity"][group][name]
    result = LOOP.oracle(SHIPPED).results["sensitivity"][group][name]
    if result["state"] is None:
        assert case["receipt"]["ledger"] is None
        return
    full, policy, seeing, rows_of = plain_ledger(case["inputs"], attention)
    assert result["state"]["full_payload_bytes"] == full
    assert result["state"]["policy_payload_bytes"] == policy
    assert result["state"]["owners_seeing_reference"] == seeing
    assert result["state"]["visible_prompt_rows"][0]["positions"] == rows_of[0, 0]
    assert sum(group["owners"] for group in result["state"]["visible_prompt_rows"]) == len(rows_of)


@st.composite
def worlds(draw):
    """Inputs and attention of any small shape, ties included."""
    prompt = draw(st.integers(4, 14))
    observed = draw(st.integers(1, min(4, prompt)))
    attention = []
    for distance in range(observed):
        query = prompt - 1 - distance
        parts = draw(st.lists(st.integers(0, 4), min_size=query + 1, max_size=query + 1))
        assume(sum(parts) > 0)
        total = sum(parts)
        attention.append(
            {
                "own": Fraction(parts[query], total),
                "history": [{"position": p, "weight": Fraction(parts[p], total)} for p in range(query)],
            }
        )
    sinks = draw(st.integers(0, 2))
    recents = draw(st.integers(0, 2))
    layers, heads = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    rows = draw(st.integers(max(1, sinks + recents), prompt))
    inputs = {
        "layers": layers,
        "kv_heads": heads,
        "head_dimension": draw(st.integers(1, 8)),
        "scalar_bytes": draw(st.sampled_from([1, 2, 4])),
        "prompt_rows": prompt,
        "decode_rows": draw(st.integers(0, 9)),
        "rows_per_owner": rows,
        "sink_rows": sinks,
        "recent_rows": recents,
        "observation_queries": draw(st.integers(1, observed)),
        "layer_budget_rows": "uniform",
        "head_budget_rows": "uniform",
        "reference_position": draw(st.integers(0, prompt - 1)),
        "checkpoint_compatible": True,
        "backend_reads_ragged_rows": True,
    }
    if heads > 1 and draw(st.booleans()):
        spare = min(rows - sinks - recents, prompt - rows)
        moved = draw(st.integers(0, spare)) if spare > 0 else 0
        uneven = [rows + moved, rows - moved] + [rows] * (heads - 2)
        inputs["head_budget_rows"] = [uneven] * layers
    return inputs, attention


def weighed(inputs, attention):
    document = {"base": inputs, "attention": attention, "cases": {}, "further_cases": {}}
    return sensitivity.derive(inputs, sensitivity.judge_attention(document), "/sensitivity/base")


@given(worlds())
def test_the_ledger_agrees_with_the_plain_one(world):
    inputs, attention = world
    agree(weighed(inputs, attention), inputs, attention)


@given(worlds())
def test_a_longer_prompt_raises_the_ratio_and_a_longer_reply_takes_it_towards_one(world):
    inputs, attention = world
    ratio = weighed(inputs, attention).terms["payload_ratio"]
    longer = weighed({**inputs, "prompt_rows": inputs["prompt_rows"] + 1}, attention).terms["payload_ratio"]
    assert longer > ratio >= 1
    reply = weighed({**inputs, "decode_rows": inputs["decode_rows"] + 5}, attention).terms["payload_ratio"]
    assert 1 <= reply <= ratio
    assert (reply == ratio) == (ratio == 1)


@given(worlds())
def test_protected_rows_are_paid_with_scored_ones(world):
    inputs, attention = world
    state = weighed(inputs, attention)
    for budgets, slots in zip(state.owner_budgets, state.terms["score_rows"], strict=True):
        for rows, scored in zip(budgets, slots, strict=True):
            assert rows == scored + inputs["sink_rows"] + inputs["recent_rows"]


@pytest.mark.parametrize(
    ("checkpoint", "backend", "outcome"),
    [
        (True, True, None),
        (False, True, "checkpoint-incompatible"),
        (True, False, "backend-incompatible"),
        (False, False, "checkpoint-incompatible"),
    ],
)
def test_admission_fails_closed_and_the_checkpoint_is_judged_first(checkpoint, backend, outcome):
    inputs = {
        **SHIPPED["sensitivity"]["base"],
        "checkpoint_compatible": checkpoint,
        "backend_reads_ragged_rows": backend,
        "rows_per_owner": 10 if outcome is None else 10**6,  # nothing is counted for a refused case
    }
    state = weighed(inputs, SHIPPED["sensitivity"]["attention"])
    assert state.refusal == outcome
    assert ("full_payload" in state.terms) == (outcome is None)


# --- exactly one control

CONTROLS = tuple(SHIPPED["sensitivity"]["base"])
OTHER_VALUES = {
    "layers": 5,
    "kv_heads": 4,
    "head_dimension": 64,
    "scalar_bytes": 1,
    "prompt_rows": 48,
    "decode_rows": 9,
    "rows_per_owner": 12,
    "sink_rows": 1,
    "recent_rows": 5,
    "observation_queries": 3,
    "layer_budget_rows": [24, 16, 24, 16],
    "head_budget_rows": [[10, 10], [8, 12], [10, 10], [12, 8]],
    "reference_position": 9,
    "checkpoint_compatible": False,
    "backend_reads_ragged_rows": False,
}


def with_case(changed, control):
    """The shipped document with one case left, whose inputs depart from the base in `changed`."""
    document = copy.deepcopy(SHIPPED)
    inputs = {**document["sensitivity"]["base"], **{name: OTHER_VALUES[name] for name in changed}}
    receipt = {"outcome": "quality-valid", "changed_terms": [], "ledger": None}
    document["sensitivity"]["cases"] = {"only": {"control": control, "inputs": inputs, "receipt": receipt}}
    return document


@given(st.sets(st.sampled_from(CONTROLS)), st.sampled_from(CONTROLS))
def test_a_case_moves_exactly_one_control_and_names_it(changed, control):
    code, place = rejected(with_case(changed, control))
    case = "/sensitivity/cases/only"
    if not changed:
        assert (code, place) == ("papers.control-unchanged", f"{case}/inputs")
    elif len(changed) > 1:
        assert (code, place) == ("papers.several-controls-changed", f"{case}/inputs")
    elif control not in changed:
        assert (code, place) == ("papers.control-misnamed", f"{case}/control")
    else:  # the control is judged; what is wrong with the receipt comes after it
        assert place.startswith(f"{case}/receipt")


def test_a_control_that_moves_no_term_is_legal(document):
    """Position 9 is visible to every owner as 14 is: the question moved and nothing else."""
    case = document["sensitivity"]["cases"]["delayed_reference"]
    case["inputs"]["reference_position"] = 9
    case["receipt"]["changed_terms"] = []
    case["receipt"]["ledger"]["owners_seeing_reference"] = 8
    result = LOOP.oracle(document).results["sensitivity"]["cases"]["delayed_reference"]
    assert result["changed_terms"] == []
    assert set(result["difference"].values()) == {0}


def test_equal_bytes_do_not_imply_equal_visibility():
    same = LOOP.oracle(SHIPPED).results["sensitivity"]["equal_bytes"]
    assert {"recent_window", "sink_count", "layer_budget", "head_budget"} <= set(same["other_visible_rows"])
    assert "delayed_reference" in set(same["cases"]) - set(same["other_visible_rows"])
    assert "total_budget" not in same["cases"]


def test_a_real_model_s_shape_is_admitted(document):
    """80 layers, 8 K/V heads, 4096 prompt rows; the report stays small."""
    shape = {"layers": 80, "kv_heads": 8, "prompt_rows": 4096, "rows_per_owner": 256, "reference_position": 3000}
    document["sensitivity"]["base"].update(shape)
    document["sensitivity"]["cases"] = {
        "scalar_bytes": {
            "control": "scalar_bytes",
            "inputs": {**document["sensitivity"]["base"], "scalar_bytes": 1},
            "receipt": {
                "outcome": "unmeasured",
                "changed_terms": ["row_bytes", "full_payload", "policy_payload"],
                "ledger": {
                    "full_payload_bytes": 640 * 4104 * 256,
                    "policy_payload_bytes": 640 * 264 * 256,
                    "owners_seeing_reference": 0,
                    "first_owner_prompt_positions": plain_rows(
                        document["sensitivity"]["base"], document["sensitivity"]["attention"], 256
                    ),
                },
            },
        }
    }
    document["sensitivity"]["further_cases"] = {}
    schema.check(LOOP.collected_schema, document)
    evidence = LOOP.oracle(document)
    positions = evidence.results["sensitivity"]["base"]["visible_prompt_rows"][0]["positions"]
    assert positions["count"] == 256
    assert {row.name: row.value for row in evidence.ledgers}["full_payload"] == 640 * 4104 * 512


# --- contracts and results


def test_the_counted_contracts_are_the_specification_s():
    counted = SHIPPED["counted"]
    contracts = SHIPPED["documents"]["contracts"]["content"]["contracts"]
    assert len(counted["policies"]) == 14
    assert len(counted["boundaries"]) == 3
    assert {name for name, each in contracts.items() if not each["addition"]} == {
        *counted["policies"],
        *counted["boundaries"],
    }


@pytest.mark.parametrize("name", SHIPPED["counted"]["policies"])
def test_each_policy_must_be_there(document, name):
    del document["documents"]["contracts"]["content"]["contracts"][name]
    assert rejected(document) == ("papers.contract-missing", CONTRACTS)


def test_an_unread_source_leaves_coordinates_open(document):
    """ZigZagKV's update rule is in no source that was read; once its paper is read it must be stated."""
    contract = document["documents"]["contracts"]["content"]["contracts"]["zigzagkv"]
    contract["coordinates"]["update_after_new_row"] = None
    contract["sources"] = [{"what": "its abstract", "read_level": "abstract"}]
    LOOP.oracle(document)
    contract["sources"].append({"what": "the paper", "read_level": "paper"})
    assert rejected(document) == (
        "papers.contract-incomplete",
        f"{CONTRACTS}/zigzagkv/coordinates/update_after_new_row",
    )


def test_not_applicable_is_a_declaration(document):
    contract = document["documents"]["contracts"]["content"]["contracts"]["h2o"]
    contract["coordinates"]["calibration_or_training"] = {"state": "not_applicable"}
    LOOP.oracle(document)


def fully_declared(record):
    """The coordinates of a record with a value for every key that its source left open."""
    system = systems.system("result/1")
    stated = {}
    for key, definition in system.keys.items():
        value = record["coordinates"].get(key)
        stated[key] = value if value is not None else {"state": "not_applicable"}
        assert definition.name == key
    return stated


def test_the_rule_can_say_yes(document):
    """Two complete records of one set-up are one comparable pair, and may then be set side by side."""
    records = document["documents"]["results"]["content"]["results"]
    records["h2o-throughput-t4"]["coordinates"] = fully_declared(records["h2o-throughput-t4"])
    twin = copy.deepcopy(records["h2o-throughput-t4"])
    records["h2o-again"] = {**twin, "primary": False, "addition": True}
    document["claims"]["comparisons"] = [{"a": "h2o-throughput-t4", "b": "h2o-again", "metric": "throughput"}]
    results = LOOP.oracle(document).results["reported_results"]
    assert results["comparable_pairs_of_all_records"] == 1
    assert results["comparable_pairs"] == 0
    twin["coordinates"]["workload.batch"] = 80
    records["h2o-again"] = {**twin, "primary": False, "addition": True}
    assert rejected(document) == ("papers.comparison-across-cohorts", "/claims/comparisons/0")


def test_two_policies_in_one_set_up_are_seen_with_the_policy_set_aside(document):
    """The zero of the shipped registry is no artefact of names: equal set-ups of two policies are found."""
    records = document["documents"]["results"]["content"]["results"]
    one = records["h2o-throughput-t4"]
    one["coordinates"] = fully_declared(one)
    for member in ("coordinates", "metrics", "reported"):
        records["keyformer-throughput"][member] = copy.deepcopy(one[member])
    records["keyformer-throughput"]["coordinates"]["policy.name"] = "keyformer"
    results = LOOP.oracle(document).results["reported_results"]
    assert results["comparable_pairs"] == 0
    assert results["comparable_pairs_policy_set_aside"] == 1


def test_no_shipped_pair_is_comparable_by_the_rule():
    counts = LOOP.oracle(SHIPPED).results["counts"]
    assert counts["primary_pairs"] == math.comb(14, 2)
    assert counts["comparable_primary_pairs"] == counts["local_reproductions"] == 0


def test_the_secondary_record_is_refused_for_its_missing_place_only(document):
    case = SUITES[0]["secondary-spherical-record"]
    record = copy.deepcopy(case["patch"][0]["value"])
    record["metrics"]["throughput"]["value"] = Fraction("268.5")
    record["reported"]["values"] = {"at_8k": Fraction("268.5")}
    document["documents"]["results"]["content"]["results"]["secondary"] = record
    assert rejected(document) == ("papers.result-without-location", f"{RESULTS}/secondary/source/location")
    record["source"]["location"] = "Table 2"
    LOOP.oracle(document)


@pytest.mark.parametrize(
    ("printed", "value", "admitted"),
    [
        ({"x": "about 3.6"}, Fraction("3.6"), True),
        ({"x": "428M"}, 428, True),
        ({"x": Fraction("3.6")}, Fraction("3.6"), True),
        ({"x": "out of memory"}, 3, False),
        ({}, None, True),
        ({"x": 36}, Fraction("3.6"), False),
    ],
)
def test_a_metric_is_null_or_printed(document, printed, value, admitted):
    record = document["documents"]["results"]["content"]["results"]["snapkv-latency"]
    record["metrics"]["ratio"]["value"] = value
    record["reported"]["values"] = printed
    if admitted:
        LOOP.oracle(document)
    else:
        assert rejected(document) == ("papers.value-not-printed", f"{RESULTS}/snapkv-latency/metrics/ratio/value")


# --- prior rejections, classes, rules


def test_prior_cases_are_those_of_the_first_suites():
    """Counted from the suite files themselves."""
    needed = [entry for entry in BUNDLE.entries if entry.id in ENTRY.needs]
    cases = [len(json.loads((ROOT / entry.invalid_suites[0].suite).read_bytes())["cases"]) for entry in needed]
    prior = LOOP.oracle(SHIPPED).results["prior"]
    assert [each["cases"] for each in prior["entries"].values()] == cases
    assert prior["cases"] == sum(cases)
    by_loop = dict(zip((entry.id for entry in needed), cases, strict=True))
    assert sum(by_loop[f"loop0{n}_{LOOPS[n - 2].command}"] for n in range(2, 10)) == 360


def test_every_hash_of_a_receipt_is_in_the_lock():
    receipts = LOOP.oracle(SHIPPED).receipts
    lock = SHIPPED["lock"]
    for name, receipt in receipts.items():
        entry = SHIPPED["bundle"][name]
        assert receipt["report"] == lock[entry["report"]]
        assert receipt["fixture"] == lock[entry["fixture"]]
        assert receipt["suites"] == {suite: lock[suite] for suite in entry["invalid_suites"]}


@pytest.mark.parametrize("name", SHIPPED["failure_classes"])
def test_each_class_is_closed_by_cases_that_exist(name):
    """Read from the suite files and not from reports; the code of a case is the one that its suite expects."""
    by_oracle = {}
    for entry in BUNDLE.entries:
        for suite in entry.invalid_suites:
            by_oracle.setdefault(entry.oracle, {}).update(json.loads((ROOT / suite.suite).read_bytes())["cases"])
    each = SHIPPED["failure_classes"][name]
    assert each["closed_by"]
    for closure in each["closed_by"]:
        oracle = closure["code"].partition(".")[0]
        assert by_oracle[oracle][closure["case"]]["expects"]["code"] == closure["code"]


def test_a_class_stays_open_when_its_case_was_not_rejected(document):
    suite = "fixtures/loop02_visibility/invalid.json"
    del document["suites"]["loop02_visibility"][suite]["cases"]["late-selector"]
    document["bundle"]["loop02_visibility"]["invalid_suites"][suite] -= 1
    stated = document["reports"]["loop02_visibility"]["document"]["invalid_suites"][suite]
    stated.update(cases=stated["cases"] - 1, rejected_as_expected=stated["rejected_as_expected"] - 1)
    assert rejected(document) == ("papers.closing-case-unknown", "/failure_classes/stale-generation/closed_by/0/case")


def test_entries_may_have_other_names(document):
    """A class names the loop by its code, so that a bundle may call its entries what it likes."""
    for member in ("bundle", "reports", "fixtures", "suites"):
        document[member] = {f"my-{name}": value for name, value in document[member].items()}
    assert len(LOOP.oracle(document).results["failure_classes"]) == 20


def test_the_rules_are_a_partition_of_the_diagnostics():
    named = [code for rule in SHIPPED["validator_rules"].values() for code in rule["codes"]]
    assert sorted(named) == sorted(each.code for each in LOOP.diagnostics if each != LOOP.drift)


def test_forty_eight_cases_and_every_category():
    assert len(SUITES[0]) == 48
    assert {case["category"] for case in SUITES[0].values()} == set(LOOP.categories)
    assert {case["category"] for case in SUITES[1].values()} <= set(LOOP.categories)


# --- the loop as the suite sees it


def test_a_broken_registry_is_named_in_its_own_file():
    text = (ROOT / "fixtures/loop11_papers/contracts.yaml").read_text(encoding="utf-8")
    broken = text.replace("persistent_object: original_rows", "persistent_object: some rows", 1)
    paths = {"fixtures/loop11_papers/contracts.yaml": broken.encode()}
    sources = Sources(BUNDLE, DEFAULT_LIMITS, None, paths)
    (found,) = examine(sources, ENTRY).findings
    assert found.path == "fixtures/loop11_papers/contracts.yaml"
    assert found.code == "papers.coordinate-not-allowed"
    assert found.pointer.endswith("/coordinates/persistent_object")
    assert text.splitlines()[found.line - 1].strip().startswith("persistent_object")


def test_what_is_collected_has_no_results_of_other_loops():
    assert not LOOP.reads_results
    reports = collected(Sources(BUNDLE, DEFAULT_LIMITS, None), ENTRY)["reports"]
    assert all("results" not in report["document"] for report in reports.values())


def test_the_shipped_fixture_declares_what_is_recomputed():
    assert observe(LOOP, SHIPPED).results["counts"] == SHIPPED["declared"]["results"]["counts"]

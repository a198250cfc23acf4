"""The registries of loop 11: what they say, held against facts picked by hand, and what may be compared by the rule."""

import copy
import itertools
import json
from fractions import Fraction
from pathlib import Path

import pytest

from kvaudit.errors import FileDefect, UsageError
from kvaudit.evidence import schema, strict_yaml
from kvaudit.evidence.bundle import load_bundle
from kvaudit.reconcile import coordinates as systems
from kvaudit.reconcile import registries
from kvaudit.reconcile.coordinates import State
from kvaudit.reconcile.explain import explain
from kvaudit.reconcile.relation import COMPARABLE, INCOMPATIBLE, RESULT_GROUPS, groups_apart, relate, relations
from kvaudit.reconcile.subjects import contract_subjects, resolve, result_subjects
from kvaudit.render import explain as render
from kvaudit.render.tables import Display
from tests.reconcile.documents import FOLDER, REGISTRIES, full, write_registry_bundle

ROOT = Path(__file__).parents[2]


def parsed(name):
    return strict_yaml.parse_yaml((ROOT / FOLDER / f"{name}.yaml").read_bytes())


CONTRACTS = parsed("contracts")
RESULTS = parsed("results")
BOUNDARIES = parsed("boundaries")

POLICIES = [
    "streamingllm",
    "h2o",
    "scissorhands",
    "keyformer",
    "snapkv",
    "pyramidkv",
    "pyramidinfer",
    "zigzagkv",
    "adakv",
    "headkv",
    "fastgen",
    "dmc",
    "minicache",
    "lckv",
]
ARCHITECTURES = ["transformer_xl", "compressive_transformer", "autocompressor"]

PRIMARIES = {
    name: subject
    for name, subject in result_subjects("results.yaml", RESULTS).items()
    if RESULTS["results"][name]["primary"]
}


@pytest.fixture
def bundle(tmp_path):
    return load_bundle(write_registry_bundle(tmp_path))


@pytest.mark.parametrize("name", REGISTRIES)
def test_a_registry_passes_its_schema(name):
    assert schema.defects(f"kvaudit.registry.{name}/1", parsed(name)) == ()


@pytest.mark.parametrize("name", [*(f"registry.{name}" for name in REGISTRIES), "protocol"])
def test_a_schema_leaves_no_object_open(name):
    def objects(part):
        if isinstance(part, dict):
            if part.get("type") == "object":
                yield part
            part = list(part.values())
        for inner in part if isinstance(part, list) else ():
            yield from objects(inner)

    found = list(objects(json.loads((ROOT / "schemas" / f"{name}.1.json").read_text())))
    assert len(found) > 3
    for each in found:
        closed = each.get("additionalProperties")
        assert closed is False or ("propertyNames" in each and isinstance(closed, dict)), each


def test_the_seventeen_are_countable():
    counted = [name for name, item in CONTRACTS["contracts"].items() if not item["addition"]]
    assert counted == [*POLICIES, *ARCHITECTURES]
    roles = {name: CONTRACTS["contracts"][name]["role"] for name in counted}
    assert roles == {**dict.fromkeys(POLICIES, "policy"), **dict.fromkeys(ARCHITECTURES, "boundary")}
    added = {name: item["role"] for name, item in CONTRACTS["contracts"].items() if item["addition"]}
    assert added.pop("spherical_kv") == "frontier"
    assert set(added) == {
        "clusterkv",
        "infinigen",
        "pagedattention",
        "tova",
        "kvzip",
        "rkv",
        "duoattention",
        "polarquant_wu",
        "polarquant_han",
        "turboquant",
        "kivi",
    }
    assert set(added.values()) == {"related"}


def test_every_policy_has_one_primary_result():
    assert [item["policy"] for item in RESULTS["results"].values() if item["primary"]] == POLICIES
    assert all(item["addition"] is not item["primary"] for item in RESULTS["results"].values())
    assert {item["policy"] for item in RESULTS["results"].values()} <= set(CONTRACTS["contracts"])


# Arxiv id, venue, object, phase, owner, signal, unit of the budget, recoverability: from the papers and their code.
CONTRACT_FACTS = [
    ("streamingllm", "2309.17453", "ICLR 2024", "original_rows", "decode", "position", "position_only", "rows"),
    (
        "h2o",
        "2306.14048",
        "NeurIPS 2023",
        "original_rows",
        "prompt_handoff_and_decode",
        "layer_and_head",
        "accumulated_attention",
        "fraction",
    ),
    (
        "scissorhands",
        "2305.17118",
        "NeurIPS 2023",
        "original_rows",
        "decode_over_budget",
        "layer_and_head",
        "counted_low_attention",
        "rows",
    ),
    (
        "keyformer",
        "2403.09054",
        "MLSys 2024",
        "original_rows",
        "prompt_handoff_and_decode",
        "layer_and_head",
        "accumulated_gumbel_softmax",
        "fraction",
    ),
    (
        "snapkv",
        "2404.14469",
        "NeurIPS 2024",
        "original_rows",
        "prompt_handoff",
        "layer_and_head",
        "observation_window_attention",
        "rows",
    ),
    (
        "pyramidkv",
        "2406.02069",
        "COLM 2025",
        "original_rows",
        "prompt_handoff",
        "layer_and_head",
        "observation_window_attention",
        "rows",
    ),
    (
        "pyramidinfer",
        "2405.12532",
        "Findings of ACL 2024",
        "original_rows",
        "prefill_and_decode",
        "layer",
        "weighted_recent_attention",
        "fraction",
    ),
    (
        "zigzagkv",
        "2412.09036",
        "COLING 2025",
        "original_rows",
        "prompt_handoff",
        "layer",
        "layer_uncertainty_and_accumulated_attention",
        "rows",
    ),
    (
        "adakv",
        "2407.11550",
        "NeurIPS 2025",
        "original_rows",
        "prompt_handoff",
        "layer_and_head",
        "observation_window_attention",
        "rows",
    ),
    (
        "headkv",
        "2410.19258",
        "ICLR 2025",
        "original_rows",
        "offline_and_prompt_handoff",
        "layer_and_head",
        "offline_head_scores_and_window_attention",
        "rows",
    ),
    (
        "fastgen",
        "2310.01801",
        "ICLR 2024",
        "original_rows",
        "prompt_handoff_and_decode",
        "layer_and_head",
        "attention_map_recovery",
        "recovery_threshold",
    ),
    (
        "dmc",
        "2403.09636",
        "ICML 2024",
        "merged_segments",
        "every_row",
        "layer_and_head",
        "learned_control_channel",
        "compression_ratio",
    ),
    (
        "minicache",
        "2405.14366",
        "NeurIPS 2024",
        "shared_directions",
        "prefill_and_decode",
        "layer_pair",
        "angular_similarity",
        "layer_pairs",
    ),
    ("lckv", "2405.10637", "ACL 2024", "producer_layer_rows", "training", "producer_layer", "none", "layers"),
    (
        "transformer_xl",
        "1901.02860",
        "ACL 2019",
        "segment_hidden_states",
        "segment_boundary",
        "layer",
        "position_only",
        "positions",
    ),
    (
        "compressive_transformer",
        "1911.05507",
        "ICLR 2020",
        "hidden_states_and_compressed_memory",
        "segment_boundary",
        "layer",
        "learned_compression",
        "positions",
    ),
    (
        "autocompressor",
        "2305.14788",
        "EMNLP 2023",
        "summary_vectors",
        "segment_boundary",
        "segment",
        "learned_summary",
        "vectors",
    ),
    (
        "spherical_kv",
        "2605.18856",
        None,
        "key_codes_and_dense_values",
        "prefill",
        "token_and_head",
        "rate_distortion_utility",
        "bytes_per_token",
    ),
    (
        "infinigen",
        "2406.19707",
        "OSDI 2024",
        "tiered_original_rows",
        "decode",
        "layer_and_head",
        "rehearsed_attention",
        "rows_per_step",
    ),
    (
        "kivi",
        "2402.02750",
        "ICML 2024",
        "key_and_value_codes",
        "group_fill",
        "channel_or_token_group",
        "none",
        "bits_per_scalar",
    ),
]


@pytest.mark.parametrize("facts", CONTRACT_FACTS, ids=lambda facts: facts[0])
def test_a_contract_says_what_its_sources_say(facts):
    name, arxiv, venue, *stated = facts
    contract = CONTRACTS["contracts"][name]
    assert (contract["paper"]["arxiv"], contract["paper"]["venue"]) == (arxiv, venue)
    keys = ("persistent_object", "decision_phase", "owner_granularity", "signal", "budget.unit")
    assert [contract["coordinates"][key] for key in keys] == stated


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("streamingllm", "budget.value", "sinks + recent, such as 4 + 1020"),
        ("streamingllm", "runtime_dependencies", "position_shift_patch"),
        ("scissorhands", "update_after_new_row", "append_drop_batch_over_budget"),
        ("h2o", "assumptions_and_guarantee", "greedy_bound_under_submodularity"),
        ("keyformer", "runtime_dependencies", "pre_softmax_logits"),
        ("snapkv", "update_after_new_row", "append_only"),
        ("snapkv", "budget.scope", "layer_and_head_prompt_rows"),
        ("pyramidkv", "budget.scope", "layers"),
        ("pyramidinfer", "recoverability", "absent_from_deeper_layers"),
        ("zigzagkv", "update_after_new_row", None),
        ("adakv", "budget.scope", "heads_of_a_layer"),
        ("headkv", "budget.scope", "all_layers_and_heads"),
        ("headkv", "calibration_or_training", "offline_head_probe"),
        ("fastgen", "calibration_or_training", "online_prompt_profile"),
        ("dmc", "calibration_or_training", "continued_pretraining"),
        ("dmc", "recoverability", "members_inseparable"),
        ("minicache", "recoverability", "directions_lost_exceptions_exact"),
        ("lckv", "recoverability", "never_stored"),
        ("autocompressor", "calibration_or_training", "fine_tuning"),
        ("spherical_kv", "calibration_or_training", None),
        ("spherical_kv", "update_after_new_row", None),
        ("infinigen", "recoverability", "recallable"),
        ("infinigen", "budget.value", None),
        ("clusterkv", "owner_granularity", "key_cluster"),
        ("pagedattention", "recoverability", "nothing_omitted"),
        ("kvzip", "decision_phase", "after_context_pass"),
    ],
)
def test_a_coordinate_by_hand(name, key, value):
    assert CONTRACTS["contracts"][name]["coordinates"][key] == value


@pytest.mark.parametrize(
    ("name", "repository", "commit", "status", "method_source"),
    [
        ("streamingllm", "mit-han-lab/streaming-llm", "2e5042606d69933d88fbf909bd77907456b9b4dd", "exact", True),
        ("h2o", "FMInference/H2O", "ac75c2a8a9e76832b2a4139b9363373b56336bfb", "exact", True),
        ("keyformer", "d-matrix-ai/keyformer-llm", "f327831056a9909b133aaa14a48f2bd0722acede", "exact", True),
        ("snapkv", "FasterDecoding/SnapKV", "e216ddc84c5bd210378cbdbbba12ba02102aa640", "exact", True),
        ("pyramidkv", "Zefan-Cai/PyramidKV", None, "not_found", True),
        ("pyramidinfer", "mutonix/pyramidinfer", "61ac641573389bdb7f7def82174c02e3459572ec", "exact", True),
        ("adakv", "FFY0/AdaKV", None, "not_found", True),
        ("headkv", "FYYFU/HeadKV", "0862a0955fe82e9ff611d59541918e02c5def625", "exact", True),
        ("fastgen", "machilusZ/FastGen", "fb707b6b883b06087b2e828c7c26be3ae295e8f0", "exact", False),
        ("dmc", "NVIDIA/Megatron-LM", "d36bf8d5333b60c3d6b871128644c2b87d241d0b", "exact", True),
        ("minicache", "AkideLiu/MiniCache", "f1baccacba6bc83dc499f5db9257576397bb4ed8", "exact", False),
        ("lckv", "whyNLP/LCKV", "dd21716b9295fb4dbe4af51ec3352a936b2b7df8", "exact", True),
    ],
)
def test_the_twelve_pins(name, repository, commit, status, method_source):
    pin = CONTRACTS["contracts"][name]["implementations"][0]
    assert (pin["repository"], pin["commit"]) == (repository, commit)
    assert (pin["status"], pin["method_source"]) == (status, method_source)


def test_a_pin_that_no_history_holds_says_how_it_was_stated():
    stated = {name: CONTRACTS["contracts"][name]["implementations"][0]["stated"] for name in ("pyramidkv", "adakv")}
    assert stated == {"pyramidkv": "94255b6", "adakv": "04497ab"}
    assert CONTRACTS["contracts"]["zigzagkv"]["implementations"] == []


def test_what_a_contract_rests_on_agrees_with_its_sources():
    for name, item in CONTRACTS["contracts"].items():
        levels = {source["read_level"] for source in item["sources"]}
        assert levels != {"general"}, name
        read = any(each["checked"] != "none" and each["method_source"] for each in item["implementations"])
        assert ("code" in levels) is read, name
    assert CONTRACTS["contracts"]["transformer_xl"]["sources"][-1]["read_level"] == "general"


def test_no_coordinate_of_a_registry_is_refused():
    for subjects in (contract_subjects("c", CONTRACTS), result_subjects("r", RESULTS)):
        assert subjects
    known = systems.system("contract/1").keys
    assert {name for name, key in known.items() if not key.allowed} == {"budget.value", "evaluation.contract"}


RESULT_FACTS = [
    ("streamingllm-speed", "Section 4.5, Figure 10 and abstract", "ratio", Fraction("22.2"), "paper"),
    ("h2o-throughput-t4", "Table 2", "throughput", Fraction("18.83"), "paper"),
    ("scissorhands-5x", "abstract, Figure 3", "ratio", 5, "paper"),
    ("keyformer-throughput", "Table 1", "throughput", 17, "paper"),
    ("snapkv-latency", "Section 5.1.2, Figure 7", "ratio", Fraction("3.6"), "paper"),
    ("pyramidkv-longbench", "Table 1", "task_score", Fraction("34.76"), "paper"),
    ("pyramidinfer-throughput", "abstract", "ratio", Fraction("2.2"), "secondary"),
    ("zigzagkv-memory", "abstract", "ratio", 20, "abstract"),
    ("adakv-longbench", "LongBench average, question-agnostic", "task_score", Fraction("42.87"), "secondary"),
    ("headkv-longbench", "Table 1 and abstract", "task_score", 32, "paper"),
    ("fastgen-memory", "Table 1", "resident_bytes", Fraction("11.8"), "paper"),
    ("dmc-throughput-v1", "abstract", "ratio", Fraction("3.7"), "abstract"),
    ("minicache-composed", "abstract", "ratio", Fraction("5.02"), "abstract"),
    ("lckv-throughput", "throughput table and abstract", "ratio", 26, "secondary"),
    ("dmc-throughput-v2", "abstract", "ratio", 7, "abstract"),
    ("minicache-depth-only", "abstract", "ratio", Fraction("1.53"), "abstract"),
    ("snapkv-length", "Section 5.1.2 and abstract", "ratio", Fraction("8.2"), "paper"),
    ("spherical-kv", "abstract and captions of Figures 4 to 6", "throughput", None, "secondary"),
]


@pytest.mark.parametrize("facts", RESULT_FACTS, ids=lambda facts: facts[0])
def test_a_result_says_what_its_source_says(facts):
    name, location, metric, value, level = facts
    result = RESULTS["results"][name]
    assert result["source"]["location"] == location
    assert result["source"]["read_level"] == level
    assert {kind: each["value"] for kind, each in result["metrics"].items()} == {metric: value}


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("streamingllm-speed", "checkpoint.name", None),
        ("streamingllm-speed", "hardware.device", "NVIDIA A6000"),
        ("streamingllm-speed", "budget.value", None),
        ("h2o-throughput-t4", "workload.batch", 416),
        ("h2o-throughput-t4", "quality.condition", None),
        ("h2o-throughput-t4", "budget.value", Fraction(1, 5)),
        ("keyformer-throughput", "workload.batch", 1),
        ("snapkv-latency", "checkpoint.name", "LWM-Text-Chat-1M"),
        ("pyramidkv-longbench", "budget.value", 64),
        ("pyramidkv-longbench", "hardware.device", None),
        ("adakv-longbench", "workload.query_visibility", "outside_compressed_prompt"),
        ("fastgen-memory", "budget.value", Fraction("0.449")),
        ("dmc-throughput-v1", "hardware.device", "NVIDIA H100"),
        ("minicache-composed", "cache.quantisation", "4-bit"),
        ("lckv-throughput", "workload.decode_tokens", 1024),
        ("spherical-kv", "hardware.device", None),
    ],
)
def test_a_result_coordinate_by_hand(name, key, value):
    assert RESULTS["results"][name]["coordinates"][key] == value


def test_results_are_source_reported_and_located():
    for item in RESULTS["results"].values():
        assert item["coordinates"]["evidence.class"] == "source_reported"
        assert item["source"]["location"]


def test_a_composed_value_names_its_parts():
    composed = {name: item["composed_of"] for name, item in RESULTS["results"].items() if item["composed_of"]}
    assert composed == {"minicache-composed": ["depth merge", "4-bit quantisation"]}


def test_what_is_derived_follows_from_what_is_printed():
    values = {name: (item["reported"]["values"], item["derived"]) for name, item in RESULTS["results"].items()}
    h2o, derived = values["h2o-throughput-t4"]
    assert round(h2o["h2o"] / h2o["flexgen"], 2) == derived["over_flexgen"]
    assert round(h2o["h2o"] / h2o["deepspeed"], 1) == derived["over_deepspeed"]
    keyformer, derived = values["keyformer-throughput"]
    assert round(keyformer["keyformer50_bs1"] / keyformer["full_bs1"], 2) == derived["bs1_over_full"]
    assert round(keyformer["keyformer50_bs2"] / keyformer["full_bs1"], 2) == derived["bs2_over_full_bs1"]
    adakv, derived = values["adakv-longbench"]
    assert round(100 * adakv["ada_snapkv"] / adakv["full"], 1) == derived["retained_percent"]
    headkv, derived = values["headkv-longbench"]
    assert round(100 * headkv["headkv_r2"] / headkv["full"], 1) == derived["retained_percent"]
    fastgen, derived = values["fastgen-memory"]
    assert round(100 * (1 - fastgen["fastgen_gb"] / fastgen["full_gb"]), 1) == derived["pruned_percent"]
    lckv, derived = values["lckv-throughput"]
    assert round(lckv["lckv"] / lckv["llama"], 1) == derived["ratio"]
    composed, depth = values["minicache-composed"][0], values["minicache-depth-only"]
    assert round(composed["compression"] / depth[0]["compression"], 2) == depth[1]["composed_over_this"]


# ------------------------------------------------------------------------------------------------ what may be compared


def test_none_of_the_91_pairs_is_comparable():
    pairs = relations(PRIMARIES.values())
    assert len(pairs) == 91
    assert [pair.kind for pair in pairs] == [INCOMPATIBLE] * 91


def test_the_zero_is_not_trivial():
    """Each pair differs in something that both state, with the name of the policy set aside; many share a metric."""
    pairs = relations(PRIMARIES.values())
    assert all(groups_apart(pair) for pair in pairs)
    assert sum(any(each.shared for each in pair.metrics) for pair in pairs) > 20
    assert set(RESULT_GROUPS) == {group for pair in pairs for group in groups_apart(pair)} | {"evidence_class"}


def changed(name, **coordinates):
    document = copy.deepcopy(RESULTS)
    document["results"][name]["coordinates"] |= {key.replace("__", "."): value for key, value in coordinates.items()}
    return document


def test_a_record_that_is_made_to_match_another_in_full_is_comparable_with_it():
    """The same rule can say yes: both declared in full, one copied over the other; and no again for any one key."""
    a, b = "h2o-throughput-t4", "keyformer-throughput"
    stated = {key: value for key, value in RESULTS["results"][a]["coordinates"].items() if value is not None}
    complete = full("result/1", **{key.replace(".", "__"): value for key, value in stated.items()})
    document = copy.deepcopy(RESULTS)
    document["results"][a]["coordinates"] = complete
    document["results"][b]["coordinates"] = dict(complete)
    one, other = (result_subjects("r", document)[name] for name in (a, b))
    pair = relate(one, other)
    assert pair.kind == COMPARABLE
    assert pair.comparable_metrics == ("throughput",)
    assert groups_apart(pair) == ()
    for group, key, value in [
        ("checkpoint", "checkpoint.name", "another"),
        ("hardware_and_runtime", "hardware.device", "another"),
        ("workload", "workload.batch", 7),
        ("budget", "budget.value", 9),
        ("baseline", "baseline.name", "another"),
        ("metric", "metric.denominator", "another"),
        ("quality_condition", "quality.condition", "another"),
        ("evidence_class", "evidence.class", "locally_measured"),
    ]:
        document["results"][b]["coordinates"] = {**complete, key: value}
        pair = relate(one, result_subjects("r", document)[b])
        assert (pair.kind, groups_apart(pair)) == (INCOMPATIBLE, (group,))
        document["results"][b]["coordinates"] = {**complete, key: None}
        pair = relate(one, result_subjects("r", document)[b])
        assert (pair.kind, groups_apart(pair)) == (INCOMPATIBLE, ())


def test_no_two_contracts_of_the_seventeen_are_one():
    subjects = contract_subjects("c", CONTRACTS)
    counted = [subjects[name] for name in (*POLICIES, *ARCHITECTURES)]
    assert {pair.kind for pair in relations(counted)} == {INCOMPATIBLE}
    assert all(pair.metrics[0].differing for pair in relations(counted))
    whole = {**subjects["snapkv"].coordinates}
    assert relate(subjects["snapkv"], subjects["snapkv"]).kind == COMPARABLE
    assert State.UNDECLARED not in whole.values()


def test_null_is_undeclared_and_nothing_else():
    subjects = result_subjects("r", changed("snapkv-latency", runtime__engine=None))
    assert subjects["snapkv-latency"].coordinates["runtime.engine"] is State.UNDECLARED
    assert contract_subjects("c", CONTRACTS)["zigzagkv"].coordinates["update_after_new_row"] is State.UNDECLARED
    assert subjects["snapkv-latency"].coordinates["budget.denominator"] is State.NOT_APPLICABLE


def test_a_value_that_its_key_does_not_take_is_refused_where_it_stands():
    with pytest.raises(FileDefect) as caught:
        result_subjects("r", changed("snapkv-latency", budget__unit="tokens"))
    assert caught.value.pointer == "/results/snapkv-latency/coordinates/budget.unit"
    document = copy.deepcopy(CONTRACTS)
    document["contracts"]["h2o"]["coordinates"]["signal"] = "attention"
    with pytest.raises(FileDefect) as caught:
        contract_subjects("c", document)
    assert caught.value.pointer == "/contracts/h2o/coordinates/signal"


# ------------------------------------------------------------------------------------------------- ids of a bundle


def test_ids_of_a_bundle_resolve(bundle):
    one, other = (resolve(name, bundle).subject for name in ("snapkv", "pyramidkv"))
    assert (one.system.id, one.rests_on) == ("contract/1", ("paper", "code"))
    assert "budget.scope" in relate(one, other).metrics[0].differing
    assert {"persistent_object", "signal"}.isdisjoint(relate(one, other).metrics[0].differing)
    result = resolve("adakv-longbench", bundle, "there").subject
    assert (result.system.id, result.rests_on) == ("result/1", ("secondary",))
    assert result.path == f"there/{FOLDER}/results.yaml"
    assert relate(one, result).same_system is False


def test_an_unknown_name_is_not_answered_with_a_hundred_ids(bundle):
    with pytest.raises(UsageError, match=r"known ids are loop02_visibility, and 57 of contracts and results"):
        resolve("zzz", bundle)
    with pytest.raises(UsageError, match=r"did you mean pyramidkv"):
        resolve("pyramidkw", bundle)


def test_a_bundle_without_registries_has_no_such_ids(tmp_path):
    root = write_registry_bundle(tmp_path, names=("results",))
    with pytest.raises(UsageError, match="'snapkv' is no id or alias of a report, contract or result"):
        resolve("snapkv", load_bundle(root))
    assert resolve("snapkv-latency", load_bundle(root)).subject is not None
    bare = load_bundle(write_registry_bundle(tmp_path / "bare", names=()))
    with pytest.raises(UsageError, match="no entry of the bundle at somewhere names a registry"):
        registries.load(bare, "somewhere")


def test_a_registry_that_cannot_be_read_is_a_finding_with_its_line(bundle):
    path = bundle.root / FOLDER / "contracts.yaml"
    text = path.read_text()
    path.write_text(text.replace("role: policy", "role: leader", 1))
    loaded = resolve("snapkv", bundle)
    assert loaded.subject is None
    [found] = loaded.findings
    assert (found.code, found.pointer) == ("schema.mismatch", "/contracts/streamingllm/role")
    assert found.line == 1 + text[: text.index("role: policy")].count("\n")
    assert resolve("snapkv-latency", bundle).subject is not None
    path.unlink()
    assert [each.code for each in resolve("snapkv", bundle).findings] == ["path.missing"]
    assert registries.load(bundle).findings != ()


def test_a_defect_of_one_record_is_none_of_another(bundle):
    path = bundle.root / FOLDER / "contracts.yaml"
    path.write_text(path.read_text().replace("signal: accumulated_attention", "signal: attention", 1))
    assert resolve("snapkv", bundle).subject is not None
    [found] = resolve("h2o", bundle).findings
    assert (found.code, found.pointer) == ("coordinates.value-not-allowed", "/contracts/h2o/coordinates/signal")
    assert found.line > 1
    assert [each.pointer for each in registries.load(bundle).findings] == ["/contracts/h2o/coordinates/signal"]


def test_a_document_of_another_schema_is_another_thing(bundle):
    (bundle.root / FOLDER / "contracts.yaml").write_text("schema: somebody.else/1\ncontracts: {}\n")
    with pytest.raises(UsageError):
        resolve("snapkv", bundle)


@pytest.mark.parametrize("pair", [("snapkv", "pyramidkv"), ("h2o-throughput-t4", "keyformer-throughput")])
def test_an_explanation_fits_a_terminal(bundle, pair):
    one, other = (resolve(name, bundle).subject for name in pair)
    text = render.text(explain(one, other), Display(width=80))
    assert max(map(len, text.splitlines())) <= 80
    assert "rests on paper" in " ".join(text.split())
    if pair[0] == "snapkv":
        assert "An arithmetic sequence over the layers, larger below." in text
        assert "make equal, which makes one contract of the two: budget.value" in text
    else:
        assert "Undeclared on both sides, 53 coordinates" in text
        assert "the 53 coordinates that neither side states" in " ".join(text.split())
        assert text.count("runtime.warm_up") == 1
        assert "18.83" not in text


# ----------------------------------------------------------------------------------- where retention ends


def test_a_boundary_says_what_a_row_costs_and_what_may_be_claimed():
    for name, item in BOUNDARIES["boundaries"].items():
        assert not set(item["saving_of"]) & set(item["no_saving_of"]), name
        kept_somewhere = item["unselected_row"] in ("recoverable", "recoverable_if_found")
        if kept_somewhere or item["unselected_row"] == "none_unselected":
            assert "persistent_capacity" not in item["saving_of"] or item["kind"] == "lever", name
        if item["unselected_row"] == "not_recoverable":
            assert item["dense_attention_set"] == "changed", name
        if item["dense_attention_set"] == "preserved":
            assert item["unselected_row"] == "none_unselected", name


@pytest.mark.parametrize(
    ("name", "row", "saves", "saves_not"),
    [
        ("retention_miss", "not_recoverable", "persistent_capacity", None),
        ("exact_offload_miss", "recoverable", "device_capacity", "persistent_capacity"),
        ("retrieval_miss", "recoverable_if_found", "attention_reads", "persistent_capacity"),
        ("store_all_score_subset", "recoverable", "attention_reads", "persistent_capacity"),
        ("discard_unselected", "not_recoverable", "persistent_capacity", None),
        ("store_elsewhere", "recoverable_if_found", "device_capacity", "persistent_capacity"),
        ("cluster_recall_group", "recoverable_if_found", "device_capacity", "persistent_capacity"),
        ("transfer_full", "none_unselected", None, "transfer_bytes"),
        ("transfer_retained", "not_recoverable", "transfer_bytes", None),
        ("transfer_compressed_prompt", "not_recoverable", "transfer_bytes", None),
        ("fetch_remote", "recoverable_if_found", "device_capacity", "transfer_bytes"),
    ],
)
def test_a_boundary_by_hand(name, row, saves, saves_not):
    item = BOUNDARIES["boundaries"][name]
    assert item["unselected_row"] == row
    assert saves is None or saves in item["saving_of"]
    assert saves_not is None or saves_not in item["no_saving_of"]


def test_the_boundaries_are_those_of_the_specification():
    kinds = [item["kind"] for item in BOUNDARIES["boundaries"].values()]
    counts = {kind: kinds.count(kind) for kind in kinds}
    assert counts == {"miss": 3, "storage": 3, "recall_group": 1, "transfer_form": 4, "cache_form": 4, "lever": 3}
    telemetry = BOUNDARIES["boundaries"]["cluster_recall_group"]["telemetry"]
    assert telemetry == [
        "cluster recall",
        "rows fetched for each useful row",
        "search latency",
        "transfer latency",
        "quality under misses",
    ]
    assert len(BOUNDARIES["evidence_ladder"]) == 5


def test_design_branches_name_contracts_and_cover_the_policies():
    families = [item["family"] for item in BOUNDARIES["design_branches"].values()]
    named = list(itertools.chain.from_iterable(families))
    assert len(families) == 7
    assert len(named) == len(set(named))
    assert set(named) == {*POLICIES, "clusterkv", "infinigen"}


def test_nothing_in_the_registries_ranks():
    for name in REGISTRIES:
        words = (ROOT / FOLDER / f"{name}.yaml").read_text().lower().split()
        assert not {"better", "outperforms", "worse", "superior", "fastest", "state-of-the-art"} & set(words)

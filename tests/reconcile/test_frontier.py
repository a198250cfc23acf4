"""One cohort or not: a set with any two points that may not be compared is refused, whatever separates them."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvaudit.errors import FileDefect
from kvaudit.reconcile import coordinates as systems
from kvaudit.reconcile import frontier as cohort
from kvaudit.reconcile.relation import cohorts
from tests.reconcile.documents import value_for
from tests.reconcile.frontiers import document

KEYS = {name: key for name, key in cohort.system().keys.items() if not name.startswith("metric.")}
METRIC_KEYS = {name: key for name, key in cohort.system().keys.items() if name.startswith("metric.")}
UNDECLARED = {"state": "undeclared"}
NOT_APPLICABLE = {"state": "not_applicable"}


def mixed(document):
    return cohort.mixed([("", document)], document["points"], "/points")


def test_one_cohort():
    assert mixed(document()) is None


@given(st.sampled_from(sorted(KEYS)), st.integers(0, 4), st.sampled_from(["other", "not applicable", "undeclared"]))
def test_one_key_of_one_point_is_enough_to_refuse(key, index, change):
    one = document()
    value = {"other": systems.to_json(value_for(KEYS[key], 1)), "not applicable": NOT_APPLICABLE}.get(
        change, UNDECLARED
    )
    one["points"][index]["coordinates"] = {key: value}
    found = mixed(one)
    assert found is not None
    assert found.key == key
    assert found.place == f"/points/{index}/coordinates/{key}"
    assert found.open_in == (index if change == "undeclared" else None)
    assert [row.key for row in found.explanation.rows if row.blocks] == [key]
    assert found.explanation.relation.comparable_metrics != tuple(sorted(cohort.METRICS))


@given(st.sampled_from(sorted(METRIC_KEYS)), st.sampled_from(sorted(cohort.METRICS)), st.integers(0, 4))
def test_one_key_of_one_metric_is_enough_to_refuse(key, metric, index):
    one = document()
    one["points"][index]["metrics"] = {metric: {key: systems.to_json(value_for(METRIC_KEYS[key], 1))}}
    found = mixed(one)
    waived = dict.fromkeys(METRIC_KEYS[key].ignorable_for)
    if cohort.METRICS[metric][1] in waived:
        assert found is None
    else:
        assert (found.key, found.place) == (key, f"/points/{index}/metrics/{metric}/{key}")


@pytest.mark.parametrize("key", sorted(KEYS))
def test_a_key_that_nobody_states_is_open(key):
    one = document()
    del one["coordinates"][key]
    found = mixed(one)
    assert (found.key, found.open_in, found.place) == (key, 0, "/coordinates")


def test_a_metric_may_leave_its_own_key_open():
    one = document()
    one["points"][3]["metrics"] = {"quality": {"metric.scale": UNDECLARED}}
    found = mixed(one)
    assert (found.open_in, found.place) == (3, "/points/3/metrics/quality/metric.scale")
    one = document()
    del one["metrics"]["tokens_per_second"]["metric.statistic"]
    found = mixed(one)
    assert (found.key, found.open_in, found.place) == ("metric.statistic", 0, "/metrics/tokens_per_second")


def test_what_the_sweep_varies_separates_nothing():
    one = document()
    swept = [name for name in systems.system("result/1").keys if cohort.is_swept(name)]
    assert {"policy.name", "budget.value", "runtime.attention_backend"} <= set(swept)
    for index, each in enumerate(one["points"]):
        each["coordinates"] = dict.fromkeys(swept, f"of point {index}")
    assert mixed(one) is None


def test_an_engine_setting_is_a_coordinate_whether_or_not_the_system_knows_it():
    one = document()
    one["points"][3]["engine_settings"] = {"chunked_prefill": True}
    assert (mixed(one).key, mixed(one).place) == (
        "runtime.chunked_prefill",
        "/points/3/engine_settings/chunked_prefill",
    )
    one["points"][3]["engine_settings"] = {"chunked_prefill": False, "cuda_graphs": False}
    assert mixed(one).place == "/points/3/engine_settings/cuda_graphs"
    one["points"][3]["engine_settings"] = {}
    found = mixed(one)
    assert (found.key, found.open_in, found.place) == ("runtime.chunked_prefill", 3, "/points/3/engine_settings")
    one["points"][3]["engine_settings"] = {"chunked_prefill": False, "draft_tokens": 4}
    found = mixed(one)
    assert (found.key, found.open_in, found.place) == ("runtime.draft_tokens", 0, "/points/0/engine_settings")


def test_the_nearest_statement_counts():
    one = document()
    panel = {"coordinates": {"workload.prompt_tokens": 77}}
    layers = [("", one), ("/panel", panel)]
    assert cohort.mixed(layers, one["points"], "/points") is None
    every = cohort.subjects(layers, one["points"], "/points")
    assert {each.coordinates["workload.prompt_tokens"] for each in every} == {77}
    one["points"][1]["coordinates"] = {"workload.prompt_tokens": 78}
    assert cohort.mixed(layers, one["points"], "/points").other == 1


def test_a_value_that_its_key_does_not_take():
    one = document()
    one["points"][2]["engine_settings"] = {"chunked_prefill": False, "cuda_graphs": "on"}
    with pytest.raises(FileDefect) as refused:
        mixed(one)
    assert refused.value.pointer == "/points/2/engine_settings/cuda_graphs"
    one = document(coordinates=stated_with("runtime.cache_layout", "scattered"))
    with pytest.raises(FileDefect) as refused:
        mixed(one)
    assert refused.value.pointer == "/coordinates/runtime.cache_layout"


def stated_with(key, value):
    return {**document()["coordinates"], key: value}


def test_it_is_the_grouping_of_all_other_answers():
    """`mixed` finds nothing exactly where `cohorts` puts all values of a metric into one group."""
    one = document()
    two = copy.deepcopy(one)
    two["points"][4]["coordinates"] = {"hardware.device": "another"}
    for each in (one, two):
        found = cohorts(cohort.subjects([("", each)], each["points"], "/points"))
        assert (mixed(each) is None) == (len(found.groups) == len(cohort.METRICS) and not found.unplaced)

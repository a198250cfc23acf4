"""Records side by side: cohorts, references by distance, and the points of a frontier."""

import copy
import json
from fractions import Fraction
from pathlib import Path

import pytest

from kvaudit.evidence import canonical, schema, strict_json
from kvaudit.reconcile import frontier, measurements
from kvaudit.reconcile.relation import relate
from kvaudit.reconcile.subjects import read_subject

TEXT = (Path(__file__).parent / "measurement.json").read_bytes()


def record(**coordinates):
    """The record of `measurement.json` with other coordinates; dots are written as two underscores."""
    made = strict_json.parse_json(TEXT)
    made["coordinates"] |= {key.replace("__", "."): value for key, value in coordinates.items()}
    return made


def other_policy(name="h2o", budget="1/4"):
    made = record(policy__name=name, policy__parameters="{}", budget__value=Fraction(budget), observed__rows=9)
    made["policy"]["name"] = made["request"]["policy"] = name
    made["request"]["budget"]["value"] = budget
    return made


def stopped():
    made = record()
    return {**made, "metrics": {}, "outcome": {"class": "unmeasured", "reason": "model.missing", "message": "no"}}


def test_policy_and_budget_share_a_cohort_and_the_place_of_the_question_does_not():
    inside = record(workload__query_visibility="inside_compressed_prompt")
    records = [record(), other_policy(), inside]
    found = measurements.grouped(records)
    assert [each.records for each in found.cohorts] == [(records[0], records[1]), (inside,)]
    assert [each.apart for each in found.cohorts] == [("workload.query_visibility",)] * 2
    assert found.cohorts[0].stated["workload.query_visibility"] == "outside_compressed_prompt"
    assert set(found.cohorts[0].metrics) == set(records[0]["metrics"])
    assert found.unplaced == ()


def test_two_policies_are_comparable_only_as_a_table_about_policies():
    """Without that subject named, `relate` keeps them apart; the table leaves out those keys and no others."""
    one, other = (read_subject("r", canonical.json_text(each).encode()) for each in (record(), other_policy()))
    assert not relate(one, other).comparable_metrics
    blocking = {key for each in relate(one, other).metrics for key in each.blocking}
    assert all(frontier.is_swept(key) for key in blocking)


def test_order_is_that_of_the_records():
    records = [other_policy("window"), other_policy("adakv"), record()]
    [cohort] = measurements.grouped(records).cohorts
    assert list(cohort.records) == records


@pytest.mark.parametrize("key", ["workload__data_sha256", "runtime__dtype", "checkpoint__revision", "hardware__device"])
def test_every_other_coordinate_separates(key):
    found = measurements.grouped([record(), record(**{key: "another"})])
    assert len(found.cohorts) == 2


def test_a_key_that_is_waived_for_some_metrics_separates_the_others():
    """Another page size separates bytes and no rows: rows share a table, bytes do not."""
    found = measurements.grouped([record(), record(runtime__page_rows=64)])
    sizes = {name: len(cohort.records) for cohort in found.cohorts for name in cohort.metrics}
    assert sizes["kept_rows"] == 2
    assert sizes["resident_bytes"] == 1


def test_undeclared_is_of_no_cohort():
    made = record(hardware__device={"state": "undeclared"})
    assert measurements.grouped([made]).unplaced == (made,)


def test_a_record_without_a_result_is_listed_and_in_no_cohort():
    made = stopped()
    found = measurements.grouped([made, record()])
    assert found.unplaced == (made,)
    assert len(found.cohorts) == 1


def referenced(*values):
    made = record()
    prompt = copy.deepcopy(made["prompts"][0])
    prompt["references"] = [
        {
            "id": str(index),
            "declared_distance_tokens": distance,
            "observed_distance_tokens": None,
            "answer_tokens": 1,
            "answer_tokens_under_policy": 1,
            "log_probability": value,
            "log_probability_full": Fraction(-1),
        }
        for index, (distance, value) in enumerate(values)
    ]
    return {**made, "prompts": [prompt]}


def test_references_are_means_by_declared_distance():
    made = referenced((900, Fraction(-4)), (80, Fraction(-1)), (900, Fraction(-7)), (None, Fraction(-9)))
    assert measurements.declared_distances([made, made]) == (900, 80)
    assert measurements.mean_reference(made, 900) == Fraction(-11, 2)
    assert measurements.mean_reference(made, 900, "log_probability_full") == -1
    assert measurements.mean_reference(made, 80) == -1


def test_a_reference_that_was_not_measured_leaves_no_mean():
    assert measurements.mean_reference(referenced((900, Fraction(-4)), (900, None)), 900) is None
    assert measurements.mean_reference(referenced((900, Fraction(-4))), 80) is None


def test_a_cohort_is_a_document_of_the_frontier():
    dense = other_policy("full")
    records = [dense, record(), other_policy("window", "1/8")]
    [cohort] = measurements.grouped(records).cohorts
    document = measurements.frontier_document(cohort, "sweep", "top1_agreement", Fraction(1, 10))
    written = strict_json.parse_json(canonical.json_text(document).encode())
    schema.check("kvaudit.frontier/1", written)
    assert [(each["method"], each["budget_index"]) for each in written["points"]] == [
        ("full", 0),
        ("window", 0),
        ("window", 1),
    ]
    assert written["dense_method"] == "full"
    assert frontier.mixed([("", written)], written["points"], "/points") is None


def test_a_point_takes_what_was_measured_and_null_for_the_rest():
    made = record()
    prompts = made["prompts"]
    found = measurements.point(made, 3, "top1_agreement")
    rows = sum(each["prompt_rows"] for each in prompts)
    assert found["resident_bytes_per_token"] == Fraction(sum(each["bytes"]["resident"] for each in prompts), rows)
    assert sum(found["resident_parts"].values()) == found["resident_bytes_per_token"]
    assert found["tokens_per_second"] * made["metrics"]["decode_step_time"]["value"] == 1
    assert found["quality"] == made["metrics"]["top1_agreement"]["value"]
    assert found["hbm_bytes_per_token"] is None
    assert found["budget_index"] == 3


def test_shipped_sample_is_a_record():
    schema.check("kvaudit.measurement/1", json.loads(TEXT))

"""Measurement records are read without torch: `measurement.json` is one that was written of a tiny model."""

import copy
import json
from pathlib import Path

import pytest

from kvaudit.errors import FileDefect
from kvaudit.evidence import schema
from kvaudit.reconcile.relation import relate
from kvaudit.reconcile.subjects import read_subject

RECORD = json.loads((Path(__file__).parent / "measurement.json").read_text())


def read(record, name="a.json"):
    return read_subject(name, json.dumps(record).encode())


def changed(at, value):
    record = copy.deepcopy(RECORD)
    *path, last = at
    place = record
    for each in path:
        place = place[each]
    place[last] = value
    return record


def test_a_record_is_a_result_in_full():
    subject = read(RECORD)
    assert subject.system.id == "result/1"
    assert subject.id == RECORD["id"]
    for metric in subject.metrics.values():
        assert set(subject.system.keys) <= set(subject.effective(metric))
    assert subject.metrics["kept_rows"].kind == "logical_rows"
    assert subject.metrics["decode_step_time"].coordinates["unit"] == "s"


def test_a_record_is_comparable_with_itself():
    relation = relate(read(RECORD), read(RECORD))
    assert set(relation.comparable_metrics) == set(RECORD["metrics"])


def test_another_budget_separates_two_records():
    other = changed(("coordinates", "budget.value"), 0.25)
    assert not relate(read(RECORD), read(other)).comparable_metrics


def test_another_page_size_does_not_separate_rows():
    """A coordinate that the system waives for a kind of metric is waived here too."""
    other = changed(("coordinates", "runtime.page_rows"), 64)
    comparable = set(relate(read(RECORD), read(other)).comparable_metrics)
    assert "kept_rows" in comparable
    assert "resident_bytes" not in comparable


def test_a_record_without_a_result_has_no_metrics():
    record = changed(("metrics",), {})
    record["outcome"] = {"class": "runtime-inadmissible", "reason": "memory.exhausted", "message": "memory ran out"}
    assert read(record).metrics == {}


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (("outcome", "class"), "fine"),
        (("evidence_class",), "source_reported"),
        (("samples", "prefill_ns"), [1.5]),
        (("environment", "host"), "mine"),
        (("axes", "timing"), {}),
        (("coordinates", "budget.unit"), "tokens kept"),
        (("metrics", "kept_rows", "kind"), "row count"),
    ],
)
def test_a_bad_record_is_a_defect_of_the_file(at, value):
    with pytest.raises(FileDefect):
        read(changed(at, value))


def test_the_shipped_sample_passes_its_schema():
    assert schema.defects("kvaudit.measurement/1", RECORD) == ()

"""Readers: what a document becomes, and every way in which it can be refused."""

import json
from pathlib import Path

import pytest

from kvaudit.errors import FileDefect, UsageError
from kvaudit.evidence.bundle import load_bundle
from kvaudit.reconcile.coordinates import State
from kvaudit.reconcile.subjects import Link, entry_subject, read_subject, resolve
from tests.reconcile.documents import document, full, subject, write

ROOT = Path(__file__).parents[2]
SCORE = {"value": 1, "unit": "points"}


def test_a_ledger_row_is_a_metric_with_the_kind_of_its_unit():
    report = ROOT / "reports" / "loop04_static.json"
    read = read_subject("r", report.read_bytes())
    ledgers = json.loads(report.read_text(encoding="utf-8"))["ledgers"]
    assert {name: metric.value for name, metric in read.metrics.items()} == {
        name: row["value"] for name, row in ledgers.items()
    }
    kinds = {name: metric.kind for name, metric in read.metrics.items()}
    assert kinds["cached_history_read_full"] == "bytes"
    assert kinds["recompute_rows_projected"] == "rows"
    assert kinds["retained_pairs"] == "pairs"


def test_every_shipped_report_is_read_and_is_fully_declared():
    bundle = load_bundle(ROOT)
    for entry in bundle.entries:
        loaded = entry_subject(bundle, entry)
        assert loaded.findings == ()
        assert loaded.subject.id == entry.id
        assert State.UNDECLARED not in loaded.subject.coordinates.values()


@pytest.mark.parametrize(
    ("unit", "shown"), [("s", "s"), ("ms", "s"), ("us", "s"), ("ns", "s"), ("min", "min"), ("B", "B")]
)
def test_units_of_time_compare_in_seconds_and_no_other_unit_is_converted(unit, shown):
    read = subject({}, {"latency": {"value": 3, "unit": unit}})
    assert read.metrics["latency"].coordinates["unit"] == shown
    assert read.metrics["latency"].unit == unit


def test_the_kind_of_a_metric_is_stated_or_its_name_or_other():
    read = subject({}, {"latency": SCORE, "ttft": {**SCORE, "kind": "latency"}, "ttft_p99": SCORE})
    assert [metric.kind for metric in read.metrics.values()] == ["latency", "latency", "other"]


def test_what_a_metric_leaves_open_stays_open():
    own = {"metric.scale": {"state": "undeclared"}, "metric.statistic": "mean"}
    read = subject({}, {"latency": {**SCORE, "coordinates": own}})
    assert read.coordinates == {"metric.scale": State.UNDECLARED}
    assert read.metrics["latency"].coordinates["metric.statistic"] == "mean"


@pytest.mark.parametrize(
    ("content", "code", "pointer"),
    [
        ({"tokens_per_second": 120}, "coordinates.no-reader", ""),
        ([1], "coordinates.no-reader", ""),
        ({"schema": "kvaudit.report.invalid/1"}, "coordinates.no-reader", ""),
        ({"schema": "kvaudit.report.visibility/9"}, "coordinates.no-reader", ""),
        ({"schema": "kvaudit.report." + "x" * 5000}, "coordinates.no-reader", ""),
        ({"schema": "kvaudit.report.visibility/1"}, "schema.mismatch", ""),
        (document({"budget.unit": "tokens kept"}, {}), "coordinates.value-not-allowed", "/coordinates/budget.unit"),
        (
            document({}, {"f1": {**SCORE, "coordinates": {"metric.scale": "hundred"}}}),
            "coordinates.value-not-allowed",
            "/metrics/f1/coordinates/metric.scale",
        ),
        (document({}, {"ttft": {**SCORE, "kind": "latncy"}}), "coordinates.unknown-kind", "/metrics/ttft/kind"),
        (
            document({"metric.scale": 1}, {"f1": {**SCORE, "coordinates": {"metric.scale": 100}}}),
            "coordinates.stated-twice",
            "/metrics/f1/coordinates/metric.scale",
        ),
        (document({"unit": "ms"}, {}), "coordinates.stated-twice", "/coordinates/unit"),
    ],
)
def test_refused(content, code, pointer):
    with pytest.raises(FileDefect) as caught:
        read_subject("x.json", json.dumps(content).encode())
    assert (caught.value.diagnostic.code, caught.value.pointer) == (code, pointer)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"system": "result/1"', '"system": "result/2"'),
        ('"unit": "points"', '"units": "points"'),
        ('"value": 1', '"value": "1"'),
        ('"value": 1', '"value": NaN'),
        ('"coordinates": {}', '"coordinates": {"a": null}'),
        ('"coordinates": {}', '"coordinates": {"A b": 1}'),
        ('"coordinates": {}', '"coordinates": {"a": {"state": "unknown"}}'),
        ('"coordinates": {}', '"coordinates": {"a": [1]}'),
    ],
)
def test_a_document_is_read_strictly(old, new):
    text = json.dumps(document({}, {"f1": SCORE}))
    read_subject("x.json", text.encode())
    assert old in text
    with pytest.raises(FileDefect):
        read_subject("x.json", text.replace(old, new, 1).encode())


def test_a_broken_document_is_a_finding_with_its_place(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('{\n"schema": "kvaudit.coordinates/1",\n"id": 3,\n"system": "x", "coordinates": {}, "metrics": {}}')
    loaded = resolve(str(path), load_bundle(ROOT))
    assert loaded.subject is None
    assert [(found.code, found.pointer, found.line) for found in loaded.findings] == [
        ("schema.mismatch", "/id", 3),
        ("schema.mismatch", "/system", 4),
    ]


def test_resolving():
    bundle = load_bundle(ROOT)
    by_id, by_alias = (resolve(name, bundle).subject for name in ("loop03_cost", "loop3_cost"))
    by_path = resolve(str(ROOT / "reports" / "loop03_cost.json"), bundle).subject
    assert by_id == by_alias == by_path
    [link] = by_id.links
    assert (link.source, link.target, link.kind) == ("loop03_cost", "loop02_visibility", "shared_row_geometry")
    assert link in resolve("loop02_visibility", bundle).subject.links
    assert isinstance(link, Link)


def test_a_copy_of_a_report_inherits_no_link(tmp_path):
    copy = tmp_path / "copy.json"
    copy.write_bytes((ROOT / "reports" / "loop03_cost.json").read_bytes())
    assert resolve(str(copy), load_bundle(ROOT)).subject.links == ()


def test_an_id_comes_before_a_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "loop03_cost", full())
    assert resolve("loop03_cost", load_bundle(ROOT)).subject.system.id == "report/1"
    assert resolve("./loop03_cost", load_bundle(ROOT)).subject.system.id == "result/1"


def test_an_unknown_name_gets_suggestions_and_says_what_would_do():
    bundle = load_bundle(ROOT)
    with pytest.raises(UsageError, match=r"did you mean loop2_visibility"):
        resolve("loop2_visibilty", bundle)
    with pytest.raises(UsageError, match=r"no id or alias .* no path .* known ids are loop02_visibility"):
        resolve("zzz", bundle)
    with pytest.raises(UsageError):
        resolve("x" * 5000, bundle)

"""Folders of measurement records in a bundle: pinned, checked against their schemas, and never recomputed."""

import json
from pathlib import Path

import pytest
import yaml

from kvaudit.errors import UsageError
from kvaudit.evidence.bundle import load_bundle
from kvaudit.reconcile.subjects import resolve
from kvaudit.suite import records
from kvaudit.suite.check import check
from kvaudit.suite.init import init
from kvaudit.suite.regenerate import regenerate

RECORD = Path(__file__).parents[1] / "reconcile" / "measurement.json"
FOLDER = "measured"


@pytest.fixture
def bundle_with_records(tmp_path):
    """A small bundle with a folder of one record and one table, pinned."""
    root = tmp_path / "bundle"
    init(root, ("visibility", "snapkv"))
    manifest = root / "kvaudit.yaml"
    document = yaml.safe_load(manifest.read_text())
    manifest.write_text(yaml.safe_dump({**document, "records": [FOLDER]}, sort_keys=False))
    (root / FOLDER / "more").mkdir(parents=True)
    (root / FOLDER / "a.json").write_bytes(RECORD.read_bytes())
    (root / FOLDER / "more" / "tables.md").write_text("# tables\n")
    assert regenerate(load_bundle(root)).findings == ()
    return root


def found(root):
    return [(each.code, each.path, each.pointer) for each in check(load_bundle(root)).findings]


def test_records_are_pinned_with_everything_beside_them(bundle_with_records):
    pins = json.loads((bundle_with_records / "kvaudit.lock").read_text())["artefacts"]
    assert {path for path in pins if path.startswith(FOLDER)} == {f"{FOLDER}/a.json", f"{FOLDER}/more/tables.md"}
    assert found(bundle_with_records) == []


def test_a_record_that_was_edited_is_drift(bundle_with_records):
    path = bundle_with_records / FOLDER / "a.json"
    path.write_text(path.read_text() + "\n")
    assert found(bundle_with_records) == [("lock.hash-mismatch", f"{FOLDER}/a.json", "")]


def test_a_new_record_is_not_evidence_until_it_is_pinned(bundle_with_records):
    (bundle_with_records / FOLDER / "b.json").write_bytes(RECORD.read_bytes())
    assert found(bundle_with_records) == [("lock.unpinned", f"{FOLDER}/b.json", "")]


def test_a_record_that_is_gone_leaves_a_stale_pin(bundle_with_records):
    (bundle_with_records / FOLDER / "a.json").unlink()
    assert found(bundle_with_records) == [("lock.stale-pin", "kvaudit.lock", "/artefacts")]


def test_a_folder_that_is_gone(bundle_with_records):
    manifest = bundle_with_records / "kvaudit.yaml"
    manifest.write_text(manifest.read_text().replace(f"- {FOLDER}", "- gone"))
    regenerated = regenerate(load_bundle(bundle_with_records))
    assert [(each.code, each.path) for each in regenerated.findings] == [("path.missing", "gone")]
    assert ("path.missing", "gone", "") in found(bundle_with_records)


@pytest.mark.parametrize(
    ("change", "code", "pointer"),
    [
        (lambda record: record.pop("outcome"), "schema.mismatch", ""),
        (lambda record: record["request"].update(seed=-1), "schema.mismatch", "/request/seed"),
        (lambda record: record["request"].update(host="me"), "schema.mismatch", "/request"),
        (lambda record: record.update(schema="kvaudit.measurement/99"), "record.no-schema", "/schema"),
        (lambda record: record.update(schema="kvaudit.../../secret/1"), "record.no-schema", "/schema"),
        (lambda record: record.update(schema=7), "record.no-schema", "/schema"),
        (lambda record: record.pop("schema"), "record.no-schema", ""),
    ],
)
def test_a_record_is_held_to_its_schema_even_where_a_pin_agrees(bundle_with_records, change, code, pointer):
    path = bundle_with_records / FOLDER / "a.json"
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))
    before = (bundle_with_records / "kvaudit.lock").read_bytes()
    refused = regenerate(load_bundle(bundle_with_records))
    assert [(each.code, each.path, each.pointer) for each in refused.findings] == [(code, f"{FOLDER}/a.json", pointer)]
    assert (bundle_with_records / "kvaudit.lock").read_bytes() == before
    assert (code, f"{FOLDER}/a.json", pointer) in found(bundle_with_records)


@pytest.mark.parametrize(
    ("data", "code"),
    [(b"[1, 2", "json.syntax"), (b"[]", "record.no-schema"), (b'{"a": 1, "a": 2}', "json.duplicate-key")],
)
def test_what_is_no_document_at_all(bundle_with_records, data, code):
    (bundle_with_records / FOLDER / "a.json").write_bytes(data)
    assert (code, f"{FOLDER}/a.json") in [each[:2] for each in found(bundle_with_records)]


def test_a_folder_outside_the_bundle_is_refused(bundle_with_records):
    manifest = bundle_with_records / "kvaudit.yaml"
    manifest.write_text(manifest.read_text().replace(f"- {FOLDER}", "- ../elsewhere"))
    assert ("path.escapes-bundle", "kvaudit.yaml", "/records/0") in found(bundle_with_records)


def test_a_check_of_one_entry_leaves_records_alone(bundle_with_records):
    path = bundle_with_records / FOLDER / "a.json"
    path.write_text('{"schema": "x"}')
    codes = [each.code for each in check(load_bundle(bundle_with_records), ["visibility"]).findings]
    assert codes == ["lock.hash-mismatch"]


def test_known_schemas():
    assert records.is_known("kvaudit.measurement/1")
    assert not records.is_known("kvaudit.measurement/01")
    assert not records.is_known("measurement/1")


def test_explain_knows_a_record_by_the_name_of_its_file(bundle_with_records):
    loaded = resolve("a", load_bundle(bundle_with_records), "shown")
    assert loaded.findings == ()
    assert loaded.subject.path == f"shown/{FOLDER}/a.json"
    assert loaded.subject.id == json.loads(RECORD.read_text())["id"]
    with pytest.raises(UsageError, match=r"none of its records.* 1 of measurement records"):
        resolve("zzz", load_bundle(bundle_with_records))


def test_a_broken_record_is_a_finding_of_explain(bundle_with_records):
    (bundle_with_records / FOLDER / "a.json").write_text("{}")
    loaded = resolve("a", load_bundle(bundle_with_records))
    assert loaded.subject is None
    assert loaded.findings[0].path == f"{FOLDER}/a.json"

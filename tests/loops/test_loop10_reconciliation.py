"""Loop 10: what it reads of reports, where it read it, legacy documents, and bundles of another size."""

import copy
import hashlib
import json
from pathlib import Path

import jsonpointer
import pytest
import yaml
from click.testing import CliRunner

from kvaudit.cli.main import cli
from kvaudit.errors import ContractViolation
from kvaudit.evidence.bundle import load_bundle
from kvaudit.evidence.text import DEFAULT_LIMITS
from kvaudit.loops.loop10_reconciliation import LOOP
from kvaudit.suite.check import check
from kvaudit.suite.init import init
from kvaudit.suite.regenerate import regenerate
from kvaudit.suite.sources import Sources, input_of

ROOT = Path(__file__).parents[2]
REPORT = json.loads((ROOT / "reports/loop10_reconciliation.json").read_bytes())
FIXTURE = json.loads((ROOT / "fixtures/loop10_reconciliation/fixture.json").read_bytes())
# Which rows are read is settled by the reference, loop by loop, in its words.
COUNTS = {
    "loop02_visibility": (4, 5, 1),
    "loop03_cost": (1, 33, 3),
    "loop04_static": (24, 7, 2),
    "loop05_dynamic": (5, 4, 1),
    "loop06_snapkv": (8, 7, 1),
    "loop07_allocation": (6, 4, 1),
    "loop08_representation": (1, 6, 1),
    "loop09_transaction": (12, 9, 1),
}


@pytest.fixture
def consumed():
    """What the oracle is given for the shipped bundle."""
    bundle = load_bundle(ROOT)
    entry = next(each for each in bundle.entries if each.oracle == "reconcile")
    return input_of(LOOP, Sources(bundle, DEFAULT_LIMITS, None), entry, copy.deepcopy(FIXTURE))


def test_what_is_read_of_each_report():
    reports = REPORT["receipts"]["reports"]
    found = {
        name: (len(each["snapshots"]), len(each["ledger_rows"]), len(each["comparison_groups"]))
        for name, each in reports.items()
    }
    assert found == COUNTS
    assert [sum(column) for column in zip(*found.values(), strict=True)] == [61, 75, 11]


@pytest.mark.parametrize("name", COUNTS)
def test_every_pointer_leads_to_what_was_read(name):
    receipt = REPORT["receipts"]["reports"][name]
    data = (ROOT / receipt["path"]).read_bytes()
    assert receipt["report_sha256"] == hashlib.sha256(data).hexdigest()
    document = json.loads(data)
    assert receipt["fixture_sha256"] == hashlib.sha256((ROOT / document["fixture"]["path"]).read_bytes()).hexdigest()
    for row in receipt["ledger_rows"].values():
        assert jsonpointer.resolve_pointer(document, row["pointer"]) == row["value"]
    for snapshot in receipt["snapshots"]:
        assert jsonpointer.resolve_pointer(document, snapshot["pointer"]) == {
            key: value for key, value in snapshot.items() if key != "pointer"
        }
    for group in receipt["comparison_groups"].values():
        assert group["values"] == {row: document["ledgers"][row]["value"] for row in group["values"]}


def test_the_digest_binds_identities_hashes_and_adapters_in_order():
    lines = (
        f"{name}:{each['fixture_sha256']}:{each['report_sha256']}:{each['adapter']}"
        for name, each in REPORT["receipts"]["reports"].items()
    )
    assert REPORT["receipts"]["consumed_sha256"] == hashlib.sha256("\n".join(lines).encode()).hexdigest()


def test_an_absent_transition_is_shown_as_absent():
    transitions = REPORT["receipts"]["reports"]["loop08_representation"]["transitions"]
    assert transitions == {"dmc, layer_kv_head": None}
    phases = REPORT["receipts"]["reports"]["loop09_transaction"]["transitions"]
    assert [len(each) for each in phases.values()] == [11]


def test_no_value_is_compared_across_reports():
    for pair in REPORT["receipts"]["pairs"]:
        assert set(pair) == {"reports", "relation", "basis", "comparable_metrics", "differing_coordinates"}
        assert pair["comparable_metrics"] == []
    related = [pair["reports"] for pair in REPORT["receipts"]["pairs"] if pair["relation"] == "shared_lineage"]
    assert related == [["loop02_visibility", "loop03_cost"], ["loop02_visibility", "loop09_transaction"]]


def legacy(consumed, content, **declared):
    """The shipped reports with one document of another tool beside them."""
    data = json.dumps(content).encode()
    sha256 = hashlib.sha256(data).hexdigest()
    coordinates = dict.fromkeys(FIXTURE["required_coordinates"], "of another tool")
    consumed["order"].append("old")
    consumed["legacy"]["old"] = {
        "path": "results/old.json",
        "sha256": sha256,
        "schema_version": None,
        "adapter": "old/1",
        "evidence_class": "source_observed",
        "coordinates": coordinates,
        "ledger_rows": {"cache_bytes": {"pointer": "/cache/0/bytes", "unit": "B", "formula": "as printed"}},
        **declared,
    }
    consumed["documents"]["legacy"] = [{"path": "results/old.json", "sha256": sha256, "content": content}]
    return consumed


@pytest.mark.parametrize(
    ("content", "version"),
    [
        ({"cache": [{"bytes": 4096}]}, None),
        ({"schema_version": 5, "cache": [{"bytes": 4096}]}, 5),
        ({"schema": 5, "cache": [{"bytes": 4096}]}, 5),
    ],
)
def test_a_document_without_a_named_schema_is_read_by_its_exact_hash(consumed, content, version):
    evidence = LOOP.oracle(legacy(consumed, content, schema_version=version))
    assert evidence.receipts["reports"]["old"]["ledger_rows"] == {
        "cache_bytes": {"pointer": "/cache/0/bytes", "value": 4096, "unit": "B"}
    }
    ledgers = {row.name: row.value for row in evidence.ledgers}
    assert (ledgers["reports"], ledgers["report_pairs"], ledgers["ledger_rows"]) == (9, 36, 76)
    assert evidence.receipts["reports"]["old"]["snapshots"] == []


@pytest.mark.parametrize(
    ("content", "version", "code"),
    [
        ({"schema": "tool/1", "cache": [{"bytes": 1}]}, None, "reconcile.legacy-schema"),
        ({"schema_version": True, "cache": [{"bytes": 1}]}, 1, "reconcile.legacy-schema"),
        ({"cache": [{"bytes": 1}]}, 5, "reconcile.legacy-schema"),
        ({"cache": [{"bytes": "1"}]}, None, "reconcile.legacy-pointer"),
        ({"cache": [{"bytes": True}]}, None, "reconcile.legacy-pointer"),
        ({"cache": []}, None, "reconcile.legacy-pointer"),
        ([1, 2], None, "reconcile.legacy-pointer"),
    ],
)
def test_a_legacy_document_of_another_shape_is_refused(consumed, content, version, code):
    with pytest.raises(ContractViolation) as raised:
        LOOP.oracle(legacy(consumed, content, schema_version=version))
    assert raised.value.diagnostic.code == code


def test_a_legacy_document_with_other_bytes_is_refused(consumed):
    given = legacy(consumed, {"cache": [{"bytes": 1}]})
    given["legacy"]["old"]["sha256"] = "0" * 64
    with pytest.raises(ContractViolation) as raised:
        LOOP.oracle(given)
    assert (raised.value.diagnostic.code, raised.value.pointer) == ("reconcile.legacy-hash", "/legacy/old/sha256")


def test_values_of_one_cohort_may_be_compared(consumed):
    """Two legacy documents that share every coordinate: the one comparison across reports that is legal."""
    given = legacy(consumed, {"cache": [{"bytes": 1}]})
    twin = copy.deepcopy(given["legacy"]["old"])
    given["order"].append("new")
    given["legacy"]["new"] = {**twin, "path": "results/new.json"}
    given["documents"]["legacy"].append({**given["documents"]["legacy"][0], "path": "results/new.json"})
    given["cross_report_comparisons"].append({"metric": "footprint", "row": "cache_bytes", "reports": ["old", "new"]})
    evidence = LOOP.oracle(given)
    assert evidence.results["relations"]["comparable"] == [["old", "new"]]
    given["legacy"]["new"]["coordinates"]["denominator"] = "another"
    with pytest.raises(ContractViolation) as raised:
        LOOP.oracle(given)
    assert raised.value.diagnostic.code == "reconcile.not-comparable"


def test_a_bundle_of_ones_own_reconciles_its_own_number_of_reports(tmp_path):
    """Two visibility entries of one bundle, in one cohort: one pair, comparable, and no link."""
    assert init(tmp_path, ("visibility",)).findings == ()
    manifest = yaml.safe_load((tmp_path / "kvaudit.yaml").read_text())
    (first,) = manifest["entries"]
    first["invalid_suites"] = []
    second = json.loads(json.dumps(first)) | {
        "id": "again",
        "fixture": "fixtures/again.json",
        "report": "reports/again.json",
        "tables": "reports/again.md",
    }
    (tmp_path / "fixtures/again.json").write_bytes((tmp_path / first["fixture"]).read_bytes())
    over = {
        "id": "together",
        "oracle": "reconcile",
        "fixture": "fixtures/together.json",
        "report": "reports/together.json",
        "tables": "reports/together.md",
        "needs": ["visibility", "again"],
        "coordinates": first["coordinates"],
    }
    manifest["entries"] += [second, over]
    (tmp_path / "kvaudit.yaml").write_text(json.dumps(manifest))
    adapter = {**FIXTURE["entries"]["loop02_visibility"], "suites": {}}
    fixture = {
        **FIXTURE,
        "order": ["visibility", "again"],
        "entries": {"visibility": adapter, "again": adapter},
        "links": [],
    }
    (tmp_path / "fixtures/together.json").write_text(json.dumps(fixture))
    done = regenerate(load_bundle(tmp_path), ("visibility", "again", "together"), redeclare=True)
    assert done.findings == ()
    assert check(load_bundle(tmp_path)).findings == ()
    ledgers = json.loads((tmp_path / "reports/together.json").read_bytes())["ledgers"]
    counts = {name: ledgers[name]["value"] for name in ("reports", "state_snapshots", "ledger_rows", "report_pairs")}
    assert counts == {"reports": 2, "state_snapshots": 8, "ledger_rows": 10, "report_pairs": 1}
    assert ledgers["comparable_pairs"]["value"] == 1


def test_a_report_that_claims_a_measurement_fails_where_it_stands(whole_bundle):
    path = whole_bundle / "reports/loop02_visibility.json"
    path.write_text(path.read_text().replace('"model",', "", 1))
    found = {(each.path, each.code) for each in check(load_bundle(whole_bundle), ("loop10_reconciliation",)).findings}
    assert ("fixtures/loop10_reconciliation/fixture.json", "reconcile.report-hash") in found


def test_the_command_runs_on_a_bundle_and_on_a_file(tmp_path):
    result = CliRunner().invoke(cli, ["reconcile", "--root", str(ROOT)])
    assert result.exit_code == 0
    assert "loop02_visibility" in result.output
    fixture = tmp_path / "fixture.json"
    fixture.write_text(json.dumps({**FIXTURE, "owner": {**FIXTURE["owner"], "ranks": True}}))
    result = CliRunner().invoke(cli, ["reconcile", "--root", str(ROOT), "--fixture", str(fixture)])
    assert result.exit_code == 1
    assert f"{fixture}:1#/owner/ranks" in result.output
    suite = ROOT / "fixtures/loop10_reconciliation/invalid.json"
    result = CliRunner().invoke(cli, ["reconcile", "--root", str(ROOT), "--invalid", str(suite), "--format", "json"])
    assert result.exit_code == 0
    assert CliRunner().invoke(cli, ["reconcile", "--root", str(tmp_path)]).exit_code == 1

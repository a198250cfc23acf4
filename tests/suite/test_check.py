"""`check` over a copy of the shipped bundle: each kind of damage is found, and found alone."""

import dataclasses
import json
import os
from pathlib import Path

import pytest

from kvaudit.errors import UsageError
from kvaudit.evidence.bundle import load_bundle
from kvaudit.evidence.canonical import sha256
from kvaudit.evidence.text import Limits
from kvaudit.loops import LOOPS, is_over_reports
from kvaudit.model import Snapshot
from kvaudit.suite.check import check, locked_digest
from kvaudit.suite.regenerate import regenerate

FIXTURE = "fixtures/loop02_visibility/fixture.json"
SUITE = "fixtures/loop02_visibility/invalid.json"
REPORT = "reports/loop02_visibility.json"
TABLES = "reports/loop02_visibility.md"
# What an entry needs comes before it: the publication (loop 12) needs every other one.
IN_ORDER = sorted(LOOPS, key=lambda loop: (loop.command == "publication", loop.id))


def run(folder, *names, **options):
    return check(load_bundle(folder), names, **options)


def codes(result):
    """The codes of the findings, without the entries that were not judged because of them."""
    return sorted({finding.code for finding in result.findings} - {"report.not-judged"})


def edit(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def test_the_shipped_bundle_is_green(whole_bundle):
    result = run(whole_bundle)
    assert result.findings == ()
    assert [entry.id for entry in result.entries] == [loop.id for loop in IN_ORDER]
    assert all(entry.cases == entry.cases_rejected > 0 for entry in result.entries)


def test_digest_is_that_of_the_files(whole_bundle):
    """The formula of 0x0FB, computed here from the files alone."""
    result = run(whole_bundle)
    lines = [
        f"{loop.id}:{sha256((whole_bundle / 'fixtures' / loop.id / 'fixture.json').read_bytes())}"
        f":{sha256((whole_bundle / 'reports' / f'{loop.id}.json').read_bytes())}:{loop.command}/1"
        for loop in IN_ORDER
    ]
    assert result.digest == sha256("\n".join(lines).encode())
    assert locked_digest(load_bundle(whole_bundle)) == (result.digest, ())


def test_a_changed_input_is_drift_and_stales_the_report(bundle_folder):
    edit(bundle_folder / FIXTURE, '"request_id": "request-a"', '"request_id": "request-z"')
    result = run(bundle_folder)
    assert "lock.hash-mismatch" in codes(result)
    [found] = [finding for finding in result.findings if finding.code == "visibility.request-mismatch"]
    assert (found.path, found.pointer) == (FIXTURE, "/policy_state/request_id")
    text = (bundle_folder / FIXTURE).read_text().splitlines()
    assert '"request_id"' in text[found.line - 1]


def test_white_space_in_a_fixture_is_drift(bundle_folder):
    path = bundle_folder / FIXTURE
    path.write_bytes(path.read_bytes() + b"\n")
    result = run(bundle_folder)
    assert codes(result) == ["lock.hash-mismatch", "report.stale"]
    assert "final newline only" in next(f.message for f in result.findings if f.path == FIXTURE)


def test_crlf_is_named(bundle_folder):
    path = bundle_folder / TABLES
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    result = run(bundle_folder)
    assert codes(result) == ["lock.hash-mismatch", "report.stale"]
    assert any("line endings only" in finding.message for finding in result.findings)


def test_an_edited_report_is_stale_even_if_the_lock_agrees(bundle_folder):
    path, lock = bundle_folder / REPORT, bundle_folder / "kvaudit.lock"
    before = sha256(path.read_bytes())
    edit(path, '"value": 512', '"value": 511')
    edit(lock, before, sha256(path.read_bytes()))
    result = run(bundle_folder, "visibility")
    assert codes(result) == ["report.stale"]
    assert '-      "value": 511' in result.findings[0].message
    assert '+      "value": 512' in result.findings[0].message


def test_what_consumes_a_broken_report_is_not_judged_and_says_so(whole_bundle):
    edit(whole_bundle / FIXTURE, '"request_id": "request-a"', '"request_id": "request-z"')
    result = run(whole_bundle)
    found = {finding.path: finding for finding in result.findings if finding.code == "report.not-judged"}
    consumers = [entry.fixture for entry in load_bundle(whole_bundle).entries if is_over_reports(entry.oracle)]
    assert list(found) == consumers != []
    assert found[consumers[0]].message.endswith("entries that have findings: loop02_visibility")
    # Alone it is judged by what is on disk and in the lock.
    alone = run(whole_bundle, "loop10_reconciliation")
    assert codes(alone) == ["reconcile.fixture-hash"]


def test_one_broken_loop_does_not_hide_another(bundle_folder):
    entries = load_bundle(bundle_folder).entries
    for entry in entries:
        (bundle_folder / entry.fixture).write_text("{")
    result = run(bundle_folder)
    broken = [finding.path for finding in result.findings if finding.code == "json.syntax"]
    assert broken == [entry.fixture for entry in entries]
    assert result.entries[0].cases == 0


@pytest.mark.parametrize("path", [FIXTURE, SUITE, REPORT, TABLES, "schemas/lock.1.json", "kvaudit.lock"])
def test_a_missing_file(bundle_folder, path):
    # schemas/ are read from the installed kvaudit; in the bundle they are pinned artefacts
    (bundle_folder / path).unlink()
    result = run(bundle_folder)
    expected = "lock.stale-pin" if path.startswith("schemas/") else "path.missing"
    assert expected in codes(result)
    found = {finding.path for finding in result.findings if finding.code != "report.not-judged"}
    assert found <= {path, "kvaudit.lock"}


def test_links_pipes_and_escapes_in_a_bundle(bundle_folder, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside") / "fixture.json"
    outside.write_bytes((bundle_folder / FIXTURE).read_bytes())
    (bundle_folder / FIXTURE).unlink()
    (bundle_folder / FIXTURE).symlink_to(outside)
    (bundle_folder / REPORT).unlink()
    os.mkfifo(bundle_folder / REPORT)
    edit(bundle_folder / "kvaudit.yaml", f"suite: {SUITE}", "suite: ../invalid.json")
    assert {"path.escapes-bundle", "path.not-a-file"} <= set(codes(run(bundle_folder)))


def test_a_pinned_folder_that_escapes(bundle_folder):
    edit(bundle_folder / "kvaudit.yaml", "- schemas\n", "- ../schemas\n")
    result = run(bundle_folder)
    assert ("kvaudit.yaml", "/pins/0", "path.escapes-bundle") in [
        (found.path, found.pointer, found.code) for found in result.findings
    ]


def test_new_and_dropped_artefacts(bundle_folder):
    (bundle_folder / "schemas" / "extra.json").write_text("{}")
    assert codes(run(bundle_folder)) == ["lock.unpinned"]
    (bundle_folder / "schemas" / "extra.json").unlink()
    lock = json.loads((bundle_folder / "kvaudit.lock").read_text())
    lock["artefacts"]["gone.json"] = "0" * 64
    (bundle_folder / "kvaudit.lock").write_text(json.dumps(lock))
    assert codes(run(bundle_folder)) == ["lock.stale-pin"]


def test_unknown_oracle(bundle_folder):
    edit(bundle_folder / "kvaudit.yaml", "oracle: visibility", "oracle: visibilty")
    assert "bundle.unknown-oracle" in codes(run(bundle_folder))


def test_fewer_cases_than_the_manifest_says(bundle_folder):
    suite = json.loads((bundle_folder / SUITE).read_text())
    del suite["cases"]["position-twice"]
    (bundle_folder / SUITE).write_text(json.dumps(suite))
    found = codes(run(bundle_folder))
    assert {"invalid.wrong-count", "invalid.uncovered-code"} <= set(found)


def test_a_case_that_survives_is_a_finding(bundle_folder):
    edit(bundle_folder / SUITE, '"visibility.duplicate-position"', '"visibility.position-order"')
    result = run(bundle_folder)
    [found] = [finding for finding in result.findings if finding.code == "invalid.wrong-code"]
    assert found.pointer == "/cases/position-twice"
    assert found.line is not None


def test_expected_digest(bundle_folder):
    digest = run(bundle_folder).digest
    assert run(bundle_folder, expect_digest=digest.upper()).findings == ()
    assert codes(run(bundle_folder, expect_digest="0" * 64)) == ["lock.digest-mismatch"]


def test_selected_entries(bundle_folder):
    result = run(bundle_folder, "loop2_visibility")
    assert [entry.id for entry in result.entries] == ["loop02_visibility"]
    assert result.findings == ()
    with pytest.raises(UsageError):
        run(bundle_folder, "loop99")


def test_limits_reach_every_file(bundle_folder):
    assert "file.too-large" in codes(run(bundle_folder, limits=Limits(max_bytes=6000)))


def test_a_user_bundle_with_two_entries_of_one_oracle(tmp_path, bundle_folder):
    """A repository audits its own shapes: the same oracle twice, no invalid suites, other ids."""
    mine = tmp_path / "mine"
    (mine / "f").mkdir(parents=True)
    for name in ("a", "b"):
        (mine / "f" / f"{name}.json").write_bytes((bundle_folder / FIXTURE).read_bytes())
    entry = (
        "  - id: {0}\n    oracle: visibility\n    fixture: f/{0}.json\n    report: r/{0}.json\n    tables: r/{0}.md\n"
        "    coordinates: {{cohort: a, phase: b, representation_class: c, owner_axis: d, budget_unit: e, "
        "metric_scope: {{state: undeclared}}, denominator: {{state: not_applicable}}}}\n"
    )
    manifest = "schema: kvaudit.bundle/1\ntitle: mine\nentries:\n" + entry.format("b") + entry.format("a")
    (mine / "kvaudit.yaml").write_text(manifest)
    assert regenerate(load_bundle(mine)).findings == ()
    result = run(mine)
    assert result.findings == ()
    assert [entry.id for entry in result.entries] == ["b", "a"]
    report = json.loads(Path(mine / "r" / "a.json").read_text())
    assert report["coordinates"]["metric_scope"] == {"state": "undeclared"}
    assert report["invalid_suites"] == {}


def test_every_departure_from_the_schema_is_listed(bundle_folder):
    path = bundle_folder / FIXTURE
    fixture = json.loads(path.read_text())
    fixture["cache_abi"]["layers"] = 2.0
    fixture["manifest"]["extra"] = 1
    del fixture["probes"]
    path.write_text(json.dumps(fixture, indent=2))
    found = [(each.pointer, each.line) for each in run(bundle_folder).findings if each.code == "schema.mismatch"]
    assert sorted(place for place, _ in found) == ["", "/cache_abi/layers", "/manifest"]
    assert all(line for place, line in found if place)


def test_an_answer_that_its_report_has_no_form_for_is_a_finding(bundle_folder, monkeypatch):
    loop = LOOPS[0]
    odd = dataclasses.replace(loop, oracle=lambda fixture: dataclasses.replace(loop.oracle(fixture), snapshots=(ODD,)))
    monkeypatch.setattr("kvaudit.suite.entry.loop_by_command", lambda _: odd)
    [found] = run(bundle_folder, loop.id).findings
    assert (found.code, found.path, found.pointer) == ("schema.mismatch", REPORT, "/snapshots/0/state_generation")
    assert found.line is not None


ODD = Snapshot("p", "s", "o", "eleven", 1, None, None, published=True)

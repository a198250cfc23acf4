"""`regenerate`: what it writes, in which order, and that failure changes nothing."""

import json
import os
import re

import pytest

from kvaudit.errors import KvauditError, UsageError
from kvaudit.evidence import files
from kvaudit.evidence.bundle import load_bundle
from kvaudit.suite.check import check
from kvaudit.suite.init import init
from kvaudit.suite.regenerate import regenerate

FIXTURE = "fixtures/loop02_visibility/fixture.json"
REPORT = "reports/loop02_visibility.json"


def tree(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def green(folder):
    return check(load_bundle(folder)).findings == ()


def test_nothing_to_do(bundle_folder):
    before = tree(bundle_folder)
    assert regenerate(load_bundle(bundle_folder)).changes == ()
    assert tree(bundle_folder) == before


def test_it_restores_what_was_deleted(bundle_folder):
    before = tree(bundle_folder)
    for path in (*bundle_folder.glob("reports/*"), bundle_folder / "kvaudit.lock"):
        path.unlink()
    result = regenerate(load_bundle(bundle_folder))
    assert {change.reason for change in result.changes} == {"new"}
    assert tree(bundle_folder) == before


def test_dry_run_writes_nothing(bundle_folder):
    (bundle_folder / REPORT).unlink()
    before = tree(bundle_folder)
    result = regenerate(load_bundle(bundle_folder), dry_run=True)
    assert [change.path for change in result.changes] == [REPORT]
    assert tree(bundle_folder) == before


def change_input(folder):
    """A meant change: the view is read by a query one position later."""
    path = folder / FIXTURE
    text = path.read_text()
    path.write_text(text.replace('"rows_per_page": 4', '"rows_per_page": 5'))


def test_a_meant_change(bundle_folder):
    change_input(bundle_folder)
    assert not green(bundle_folder)
    result = regenerate(load_bundle(bundle_folder))
    paths = [change.path for change in result.changes]
    assert paths[-1] == "kvaudit.lock"
    assert REPORT in paths
    assert green(bundle_folder)


def test_a_crash_before_the_lock_is_found_and_healed(bundle_folder, monkeypatch):
    change_input(bundle_folder)
    real = files.write_atomically

    def crash_at_lock(path, data):
        if path.name == "kvaudit.lock":
            raise KvauditError("the power went out")
        real(path, data)

    monkeypatch.setattr(files, "write_atomically", crash_at_lock)
    with pytest.raises(KvauditError):
        regenerate(load_bundle(bundle_folder))
    monkeypatch.undo()
    found = {finding.code for finding in check(load_bundle(bundle_folder)).findings}
    assert found == {"lock.hash-mismatch"}
    regenerate(load_bundle(bundle_folder))
    assert green(bundle_folder)


def test_a_finding_keeps_everything_from_being_written(bundle_folder):
    (bundle_folder / REPORT).unlink()
    text = (bundle_folder / FIXTURE).read_text().replace('"state_generation": 11', '"state_generation": 9')
    (bundle_folder / FIXTURE).write_text(text)
    before = tree(bundle_folder)
    result = regenerate(load_bundle(bundle_folder))
    assert "visibility.state-not-a-successor" in [finding.code for finding in result.findings]
    assert result.changes == ()
    assert tree(bundle_folder) == before


def test_a_stale_declared_value_names_the_command_and_is_redeclared(bundle_folder):
    path = bundle_folder / FIXTURE
    before = tree(bundle_folder)
    path.write_text(path.read_text().replace('"ragged_total": 344', '"ragged_total": 343'))
    result = regenerate(load_bundle(bundle_folder))
    [finding] = [each for each in result.findings if each.code == "visibility.declared-drift"]
    assert finding.pointer == "/declared/ledgers/ragged_total"
    assert finding.message == "recomputed 344, declared 343"
    assert "regenerate --redeclare" in finding.diagnostic.fix
    result = regenerate(load_bundle(bundle_folder), ["visibility"], redeclare=True)
    [change] = [each for each in result.changes if each.path == FIXTURE]
    assert re.search(r'^-\s+"ragged_total": 343$', change.difference, re.MULTILINE)
    assert re.search(r'^\+\s+"ragged_total": 344$', change.difference, re.MULTILINE)
    assert tree(bundle_folder) == before


def test_redeclare_renews_derived_digests(bundle_folder):
    path = bundle_folder / FIXTURE
    path.write_text(path.read_text().replace('"policy_manifest_id": "teaching-subset"', '"policy_manifest_id": "mine"'))
    codes = [finding.code for finding in regenerate(load_bundle(bundle_folder)).findings]
    assert codes == ["visibility.manifest-digest-mismatch"]
    assert regenerate(load_bundle(bundle_folder), ["visibility"], redeclare=True).findings == ()
    assert green(bundle_folder)


def test_only_the_selected_entries_and_what_needs_them_are_written(whole_bundle):
    for path in whole_bundle.glob("reports/*.md"):
        path.write_text("stale")
    bundle = load_bundle(whole_bundle)
    result = regenerate(bundle, ["static"])
    written = {entry.tables for entry in bundle.entries if "loop04_static" in (entry.id, *entry.needs)}
    assert {change.path for change in result.changes} >= written
    assert (whole_bundle / "reports/loop02_visibility.md").read_text() == "stale"
    assert (whole_bundle / "reports/loop04_static.md").read_text() != "stale"


def test_the_installed_bundle_is_read_only(bundle_folder, monkeypatch):
    from kvaudit.evidence import schema

    installed = bundle_folder / "bundle"
    installed.mkdir()
    for path in list(bundle_folder.iterdir()):
        if path != installed:
            path.rename(installed / path.name)
    monkeypatch.setattr(schema, "shipped_root", lambda: installed)
    with pytest.raises(UsageError, match="read-only"):
        regenerate(load_bundle(installed))
    assert green(installed)


def test_init_checks_green_at_once(tmp_path):
    folder = tmp_path / "new"
    result = init(folder, ())
    assert result.findings == ()
    assert green(folder)
    assert (folder / ".gitattributes").read_text().endswith("* -text\n")
    before = tree(folder)
    with pytest.raises(UsageError, match="exists already"):
        init(folder, ())
    assert tree(folder) == before


def test_init_with_one_oracle(tmp_path):
    init(tmp_path, ("visibility",))
    assert sorted(os.listdir(tmp_path / "fixtures")) == ["visibility"]
    assert green(tmp_path)
    with pytest.raises(UsageError):
        init(tmp_path / "other", ("no-such-oracle",))
    assert not (tmp_path / "other").exists()


def test_init_overwrites_nothing(tmp_path):
    path = tmp_path / "fixtures" / "visibility" / "fixture.json"
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    with pytest.raises(UsageError, match=re.escape(str(path))):
        init(tmp_path, ("visibility",))
    assert tree(tmp_path) == {"fixtures/visibility/fixture.json": b"mine"}


def test_reports_are_plain_json(bundle_folder):
    for path in bundle_folder.glob("reports/*.json"):
        text = path.read_text(encoding="utf-8")
        assert text.endswith("}\n")
        assert json.loads(text)["schema"].startswith("kvaudit.report.")

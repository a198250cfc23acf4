"""The manifest: order, names, paths, selection."""

from pathlib import Path

import pytest

from kvaudit.errors import KvauditError, UsageError
from kvaudit.evidence import bundle as bundles

COORDINATES = (
    "{cohort: a, phase: b, representation_class: c, owner_axis: d, budget_unit: e, metric_scope: f, denominator: g}"
)


def write_manifest(folder, *entries):
    lines = ["schema: kvaudit.bundle/1", "title: t", "entries:"]
    for entry in entries:
        name = entry["id"]
        members = {
            "oracle": "visibility",
            "fixture": f"f/{name}.json",
            "report": f"r/{name}.json",
            "tables": f"r/{name}.md",
        }
        members |= {"coordinates": COORDINATES} | entry
        lines.append("  - " + "\n    ".join(f"{key}: {value}" for key, value in members.items()))
    (folder / "kvaudit.yaml").write_text("\n".join(lines) + "\n")
    return bundles.load_bundle(folder)


def ids(entries):
    return [entry.id for entry in entries]


def test_entries_come_after_what_they_need(tmp_path):
    bundle = write_manifest(tmp_path, {"id": "c", "needs": "[a]"}, {"id": "b"}, {"id": "a", "needs": "[b]"})
    assert ids(bundle.entries) == ["b", "a", "c"]
    assert bundle.findings == ()


def test_cycle(tmp_path):
    bundle = write_manifest(tmp_path, {"id": "a", "needs": "[b]"}, {"id": "b", "needs": "[a]"}, {"id": "c"})
    assert [(found.code, found.pointer) for found in bundle.findings] == [
        ("bundle.dependency-cycle", "/entries/0/needs")
    ]
    assert sorted(ids(bundle.entries)) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("second", "code"),
    [
        ({"id": "a"}, "bundle.duplicate-name"),
        ({"id": "b", "aliases": "[a]"}, "bundle.duplicate-name"),
        ({"id": "b", "needs": "[gone]"}, "bundle.unknown-entry"),
        ({"id": "b", "links": "[{to: gone, kind: shared_row_geometry, basis: x}]"}, "bundle.unknown-entry"),
        ({"id": "b", "report": "r/a.json"}, "bundle.shared-path"),
        ({"id": "b", "report": "f/a.json"}, "bundle.shared-path"),
        ({"id": "b", "tables": "kvaudit.lock"}, "bundle.shared-path"),
    ],
)
def test_findings(tmp_path, second, code):
    bundle = write_manifest(tmp_path, {"id": "a"}, second)
    assert code in [found.code for found in bundle.findings]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("schema: kvaudit.bundle/1\nentries: []", "schema.mismatch"),
        ("schema: kvaudit.bundle/1\ntitle: t\nentries: []", "schema.mismatch"),
        ("entries: [", "yaml.syntax"),
        ("- 1", "schema.mismatch"),
    ],
)
def test_a_manifest_that_cannot_be_read(tmp_path, text, reason):
    (tmp_path / "kvaudit.yaml").write_text(text)
    with pytest.raises(KvauditError, match=reason):
        bundles.load_bundle(tmp_path)


def test_no_manifest(tmp_path):
    with pytest.raises(KvauditError, match="no readable manifest"):
        bundles.load_bundle(tmp_path)


def test_find_root(tmp_path):
    (tmp_path / "kvaudit.yaml").write_text("")
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    assert bundles.find_root(None, below) == tmp_path
    assert bundles.find_root(Path("given"), below) == Path("given")


def test_select_by_id_alias_and_oracle(tmp_path):
    bundle = write_manifest(
        tmp_path, {"id": "a", "aliases": "[x]"}, {"id": "b", "oracle": "cost", "needs": "[a]"}, {"id": "c"}
    )
    assert ids(bundles.selected(bundle, ["x"])) == ["a"]
    assert ids(bundles.selected(bundle, ["cost"])) == ["b"]
    assert ids(bundles.selected(bundle, ["visibility"])) == ["a", "c"]
    assert ids(bundles.selected(bundle, [])) == ["a", "b", "c"]
    assert ids(bundles.with_dependents(bundle, bundles.selected(bundle, ["a"]))) == ["a", "b"]
    with pytest.raises(UsageError, match="did you mean visibility"):
        bundles.selected(bundle, ["visibilty"])

"""What an oracle over reports is given: hashes of raw bytes, pins, identities, and the values that a link names."""

import dataclasses
import json
from pathlib import Path

import pytest

from kvaudit.errors import ContractViolation, FileDefect
from kvaudit.evidence.bundle import Documents, Link, load_bundle
from kvaudit.evidence.canonical import sha256
from kvaudit.evidence.files import MISSING
from kvaudit.evidence.lock import parse_lock
from kvaudit.evidence.text import DEFAULT_LIMITS
from kvaudit.suite.sources import Sources, collected, placed_findings

ROOT = Path(__file__).parents[2]
NEEDS = ("loop02_visibility", "loop03_cost")


def bundle_with_facts(folder=ROOT):
    """The shipped bundle, in which loop 3 says by which values it is linked to loop 2, and which entry needs both."""
    bundle = load_bundle(folder)
    agrees = (("/ledgers/full_payload/value", "/ledgers/full_payload/value"), ("/gone", "/results/packed_rows"))
    link = Link("loop02_visibility", "shared_row_geometry", "one row geometry", agrees)
    entries = tuple(
        dataclasses.replace(entry, links=(link,)) if entry.id == "loop03_cost" else entry for entry in bundle.entries
    )
    return dataclasses.replace(bundle, entries=entries), dataclasses.replace(bundle.entries[0], id="over", needs=NEEDS)


def test_the_collected_document():
    bundle, entry = bundle_with_facts()
    pins = parse_lock((ROOT / "kvaudit.lock").read_bytes())
    document = collected(Sources(bundle, DEFAULT_LIMITS, pins), entry)
    assert list(document["reports"]) == list(document["fixtures"]) == list(document["bundle"]) == list(NEEDS)
    report = document["reports"]["loop03_cost"]
    raw = (ROOT / report["path"]).read_bytes()
    assert report["sha256"] == sha256(raw) == document["lock"][report["path"]]
    assert report["document"] == {name: value for name, value in json.loads(raw).items() if name != "results"}
    fixture = document["fixtures"]["loop02_visibility"]
    assert fixture["schema"] == "kvaudit.fixture.visibility/1"
    assert fixture["sha256"] == sha256((ROOT / fixture["path"]).read_bytes())
    assert document["bundle"]["loop02_visibility"]["adapter"] == "visibility/1"
    assert document["bundle"]["loop02_visibility"]["invalid_suites"]["fixtures/loop02_visibility/invalid.json"] == 28
    payload, absent = document["bundle"]["loop03_cost"]["links"][0]["facts"]
    assert payload["here"]["value"] == payload["there"]["value"] == 512
    assert (absent["here"]["value"], absent["there"]["value"]) == (None, 16)


def test_what_this_run_produced_lies_over_the_files():
    bundle, entry = bundle_with_facts()
    path = "reports/loop02_visibility.json"
    produced = (ROOT / path).read_bytes() + b"\n"
    document = collected(Sources(bundle, DEFAULT_LIMITS, None, {path: produced}), entry)
    assert document["reports"]["loop02_visibility"]["sha256"] == sha256(produced) == document["lock"][path]


def test_a_missing_report_and_a_missing_pin(bundle_folder):
    bundle, entry = bundle_with_facts(bundle_folder)
    assert set(collected(Sources(bundle, DEFAULT_LIMITS, {}), entry)["lock"].values()) == {None}
    (bundle_folder / "reports" / "loop02_visibility.json").unlink()
    with pytest.raises(FileDefect):
        collected(Sources(bundle, DEFAULT_LIMITS, {}), entry)


def test_documents_and_what_the_suites_closed(tmp_path):
    (tmp_path / "rows.yaml").write_text("rows: [1, 2]\n")
    (tmp_path / "page.md").write_text("# Rows\n")
    bundle, entry = bundle_with_facts()
    documents = (Documents("registry", ("rows.yaml",), False), Documents("pages", ("page.md",), True))
    produced = {path: (tmp_path / path).read_bytes() for path in ("rows.yaml", "page.md")}
    entry = dataclasses.replace(entry, documents=documents)
    document = collected(Sources(bundle, DEFAULT_LIMITS, None, produced), entry)
    assert document["documents"]["registry"] == {
        "path": "rows.yaml",
        "sha256": sha256(b"rows: [1, 2]\n"),
        "content": {"rows": [1, 2]},
    }
    assert [page["content"] for page in document["documents"]["pages"]] == ["# Rows\n"]
    suites = document["suites"]["loop02_visibility"]
    shipped = json.loads((ROOT / "fixtures/loop02_visibility/invalid.json").read_bytes())
    assert suites["fixtures/loop02_visibility/invalid.json"]["cases"] == {
        name: case["expects"]["code"] for name, case in shipped["cases"].items()
    }


def test_results_are_collected_only_for_a_loop_that_reads_them():
    bundle, entry = bundle_with_facts()
    sources = Sources(bundle, DEFAULT_LIMITS, None)
    assert "results" not in collected(sources, entry)["reports"]["loop03_cost"]["document"]
    assert "results" in collected(sources, entry, results=True)["reports"]["loop03_cost"]["document"]


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("/documents/registry/content/rows/1", ("rows.yaml", "/rows/1", 3)),
        ("/documents/pages/0/content", ("page.md", "", None)),
        ("/reports/loop02_visibility/document/entry", ("reports/loop02_visibility.json", "/entry", 3)),
        ("/policy", ("fixtures/loop02_visibility/fixture.json", "/policy", None)),
    ],
)
def test_a_defect_is_placed_in_the_file_that_it_stands_in(place, expected):
    bundle, entry = bundle_with_facts()
    documents = (Documents("registry", ("rows.yaml",), False), Documents("pages", ("page.md",), True))
    entry = dataclasses.replace(entry, documents=documents)
    inputs = {"rows.yaml": b"rows:\n  - 1\n  - 2\n", "page.md": b"# Rows\n"}
    defect = ContractViolation(MISSING, place, "expected, found")
    (found,) = placed_findings(Sources(bundle, DEFAULT_LIMITS, None), entry, defect, inputs)
    assert (found.path, found.pointer, found.line) == expected


def test_a_document_that_does_not_parse_is_named():
    bundle, entry = bundle_with_facts()
    entry = dataclasses.replace(entry, documents=(Documents("registry", ("rows.yaml",), False),))
    sources = Sources(bundle, DEFAULT_LIMITS, None, {"rows.yaml": b"rows: ["})
    with pytest.raises(FileDefect) as raised:
        collected(sources, entry)
    assert raised.value.path == "rows.yaml"
    (found,) = placed_findings(sources, entry, raised.value, {})
    assert (found.path, found.code) == ("rows.yaml", "yaml.syntax")

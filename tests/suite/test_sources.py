"""What an oracle over reports is given: hashes of raw bytes, pins, identities, and the values that a link names."""

import dataclasses
import json
from pathlib import Path

import pytest

from kvaudit.errors import FileDefect
from kvaudit.evidence.bundle import Link, load_bundle
from kvaudit.evidence.canonical import sha256
from kvaudit.evidence.lock import parse_lock
from kvaudit.evidence.text import DEFAULT_LIMITS
from kvaudit.suite.sources import Sources, collected

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

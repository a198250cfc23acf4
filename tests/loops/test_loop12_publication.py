"""Loop 12 beyond its suite: where a finding stands, a publication of another shape, redeclaring, and laws."""

import copy
import hashlib
import json
import random
import re
from pathlib import Path

import pytest

from kvaudit.errors import ContractViolation
from kvaudit.evidence.bundle import load_bundle
from kvaudit.evidence.declared import declared, observe
from kvaudit.evidence.strict_json import parse_json
from kvaudit.evidence.text import DEFAULT_LIMITS
from kvaudit.loops import loop12_publication as loop12
from kvaudit.loops.loop12_publication.boundary import matches
from kvaudit.suite.check import check
from kvaudit.suite.entry import redeclared
from kvaudit.suite.regenerate import regenerate
from kvaudit.suite.sources import Sources, input_of

LOOP = loop12.LOOP
ROOT = Path(__file__).parents[2]
BUNDLE = load_bundle(ROOT)
ENTRY = next(entry for entry in BUNDLE.entries if entry.oracle == LOOP.command)


def shipped():
    fixture = parse_json((ROOT / ENTRY.fixture).read_bytes())
    return input_of(LOOP, Sources(BUNDLE, DEFAULT_LIMITS, None), ENTRY, fixture)


SHIPPED = shipped()


def page(path, content):
    return {"path": path, "sha256": hashlib.sha256(content.encode()).hexdigest(), "content": content}


def publication(*contents, numbers_from=None):
    """A small publication: these pages, one owner registry, no sources, one report if its numbers are wanted."""
    reports = {}
    if numbers_from is not None:
        boundary = dict.fromkeys(("measured_latency", "measured_memory_traffic", "task_quality"))
        document = {
            "results": numbers_from,
            "ledgers": {},
            "evidence_boundary": {"evidence_class": "synthetic_oracle", **boundary},
        }
        reports = {"one": {"path": "reports/one.json", "sha256": "0" * 64, "document": document}}
    documents = [page(f"docs/{index}.md", content) for index, content in enumerate(contents)]
    statement = {"says": "s", "supports": "s", "claimed": True}
    sources = {
        "statements": {"synthetic_contract": {**statement, "evidence": ["synthetic_oracle"]}},
        **{name: {} for name in ("papers", "commits", "implementations", "unpinned", "reported", "detectors")},
        "local_evidence": {name: {"code": "one.py", "evidence": "synthetic_oracle"} for name in reports},
    }
    ownership = {
        "owners": {},
        "families": {"payload": {"owners": ["policy"], "about": "bytes"}},
        "report_fields": {name: {"/results": {"owner": "policy"}, "/ledgers": {"owner": "policy"}} for name in reports},
        "receipts": {},
        "diagnostics": {},
    }
    fixture = {
        "schema": LOOP.fixture_schema,
        "entry": "this",
        "pages": [{"path": each["path"], "set": "specification"} for each in documents],
        "display_formulas": {
            "specification": sum(content.count("\n$$\n") // 2 for content in contents),
            "addition": 0,
        },
        "linked_files": ["one.py"],
        "closure": {"papers": 0, "policies": 0, "boundaries": 0, "commits": 0, "implementations": 0},
        "specification": dict.fromkeys(SHIPPED["specification"], 0),
        "formula_registry": [],
        "documents": {
            "pages": documents,
            "figures": [],
            "sources": {"content": sources},
            "ownership": {"content": ownership},
            "fixtures": [],
        },
        "bundle": {name: {"oracle": name, "fixture": "one.json"} for name in reports},
        "lock": {},
        "fixtures": {},
        "reports": reports,
        "suites": {},
    }
    return LOOP.refresh_digests(fixture)


def violation(document):
    with pytest.raises(ContractViolation) as raised:
        LOOP.oracle(document)
    return raised.value


GUARDED = '<!-- formula: family=payload owner=policy guard="b is positive" -->\n$$\nM = {}\n$$\n'


def test_what_the_specification_counts():
    results = observe(LOOP, SHIPPED).results
    assert results["formulas"]["specification"] == 119
    sources = results["sources"]
    assert (sources["papers"], sources["commits"], sources["implementations"]) == (17, 12, 15)
    assert sources["unresolved_commits"] == ["pyramidkv", "ada-kv"]
    assert (sources["full_commits"], sources["printed_abbreviated"]) == (10, 5)
    assert sources["statements"]["runtime_measured"] == 0


def test_the_registry_is_what_another_reader_finds():
    """The formulas of the shipped pages, found by two regular expressions that know nothing of the parser."""
    found = []
    for path in ENTRY.documents[0].paths:
        text = re.sub(r"^```.*?^```$", "", (ROOT / path).read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        for said, latex in re.findall(r"<!-- formula: (.*?) -->\n\$\$\n(.*?)\n\$\$", text, re.DOTALL):
            normalised = re.sub(r"\s+", " ", latex).strip()
            family = re.search(r"family=(\S+)", said)[1]
            found.append((path, family, hashlib.sha256(normalised.encode()).hexdigest()))
    registry = [(row["page"], row["family"], row["sha256"]) for row in SHIPPED["formula_registry"]]
    assert found == registry


def test_every_shipped_number_is_what_its_report_says():
    """The markers of the shipped pages, resolved by hand: integers exactly, decimals by Python's own rounding."""
    checked = 0
    for path in ENTRY.documents[0].paths:
        text = re.sub(r"^```.*?^```$", "", (ROOT / path).read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        for written, entry, place in re.findall(r"(?<![\d.,])(\d[\d,]*)<!-- =(\S+) (\S+) -->", text):
            value = json.loads((ROOT / "reports" / f"{entry}.json").read_text(encoding="utf-8"))
            for step in place.split("/")[1:]:
                step = step.replace("~1", "/").replace("~0", "~")
                value = value[int(step)] if isinstance(value, list) else value[step]
            assert round(value) == int(written.replace(",", "")), (path, place)
            checked += 1
    assert checked > 300


def test_every_linked_file_exists():
    for path in SHIPPED["linked_files"]:
        assert (ROOT / path).is_file(), path


def test_each_owner_of_the_specification_is_there():
    registry = SHIPPED["documents"]["ownership"]["content"]
    assert set(registry["owners"]) == {"append", "backend", "allocator", "scheduler", "recall", "transfer", "policy"}
    modules = {name: owner["module"] for name, owner in registry["owners"].items()}
    assert modules == {
        "append": "M5.1",
        "scheduler": "M5.2",
        "allocator": "M5.3",
        "policy": "M5.4",
        "backend": "M4.5",
        "recall": "M5.5",
        "transfer": "M5.6",
    }


def test_a_publication_of_another_shape():
    body = "# One\n\n" + GUARDED.format("b") + "\nIt has 3<!-- =one /results/rows --> rows.\n"
    document = publication(body, "# Two\n\nSee [one](0.md#one).\n", numbers_from={"rows": 3})
    results = declared(LOOP.oracle(document))["results"]
    assert results["formulas"]["specification"] == 1
    assert results["numbers"]["by_entry"] == {"one": 1, "this": 0}
    assert redeclared(LOOP, document)["declared"]["ledgers"]["tied_numbers"] == 1


def test_a_page_may_state_the_publication_itself():
    body = "# One\n\n{}<!-- =this /ledgers/specification_formulas/value --> formulas\n\n" + GUARDED.replace("{}", "b")
    assert LOOP.oracle(publication(body.format(1))).results["numbers"]["by_entry"] == {"this": 1}
    found = violation(publication(body.format(2)))
    assert (found.diagnostic.code, found.pointer, found.line) == (
        "publication.number-mismatch",
        "/documents/pages/0/content",
        3,
    )


@pytest.mark.parametrize(
    ("content", "code", "line"),
    [
        ("# A\n\nText.\n\nIt takes 5 bytes.\n", "bare-number", 5),
        ("# A\n\n## B\n\n## B\n", "heading-repeated", 5),
        ("# A\n\n" + GUARDED.format("b").replace("policy", "backend"), "formula-owner", 4),
        ("# A\n\n[a](b.md)\n", "link-unresolved", 3),
        ("# A\n\n[a](0.md#b)\n", "anchor-unresolved", 3),
        ("# A\n\nIt has 4<!-- =one /results/rows --> rows.\n", "number-mismatch", 3),
    ],
)
def test_a_finding_names_the_line_of_the_page(content, code, line):
    found = violation(publication(content, numbers_from={"rows": 3}))
    assert (found.diagnostic.code, found.line) == (f"publication.{code}", line)


def test_order_of_formulas_counts():
    one, other = ("# A\n\n" + GUARDED.format(first) + "\n" + GUARDED.format(second) for first, second in ("bc", "cb"))
    committed = publication(one)
    moved = {**publication(other), "formula_registry": committed["formula_registry"]}
    found = violation(moved)
    assert (found.diagnostic.code, found.line) == ("publication.formula-drift", 4)
    # a change of white space within a formula is none
    wrapped = publication(one.replace("M = b", "M\n  = b"))
    assert wrapped["formula_registry"] == committed["formula_registry"]


def test_an_edited_page_is_found_where_it_was_edited_and_regenerate_mends_it(whole_bundle):
    path = whole_bundle / "docs/contract/03_cost.md"
    before = path.read_text(encoding="utf-8")
    assert "B_{row}" in before
    path.write_text(before.replace("B_{row}", "B_{r}", 1), encoding="utf-8")
    line = before[: before.index("B_{row}")].count("\n")  # the line of the delimiter above it
    found = {each.code: each for each in check(load_bundle(whole_bundle), ["publication"]).findings}
    assert set(found) == {"publication.formula-drift", "lock.hash-mismatch"}
    drift = found["publication.formula-drift"]
    assert (drift.path, drift.line) == ("docs/contract/03_cost.md", line)
    changed = regenerate(load_bundle(whole_bundle), ["publication"], redeclare=True)
    assert changed.findings == ()
    assert any("B_{r}" in change.difference for change in changed.changes)
    assert check(load_bundle(whole_bundle)).findings == ()


def test_a_changed_report_makes_the_prose_drift(whole_bundle):
    """The reverse edge: a fixture of another loop changes, and the page that cites it is found."""
    path = whole_bundle / "reports/loop03_cost.json"
    path.write_text(path.read_text(encoding="utf-8").replace('"value": 545', '"value": 546'), encoding="utf-8")
    found = list(check(load_bundle(whole_bundle), ["publication"]).findings)
    assert "publication.number-mismatch" in {each.code for each in found}
    (mismatch,) = [each for each in found if each.code == "publication.number-mismatch"]
    assert mismatch.path == "docs/contract/03_cost.md"
    assert "545" in mismatch.message


@pytest.mark.parametrize(
    ("pattern", "values"),
    [
        ("/a", [[{"b": 1}, {"b": 2}]]),
        ("/a/1/b", [2]),
        ("/a/*/b", [1, 2]),
        ("/*/0/b", [1]),
        ("/a/2/b", []),
        ("/a/b", []),
        ("/c~1d", [3]),
    ],
)
def test_patterns(pattern, values):
    assert matches({"a": [{"b": 1}, {"b": 2}], "c/d": 3}, pattern) == values


def test_a_foreign_fact_must_have_been_supplied():
    document = copy.deepcopy(publication("# A\n", numbers_from={"workspace": 7}))
    fields = document["documents"]["ownership"]["content"]["report_fields"]["one"]
    fields["/results/workspace"] = {"owner": "backend"}
    assert violation(document).diagnostic.code == "publication.foreign-fact-computed"
    fields["/results/workspace"]["input"] = "/receipts/*/bytes"
    assert violation(document).diagnostic.code == "publication.input-without-fixture"
    fixture = {"path": "one.json", "content": {"receipts": [{"bytes": 5}, {"bytes": 6}]}}
    document["documents"]["fixtures"] = [fixture]
    assert violation(document).diagnostic.code == "publication.foreign-fact-computed"
    fixture["content"]["receipts"][0]["bytes"] = 7
    LOOP.oracle(document)


def test_no_page_crashes_it():
    """Damaged pages end as a contract violation or pass; nothing else is raised."""
    generator = random.Random(12)
    text = SHIPPED["documents"]["pages"][2]["content"]
    for _ in range(60):
        at, width = generator.randrange(len(text)), generator.randrange(1, 40)
        broken = text[:at] + generator.choice(("", "$$", "`", "<!--", "[", "\n# ", "9")) + text[at + width :]
        pages = [page("docs/contract/broken.md", broken), *SHIPPED["documents"]["pages"]]
        document = {**SHIPPED, "documents": {**SHIPPED["documents"], "pages": pages}}
        with pytest.raises(ContractViolation):
            LOOP.oracle(LOOP.refresh_digests(document))

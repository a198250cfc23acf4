"""The harness of invalid cases, on a loop small enough to read: every way in which a case or a suite can be hollow."""

import dataclasses
import json
from fractions import Fraction

import jsonpatch
import pytest

from kvaudit.errors import ContractViolation, FileDefect
from kvaudit.evidence import invalid, schema
from kvaudit.evidence.canonical import canonical_sha256
from kvaudit.model import Boundary, Diagnostic, Evidence, InvalidCase, LedgerRow, Loop

BUDGET = Diagnostic("toy.budget-exceeded", "rows <= budget", "w", "f")
DIGEST = Diagnostic("toy.digest-mismatch", "digest is of inputs", "w", "f")
DRIFT = Diagnostic("toy.declared-drift", "declared is recomputed", "w", "f")


def oracle(fixture):
    if fixture["digest"] != canonical_sha256(fixture["inputs"]):
        raise ContractViolation(DIGEST, "/digest", "expected another")
    if fixture["inputs"]["rows"] > fixture["inputs"]["budget"]:
        raise ContractViolation(BUDGET, "/inputs/rows", "too many")
    return Evidence({}, (LedgerRow("rows", fixture["inputs"]["rows"], "rows", "rows"),), (), ())


LOOP = Loop(
    id="loop00_toy",
    command="toy",
    title="toy",
    section="none",
    fixture_schema="kvaudit.fixture.toy/1",
    report_schema="kvaudit.report.toy/1",
    diagnostics=(BUDGET, DIGEST, DRIFT),
    drift=DRIFT,
    categories=("budget", "digest"),
    boundary=Boundary("synthetic_oracle", ("toy",), ("everything else",)),
    oracle=oracle,
    refresh_digests=lambda fixture: {**fixture, "digest": canonical_sha256(fixture["inputs"])},
    tables=lambda _: (),
)
INPUTS = {"rows": 4, "budget": 4}
FIXTURE = {
    "inputs": INPUTS,
    "digest": canonical_sha256(INPUTS),
    "declared": {"results": {}, "ledgers": {"rows": 4}},
}
TOY_SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {
        "inputs": {
            "type": "object",
            "properties": {"rows": {"type": "integer", "minimum": 0}, "budget": {"type": "integer"}},
            "required": ["rows", "budget"],
            "additionalProperties": False,
        },
        "digest": {"type": "string"},
        "declared": {"type": "object"},
    },
    "required": ["inputs", "digest", "declared"],
    "additionalProperties": False,
}


@pytest.fixture(autouse=True)
def toy_schema(tmp_path, monkeypatch):
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "fixture.toy.1.json").write_text(json.dumps(TOY_SCHEMA))
    monkeypatch.setattr(schema, "shipped_root", lambda: tmp_path)
    schema._read.cache_clear()
    schema._validator.cache_clear()
    yield
    schema._read.cache_clear()
    schema._validator.cache_clear()


def case(*patch, code="toy.budget-exceeded", pointer="/inputs/rows", targets=None, name="a", category="budget"):
    return InvalidCase(name, category, "rows over budget", list(patch), code, pointer, targets)


def replace(path, value):
    return {"op": "replace", "path": path, "value": value}


OVER = replace("/inputs/rows", 5)
VERDICTS = {
    "rejected as expected": (case(OVER), None),
    "digest refreshed, so that the contract is what fails": (case(replace("/inputs/budget", 3)), None),
    "digest kept when the case targets it": (
        case(replace("/digest", "x"), code="toy.digest-mismatch", pointer="/digest", targets="digests"),
        None,
    ),
    "digest of unrefreshed inputs": (
        case(OVER, code="toy.digest-mismatch", pointer="/digest", targets="digests"),
        None,
    ),
    "declared": (
        case(replace("/declared/ledgers/rows", 3), code="toy.declared-drift", pointer="/declared/ledgers/rows"),
        None,
    ),
    "declared, removed: the parent": (
        case(
            {"op": "remove", "path": "/declared/ledgers/rows"}, code="toy.declared-drift", pointer="/declared/ledgers"
        ),
        None,
    ),
    "schema": (
        case(replace("/inputs/rows", -1), code="schema.mismatch", pointer="/inputs/rows", targets="schema"),
        None,
    ),
    "schema, a member removed": (
        case({"op": "remove", "path": "/inputs"}, code="schema.mismatch", pointer="", targets="schema"),
        None,
    ),
    "accepted": (case(replace("/inputs/budget", 9)), "invalid.accepted"),
    "wrong code": (case(OVER, code="toy.digest-mismatch"), "invalid.wrong-code"),
    "wrong pointer": (case(OVER, pointer="/inputs/budget"), "invalid.wrong-pointer"),
    "patch failed": (case({"op": "remove", "path": "/gone"}), "invalid.patch-failed"),
    "patch failed: test": (case({"op": "test", "path": "/inputs/rows", "value": 5}), "invalid.patch-failed"),
    "patch without value": (case({"op": "add", "path": "/inputs/x"}), "invalid.patch-failed"),
    "whole document": (case(replace("", [])), "invalid.patch-failed"),
    "no change": (case(replace("/inputs/rows", 4)), "invalid.no-change"),
    "no change, only a digest": (case(replace("/digest", "x")), "invalid.accepted"),
    "4.0 is another text than 4": (
        case(replace("/inputs/rows", Fraction(4)), code="schema.mismatch", targets="schema"),
        None,
    ),
    "rejected by the schema": (case(replace("/inputs/rows", "5")), "invalid.schema-rejected"),
    "targets the schema, which accepts it": (
        case(OVER, targets="schema", code="schema.mismatch"),
        "invalid.wrong-code",
    ),
    "unknown code": (case(OVER, code="toy.budget-exceded"), "invalid.unknown-code"),
}


@pytest.mark.parametrize("name", VERDICTS)
def test_verdict(name):
    given, expected = VERDICTS[name]
    before = json.dumps(FIXTURE)
    verdict = invalid.judge(LOOP, FIXTURE, given)
    assert (verdict.defect.code if verdict.defect else None) == expected, verdict.message
    assert json.dumps(FIXTURE) == before


def test_a_patch_that_fails_does_not_print_the_document():
    large = {**FIXTURE, "inputs": {**FIXTURE["inputs"], "rows": list(range(1000))}}
    verdict = invalid.judge(LOOP, large, case(replace("/inputs/gone/deep", 1)))
    assert verdict.defect is invalid.PATCH_FAILED
    assert "gone" in verdict.message
    assert len(verdict.message) < 250


def test_a_pointer_that_does_not_exist_in_the_patched_document():
    def vague(_):
        raise ContractViolation(BUDGET, "/nowhere", "too many")

    loop = dataclasses.replace(LOOP, oracle=vague)
    verdict = invalid.judge(loop, FIXTURE, case(OVER, pointer="/nowhere"))
    assert verdict.defect is invalid.WRONG_POINTER


def codes(defects):
    return [defect[-1].code for defect in defects]


def test_suite_defects():
    over = case(OVER)
    assert codes(invalid.suite_defects(LOOP, (over,), 1)) == []
    assert codes(invalid.suite_defects(LOOP, (over,), 2)) == ["invalid.wrong-count"]
    assert codes(invalid.suite_defects(LOOP, (over, case(OVER, name="b")), 2)) == ["invalid.repeated"]


def test_one_case_in_ten_may_rest_on_a_declared_result():
    others = tuple(case(OVER, name=f"c{index}", pointer=f"/inputs/{index}") for index in range(9))
    drifting = case(OVER, code="toy.declared-drift", name="d")
    assert codes(invalid.suite_defects(LOOP, (*others, drifting), 10)) == []
    assert codes(invalid.suite_defects(LOOP, (*others[1:], drifting), 9)) == ["invalid.declared-only"]


def test_coverage():
    over, digest = case(OVER), case(OVER, code="toy.digest-mismatch", category="digest")
    drift = case(OVER, code="toy.declared-drift")
    assert codes(invalid.coverage_defects(LOOP, (over, digest, drift))) == []
    assert codes(invalid.coverage_defects(LOOP, (over, drift))) == [
        "invalid.uncovered-code",
        "invalid.uncovered-category",
    ]


def test_parse_suite_names_the_place(monkeypatch):
    monkeypatch.undo()
    schema._read.cache_clear()
    with pytest.raises(FileDefect) as caught:
        invalid.parse_suite(b'{"schema": "kvaudit.invalid/1", "cases": {"a": {}}}')
    assert caught.value.pointer == "/cases/a"


@pytest.mark.parametrize(
    "patch",
    [
        [{"op": "replace", "path": "/a/0/b", "value": 2}],
        [{"op": "add", "path": "/a/-", "value": {}}, {"op": "remove", "path": "/a/0"}],
        [{"op": "move", "from": "/a/0", "path": "/c"}, {"op": "replace", "path": "/c/b", "value": 2}],
        [{"op": "copy", "from": "/a", "path": "/c"}, {"op": "remove", "path": "/c/0/b"}],
        [{"op": "add", "path": "/d", "value": {}}, {"op": "add", "path": "/d/e", "value": 1}],
    ],
)
def test_a_patch_leaves_the_fixture_as_it_was(patch):
    """What a patch does not lead through is shared, so that a case must never write into the valid fixture."""
    fixture = {"a": [{"b": 1}], "other": {"kept": []}}
    before = json.dumps(fixture)
    patched, touched = invalid._patched(fixture, patch)
    assert json.dumps(fixture) == before
    assert json.dumps(patched) == json.dumps(jsonpatch.apply_patch(fixture, patch))
    assert patched["other"] is fixture["other"]
    assert touched
    assert all(1 <= len(place) <= invalid._DEPTH for place in touched)

"""Schema defects: integers are integers, and reasons are for people."""

import json
from fractions import Fraction
from pathlib import Path

import jsonschema
import pytest

from kvaudit.evidence import schema
from kvaudit.evidence.bundle import load_bundle
from kvaudit.evidence.invalid import _patched, parse_suite
from kvaudit.evidence.strict_json import parse_json
from kvaudit.evidence.text import DEFAULT_LIMITS
from kvaudit.loops import LOOPS
from kvaudit.suite.sources import Sources, input_of

ROOT = Path(__file__).parents[2]
SCHEMAS = sorted((ROOT / "schemas").glob("*.json"))


@pytest.mark.parametrize("path", SCHEMAS, ids=lambda path: path.name)
def test_schemas_are_schemas(path):
    document = json.loads(path.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(document)
    stated = document.get("properties", {}).get("schema", {}).get("const")
    assert stated is None or schema.schema_path(stated) == f"schemas/{path.name}"


def objects(value):
    if isinstance(value, dict):
        yield value
        for member in value.values():
            yield from objects(member)
    elif isinstance(value, list):
        for item in value:
            yield from objects(item)


@pytest.mark.parametrize("path", SCHEMAS, ids=lambda path: path.name)
def test_no_object_takes_unknown_members(path):
    """`additionalProperties` is stated: false, a schema for the values of a mapping, or true where a document that its
    own schema has judged is only looked into."""
    for part in objects(json.loads(path.read_text(encoding="utf-8"))):
        if part.get("type") == "object":
            assert "additionalProperties" in part, part


@pytest.mark.parametrize("path", SCHEMAS, ids=lambda path: path.name)
def test_a_number_that_is_enumerated_is_an_integer(path):
    """`enum` compares by value, so that alone it would accept 1.0 for 1."""
    for part in objects(json.loads(path.read_text(encoding="utf-8"))):
        listed = part.get("enum", [part["const"]] if isinstance(part.get("const"), int) else [])
        if isinstance(listed, list) and any(type(value) is int for value in listed):
            assert part.get("type") == "integer", part


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.id)
def test_a_loop_has_its_schemas(loop):
    for name in (loop.fixture_schema, loop.report_schema):
        assert (ROOT / schema.schema_path(name)).is_file()


LOCK = {"schema": "kvaudit.lock/1", "artefacts": {}}
CASE = {"category": "a", "breaks": "b", "patch": [{"op": "remove", "path": "/a"}], "expects": {}}


@pytest.mark.parametrize(
    ("name", "document", "pointer", "message"),
    [
        ("kvaudit.lock/1", {**LOCK, "x": 1}, "", 'expected only the members artefacts, schema; found "x"'),
        ("kvaudit.lock/1", {"schema": "kvaudit.lock/1"}, "", 'expected the member "artefacts", found none'),
        ("kvaudit.lock/1", {**LOCK, "schema": 1}, "/schema", 'expected "kvaudit.lock/1", found 1'),
        ("kvaudit.lock/1", {**LOCK, "artefacts": []}, "/artefacts", "expected object, found an array of 0 items"),
        (
            "kvaudit.lock/1",
            {**LOCK, "artefacts": {"a/b": "zz"}},
            "/artefacts/a~1b",
            'expected a text that matches ^[0-9a-f]{64}$, found "zz"',
        ),
        (
            "kvaudit.invalid/1",
            {"schema": "kvaudit.invalid/1", "cases": {}},
            "/cases",
            "expected at least 1 members, found 0",
        ),
        (
            "kvaudit.invalid/1",
            {"schema": "kvaudit.invalid/1", "cases": {"a": {**CASE, "patch": []}}},
            "/cases/a/patch",
            "expected at least 1 items, found 0",
        ),
        (
            "kvaudit.invalid/1",
            {"schema": "kvaudit.invalid/1", "cases": {"a": {**CASE, "patch": [{"op": "drop", "path": ""}]}}},
            "/cases/a/patch/0/op",
            'expected one of "add", "remove", "replace", "move", "copy", "test"; found "drop"',
        ),
    ],
)
def test_reasons(name, document, pointer, message):
    assert schema.SchemaDefect(pointer, message) in schema.defects(name, document)


@pytest.mark.parametrize("value", [Fraction(1), 1.0, True, "1", None])
def test_an_integer_is_an_integer(value):
    bundle = {"suite": "a", "report": "b", "cases": value}
    document = {"schema": "kvaudit.bundle/1", "title": "t", "entries": [{"invalid_suites": [bundle]}]}
    found = [each.pointer for each in schema.defects("kvaudit.bundle/1", document)]
    assert "/entries/0/invalid_suites/0/cases" in found


def test_checking_touched_places_equals_checking_all():
    """`member_defects` may skip what is known to pass, and must see everything else, two steps down as well."""
    loop = LOOPS[0]
    fixture = parse_json((ROOT / "fixtures" / loop.id / "fixture.json").read_bytes())
    selection = {**fixture["manifest"]["selection_contract"], "maximum_rows": -1}
    manifest = {**fixture["manifest"], "policy_generation": -1, "selection_contract": selection, "extra": 1}
    del manifest["policy_manifest_id"]
    broken = {**fixture, "manifest": manifest, "extra": 1}
    del broken["probes"]
    outer = {("extra",), ("probes",)}
    inner = {("manifest", name) for name in ("policy_generation", "selection_contract", "policy_manifest_id", "extra")}
    everything = schema.defects(loop.fixture_schema, broken)
    assert {each.pointer for each in everything} == {
        "",
        "/manifest",
        "/manifest/policy_generation",
        "/manifest/selection_contract/maximum_rows",
    }
    assert schema.member_defects(loop.fixture_schema, broken, {("manifest",), *outer}) == everything
    assert schema.member_defects(loop.fixture_schema, broken, inner | outer) == everything
    only = schema.member_defects(loop.fixture_schema, {**fixture, "manifest": manifest}, {("manifest", "extra")})
    assert {each.pointer for each in only} == {"/manifest"}


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.id)
def test_an_invalid_case_is_judged_as_by_the_whole_schema(loop):
    """What `judge` asks of the schema, place by place, is what the whole schema says of the patched document."""
    bundle = load_bundle(ROOT)
    entry = next(each for each in bundle.entries if each.oracle == loop.command)
    given = parse_json((ROOT / entry.fixture).read_bytes())
    document = input_of(loop, Sources(bundle, DEFAULT_LIMITS, None), entry, given)
    cases = [case for suite in entry.invalid_suites for case in parse_suite((ROOT / suite.suite).read_bytes())]
    chosen = [case for case in cases if case.targets == "schema"] + cases[:: max(1, len(cases) // 12)]
    for case in chosen:
        patched, touched = _patched(document, case.patch)
        name = loop.collected_schema or loop.fixture_schema
        assert schema.member_defects(name, patched, touched) == schema.defects(name, patched), case.id

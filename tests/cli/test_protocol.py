"""`kvaudit protocol`, in process: what a plan leaves undeclared, and the exact exit code."""

import copy
import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from kvaudit.cli.main import cli
from kvaudit.reconcile import protocol
from kvaudit.render import protocol as render
from kvaudit.render.tables import Display

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs" / "examples" / "protocol.yaml"
PLAN = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))

# Specification 0x10E by hand: eleven axes, then the arguments of Q and of T.
AXES = {
    "checkpoint": 3,
    "lengths": 2,
    "retained": 3,
    "budget": 4,
    "tasks": 2,
    "cadence": 2,
    "quality": 2,
    "runtime": 5,
    "timing": 5,
    "failures": 3,
    "evidence": 2,
}
QUALITY = {
    "checkpoint",
    "task",
    "prompt_tokens",
    "decode_tokens",
    "budget",
    "decision_phase",
    "owner_granularity",
    "calibration",
}
RUNTIME = {
    "hardware",
    "runtime",
    "batch",
    "kernel",
    "prompt_tokens",
    "decode_tokens",
    "budget",
    "compaction_cadence",
}
REFUSED = "coordinates.value-not-allowed"
OUTCOMES = {
    "quality-valid",
    "quality-degraded",
    "runtime-inadmissible",
    "checkpoint-incompatible",
    "backend-incompatible",
    "unmeasured",
}


def run(*arguments, code=0):
    result = CliRunner().invoke(cli, ["protocol", *map(str, arguments)])
    assert result.exit_code == code, (result.output, result.exception)
    return result.stdout


def answer(tmp_path, plan, code=1, suffix="json"):
    path = tmp_path / f"plan.{suffix}"
    path.write_text(json.dumps(plan) if suffix == "json" else yaml.safe_dump(plan, sort_keys=False))
    return json.loads(run(path, "--format", "json", code=code))


def places():
    """Yield every part of a plan: (member, group, part), or ("outcomes", name)."""
    for member in ("axes", "surfaces"):
        for group, parts in PLAN[member].items():
            yield from ((member, group, part) for part in parts)
    yield from (("outcomes", name) for name in PLAN["outcomes"])


def test_the_axes_surfaces_and_outcomes_of_the_specification():
    assert {each.name: len(each.parts) for each in protocol.AXES} == AXES
    assert {each.name: set(each.parts) for each in protocol.SURFACES} == {"quality": QUALITY, "runtime": RUNTIME}
    assert set(protocol.OUTCOMES) == OUTCOMES
    common = json.loads((ROOT / "schemas" / "common.1.json").read_text())
    assert tuple(common["$defs"]["outcome"]["enum"]) == protocol.OUTCOMES


def test_the_schema_has_the_parts_of_the_module():
    properties = json.loads((ROOT / "schemas" / "protocol.1.json").read_text())["properties"]
    for member, groups in (("axes", protocol.AXES), ("surfaces", protocol.SURFACES)):
        known = {name: tuple(item["properties"]) for name, item in properties[member]["properties"].items()}
        assert known == {group.name: group.parts for group in groups}


def test_the_example_declares_everything():
    assert run(EXAMPLE).endswith("everything is declared\n")
    assert json.loads(run(EXAMPLE, "--format", "json"))["findings"] == []
    assert len(list(places())) == 55


@pytest.mark.parametrize("place", list(places()), ids="/".join)
@pytest.mark.parametrize("how", ["null", "absent"])
def test_each_part_that_is_left_out_is_the_one_that_is_named(tmp_path, place, how):
    plan = copy.deepcopy(PLAN)
    parent = plan
    for name in place[:-1]:
        parent = parent[name]
    if how == "null":
        parent[place[-1]] = None
    else:
        del parent[place[-1]]
    document = answer(tmp_path, plan)
    [found] = document["findings"]
    codes = {
        "axes": "protocol.axis-undeclared",
        "surfaces": "protocol.surface-undeclared",
        "outcomes": "protocol.outcome-undeclared",
    }
    assert (found["code"], found["pointer"]) == (codes[place[0]], "/" + "/".join(place[:-1]))
    assert found["message"].endswith(f": {place[-1]}")
    if place[0] != "outcomes":
        assert document["plan"][place[0]][place[1]]["undeclared"] == [place[-1]]


@pytest.mark.parametrize("member", ["axes", "surfaces", "outcomes"])
def test_a_member_that_is_not_there_leaves_all_of_it_open(tmp_path, member):
    plan = {name: value for name, value in PLAN.items() if name != member}
    found = answer(tmp_path, plan)["findings"]
    assert len(found) == {"axes": 11, "surfaces": 2, "outcomes": 1}[member]
    assert {each["pointer"] for each in found} == {""}


def test_not_applicable_is_a_statement_and_undeclared_is_none(tmp_path):
    plan = copy.deepcopy(PLAN)
    plan["axes"]["timing"]["compaction"] = {"state": "not_applicable"}
    assert answer(tmp_path, plan, code=0)["findings"] == []
    plan["axes"]["timing"]["compaction"] = {"state": "undeclared"}
    [found] = answer(tmp_path, plan)["findings"]
    assert found["message"].endswith("leaves open: compaction")


def test_yaml_and_json_say_the_same(tmp_path):
    plan = {**PLAN, "axes": {**PLAN["axes"], "budget": {"value": 512}}}
    one, other = (answer(tmp_path, plan, suffix=suffix) for suffix in ("json", "yaml"))
    assert one["plan"] == other["plan"]
    assert [each["pointer"] for each in one["findings"]] == ["/axes/budget"]
    assert [each["line"] for each in other["findings"]] != [None]


def test_the_template_declares_nothing_and_is_a_plan(tmp_path):
    path = tmp_path / "plan.yaml"
    path.write_text(run("--template"))
    text = run(path, code=1)
    assert text.count("(undeclared)") == 55
    assert text.endswith("55 parts undeclared; 11 axes concerned\n")
    assert "protocol.outcome-undeclared\n  why" in text
    assert len(json.loads(run(path, "--format", "json", code=1))["findings"]) == 14


@pytest.mark.parametrize(
    ("member", "group", "part", "value", "code", "place"),
    [
        ("axes", "budget", "unit", "tokens", REFUSED, "/axes/budget/unit"),
        ("axes", "retained", "object", ["original_rows", "rows"], REFUSED, "/axes/retained/object/1"),
        ("axes", "evidence", "evidence_class", "reproduced", REFUSED, "/axes/evidence/evidence_class"),
        ("surfaces", "quality", "calibration", "some", REFUSED, "/surfaces/quality/calibration"),
        ("surfaces", "quality", "cache_ratio", 4, "schema.mismatch", "/surfaces/quality"),
        ("axes", "quality", "metric", [], "schema.mismatch", "/axes/quality/metric"),
    ],
)
def test_a_plan_that_is_none(tmp_path, member, group, part, value, code, place):
    plan = copy.deepcopy(PLAN)
    plan[member][group][part] = value
    document = answer(tmp_path, plan)
    assert document["plan"] is None
    assert [(each["code"], each["pointer"]) for each in document["findings"]] == [(code, place)]
    assert document["findings"][0]["line"] is not None
    path = tmp_path / "plan.yaml"
    path.write_text(yaml.safe_dump(plan))
    assert f"{code}: " in run(path, code=1)


def test_a_plan_cannot_merge_the_two_surfaces_or_invent_an_outcome(tmp_path):
    for member, value in (("surfaces", {"ratio": {"budget": 4}}), ("outcomes", {"quality-fine": "a count"})):
        [found, *_] = answer(tmp_path, {**PLAN, member: value})["findings"]
        assert found["code"] == "schema.mismatch"


def test_files_that_cannot_be_read(tmp_path):
    assert "path.missing" in run(tmp_path / "none.yaml", code=1)
    bad = tmp_path / "bad.json"
    bad.write_text('{"schema": "kvaudit.protocol/1", "schema": 1}')
    assert "json.duplicate-key" in run(bad, code=1)
    assert run(code=2) == ""


def test_a_terminal_of_80_columns():
    plan, _ = protocol.read(str(EXAMPLE), EXAMPLE.read_bytes())
    assert max(map(len, render.text(plan, Display(width=80)).splitlines())) <= 80


@pytest.mark.parametrize("diagnostic", protocol.DIAGNOSTICS, ids=lambda each: each.code)
def test_the_example_of_a_diagnostic_raises_it(diagnostic):
    text = f"schema: kvaudit.protocol/1\nid: x\ntitle: x\n{diagnostic.example}\n"
    _, findings = protocol.read("x.yaml", text.encode())
    assert diagnostic in {each.diagnostic for each in findings}

"""Sweeps of a tiny model: what is written, what is not measured twice, and what becomes of every kind of trouble."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from kvaudit.errors import KvauditError, UsageError
from kvaudit.evidence import canonical, schema, strict_json
from kvaudit.measure import digest, engines, outcomes
from kvaudit.measure import plan as plans
from kvaudit.measure import sweep as sweeps
from kvaudit.measure.sweep import Done
from tests.measure import tiny
from tests.measure.test_process import TEXT, save

ROOT = Path(__file__).parents[2]
HALF = {"value": "1/2", "unit": "fraction_kept", "scope": "kv_head"}
INSIDE, OUTSIDE = "inside_compressed_prompt", "outside_compressed_prompt"

PLAN = {
    "schema": "kvaudit.sweep-plan/1",
    "title": "a tiny sweep",
    "model": {"path": "tiny-llama", "name": "tiny"},
    "prompts": "lock.jsonl",
    "task": "lock",
    "questions": [OUTSIDE, INSIDE],
    "decode_tokens": 3,
    "seeds": [0],
    "dtype": "float32",
    "device": "cpu",
    "threads": 1,
    "tolerance_nats": 0.1,
    "budgets": [HALF],
    "policies": [
        {"policy": "full", "budgets": []},
        {"policy": "snapkv", "parameters": {"window_rows": 8}},
        {"policy": "window", "budgets": [{"value": 400, "unit": "rows", "scope": "kv_head"}]},
    ],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of a plan: a model, prompts, and the records of one whole sweep in `records`."""
    folder = tmp_path_factory.mktemp("sweep")
    save(folder / "tiny-llama", tiny.model())
    reference = {"id": "near", "question": "what number?", "answer": " 4817", "evidence": "number is 4817"}
    lines = [
        {"id": "a", "text": TEXT, "references": [{**reference, "answer_prefix": " it", "distance_tokens": 40}]},
        {"id": "b", "text": TEXT + TEXT.replace("4817", "1234")},
    ]
    (folder / "lock.jsonl").write_text("\n".join(map(json.dumps, lines)))
    write(folder)
    return folder


def write(folder, name="plan.yaml", **changes):
    path = folder / name
    path.write_text(yaml.safe_dump({**PLAN, **changes}, sort_keys=False))
    return path


def kvaudit(*arguments, **options):
    command = [sys.executable, "-m", "kvaudit", "measure", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, **options)


@pytest.fixture(scope="module")
def swept(folder):
    return kvaudit("sweep", folder / "plan.yaml", "--out", folder / "records")


@pytest.fixture
def records(swept, folder):
    assert swept.returncode == 1, swept.stderr
    plan = plans.read(folder / "plan.yaml")
    return [strict_json.parse_json(path.read_bytes()) for path in sweeps.record_paths(plan, folder / "records")]


def never(_requests, _progress):
    raise AssertionError("nothing was left to measure")
    yield


def test_one_record_a_setting_in_the_order_of_the_plan(records, swept, folder):
    stated = [(each["request"]["question"], each["request"]["policy"]) for each in records]
    assert stated == [(place, policy) for place in (OUTSIDE, INSIDE) for policy in ("full", "snapkv", "window")]
    for each in records:
        schema.check("kvaudit.measurement/1", each)
    assert len(list((folder / "records").glob("*.json"))) == 6
    assert swept.stdout.startswith("6 of 6 records are finished: ")
    assert len(swept.stderr.splitlines()) == 6
    assert "[6/6, " in swept.stderr


def test_a_failure_is_a_record_and_the_sweep_goes_on(records):
    ends = [(each["outcome"]["class"], each["outcome"]["reason"]) for each in records]
    assert ends[2] == ends[5] == ("runtime-inadmissible", "budget.above-prompt")
    assert all(end[0] in outcomes.MEASURED for end in (*ends[:2], *ends[3:5]))


@pytest.mark.usefixtures("swept")
def test_names_say_policy_budget_place_and_a_hash(folder):
    names = sorted(path.name.rpartition("-")[0] for path in (folder / "records").glob("*.json"))
    assert names == sorted(
        f"{what}-{place}" for what in ("full", "snapkv-1of2", "window-400") for place in ("inside", "outside")
    )


@pytest.mark.usefixtures("swept")
def test_tables_have_one_cohort_for_each_place_of_the_question(folder):
    text = (folder / "records" / "tables.md").read_text()
    assert text.startswith("# a tiny sweep\n")
    assert text.count("## Cohort ") == 2
    assert text.index("| full | none |") < text.index("| snapkv | 1/2 of rows, kv head |")
    assert "## Of no cohort" in text
    assert text.count("budget.above-prompt") == 2


@pytest.mark.usefixtures("swept")
def test_finished_records_are_not_measured_again(folder):
    plan = plans.read(folder / "plan.yaml")
    result = sweeps.run(plan, folder / "records", never)
    assert [each.new for each in result.written] == [False] * 6
    assert not result.interrupted
    shown = kvaudit("sweep", folder / "plan.yaml", "--out", folder / "records", "--dry-run")
    assert shown.stdout.count(": finished") == 6
    assert shown.returncode == 0


@pytest.mark.usefixtures("swept")
def test_a_plan_that_grows_measures_what_is_new(folder):
    grown = [*PLAN["policies"], {"policy": "h2o"}]
    plan = plans.read(write(folder, "grown.yaml", policies=grown))
    asked = [path.name for path, done in sweeps.planned(plan, folder / "records") if not done]
    assert [name.rpartition("-")[0] for name in asked] == ["h2o-1of2-outside", "h2o-1of2-inside"]


@pytest.mark.parametrize(
    "changes",
    [
        {"decode_tokens": 4},
        {"dtype": "float64"},
        {"tolerance_nats": 0.2},
        {"task": "another"},
        {"model": {"path": "tiny-llama", "name": "renamed"}},
    ],
)
def test_another_setting_is_another_record(folder, changes):
    plan = plans.read(write(folder, "changed.yaml", **changes))
    here = set(sweeps.record_paths(plans.read(folder / "plan.yaml"), folder))
    assert not here & set(sweeps.record_paths(plan, folder))


def test_other_prompts_or_weights_are_other_records(folder, tmp_path):
    here = sweeps.record_paths(plans.read(folder / "plan.yaml"), folder)
    save(tmp_path / "tiny-llama", tiny.model(seed=1))
    (tmp_path / "lock.jsonl").write_bytes((folder / "lock.jsonl").read_bytes())
    weights = plans.read(write(tmp_path))
    assert not set(here) & set(sweeps.record_paths(weights, folder))
    (folder / "other.jsonl").write_bytes((folder / "lock.jsonl").read_bytes() + b"\n")
    prompts = plans.read(write(folder, "changed.yaml", prompts="other.jsonl"))
    assert not set(here) & set(sweeps.record_paths(prompts, folder))


def test_the_digest_of_the_plan_is_that_of_the_record(records, folder):
    assert digest.model_sha256(folder / "tiny-llama") == records[0]["axes"]["checkpoint"]["sha256"]


def copied(folder, tmp_path):
    for path in (folder / "records").glob("*.json"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return plans.read(folder / "plan.yaml")


@pytest.mark.usefixtures("swept")
def test_a_damaged_or_foreign_record_is_measured_again(folder, tmp_path):
    plan = copied(folder, tmp_path)
    paths = sweeps.record_paths(plan, tmp_path)
    paths[0].write_bytes(paths[0].read_bytes()[:500])
    paths[1].write_bytes(paths[4].read_bytes())  # the same policy, with the question inside
    changed = json.loads(paths[3].read_text())
    changed["request"]["seed"] = 7
    paths[3].write_text(json.dumps(changed))
    assert [done for _, done in sweeps.planned(plan, tmp_path)] == [False, False, True, False, True, True]


@pytest.mark.usefixtures("swept")
def test_retry_measures_again_what_was_not_measured(folder, tmp_path):
    plan = copied(folder, tmp_path)
    assert [done for _, done in sweeps.planned(plan, tmp_path, retry=True)] == [True, True, False] * 2


def test_departures_are_named(records, folder):
    plan = plans.read(folder / "plan.yaml")
    assert sweeps.departures(plan, plan.cells[1], records[1]) == ()
    [said] = sweeps.departures(plan, plan.cells[1], {**records[1], "request": {**records[1]["request"], "seed": 5}})
    assert said == "seed is 5, and the plan says 0"


def test_an_interrupted_sweep_goes_on(folder, tmp_path):
    """Killed by Ctrl-C after its first record: what was at work is recorded as interrupted and measured next time."""
    plan = write(folder, "single.yaml", settings_at_once=1, policies=PLAN["policies"][:2])
    command = [sys.executable, "-m", "kvaudit", "measure", "sweep", str(plan), "--out", str(tmp_path)]
    child = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    first = child.stderr.readline()
    assert "full-outside" in first
    time.sleep(1)  # the next child is loading torch
    os.kill(child.pid, signal.SIGINT)
    _, said = child.communicate(timeout=120)
    assert child.returncode == 130
    assert "goes on with what is not finished" in said
    states = dict(sweeps.planned(plans.read(plan), tmp_path))
    assert sum(states.values()) == 1
    before = {path: path.stat().st_mtime_ns for path, done in states.items() if done}
    again = kvaudit("sweep", plan, "--out", tmp_path)
    assert again.returncode == 0, again.stderr
    assert "finished before" in again.stderr.splitlines()[0]
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert all(done for _, done in sweeps.planned(plans.read(plan), tmp_path))


def test_a_group_that_fails_is_measured_setting_by_setting(records, folder, tmp_path):
    """One fault costs one setting, and it is said."""
    plan = plans.read(folder / "plan.yaml")
    asked = []

    def engine(requests, _progress):
        for index, request in enumerate(requests):
            asked.append([wanted.policy for wanted in request.settings])
            faulty = any(wanted.policy == "snapkv" for wanted in request.settings)
            found = [
                each
                for wanted in request.settings
                for each in records
                if (each["request"]["policy"], each["request"]["question"]) == (wanted.policy, request.question)
            ]
            yield Done(index, () if faulty else tuple(found), "a fault" if faulty else None)

    result = sweeps.run(plan, tmp_path, engine)
    assert asked == [["full", "snapkv", "window"]] * 2 + [["full"], ["snapkv"], ["window"]] * 2
    assert len(result.written) == 4
    assert [each.rpartition(": ")[2] for each in result.failed] == ["a fault"] * 2
    assert len(list(tmp_path.glob("*.json"))) == 4


def test_records_of_something_else_are_refused(records, folder, tmp_path):
    """An engine on a node with other prompts must not fill the folder."""
    plan = plans.read(folder / "plan.yaml")
    wrong = [{**each, "request": {**each["request"], "prompts_sha256": "0" * 64}} for each in records]

    def engine(_requests, _progress):
        yield Done(0, tuple(wrong[:3]), None)

    result = sweeps.run(plan, tmp_path, engine)
    assert result.written == ()
    assert len(result.failed) == 3
    assert all("not what was planned: prompts_sha256 is '000" in each for each in result.failed)
    assert not list(tmp_path.glob("*.json"))


def test_groups_keep_one_place_of_the_question(folder):
    plan = plans.read(write(folder, "grouped.yaml", settings_at_once=2))
    assert sweeps.groups(plan, range(6)) == ((0, 1), (2,), (3, 4), (5,))
    assert sweeps.groups(plan, [1, 2, 5]) == ((1, 2), (5,))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"policies": [{"policy": "snapvk"}]}, r"at /policies/0/policy: .* did you mean snapkv\?"),
        ({"policies": [{"policy": "h2o"}, {"policy": "h2o"}]}, "at /policies/1: asks again .* /policies/0"),
        ({"budgets": [{**HALF, "value": "half"}]}, "at /budgets/0/value: expected a number"),
        ({"budgets": [{**HALF, "value": "3/2"}]}, "at /budgets/0/value: expected a fraction of at most 1"),
        ({"budgets": [{**HALF, "value": 0}]}, "at /budgets/0/value: expected more than zero"),
        (
            {"policies": [{"policy": "h2o", "budgets": [{"value": "1/2", "unit": "rows", "scope": "kv_head"}]}]},
            "at /policies/0/budgets/0/value: expected a whole number of rows",
        ),
        ({"questions": ["inside"]}, "at /questions/0: expected one of"),
        ({"decode_tokens": 0}, "at /decode_tokens: expected at least 1"),
        ({"prompt": "x"}, "expected only the members"),
        ({"prompts": "gone.jsonl"}, "at /prompts: .*gone.jsonl: the file cannot be read"),
        ({"model": {"path": "tiny-llama", "name": "t", "sha256": "0" * 64}}, "at /model/sha256: the model has"),
        ({"model": {"path": "tiny-llama", "package": "json", "name": "t"}}, "at /model: "),
    ],
)
def test_a_bad_plan_is_refused_with_its_place(folder, changes, message):
    path = write(folder, "bad.yaml", **changes)
    with pytest.raises(UsageError, match=message) as caught:
        plans.read(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"path": "gone", "name": "t"}, "the model of the plan is not there: .*gone"),
        ({"package": "no_such_package", "file": "a.gguf", "name": "t"}, "no_such_package, which is not installed"),
    ],
)
def test_a_missing_model_is_said_before_anything_runs(folder, model, message):
    with pytest.raises(KvauditError, match=message):
        plans.read(write(folder, "bad.yaml", model=model))


def test_a_plan_that_is_no_yaml(folder):
    path = folder / "broken.yaml"
    path.write_text("schema: [\n")
    with pytest.raises(UsageError, match=r"broken\.yaml:2: .*yaml\.syntax"):
        plans.read(path)
    answer = kvaudit("sweep", path, "--out", folder / "none")
    assert answer.returncode == 2
    assert "Traceback" not in answer.stderr
    assert not (folder / "none").exists()


def test_ray_options_need_ray(folder):
    answer = kvaudit("sweep", folder / "plan.yaml", "--out", folder / "none", "--workers", "2")
    assert answer.returncode == 2
    assert "--engine ray" in answer.stderr


def without_timing(record):
    """A record without what another run cannot repeat: times and peaks."""
    kept = json.loads(canonical.json_text(record))
    kept["metrics"] = {
        name: metric for name, metric in kept["metrics"].items() if metric["kind"] != "latency" and name != "peak_bytes"
    }
    kept["samples"] = {name: values for name, values in kept["samples"].items() if not name.endswith("_ns")}
    kept["prompts"] = [
        {name: value for name, value in prompt.items() if not name.startswith("peak")} for prompt in kept["prompts"]
    ]
    return kept


def test_ray_gives_the_same_records(records, folder, tmp_path):
    """Two workers of a local Ray measure both places of the question; up to timing the records are those of one."""
    pytest.importorskip("ray")
    answer = kvaudit("sweep", folder / "plan.yaml", "--out", tmp_path, "--engine", "ray", "--workers", "2", timeout=540)
    assert answer.returncode == 1, answer.stderr
    plan = plans.read(folder / "plan.yaml")
    found = [strict_json.parse_json(path.read_bytes()) for path in sweeps.record_paths(plan, tmp_path)]
    assert [without_timing(each) for each in found] == [without_timing(each) for each in records]
    assert (tmp_path / "tables.md").is_file()


def test_local_engine_reports_a_fault_as_one(folder, monkeypatch):
    plan = plans.read(folder / "plan.yaml")

    def failing(_request, _progress):
        raise KvauditError("the measuring process failed: RuntimeError")

    monkeypatch.setattr(engines.process, "measure", failing)
    [done] = engines.local((plan.request(plan.cells[:3]),), lambda _: None)
    assert done == Done(0, (), "the measuring process failed: RuntimeError")


def test_a_ray_that_cannot_be_started_is_said_in_one_line(folder, tmp_path):
    """A cluster that exists cannot be given a number of workers."""
    pytest.importorskip("ray")
    answer = kvaudit(
        *("sweep", folder / "plan.yaml", "--out", tmp_path, "--engine", "ray", "--workers", "2"),
        env={**os.environ, "RAY_ADDRESS": "127.0.0.1:1"},
        timeout=120,
    )
    assert answer.returncode == 3
    assert "Traceback" not in answer.stderr
    assert "kvaudit: Ray cannot be started or reached: " in answer.stderr

"""The shipped study: its prompts are those of its script; its records are whole, and name no machine."""

import getpass
import json
import platform
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import yaml

from kvaudit.evidence import canonical
from kvaudit.reconcile.measurements import grouped
from kvaudit.suite import measurements

ROOT = Path(__file__).parents[1]
PROMPTS = ROOT / "fixtures" / "study" / "prompts.jsonl"
PLAN = yaml.safe_load((ROOT / "fixtures" / "study" / "plan.yaml").read_text(encoding="utf-8"))
FOLDER = ROOT / "reports" / "study"


@pytest.fixture(scope="module")
def records():
    found, findings = measurements.read([FOLDER])
    assert findings == ()
    return found


def test_prompts_are_what_the_script_writes():
    command = [sys.executable, str(ROOT / "scripts" / "study_prompts.py")]
    assert subprocess.run(command, capture_output=True, check=True).stdout == PROMPTS.read_bytes()


def test_each_prompt_says_each_fact_once_and_answers_nowhere_else():
    prompts = [json.loads(line) for line in PROMPTS.read_text(encoding="utf-8").splitlines()]
    assert len(prompts) == 8
    for prompt in prompts:
        assert [each["id"] for each in prompt["references"]] == ["far", "near"]
        for each in prompt["references"]:
            assert prompt["text"].count(each["evidence"]) == 1
            assert prompt["text"].count(each["answer"].strip()) == 1
            assert each["answer"].strip() in each["evidence"]


def test_every_setting_of_the_plan_has_one_record(records):
    """Counted from the plan by hand: for each place, a row with no budgets is one setting, any other one a budget."""
    rows = Counter(row["policy"] for row in PLAN["policies"] for _ in row.get("budgets", PLAN["budgets"]) or [None])
    found = Counter((each["request"]["policy"], each["request"]["question"]) for each in records)
    assert found == Counter({(policy, place): n for policy, n in rows.items() for place in PLAN["questions"]})


def test_records_are_of_these_prompts_and_this_checkpoint(records):
    for each in records:
        assert each["request"]["prompts_sha256"] == canonical.sha256(PROMPTS.read_bytes())
        assert each["axes"]["checkpoint"]["sha256"] == PLAN["model"]["sha256"]
        assert each["outcome"]["class"] in ("quality-valid", "quality-degraded")
        assert len(each["prompts"]) >= 8


def test_full_against_itself_is_zero(records):
    for each in records:
        if each["request"]["policy"] == "full":
            assert each["metrics"]["kl_divergence"]["value"] == 0
            assert each["metrics"]["top1_agreement"]["value"] == 1
            assert each["metrics"]["reference_log_probability"] | {"coordinates": None} == each["metrics"][
                "reference_log_probability_full"
            ] | {"coordinates": None}


def test_the_place_of_the_question_and_the_claim_make_the_cohorts(records):
    found = grouped(records)
    assert found.unplaced == ()
    stated = {(each.stated["workload.query_visibility"], each.stated["claim.type"]) for each in found.cohorts}
    assert stated == {(place, claim) for place in PLAN["questions"] for claim in ("resident_bytes", "simulated")}


def test_records_name_no_machine():
    names = {platform.node(), getpass.getuser(), str(Path.home()), str(ROOT)} - {"", "/", "localhost"}
    for path in FOLDER.iterdir():
        text = path.read_text(encoding="utf-8")
        assert not [name for name in names if f'"{name}' in text or f"/{name}" in text], path.name
        assert "/tmp" not in text
        assert "/home" not in text

"""The commands, in process: what they print and the exact exit code."""

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner

from kvaudit.cli.main import cli
from kvaudit.evidence.bundle import load_bundle
from kvaudit.loops import LOOPS

ROOT = Path(__file__).parents[2]
FIXTURE = "fixtures/loop02_visibility/fixture.json"


def run(*arguments, code=0):
    result = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    assert result.exit_code == code, (result.output, result.exception)
    return result.stdout


@pytest.fixture
def broken(bundle_folder):
    """A bundle in which one protected position is missing from layer 1."""
    path = bundle_folder / FIXTURE
    path.write_text(path.read_text().replace("[0, 3, 4, 7]", "[0, 3, 4, 6]", 1))
    return bundle_folder


def test_check_text():
    text = run("check", "--root", ROOT)
    for loop in LOOPS:
        assert loop.id in text
    assert text.endswith(": ok\n")


@pytest.mark.parametrize("output_format", ["text", "json", "sarif", "github", "junit"])
def test_the_format_never_changes_the_exit_code(broken, first_loops, output_format):
    run("check", "--root", first_loops, "--format", output_format)
    run("check", "--root", broken, "--format", output_format, code=1)


def test_check_text_says_where_why_and_what_to_do(broken):
    text = run("check", "--root", broken, "visibility", code=1)
    assert "fixture.json:" in text
    assert "#/policy_state/selected_original_positions/1/0" in text
    assert "visibility.protected-position-missing: expected the protected position 7 in [0, 3, 4, 6]" in text
    assert "why: Sinks and the newest rows are protected" in text
    assert "fix: Keep the protected positions" in text


def test_check_json(broken):
    document = json.loads(run("check", "--root", broken, "--format", "json", code=1))
    assert document["ok"] is False
    finding = document["findings"][0]
    assert finding["code"] == "visibility.protected-position-missing"
    assert finding["path"].endswith(FIXTURE)
    assert finding["line"] > 1


def test_sarif_is_valid(broken, first_loops):
    schema = json.loads((ROOT / "tests" / "render" / "sarif-2.1.0-rtm.5.json").read_text(encoding="utf-8"))
    for folder, code in ((first_loops, 0), (broken, 1)):
        document = json.loads(run("check", "--root", folder, "--format", "sarif", code=code))
        jsonschema.Draft4Validator(schema).validate(document)
        assert bool(document["runs"][0]["results"]) == (code == 1)


def test_sarif_names_rule_and_line(broken):
    [log] = json.loads(run("check", "--root", broken, "--format", "sarif", code=1))["runs"]
    result = log["results"][0]
    assert log["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] > 1


def test_github_annotations_are_one_line_each(broken):
    lines = run("check", "--root", broken, "--format", "github", code=1).splitlines()
    assert all(line.startswith("::error file=") for line in lines[:-1])
    assert "title=visibility.protected-position-missing::" in lines[0]
    assert lines[-1].startswith("kvaudit check: ")


def test_junit(broken):
    root = ElementTree.fromstring(run("check", "--root", broken, "--format", "junit", code=1))
    failed = [case.get("name") for case in root.iter("testcase") if case.find("failure") is not None]
    assert failed == ["loop02_visibility"]
    assert root.get("tests") == str(len(load_bundle(broken).entries) + 1)


def test_a_fixture_cannot_write_to_the_terminal_or_to_the_workflow(bundle_folder):
    path = bundle_folder / FIXTURE
    evil = json.dumps("a\x1b[2J\n::error::x\u202e")
    path.write_text(path.read_text().replace('"request_id": "request-a"', f'"request_id": {evil}', 1))
    text = run("check", "--root", bundle_folder, code=1)
    assert "\x1b" not in text
    assert "\u202e" not in text
    github = run("check", "--root", bundle_folder, "--format", "github", code=1)
    assert not [line for line in github.splitlines() if line.startswith("::error::")]
    ElementTree.fromstring(run("check", "--root", bundle_folder, "--format", "junit", code=1))


def test_expect_digest(first_loops):
    digest = run("digest", "--root", first_loops).strip()
    run("check", "--root", first_loops, "--expect-digest", digest)
    assert "lock.digest-mismatch" in run("check", "--root", first_loops, "--expect-digest", "0" * 64, code=1)
    assert json.loads(run("digest", "--root", first_loops, "--format", "json"))["suite_digest"] == digest


def test_digest_without_a_lock(bundle_folder):
    (bundle_folder / "kvaudit.lock").unlink()
    assert "path.missing" in run("digest", "--root", bundle_folder, code=1)


def test_rule():
    listing = run("rule")
    assert "json.duplicate-key" in listing
    assert "visibility.duplicate-position" in listing
    text = run("rule", "visibility.duplicate-position")
    for label in ("contract", "why", "fix", "fails", "patch"):
        assert f"\n{label} " in text
    assert "[0, 2, 2, 7]" in text
    assert '{"rows": 4,}' in run("rule", "json.syntax")
    document = json.loads(run("rule", "visibility.duplicate-position", "--format", "json"))
    assert document["invalid_case"]["case"] == "position-twice"
    assert len(json.loads(run("rule", "--format", "json"))["rules"]) > 40


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.command)
def test_loop_commands(loop):
    folder = ROOT / "fixtures" / loop.id
    text = run(loop.command, "--root", ROOT)
    assert "Ledgers" in text
    assert text.endswith("fixture.json: ok\n")
    assert run(loop.command, "--fixture", folder / "fixture.json").startswith(text.splitlines()[0])
    document = json.loads(run(loop.command, "--root", ROOT, "--format", "json"))
    report = json.loads((ROOT / "reports" / f"{loop.id}.json").read_text(encoding="utf-8"))
    for member in ("results", "ledgers", "snapshots", "comparisons", "evidence_boundary"):
        assert document["result"][member] == report[member]
    cases = json.loads(run(loop.command, "--root", ROOT, "--invalid", folder / "invalid.json", "--format", "json"))
    assert all(case["rejected_as_expected"] for case in cases["invalid_cases"].values())


def test_a_loop_command_on_a_broken_file(broken):
    text = run("visibility", "--fixture", broken / FIXTURE, code=1)
    assert "visibility.protected-position-missing" in text
    (broken / FIXTURE).write_text("[")
    assert "json.syntax" in run("visibility", "--fixture", broken / FIXTURE, code=1)
    assert "path.missing" in run("visibility", "--fixture", broken / "gone.json", code=1)


def test_a_loop_command_with_a_suite_that_does_not_hold(bundle_folder):
    suite = bundle_folder / "fixtures/loop02_visibility/invalid.json"
    suite.write_text(suite.read_text().replace("visibility.duplicate-position", "visibility.position-order", 1))
    text = run("visibility", "--root", bundle_folder, "--invalid", suite, code=1)
    assert "invalid.wrong-code" in text


def test_regenerate(bundle_folder):
    assert "nothing to write" in run("regenerate", "--root", bundle_folder)
    (bundle_folder / "reports" / "loop02_visibility.md").unlink()
    assert "1 file would be written" in run("regenerate", "--root", bundle_folder, "--dry-run")
    document = json.loads(run("regenerate", "--root", bundle_folder, "--format", "json"))
    assert [change["path"] for change in document["changes"]] == ["reports/loop02_visibility.md"]


def test_regenerate_with_a_finding(broken):
    assert "visibility.protected-position-missing" in run("regenerate", "--root", broken, code=1)
    document = json.loads(run("regenerate", "--root", broken, "--format", "json", code=1))
    assert document["changes"] == []
    assert document["findings"]


def test_init(tmp_path):
    text = run("init", tmp_path / "mine", "--oracle", "visibility")
    assert "is ready" in text
    run("check", "--root", tmp_path / "mine")


@pytest.mark.parametrize(
    "arguments",
    [
        ["chek"],
        ["check", "--no-such-option"],
        ["check", "--format", "yaml"],
        ["check", "--max-depth", "0"],
        ["regenerate", "--redeclare"],
    ],
)
def test_usage_errors(arguments):
    run(*arguments, code=2)


def test_help_groups_commands_and_names_exit_codes():
    text = run("--help")
    for section in ("Evidence:", "Explanations:", "Oracles, one a loop:"):
        assert section in text
    assert "Exit codes: 0 as expected, 1 findings, 2 usage, 3 could not run." in text
    assert all(loop.command in text for loop in LOOPS)

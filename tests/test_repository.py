"""What other repositories use of this one: the action, the pre-commit hook; and the rules that this one keeps."""

import os
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]


def test_the_action_is_a_valid_action():
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-actions", "action.yml"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize("loops", ["", "visibility", "visibility loop2_visibility"])
def test_the_action_runs_a_check(tmp_path, loops):
    """The step's own script, with a kvaudit that records how it is called."""
    step = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"][1]
    tool = tmp_path / "kvaudit" / "bin" / "kvaudit"
    tool.parent.mkdir(parents=True)
    tool.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    tool.chmod(0o755)
    environment = {
        **os.environ,
        "RUNNER_TEMP": str(tmp_path),
        "ROOT": "my evidence",
        "LOOPS": loops,
        "EXPECT_DIGEST": "",
    }
    result = subprocess.run(["bash", "-euc", step["run"]], env=environment, capture_output=True, text=True, check=True)
    assert result.stdout.split("\n")[:-1] == ["check", "--root", "my evidence", "--format", "github", *loops.split()]


def test_the_pre_commit_hook_runs():
    [hook] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    program, *arguments = shlex.split(hook["entry"])
    assert program == "kvaudit"
    assert hook["pass_filenames"] is False
    subprocess.run([sys.executable, "-m", "kvaudit", *arguments], cwd=ROOT, check=True, capture_output=True)


def test_line_endings_are_never_rewritten():
    assert (ROOT / ".gitattributes").read_text() == "* -text\n"
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    for name in tracked:
        assert b"\r\n" not in (ROOT / name).read_bytes(), name


def test_everything_that_check_reads_ships_in_the_wheel(tmp_path):
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--wheel-dir", str(tmp_path), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    [wheel] = tmp_path.glob("kvaudit-*.whl")
    shipped = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("kvaudit/bundle/")}
    for part in (
        "kvaudit.yaml",
        "kvaudit.lock",
        *(p for d in ("fixtures", "reports", "schemas", "docs/contract") for p in files(d)),
    ):
        assert f"kvaudit/bundle/{part}" in shipped


def files(folder):
    return [path.relative_to(ROOT).as_posix() for path in (ROOT / folder).rglob("*") if path.is_file()]

"""kvaudit measure as far as it goes without torch: usage, and what to install."""

import importlib.util
import subprocess
import sys

import pytest


def kvaudit(*arguments):
    command = [sys.executable, "-m", "kvaudit", "measure", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


NEEDED = ("model", "--model", "m", "--prompts", "p.jsonl", "--policy")


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="the extra is installed")
@pytest.mark.parametrize(
    "arguments", [(*NEEDED, "full"), ("profile", "--model", "m", "--prompts", "p.jsonl", "--out", "none.json")]
)
def test_without_the_extra_one_line_says_what_to_install(arguments):
    run = kvaudit(*arguments)
    assert run.returncode == 3
    assert run.stdout == ""
    [line] = run.stderr.splitlines()
    assert "torch" in line
    assert line.endswith("pip install 'kvaudit[measure]'")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((*NEEDED, "no-such-policy"), "no-such-policy"),
        ((*NEEDED, "window", "--budget", "many"), "--budget"),
        ((*NEEDED, "window", "--budget", "-1"), "below zero"),
        ((*NEEDED, "window", "--budget", "1/0"), "--budget"),
        ((*NEEDED, "window", "--budget", "0.5", "--budget-unit", "rows"), "no whole number"),
        ((*NEEDED, "window", "--budget-unit", "rows"), "needs --budget"),
        ((*NEEDED, "h2o", "--param", "recent_rows"), "KEY=VALUE"),
        ((*NEEDED, "h2o", "--param", "recent_rows=1", "--param", "recent_rows=2"), "each key once"),
        ((*NEEDED, "full", "--decode", "0"), "--decode"),
        ((*NEEDED, "full", "--tolerance", "wide"), "--tolerance"),
    ],
)
def test_a_request_that_makes_no_sense_is_a_usage_error(arguments, said):
    run = kvaudit(*arguments)
    assert run.returncode == 2
    assert said in run.stderr
    assert "Traceback" not in run.stderr


def test_help_loads_no_torch():
    run = kvaudit("model", "--help")
    assert run.returncode == 0
    assert "streaming_repositioned" in run.stdout

"""The README is run: every `console` block, in order, in one scratch folder, with its output compared.

A line `...` stands for any lines. Hashes are compared as hashes, not by their digits, which change with every fixture.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
HASH = re.compile(r"\b[0-9a-f]{64}\b")


def sessions():
    """Yield (command, expected output) of every `console` block."""
    for block in re.findall(r"```console\n(.*?)```", README, re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            yield command, output


@pytest.fixture
def tools(tmp_path):
    """A folder for PATH that has `kvaudit` as this interpreter runs it."""
    folder = tmp_path / "bin"
    folder.mkdir()
    tool = folder / "kvaudit"
    tool.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m kvaudit "$@"\n')
    tool.chmod(0o755)
    return folder


def test_the_examples_print_what_the_readme_says(tmp_path, tools):
    work = tmp_path / "work"
    work.mkdir()
    environment = {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
    ran = 0
    for command, expected in sessions():
        result = subprocess.run(
            ["bash", "-c", command], cwd=work, env=environment, capture_output=True, text=True, check=False
        )
        pattern = re.escape(HASH.sub("HASH", expected)).replace(re.escape("...\n"), r"(?:.*\n)*?")
        shown = HASH.sub("HASH", result.stdout)
        assert re.fullmatch(pattern, shown), f"$ {command}\n{result.stdout}{result.stderr}"
        assert result.stderr == ""
        ran += 1
    assert ran >= 4


def test_the_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make ([a-z-]+)|`make ([a-z-]+)`", README, re.MULTILINE):
        name = "".join(target)
        assert re.search(rf"^{name}:", makefile, re.MULTILINE), name


def test_the_folders_of_the_map_exist():
    for cell in re.findall(r"^\| (`[^|]*) \|", README, re.MULTILINE):
        for name in re.findall(r"`([a-z_./]+/[a-z_.]*)`", cell):
            assert (ROOT / name).exists(), name


def test_every_command_of_the_table_exists():
    from kvaudit.cli.main import cli

    for name in re.findall(r"^\| `kvaudit ([a-z]+)", README, re.MULTILINE):
        assert cli.get_command(None, name) is not None


def test_the_readme_names_no_machine():
    for path in (ROOT / "README.md", ROOT / "CHANGELOG.md"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"/(root|home|work|tmp)/", text)

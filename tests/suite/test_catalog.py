"""Every diagnostic is documented, unique and proved: by an invalid case, or by a byte-level test of the file layer."""

import re
from pathlib import Path

import pytest
import yaml

from kvaudit.errors import UsageError
from kvaudit.loops import LOOPS
from kvaudit.suite import catalog

ROOT = Path(__file__).parents[2]
EVERY = catalog.diagnostics()


@pytest.mark.parametrize("diagnostic", EVERY, ids=lambda each: each.code)
def test_documented(diagnostic):
    for text in (diagnostic.contract, diagnostic.why, diagnostic.fix):
        assert len(text) > 15
        assert text.endswith((".", "?"))
    assert re.fullmatch(r"[a-z0-9]+\.[a-z0-9-]+", diagnostic.code)


def test_codes_are_unique():
    codes = [each.code for each in EVERY]
    assert sorted(codes) == sorted(set(codes))


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.id)
def test_the_prefix_is_the_loop(loop):
    assert {each.code.partition(".")[0] for each in loop.diagnostics} == {loop.command}
    assert loop.drift in loop.diagnostics


@pytest.mark.parametrize("diagnostic", catalog.FILE_LAYER, ids=lambda each: each.code)
def test_the_file_layer_has_an_example_and_a_test(diagnostic):
    """These codes are raised by bytes on disk, so the tests name them: each by its code or by its constant."""
    assert diagnostic.example
    tests = [
        path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py") if "catalog" not in path.name
    ]
    assert any(diagnostic.code in text for text in tests), diagnostic.code


@pytest.mark.parametrize(
    "diagnostic", [each for loop in LOOPS for each in loop.diagnostics], ids=lambda each: each.code
)
def test_a_loop_diagnostic_has_an_invalid_case(diagnostic):
    example = catalog.example(diagnostic.code, ROOT)
    assert example is not None
    assert example.case.code == diagnostic.code


def test_unknown_codes_get_suggestions():
    with pytest.raises(UsageError, match=r"did you mean visibility\.duplicate-position"):
        catalog.diagnostic("visibility.duplicated-position")


def test_a_loop_is_one_module_one_folder_one_entry():
    """Module, fixture folder, schemas, manifest entry and tuple name the same loops."""
    ids = [loop.id for loop in LOOPS]
    assert ids == sorted(ids)
    modules = {path.stem for path in (ROOT / "kvaudit" / "loops").glob("loop*")}
    folders = {path.name for path in (ROOT / "fixtures").iterdir()} - {"study"}
    manifest = yaml.safe_load((ROOT / "kvaudit.yaml").read_text(encoding="utf-8"))
    entries = {entry["id"]: entry["oracle"] for entry in manifest["entries"]}
    assert set(ids) == modules == folders == set(entries)
    assert entries == {loop.id: loop.command for loop in LOOPS}
    for loop in LOOPS:
        assert loop.fixture_schema == f"kvaudit.fixture.{loop.command}/1"
        assert loop.report_schema == f"kvaudit.report.{loop.command}/1"
        assert loop.adapter == f"{loop.command}/1"

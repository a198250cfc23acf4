"""`make bench`. Nothing here asserts a time; the README quotes what it measures."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kvaudit.evidence import invalid, strict_json
from kvaudit.evidence.bundle import load_bundle
from kvaudit.evidence.canonical import canonical_sha256
from kvaudit.evidence.text import DEFAULT_LIMITS
from kvaudit.loops import LOOPS
from kvaudit.suite.sources import Sources, input_of

ROOT = Path(__file__).parents[2]


def process(*command):
    return lambda: subprocess.run(command, cwd=ROOT, check=True, capture_output=True)


def kvaudit(*arguments):
    return process(sys.executable, "-m", "kvaudit", *arguments)


def test_cold_check(benchmark):
    benchmark.pedantic(kvaudit("check"), rounds=7, warmup_rounds=1)


def test_version_over_import_click(against):
    against(
        "kvaudit --version over import click", kvaudit("--version"), process(sys.executable, "-c", "import click"), 15
    )


def test_check_over_check_jsonschema(against):
    """check-jsonschema validates the same fixtures and suites: one process a schema, its start-up counted once."""
    calls = []
    groups = {loop.fixture_schema: [ROOT / "fixtures" / loop.id / "fixture.json"] for loop in LOOPS}
    groups["kvaudit.invalid/1"] = sorted((ROOT / "fixtures").glob("*/invalid*.json"))
    for name, documents in groups.items():
        schema = ROOT / "schemas" / f"{name.removeprefix('kvaudit.').replace('/', '.')}.json"
        calls.append(
            process(sys.executable, "-m", "check_jsonschema", "--schemafile", str(schema), *map(str, documents))
        )

    def every_schema():
        for call in calls:
            call()

    start = process(sys.executable, "-m", "check_jsonschema", "--version")
    name = "kvaudit check over check-jsonschema on the same files"
    against(name, kvaudit("check"), every_schema, 5, discount=start, discounts=len(calls) - 1)


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.command)
def test_invalid_cases(benchmark, loop):
    """Cases a second is the number of cases over this time."""
    folder = ROOT / "fixtures" / loop.id
    bundle = load_bundle(ROOT)
    entry = next(each for each in bundle.entries if each.oracle == loop.command)
    given = strict_json.parse_json((folder / "fixture.json").read_bytes())
    fixture = input_of(loop, Sources(bundle, DEFAULT_LIMITS, None), entry, given)
    cases = invalid.parse_suite((folder / "invalid.json").read_bytes())
    benchmark.extra_info["cases"] = len(cases)

    def suite():
        for case in cases:
            invalid.judge(loop, fixture, case)

    suite()
    benchmark(suite)


def test_canonical_hash_of_10_megabytes(against):
    document = {f"key {index}": {"b": [index, index / 7], "a": "text " * 10} for index in range(110_000)}
    assert 10_000_000 < len(json.dumps(document, separators=(",", ":"))) < 11_000_000

    def json_dumps():
        json.dumps(document, separators=(",", ":"), sort_keys=True)

    against("canonical SHA-256 of 10 MB over json.dumps", lambda: canonical_sha256(document), json_dumps, 3)

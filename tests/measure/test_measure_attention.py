"""`kvaudit measure attention` as a command: its records, its schema, what it says and how it ends."""

import getpass
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from kvaudit.evidence import canonical, schema, strict_json
from kvaudit.measure import attention_record, decode_step, layouts
from kvaudit.policies.spherical import uniform

ROOT = Path(__file__).parents[2]
TINY = ["--query-heads", "4", "--kv-heads", "2", "--head-dimension", "16", "--rows", "40", "--page-tokens", "16"]
QUICK = [*TINY, "--repetitions", "7", "--warm-up", "1"]


def kvaudit(*arguments, **environment):
    inherited = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    return subprocess.run(
        [sys.executable, "-m", "kvaudit", "measure", "attention", *arguments],
        cwd=ROOT,
        env={**inherited, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    folder = tmp_path_factory.mktemp("records")
    result = kvaudit(*QUICK, "--format", "json", "--out", str(folder))
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout), folder


def test_there_is_a_record_of_every_layout_and_it_passes_its_schema(ran):
    records, folder = ran
    assert [record["layout"]["name"] for record in records] == ["dense", "ragged", "padded", "tombstone", "spherical"]
    for record in records:
        data = (folder / f"{record['id']}.json").read_bytes()
        assert json.loads(data) == record
        assert_valid(strict_json.parse_json(data))
    assert len(list(folder.iterdir())) == 5


def assert_valid(document):
    schema.check(attention_record.SCHEMA, document)


def test_all_samples_are_kept_and_the_statistics_are_theirs(ran):
    for record in ran[0]:
        times, copies = (sorted(record["samples"][name]) for name in ("step_ns", "copy_ns"))
        assert len(times) == len(copies) == 7
        metrics, count = record["metrics"], record["bytes"]["addressed_total"]
        assert metrics["step_time"]["value"] == pytest.approx(times[3] * 1e-9)
        # Seven samples: the smallest and the largest hold the median with 98 %.
        assert metrics["step_time"]["interval"]["low"] == pytest.approx(times[0] * 1e-9)
        assert metrics["step_time"]["interval"]["high"] == pytest.approx(times[6] * 1e-9)
        assert metrics["effective_bandwidth"]["value"] == pytest.approx(count / (times[3] * 1e-9))
        assert metrics["copy_bandwidth"]["value"] == pytest.approx(2 * count / (copies[3] * 1e-9))
        assert metrics["bandwidth_ratio"]["value"] == pytest.approx(copies[3] / (2 * times[3]))
        assert record["bytes"]["addressed_total"] == sum(record["bytes"]["addressed"].values())


def test_each_output_was_held_against_the_reference(ran):
    for record in ran[0]:
        assert record["check"]["agrees"] is True
        assert record["check"]["largest_error"] < 1e-5
        coded = record["layout"]["name"] == "spherical"
        assert (record["check"]["coding_error"] is not None) == coded
        assert record["evidence_class"] == "locally_measured"


def test_an_output_that_disagrees_is_not_a_measurement():
    request = decode_step.Request(
        shape=layouts.Shape(1, 2, 1, 16, 20),
        kept=Fraction(1, 2),
        coding=layouts.Coding(uniform(16, 4, 4), 8, kept_only=False),
        dtype="float32",
        device="cpu",
        backend="torch",
        seed=0,
        repetitions=1,
        warm_up=0,
        threads=1,
    )
    [timed] = decode_step.measure(request, ("dense",), lambda _: None)
    wrong = decode_step.Timed("dense", timed.step, decode_step.Agreement(0.01, None), (5,), (5,), None)
    surroundings = attention_record.described("cpu")
    for each, outcome in ((timed, "measured"), (wrong, "unmeasured")):
        document = canonical.written(attention_record.document(each, request, surroundings))
        assert_valid(strict_json.parse_json(canonical.json_text(document).encode()))
        assert document["outcome"]["class"] == outcome


def test_nothing_says_whose_machine_it_is(ran):
    text = json.dumps(ran[0])
    assert socket.gethostname() not in text
    assert str(ROOT) not in text
    assert str(Path.home()) + "/" not in text
    assert not re.search(rf"\b{re.escape(getpass.getuser())}\b", text)


def test_the_same_request_has_the_same_id_and_another_seed_another():
    ids = []
    for seed in ("3", "3", "4"):
        result = kvaudit(*TINY, "--repetitions", "1", "--layout", "dense", "--seed", seed, "--format", "json")
        ids.append(json.loads(result.stdout)[0]["id"])
    assert ids[0] == ids[1] != ids[2]


def test_text_fits_eighty_columns_and_keeps_the_order():
    result = kvaudit(*TINY, "--repetitions", "2", "--layout", "spherical", "--layout", "dense")
    assert result.returncode == 0
    assert result.stderr == ""
    assert max(map(len, result.stdout.splitlines())) <= 80
    lines = [line.split()[0] for line in result.stdout.splitlines() if line.startswith(("  spherical", "  dense"))]
    assert lines == ["spherical", "dense", "spherical", "dense"]


def test_a_layout_that_cannot_run_is_recorded_and_the_exit_code_says_so():
    result = kvaudit(*QUICK, "--backend", "triton", "--format", "json")
    records = json.loads(result.stdout)
    assert result.returncode == 3
    assert "backend-incompatible" in result.stderr
    for record in records:
        assert_valid(strict_json.parse_json(json.dumps(record).encode()))
        assert record["outcome"]["class"] == "backend-incompatible"
        assert record["metrics"] is record["bytes"] is record["check"] is None
        assert record["samples"] == {"step_ns": [], "copy_ns": []}


def test_some_measured_and_some_not_is_a_finding():
    pytest.importorskip("triton")
    arguments = [*TINY, "--layout", "dense", "--layout", "spherical", "--repetitions", "1", "--warm-up", "0"]
    arguments[arguments.index("--page-tokens") + 1] = "24"
    result = kvaudit(*arguments, "--backend", "triton", "--format", "json", TRITON_INTERPRET="1")
    classes = [record["outcome"]["class"] for record in json.loads(result.stdout)]
    assert classes == ["measured", "backend-incompatible"]
    assert result.returncode == 1
    assert "a power of two, found 24" in result.stderr


def test_no_cuda_device_is_an_outcome():
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is one")
    result = kvaudit(*QUICK, "--device", "cuda", "--format", "json")
    assert result.returncode == 3
    assert {record["outcome"]["reason"] for record in json.loads(result.stdout)} == {"device.unavailable"}
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--kv-heads", "3"], "3 does not divide 32"),
        (["--kept", "0"], "0 is not in (0, 1]"),
        (["--kept", "3/2"], "3/2 is not in (0, 1]"),
        (["--kept", "half"], "expected a number"),
        (["--head-dimension", "96"], "96 is not a power of two"),
        (["--page-tokens", "20"], "20 is not a multiple of 8"),
        (["--layout", "linked"], "linked"),
    ],
)
def test_usage(arguments, said):
    result = kvaudit(*arguments)
    assert result.returncode == 2
    assert said in result.stderr
    assert result.stdout == ""


def test_plain_layouts_take_any_dimension():
    result = kvaudit(*QUICK, "--head-dimension", "96", "--layout", "dense", "--format", "json")
    assert result.returncode == 0, result.stderr


def test_a_step_that_does_not_fit_memory_is_recorded(monkeypatch):
    """What a failing allocation raises becomes the outcome, and the next layout is measured all the same."""
    real = layouts.step

    def short_of_memory(layout, *others):
        if layout == "dense":
            raise RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory")
        return real(layout, *others)

    monkeypatch.setattr(layouts, "step", short_of_memory)
    request = decode_step.Request(
        layouts.Shape(1, 2, 1, 16, 20),
        Fraction(1, 2),
        layouts.Coding(uniform(16, 4, 4), 8, kept_only=False),
        "float32",
        "cpu",
        "torch",
        0,
        1,
        0,
        1,
    )
    found = list(decode_step.measure(request, ("dense", "ragged"), lambda _: None))
    assert (found[0].stopped.outcome, found[0].stopped.reason) == ("runtime-inadmissible", "memory.exhausted")
    assert found[1].stopped is None


def test_the_device_check_runs_on_a_cpu(tmp_path):
    pytest.importorskip("triton")
    environment = {**os.environ, "PYTHON": sys.executable, "DEVICE": "cpu"}
    script = [ROOT / "scripts" / "device_check.sh", tmp_path]
    result = subprocess.run(script, env=environment, capture_output=True, text=True, check=False, timeout=280)
    assert result.returncode == 0, result.stdout + result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["attention-tiny.json", "kernel-check.json"]
    for record in json.loads((tmp_path / "attention-tiny.json").read_text()):
        assert record["outcome"]["class"] == "measured"
        assert record["execution"]["backend"] == "triton"
        assert "interpreter" in record["execution"]["note"]


def test_the_device_check_refuses_another_device(tmp_path):
    environment = {**os.environ, "PYTHON": sys.executable, "DEVICE": "tpu"}
    script = [ROOT / "scripts" / "device_check.sh", tmp_path]
    assert subprocess.run(script, env=environment, capture_output=True, check=False, timeout=60).returncode == 2


def test_the_device_check_passes_shellcheck():
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is not installed")
    subprocess.run(["shellcheck", ROOT / "scripts" / "device_check.sh"], check=True)

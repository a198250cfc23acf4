"""`kvaudit frontier`: what it prints, what it refuses, the picture, and the exact exit code."""

import json
import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from kvaudit.cli.main import cli
from kvaudit.cli.main import main as kvaudit_main
from kvaudit.evidence.canonical import exact_json_text
from tests.reconcile.frontiers import document, point

ROOT = Path(__file__).parents[2]


def run(*arguments, code=0):
    result = CliRunner().invoke(cli, ["frontier", *map(str, arguments)])
    assert result.exit_code == code, (result.output, result.exception)
    return result.stdout


def write(folder, content, name="sweep.json"):
    path = folder / name
    path.write_text(exact_json_text(content))
    return path


@pytest.fixture
def sweep(tmp_path):
    return write(tmp_path, document())


@pytest.fixture
def mixed(tmp_path):
    content = document()
    content["points"][2]["coordinates"] = {"hardware.device": "another device"}
    return write(tmp_path, content, "mixed.json")


def test_text(sweep):
    """By hand: codes/1 and codes/0 are ahead of all with quality of 79; drop/0 is slower and larger than codes/0."""
    lines = run(sweep).splitlines()
    standing = {line.split()[0]: line.split(maxsplit=5)[5] for line in lines[2:7]}
    assert standing == {
        "codes/2": "outside the tolerance",
        "codes/1": "envelope, representative",
        "codes/0": "envelope",
        "drop/0": "dominated by codes/1",
        "dense/0": "dominated by codes/1, reference",
    }
    text = "\n".join(lines)
    assert "a-sweep  all methods  codes/1         1.5    4\n" in text
    assert "a-sweep  drop         drop/0          1.2    1.66666666667\n" in text
    assert "5 points, 4 with quality of at least 79 (80 of dense/0 minus 1), 2 on the envelope" in text
    assert lines[-1].endswith("sweep.json: ok")


def test_json(sweep):
    answer = json.loads(run(sweep, "--format", "json"))
    found = answer["sets"]["a-sweep"]
    assert answer["ok"]
    assert found["frontier"]["overall"]["envelope"] == ["codes/1", "codes/0"]
    assert found["frontier"]["overall"]["gain_memory"] == 4
    assert found["frontier"]["methods"]["codes"]["representative"] == "codes/1"
    assert found["frontier"]["envelope_points"]["codes/0"]["kernel_path"] == "the path of codes"
    assert found["frontier"]["envelope_points"]["codes/0"]["engine_settings"] == {"chunked_prefill": False}
    assert found["points"]["codes/2"] == "outside the tolerance"
    assert found["explanation"] is None


def test_what_does_not_exist_is_none(tmp_path):
    content = document([point("dense", 0, 1000, 100, 80), point("slow", 0, 500, 90, 80), point("bad", 0, 10, 900, 1)])
    path = write(tmp_path, content)
    assert "slow         slow/0          0.9    none" in run(path)
    methods = json.loads(run(path, "--format", "json"))["sets"]["a-sweep"]["frontier"]["methods"]
    assert methods["slow"]["gain_memory"] is None
    assert methods["bad"] == {
        "retained": [],
        "envelope": [],
        "representative": None,
        "gain_speed": None,
        "gain_memory": None,
    }


def test_a_mixed_set_is_refused_with_the_explanation(mixed):
    text = run(mixed, code=1)
    assert "mixed.json:" in text
    assert "#/points/2/coordinates/hardware.device" in text
    assert "spherical.frontier-cohort-mixed: dense/0 and codes/1 are not of one cohort" in text
    assert "incompatible; metric comparability none" in text
    assert "\n  hardware.device\n    A    text 0\n    B    another device\n    why  Accelerators" in text
    assert "make equal, by a rerun or a restatement: hardware.device" in text
    explanation = text.partition("has no frontier")[2]
    assert explanation
    assert not re.search(r"\b(1000|250|140)\b", explanation)  # no value of the two
    answer = json.loads(run(mixed, "--format", "json", code=1))
    found = answer["sets"]["a-sweep"]
    assert (answer["ok"], found["frontier"], found["points"]) == (False, None, None)
    assert answer["findings"][0]["code"] == "spherical.frontier-cohort-mixed"
    assert found["explanation"]["relation"] == "incompatible"
    assert {each["values"] for each in found["explanation"]["metrics"].values()} == {None}
    assert [row["key"] for row in found["explanation"]["coordinates"] if row["blocks"]] == ["hardware.device"]


def test_an_open_coordinate_is_refused(tmp_path):
    content = document()
    del content["coordinates"]["workload.batch"]
    text = run(write(tmp_path, content), code=1)
    assert "spherical.frontier-coordinate-undeclared: dense/0 leaves workload.batch undeclared" in text
    assert "A, B (undeclared)" in text.replace("     ", " ")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"dense_method": "full"}, "spherical.frontier-dense-baseline-missing"),
        ({"quality_tolerance": -1}, "schema.mismatch"),
        ({"schema": "kvaudit.frontier/2"}, 'expected "kvaudit.frontier/1"'),
        ({"points": []}, "expected at least 1 items"),
    ],
)
def test_bad_documents_are_findings(tmp_path, change, expected):
    assert expected in run(write(tmp_path, document() | change), code=1)


def test_bad_files_are_findings(tmp_path):
    assert "path.missing" in run(tmp_path / "gone.json", code=1)
    broken = tmp_path / "broken.json"
    broken.write_text('{"schema": "kvaudit.frontier/1", "schema": 1}')
    assert "json.duplicate-key" in run(broken, code=1)
    broken.write_text("[]")
    assert "schema.mismatch" in run(broken, code=1)


def test_without_a_file_the_fixture_of_the_bundle(bundle_folder):
    text = run("--root", ROOT)
    assert "Points of context_32k, one cohort" in text
    fixture = ROOT / "fixtures" / "loop13_spherical" / "fixture.json"
    assert run(fixture).splitlines()[:-1] == text.splitlines()[:-1]
    manifest = yaml.safe_load((bundle_folder / "kvaudit.yaml").read_text(encoding="utf-8"))
    manifest["entries"] = [
        each for each in manifest["entries"] if not each.get("needs") and each["oracle"] != "spherical"
    ]
    (bundle_folder / "kvaudit.yaml").write_text(yaml.safe_dump(manifest, sort_keys=False))
    run("--root", bundle_folder, code=2)


def pictures(tmp_path, path, ending):
    pytest.importorskip("matplotlib")
    drawn = []
    for name in ("one", "two"):
        run(path, "--plot", tmp_path / f"{name}.{ending}")
        drawn.append((tmp_path / f"{name}.{ending}").read_bytes())
    return drawn


def test_the_picture_is_the_same_each_time(tmp_path, sweep):
    one, two = pictures(tmp_path, sweep, "png")
    assert one == two
    assert one.startswith(b"\x89PNG")


def test_the_picture_in_svg_says_what_it_shows(tmp_path, sweep):
    one, two = pictures(tmp_path, sweep, "svg")
    assert one == two
    ElementTree.fromstring(one)
    text = one.decode()
    for words in (  # the text of each label stands as a comment before its outlines
        "resident K/V bytes per token, paging and metadata included [B]",
        "decode throughput [tokens/s]",
        "a-sweep: quality at least 80 - 1",
        "representative codes/1",
        "reference dense/0",
        "outside the tolerance",
        "drop, dominated",
    ):
        assert f"<!-- {words} -->" in text


def test_no_picture_of_what_has_no_frontier(tmp_path, mixed):
    target = tmp_path / "none.png"
    result = CliRunner().invoke(cli, ["frontier", str(mixed), "--plot", str(target)])
    assert result.exit_code == 1
    assert "was not written" in result.stderr
    assert not target.exists()


def test_another_ending_is_a_usage_error(tmp_path, sweep):
    run(sweep, "--plot", tmp_path / "a.pdf", code=2)


def test_without_matplotlib_one_line_says_what_to_install(tmp_path, sweep, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr("sys.argv", ["kvaudit", "frontier", str(sweep), "--plot", str(tmp_path / "a.png")])
    with pytest.raises(SystemExit) as ended:
        kvaudit_main()
    captured = capsys.readouterr()
    assert ended.value.code == 3
    assert captured.out == ""
    assert captured.err == "kvaudit: --plot needs matplotlib; install it with: pip install 'kvaudit[plots]'\n"
    assert run(sweep)


def records(folder, *policies, **changes):
    """Records of these policies, made from the shipped sample; bytes read in a decode step are never among them."""
    sample = json.loads((ROOT / "tests" / "reconcile" / "measurement.json").read_text())
    for index, policy in enumerate(policies):
        made = json.loads(json.dumps(sample))
        made["policy"]["name"] = made["request"]["policy"] = made["coordinates"]["policy.name"] = policy
        made["coordinates"] |= changes
        (folder / f"{index}.json").write_text(json.dumps(made))
    return folder


def test_records_are_points_and_what_was_not_measured_keeps_them_off_the_frontier(tmp_path):
    """No record has measured traffic, so even the dense point has no complete tuple: a finding, and no frontier."""
    found = json.loads(run(records(tmp_path, "full", "window"), "--format", "json", code=1))
    assert [each["code"] for each in found["findings"]] == ["spherical.frontier-dense-baseline-missing"]
    assert list(found["sets"]) == ["cohort-1"]
    assert found["sets"]["cohort-1"]["frontier"] is None


def test_a_folder_with_something_else_in_it_is_a_finding(tmp_path):
    (records(tmp_path, "full") / "other.json").write_text("{}")
    assert "schema.mismatch" in run(tmp_path, code=1)


def test_a_tolerance_is_a_number(tmp_path):
    run(records(tmp_path, "full"), "--tolerance", "little", code=2)

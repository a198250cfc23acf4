"""`kvaudit explain` and `kvaudit matrix`, in process: what they print and the exact exit code."""

import json
import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from kvaudit.cli.main import cli
from kvaudit.cli.main import main as kvaudit_main
from kvaudit.evidence.bundle import load_bundle
from kvaudit.reconcile.subjects import resolve
from kvaudit.render import explain as render
from kvaudit.render import matrix as render_matrix
from kvaudit.render.tables import Display
from tests.reconcile.documents import full, write

ROOT = Path(__file__).parents[2]
PAIR = ("loop2_visibility", "loop3_cost_accuracy")


def run(*arguments, code=0):
    result = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    assert result.exit_code == code, (result.output, result.exception)
    return result.stdout


def failed(monkeypatch, capsys, *arguments):
    """Run as the process does and return the exit code and stderr."""
    monkeypatch.setattr("sys.argv", ["kvaudit", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        kvaudit_main()
    captured = capsys.readouterr()
    assert captured.out == ""
    return ended.value.code, captured.err


@pytest.fixture
def two_loops(whole_bundle):
    """A bundle whose second report is linked to the first by lineage, as loop 2 and loop 9 of the specification are."""
    manifest = yaml.safe_load((whole_bundle / "kvaudit.yaml").read_text(encoding="utf-8"))
    first, second = manifest["entries"][0], manifest["entries"][2]
    report = json.loads((whole_bundle / second["report"]).read_text(encoding="utf-8"))
    second |= {"id": "loop09_runtime", "aliases": ["loop9_runtime"], "needs": [first["id"]]}
    second["links"] = [
        {"to": first["id"], "kind": "shared_contract_lineage", "basis": "same manifest schema and policy generation"}
    ]
    (whole_bundle / second["report"]).write_text(json.dumps(report | {"entry": "loop09_runtime"}))
    (whole_bundle / "kvaudit.yaml").write_text(yaml.safe_dump(manifest | {"entries": [first, second]}, sort_keys=False))
    return whole_bundle


@pytest.mark.parametrize("output_format", ["text", "markdown", "json"])
@pytest.mark.parametrize("which", ["loops 2 and 9", "loops 2 and 3"])
def test_the_example_of_the_specification(two_loops, output_format, which):
    """Lineage with metric comparability none; and neither a value of the two nor anything made of values."""
    root, pair = (two_loops, ("loop2_visibility", "loop9_runtime")) if which == "loops 2 and 9" else (ROOT, PAIR)
    text = run("explain", *pair, "--root", root, "--format", output_format)
    assert ("shared_lineage" if output_format == "json" else "shared lineage; metric comparability none") in text
    assert "shared_contract_lineage" in text or "shared_row_geometry" in text
    bundle = load_bundle(root)
    for name in pair:
        for metric in resolve(name, bundle).subject.metrics.values():
            if metric.value is not None and metric.value > 99 and metric.value != 512:  # the basis of the link says 512
                assert not re.search(rf"\b{metric.value}\b", text)
    if output_format == "json":
        document = json.loads(text)
        assert document["comparable_metrics"] == []
        assert {each["values"] for each in document["metrics"].values()} == {None}
    else:
        assert "B, B" not in text
    assert not re.search(r"\b(times|faster|smaller than|better|worse)\b", text)
    run("explain", *pair, "--root", root, "--format", output_format, "--require-comparable", code=1)


def test_text_says_relation_metrics_reasons_and_remedy():
    text = run("explain", *PAIR, "--root", ROOT)
    for part in (
        "loop03_cost is linked to loop02_visibility by shared_row_geometry",
        "full_payload, ragged_total: may not be compared; cohort, owner_axis, budget_unit, metric_scope differ",
        "only in A: position_map, row_offsets, selected_payload",
        "\nDifferent\n  cohort\n    A    one decode step",
        "\nEqual\n  phase ",
        "make equal, by a rerun or a restatement: cohort, owner_axis, budget_unit, metric_scope",
    ):
        assert part in text


def test_the_sides_change_places_and_nothing_else():
    there, back = (json.loads(run("explain", *pair, "--root", ROOT, "--format", "json")) for pair in (PAIR, PAIR[::-1]))
    assert there["relation"] == back["relation"]
    assert there["links"] == back["links"]
    assert (there["a"], there["b"]) == (back["b"], back["a"])
    for one, other in zip(there["coordinates"], back["coordinates"], strict=True):
        assert one == {**other, "a": other["b"], "b": other["a"]}


def test_comparable_values_are_shown_in_one_unit(tmp_path):
    metric = {"value": 900, "unit": "ms", "kind": "latency"}
    a = write(tmp_path / "a.json", full(), {"ttft": {**metric, "value": 2, "unit": "s"}})
    b = write(tmp_path / "b.json", full(), {"ttft": metric})
    assert "ttft: may be compared; A 2 s, B 0.9 s" in run("explain", a, b, "--require-comparable", "--root", ROOT)
    document = json.loads(run("explain", a, b, "--format", "json", "--root", ROOT))
    assert document["metrics"]["ttft"]["values"] == {"A": {"value": 2, "unit": "s"}, "B": {"value": 0.9, "unit": "s"}}
    assert document["smallest_change"]["changes"] == []


def test_what_was_not_measured_is_none(tmp_path):
    a = write(tmp_path / "a.json", full(), {"ttft": {"value": None, "unit": "ms", "kind": "latency"}})
    assert "A none, B none" in run("explain", a, a, "--root", ROOT)


def test_declarations_are_printed_and_marked(tmp_path):
    coordinates = full()
    value = coordinates.pop("budget.rounding")
    a, b = write(tmp_path / "a.json", full()), write(tmp_path / "b.json", coordinates)
    declare = ("--declare", f"B:budget.rounding={value}")
    run("explain", a, b, "--require-comparable", "--root", ROOT, code=1)
    text = run("explain", a, b, *declare, "--require-comparable", "--root", ROOT)
    assert f"B: budget.rounding = {value}, declared by the reader" in text
    assert re.search(rf"\n  budget\.rounding +{value} \(B: declared by the reader\)", text)
    document = json.loads(run("explain", a, b, *declare, "--format", "json", "--root", ROOT))
    assert document["b"]["declared_by_the_reader"] == {"budget.rounding": value}
    assert "declared by the reader" in run("explain", a, b, *declare, "--format", "markdown", "--root", ROOT)
    path = tmp_path / "declared.yaml"
    path.write_text(f"B: {{budget.rounding: {value}}}\n")
    assert run("explain", a, b, "--declare", path, "--root", ROOT) == text


def test_undeclared_coordinates_say_what_to_state(tmp_path):
    a = write(tmp_path / "a.json", full())
    b = write(tmp_path / "b.json", {"checkpoint.name": "m"})
    text = run("explain", a, b, "--root", ROOT)
    assert "checkpoint.name differs; 71 coordinates are undeclared" in text
    assert "State it for B if it is known. Otherwise: Pin one version" in text
    assert "state for B (the two join only if it is what A states): checkpoint.revision, " in text


def test_what_neither_side_states_is_named_once_and_explained_in_json(tmp_path):
    """A paper states a dozen coordinates of seventy; a reason for each of the others would bury the differences."""
    b = write(tmp_path / "b.json", {"checkpoint.name": "m"})
    text = run("explain", b, b, "--root", ROOT)
    assert "Undeclared on both sides, 71 coordinates (--format json says why each matters)" in text
    assert text.count("checkpoint.revision") == 1
    assert "state for A and B (the two join only if it is equal): the 71 coordinates that neither side states" in text
    document = json.loads(run("explain", b, b, "--root", ROOT, "--format", "json"))
    assert all(row["why"] for row in document["coordinates"] if row["state"] == "undeclared")
    few = write(tmp_path / "few.json", {key: value for key, value in full().items() if key != "checkpoint.revision"})
    text = run("explain", few, few, "--root", ROOT)
    assert "Undeclared on both sides" not in text
    assert "state for A and B (the two join only if it is equal): checkpoint.revision\n" in text


def test_different_kinds_of_statement(tmp_path):
    text = run("explain", PAIR[0], write(tmp_path / "a.json", full()), "--root", ROOT)
    assert "A is a report of an oracle and B is a result: these are different kinds of statement" in text
    assert "No change of coordinates puts these two into one cohort." in text


def test_unknown_ids_and_bad_declarations_are_usage_errors(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(ROOT)
    code, message = failed(monkeypatch, capsys, "explain", "loop2_visibilty", PAIR[1])
    assert code == 2
    assert "did you mean loop2_visibility" in message
    code, message = failed(monkeypatch, capsys, "explain", *PAIR, "--declare", "A:phase=prefill")
    assert code == 2
    assert "contradicts loop02_visibility, which declares decode, not prefill" in message
    code, message = failed(monkeypatch, capsys, "explain", *PAIR, "--declare", tmp_path / "none.yaml")
    assert code == 2
    run("explain", PAIR[0], code=2)


def test_a_broken_document_is_a_finding(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('{"schema": "kvaudit.coordinates/1"')
    assert "json.syntax" in run("explain", path, PAIR[0], "--root", ROOT, code=1)
    assert "path.not-a-file" in run("explain", tmp_path, PAIR[0], "--root", ROOT, code=1)
    path.write_text('{"tokens_per_second": 120}')
    document = json.loads(run("explain", path, PAIR[0], "--format", "json", "--root", ROOT, code=1))
    assert document["relation"] is None
    assert [finding["code"] for finding in document["findings"]] == ["coordinates.no-reader"]


def test_a_document_cannot_write_to_the_terminal(tmp_path):
    evil = "a\x1b[2J\u202e"
    a = write(tmp_path / "a.json", {**full(), "checkpoint.name": evil}, {"m": {"value": 1, "unit": evil}})
    for output_format in ("text", "markdown"):
        text = run("explain", a, a, "--format", output_format, "--root", ROOT)
        assert "\x1b" not in text
        assert "\u202e" not in text


def test_everything_fits_80_columns(tmp_path, monkeypatch):
    from kvaudit.reconcile.explain import explain
    from kvaudit.reconcile.relation import relations

    monkeypatch.chdir(tmp_path)
    bundle = load_bundle(ROOT)
    reports = [resolve(entry.id, bundle).subject for entry in bundle.entries]
    results = [
        resolve(write(Path(name), coordinates).name, bundle).subject
        for name, coordinates in (("a.json", full()), ("b.json", {}))
    ]
    display = Display(width=80)
    texts = [render.text(explain(*pair), display) for pair in (reports[:2], results, results[::-1])]
    texts.append(render_matrix.text([report.id for report in reports], relations(reports), display))
    assert max(len(line) for text in texts for line in text.splitlines()) <= 80


def test_matrix(two_loops):
    """The specification's count (0x0FE): of the 28 pairs of loops 2 to 9 two have lineage, the others nothing."""
    text = run("matrix", "--root", ROOT)
    assert "1  loop02_visibility         L  -  -  -  -  -  L  -" in text
    assert "2  loop03_cost            L     -  -  -  -  -  -  -" in text
    assert "36 pairs: 0 comparable, 2 shared lineage, 34 incompatible" in text  # with loop 13
    assert "| 1 | loop02_visibility |  | L | - |" in run("matrix", "--root", ROOT, "--format", "markdown")
    pairs = json.loads(run("matrix", "--root", ROOT, "--format", "json"))["pairs"]
    specified = [pair["relation"] for pair in pairs if max(pair["a"], pair["b"]) < "loop10"]
    assert [specified.count(each) for each in ("comparable", "shared_lineage", "incompatible")] == [0, 2, 26]
    document = json.loads(run("matrix", "--root", two_loops, "--format", "json"))
    assert document["documents"] == ["loop02_visibility", "loop09_runtime"]
    [pair] = document["pairs"]
    assert (pair["relation"], pair["comparable_metrics"]) == ("shared_lineage", [])
    assert pair["links"][0]["kind"] == "shared_contract_lineage"
    assert document["counts"] == {"pairs": 1, "comparable": 0, "shared_lineage": 1, "incompatible": 0}


def test_matrix_shows_what_it_can_read(whole_bundle):
    (whole_bundle / "reports" / "loop03_cost.json").unlink()
    text = run("matrix", "--root", whole_bundle, code=1)
    assert "28 pairs: 0 comparable, 1 shared lineage, 27 incompatible" in text
    assert "path.missing" in text
    document = json.loads(run("matrix", "--root", whole_bundle, "--format", "json", code=1))
    assert [finding["code"] for finding in document["findings"]] == ["path.missing"]


def test_equal_coordinates_of_two_entries_are_comparable(bundle_folder):
    """A team that runs one oracle twice on one cohort may set the two side by side, and sees which rows it may."""
    manifest = yaml.safe_load((bundle_folder / "kvaudit.yaml").read_text(encoding="utf-8"))
    first = manifest["entries"][0]
    twin = json.loads(json.dumps(first)) | {"id": "twin", "aliases": [], "report": "reports/twin.json"}
    report = json.loads((bundle_folder / first["report"]).read_text(encoding="utf-8"))
    (bundle_folder / "reports" / "twin.json").write_text(json.dumps(report | {"entry": "twin"}))
    (bundle_folder / "kvaudit.yaml").write_text(yaml.safe_dump(manifest | {"entries": [first, twin]}, sort_keys=False))
    text = run("explain", first["id"], "twin", "--root", bundle_folder, "--require-comparable")
    assert "full_payload: may be compared; A 512 B, B 512 B" in text
    assert "C loop02_visibility, twin: full_payload, " in run("matrix", "--root", bundle_folder)

"""`kvaudit contracts`, in process: what it prints and the exact exit code."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from kvaudit.cli.main import cli
from kvaudit.cli.main import main as kvaudit_main
from kvaudit.evidence import strict_yaml
from kvaudit.evidence.bundle import load_bundle
from kvaudit.reconcile import registries
from kvaudit.reconcile.coordinates import system
from kvaudit.render import contracts as render
from kvaudit.render.tables import Display
from tests.reconcile.documents import FOLDER, write_registry_bundle


@pytest.fixture
def root(tmp_path):
    return write_registry_bundle(tmp_path / "bundle")


def run(*arguments, code=0):
    result = CliRunner().invoke(cli, ["contracts", *map(str, arguments)])
    assert result.exit_code == code, (result.output, result.exception)
    return result.stdout


def refused(monkeypatch, capsys, *arguments):
    """Run as the process does, expect exit code 2, and return stderr."""
    monkeypatch.setattr("sys.argv", ["kvaudit", "contracts", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        kvaudit_main()
    captured = capsys.readouterr()
    assert (ended.value.code, captured.out) == (2, "")
    return captured.err


def shipped(root, name):
    return strict_yaml.parse_yaml((root / FOLDER / f"{name}.yaml").read_bytes())


def test_the_list_has_every_contract_with_what_it_rests_on(root):
    text = run("--root", root)
    assert "Policies (14)" in text
    assert "Boundaries of architecture or training (3)" in text
    assert "Additions (12)" in text
    rows = {line.split()[0]: line for line in text.splitlines() if line.startswith("  ")}
    for name, item in shipped(root, "contracts")["contracts"].items():
        assert item["title"] in rows[name]
        assert item["sources"][0]["read_level"] in rows[name]
    assert rows["snapkv"].split()[-5:] == ["original_rows", "prompt_handoff", "layer_and_head", "paper,", "code"]
    assert rows["transformer_xl"].endswith("abstract, general")


@pytest.mark.parametrize("name", ["snapkv", "infinigen", "zigzagkv", "minicache", "spherical_kv"])
def test_a_card_has_everything_that_the_registry_has(root, name):
    text = " ".join(run(name, "--root", root).split())
    item = shipped(root, "contracts")["contracts"][name]
    for key in system("contract/1").keys:
        value = item["coordinates"][key]
        assert f"{key} {'(undeclared)' if value is None else value}" in text
    for part in ("assumes", "useful_when", "unsafe_when"):
        assert f"{part.replace('_', ' ')} {item['accuracy'][part]}" in text
    for sentence in (item["title"], *item["details"].values(), *item["notes"], item["accuracy"]["is_not"]):
        assert sentence in text
    for source in item["sources"]:
        assert f"{source['read_level']}: {source['what']}" in text
    for code in item["implementations"]:
        assert code["repository"] in text
        assert (code["commit"] or code["stated"]) in text
    for each, result in shipped(root, "results")["results"].items():
        if result["policy"] == name:
            assert each in text
            assert f"source_reported; read level {result['source']['read_level']}" in text


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("pyramidkv", "stated as 94255b6: not found in its public history; not read"),
        ("fastgen", "found; read; has no source of the method"),
        ("zigzagkv", "code none pinned"),
        ("infinigen", "unsafe when Useful rows are not fetched in time"),
        ("minicache", "a composition of depth merge and 4-bit quantisation"),
        ("spherical_kv", "throughput: no number (source_reported; read level secondary"),
        ("adakv", "read level secondary"),
        ("lckv", "one of the contracts that the specification counts"),
        ("tova", "related, an addition"),
    ],
)
def test_a_card_says(root, name, says):
    assert says in " ".join(run(name, "--root", root).split())


@pytest.mark.parametrize("name", ["retention_miss", "one_long_prompt", "adakv_over_h2o", "sliding_window"])
def test_a_boundary_or_a_branch_is_a_card_too(root, name):
    text = run(name, "--root", root)
    assert text.startswith(f"{name}  (")
    assert text in run("--boundaries", "--root", root) + "\n"


def test_boundaries_say_what_can_be_had_again_and_what_may_be_claimed(root):
    text = run("--boundaries", "--root", root)
    for part in ("Boundaries (18)", "Design branches (7)", "Compositions (4)", "Accuracy boxes without a contract (3)"):
        assert part in text
    card = text[text.index("store_all_score_subset") : text.index("discard_unselected")]
    lines = {line[:25].strip(): line[25:] for line in card.splitlines()}
    assert lines["unselected row"] == "recoverable"
    assert lines["saving of"] == "attention reads"
    assert lines["no saving of"] == "persistent capacity, device capacity"
    assert "  -> error of one attention output" in text


def test_json(root):
    document = json.loads(run("--format", "json", "--root", root))
    assert (document["schema"], len(document["contracts"]), document["findings"]) == ("kvaudit.contracts/1", 29, [])
    assert document["contracts"]["kvzip"]["rests_on"] == ["abstract", "paper", "general"]
    document = json.loads(run("dmc", "--format", "json", "--root", root))
    assert (document["kind"], document["record"]["coordinates"]["signal"]) == ("contracts", "learned_control_channel")
    assert list(document["results"]) == ["dmc-throughput-v1", "dmc-throughput-v2"]
    assert document["design_branches"] == ["adaptable_checkpoint"]
    assert document["results"]["dmc-throughput-v1"]["coordinates"]["checkpoint.name"] is None
    document = json.loads(run("--boundaries", "--format", "json", "--root", root))
    assert document["boundaries"]["retention_miss"]["unselected_row"] == "not_recoverable"
    assert len(document["evidence_ladder"]) == 5


def test_a_terminal_of_80_columns(root):
    known = registries.load(load_bundle(root))
    display = Display(width=80)
    texts = [render.listing_text(known, display), render.boundaries_text(known, display)]
    texts += [render.record_text(known, "contracts", name, item, display) for name, item in known.contracts.items()]
    for text in texts:
        assert max(map(len, text.splitlines())) <= 80
    assert "\n  snapkv                   SnapKV: LLM Knows What You are Looking for Before\n" in texts[0]


def test_an_unknown_id_gets_suggestions(root, monkeypatch, capsys):
    assert "did you mean pyramidkv" in refused(monkeypatch, capsys, "pyramidvk", "--root", root)
    assert "`kvaudit contracts` lists them" in refused(monkeypatch, capsys, "zzz", "--root", root)
    assert "not both" in refused(monkeypatch, capsys, "snapkv", "--boundaries", "--root", root)


def test_a_bundle_without_registries_says_so(tmp_path, monkeypatch, capsys):
    bare = write_registry_bundle(tmp_path, names=())
    assert "names a registry" in refused(monkeypatch, capsys, "--root", bare)


@pytest.mark.parametrize("output_format", ["text", "json"])
def test_a_broken_registry_is_a_finding_beside_the_answer(root, output_format):
    path = root / FOLDER / "contracts.yaml"
    path.write_text(path.read_text().replace("signal: accumulated_attention", "signal: attention", 1))
    text = run("snapkv", "--root", root, "--format", output_format, code=1)
    assert "coordinates.value-not-allowed" in text
    assert "/contracts/h2o/coordinates/signal" in text
    assert "observation_window_attention" in text
    path.write_text("schema: [")
    text = run("--root", root, "--format", output_format, code=1)
    assert "yaml.syntax" in text


def test_control_characters_do_not_reach_the_terminal(root):
    path = root / FOLDER / "contracts.yaml"
    path.write_text(path.read_text().replace("title: Efficient Streaming", 'title: "\\e[31mEfficient"\n    #', 1))
    assert "\x1b" not in run("streamingllm", "--root", root)
    assert "\\u001b[31mEfficient" in run("streamingllm", "--root", root)


def test_the_shipped_bundle_has_the_registries():
    manifest = strict_yaml.parse_yaml((Path(__file__).parents[2] / "kvaudit.yaml").read_bytes())
    named = {name for entry in manifest["entries"] for name in entry.get("documents", {})}
    assert {"contracts", "results", "boundaries"} <= named

"""The child process: what it measures, how every bad input ends, and what is recorded of a death."""

import getpass
import json
import os
import platform
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import tokenizers
import torch
import transformers

from kvaudit.evidence import canonical, schema, strict_json
from kvaudit.measure import process
from kvaudit.measure.process import Request, Wanted
from tests.measure import tiny

ROOT = Path(__file__).parents[2]
TEXT = "the keeper of the lock wrote that the number is 4817. it rained all day, and no boat came. "
HALF = {"value": "1/2", "unit": "fraction_kept", "scope": "kv_head"}


def save(folder, model):
    vocabulary = {"<s>": 0, **{character: 1 + place for place, character in enumerate(tiny.CHARACTERS)}}
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<s>"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Split("", "isolated")
    transformers.PreTrainedTokenizerFast(tokenizer_object=words, bos_token="<s>").save_pretrained(folder)
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save(tmp_path_factory.mktemp("models") / "tiny-llama", tiny.model())


@pytest.fixture(scope="module")
def prompts(tmp_path_factory):
    path = tmp_path_factory.mktemp("prompts") / "lock.jsonl"
    reference = {"id": "near", "question": "what number?", "answer": " 4817", "evidence": "number is 4817"}
    lines = [
        {"id": "a", "text": TEXT, "references": [{**reference, "distance_tokens": 40}]},
        {"id": "b", "text": TEXT + TEXT.replace("4817", "1234")},
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def kvaudit(*arguments):
    command = [sys.executable, "-m", "kvaudit", "measure", "model", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def measured(folder, prompts, *wanted, progress=lambda _: None, **changes):
    stated = {"task": "lock", "question": "outside_compressed_prompt", "decode_tokens": 6, **changes}
    return process.measure(Request(str(folder), str(prompts), wanted, **stated), progress)


@pytest.fixture(scope="module")
def records(folder, prompts):
    return measured(
        folder,
        prompts,
        Wanted("full"),
        Wanted("snapkv", {"window_rows": "8"}, HALF),
        Wanted("keyformer", {}, HALF, seed=3),
        Wanted("dmc"),
        Wanted("window", {}, {"value": "400", "unit": "rows", "scope": "kv_head"}),
        Wanted("snapkv", {"window_rows": "60"}, {"value": "16", "unit": "rows", "scope": "kv_head"}),
        Wanted("h2o", {"recents": "4"}, HALF),
        Wanted("full", {}, HALF),
        Wanted("h2o"),
        Wanted("window", {}, {"value": "100", "unit": "rows", "scope": "layer"}),
        Wanted("window", {}, {"value": "120", "unit": "rows", "scope": "layer"}),
    )


ENDS = [
    ("quality-valid", None),
    (None, None),
    (None, None),
    ("checkpoint-incompatible", "model.not-trained-for-policy"),
    ("runtime-inadmissible", "budget.above-prompt"),
    ("runtime-inadmissible", "budget.window-above-budget"),
    ("runtime-inadmissible", "policy.parameter"),
    ("runtime-inadmissible", "budget.not-stated"),
    ("runtime-inadmissible", "budget.not-stated"),
    ("runtime-inadmissible", "budget.not-stated"),
    (None, None),
]


@pytest.mark.parametrize(("place", "end"), list(enumerate(ENDS)))
def test_every_setting_has_a_record_with_its_own_end(records, place, end):
    record = records[place]
    schema.check("kvaudit.measurement/1", strict_json.parse_json(canonical.json_text(record).encode()))
    kind, reason = end
    assert record["outcome"]["reason"] == reason
    if kind is None:
        assert record["outcome"]["class"] in ("quality-valid", "quality-degraded")
    else:
        assert record["outcome"]["class"] == kind
    assert bool(record["metrics"]) == (reason is None)
    assert record["axes"]["failures"]["outcome"] == record["outcome"]["class"]
    if reason is not None:
        assert record["outcome"]["message"]


def test_a_record_states_every_key_of_its_system(records):
    from kvaudit.reconcile import coordinates

    system = coordinates.system("result/1")
    for record in records:
        own = {key for metric in record["metrics"].values() for key in metric["coordinates"]}
        stated = {*record["coordinates"], *own}
        assert {key for key in system.keys if not key.startswith("metric.")} <= stated
        if record["metrics"]:
            assert set(system.keys) <= stated
        for key, value in record["coordinates"].items():
            assert coordinates.refusal(system.key(key), coordinates.from_json(value)) is None


def test_requested_and_observed_rows_are_different_keys(records):
    snapkv = records[1]
    assert snapkv["coordinates"]["budget.value"] == 0.5
    lengths = [prompt["prompt_rows"] for prompt in snapkv["prompts"]]
    assert [prompt["budget_rows"] for prompt in snapkv["prompts"]] == [length // 2 for length in lengths]
    assert snapkv["coordinates"]["observed.rows"] == sum(length // 2 for length in lengths) / 2
    assert snapkv["coordinates"]["workload.prompt_tokens"] == ",".join(map(str, lengths))


def test_every_sample_is_kept(records):
    samples = records[1]["samples"]
    assert [len(each) for each in samples["decode_ns"]] == [6, 6]
    assert len(samples["prefill_ns"]) == len(samples["selection_ns"]) == len(samples["compaction_ns"]) == 2
    times = sorted(each for row in samples["decode_ns"] for each in row)
    metric = records[1]["metrics"]["decode_step_time"]
    assert metric["value"] == pytest.approx((times[5] + times[6]) / 2 / 1e9)
    assert metric["interval"]["low"] == pytest.approx(times[2] / 1e9)
    assert metric["interval"]["high"] == pytest.approx(times[9] / 1e9)


def test_declared_and_observed_distances_are_both_there(records):
    [reference] = records[1]["prompts"][0]["references"]
    assert reference["declared_distance_tokens"] == 40
    assert reference["observed_distance_tokens"] == len(TEXT) - TEXT.index("number is 4817") - len("number is 4817")


def test_records_name_no_host_user_or_path(records, folder, prompts):
    text = "".join(map(canonical.json_text, records))
    for private in (platform.node(), str(folder.parent), str(prompts.parent), str(Path.home()), str(ROOT)):
        assert private not in text
    assert f'"{getpass.getuser()}"' not in text


def test_a_run_can_be_repeated_but_for_time_and_memory(records, folder, prompts):
    [again] = measured(folder, prompts, Wanted("keyformer", {}, HALF, seed=3))
    assert again["id"] == records[2]["id"]
    assert again["samples"]["kl_divergence"] == records[2]["samples"]["kl_divergence"]
    assert [each["kept_rows_sha256"] for each in again["prompts"]] == [
        each["kept_rows_sha256"] for each in records[2]["prompts"]
    ]


def test_two_records_are_explained(records, tmp_path):
    paths = [tmp_path / "full.json", tmp_path / "snapkv.json"]
    for path, record in zip(paths, records[:2], strict=True):
        path.write_text(canonical.json_text(record))
    command = [sys.executable, "-m", "kvaudit", "explain", *map(str, paths), "--format", "json"]
    answer = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)
    assert "policy.name" in canonical.json_text(answer)
    command = [sys.executable, "-m", "kvaudit", "explain", str(paths[1]), str(paths[1]), "--require-comparable"]
    subprocess.run(command, cwd=ROOT, capture_output=True, check=True)


def test_the_command_writes_the_record(folder, prompts, tmp_path):
    out = tmp_path / "record.json"
    run = kvaudit(
        *("--model", folder, "--policy", "window", "--budget", "0.25", "--prompts", prompts, "--decode", "3"),
        *("--tolerance", "100", "--out", out),
    )
    assert run.returncode == 0, run.stderr
    assert "quality-valid" in run.stdout
    record = json.loads(out.read_text())
    assert record["request"]["budget"] == {"value": "1/4", "unit": "fraction_kept", "scope": "kv_head"}
    assert record["coordinates"]["checkpoint.name"] == "tiny-llama"
    assert record["coordinates"]["workload.task"] == "lock"


def test_a_missing_model(prompts, tmp_path):
    out = tmp_path / "record.json"
    run = kvaudit("--model", tmp_path / "none", "--policy", "full", "--prompts", prompts, "--out", out)
    assert run.returncode == 3
    assert "there is no model at none" in run.stderr
    assert json.loads(out.read_text())["outcome"]["reason"] == "model.missing"


def test_a_wrong_architecture(prompts, tmp_path):
    config = transformers.BertConfig(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8, vocab_size=50, is_decoder=True
    )
    folder = save(tmp_path / "bert", transformers.BertLMHeadModel(config))
    [record] = measured(folder, prompts, Wanted("full"))
    assert record["outcome"]["class"] == "checkpoint-incompatible"
    assert record["outcome"]["reason"] == "model.architecture"


def test_an_unknown_architecture(prompts, tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "no-such-model"}')
    [record] = measured(tmp_path, prompts, Wanted("full"))
    assert record["outcome"]["class"] == "checkpoint-incompatible"
    assert str(tmp_path.parent) not in record["outcome"]["message"]


def test_logits_that_are_no_numbers(prompts, tmp_path):
    model = tiny.model()
    with torch.no_grad():
        model.model.layers[1].mlp.up_proj.weight[0, 0] = torch.nan
    run = kvaudit("--model", save(tmp_path / "nan", model), "--policy", "full", "--prompts", prompts)
    assert run.returncode == 1
    assert "not all finite" in run.stderr


def test_a_bad_prompt_is_named_by_its_line(folder, tmp_path):
    path = tmp_path / "bad.jsonl"
    path.write_text('{"id": "a", "text": "one"}\n{"id": "b", "txt": "two"}\n')
    [record] = measured(folder, path, Wanted("full"))
    assert record["outcome"]["reason"] == "prompt.unusable"
    assert record["outcome"]["message"].startswith("bad.jsonl line 2")


def test_memory_that_runs_out(folder, prompts):
    """The address space is bounded at what the process has after it has loaded its libraries, and little more."""
    [record] = measured(folder, prompts, Wanted("full"), memory_limit_bytes=1 << 20)
    assert record["outcome"]["class"] == "runtime-inadmissible"
    assert record["outcome"]["reason"] in ("memory.exhausted", "process.killed")
    assert "peak so far was" in record["outcome"]["message"]


def children():
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if parent == os.getpid() and b"kvaudit.measure.child" in command:
                yield int(entry.name)


def test_a_killed_process_is_recorded_and_the_others_are_measured(folder, prompts):
    """The first case is announced for all settings, then for each; the child dies at the second announcement."""
    seen = []

    def kill(case):
        seen.append(case)
        if len(seen) == 2:
            for child in children():
                os.kill(child, signal.SIGKILL)

    lost, other = measured(folder, prompts, Wanted("full"), Wanted("window", {}, HALF), progress=kill)
    ends = [lost["outcome"]["reason"], other["outcome"]["reason"]]
    assert "process.killed" in ends
    assert None in ends
    killed = lost if lost["outcome"]["reason"] else other
    assert "SIGKILL" in killed["outcome"]["message"]
    assert killed["coordinates"]["checkpoint.name"] == "tiny-llama"


def test_an_interrupted_run_is_recorded(folder, prompts):
    def interrupt(_):
        raise KeyboardInterrupt

    for record in measured(folder, prompts, Wanted("full"), Wanted("window", {}, HALF), progress=interrupt):
        assert record["outcome"]["class"] == "unmeasured"
        assert record["outcome"]["reason"] == "process.interrupted"


def test_a_profile_is_calibrated_and_then_pinned(folder, prompts, tmp_path):
    out = tmp_path / "heads.json"
    command = [
        sys.executable,
        "-m",
        "kvaudit",
        "measure",
        "profile",
        "--model",
        folder,
        "--prompts",
        prompts,
        "--out",
        out,
    ]
    run = subprocess.run(list(map(str, command)), cwd=ROOT, capture_output=True, text=True, check=True)
    sha256 = run.stdout.strip()
    assert canonical.sha256(out.read_bytes()) == sha256
    stated = {"profile": str(out), "profile_sha256": sha256, "window_rows": "8"}
    found, refused = measured(
        folder, prompts, Wanted("headkv", stated, HALF), Wanted("headkv", {**stated, "profile_sha256": "0" * 64}, HALF)
    )
    assert found["outcome"]["class"] in ("quality-valid", "quality-degraded")
    assert found["policy"]["parameters"]["profile"] == "heads.json"
    assert refused["outcome"]["reason"] == "policy.profile"

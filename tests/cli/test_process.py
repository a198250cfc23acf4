"""The command as a process: streams, signals, locales, hostile files. No traceback, and the exact exit code."""

import json
import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FIXTURE = "fixtures/loop02_visibility/fixture.json"
KVAUDIT = [sys.executable, "-m", "kvaudit"]


def run(*arguments, code=0, cwd=ROOT, prefix=(), **environment):
    result = subprocess.run(
        [*prefix, *KVAUDIT, *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        timeout=120,
        check=False,
    )
    assert result.returncode == code, (result.stdout, result.stderr)
    assert b"Traceback" not in result.stderr
    return result


def test_stdout_is_the_answer_and_stderr_is_silent_in_a_pipe():
    result = run("check")
    assert result.stdout.endswith(b": ok\n")
    assert result.stderr == b""
    assert b"\x1b" not in result.stdout
    assert b"\r" not in result.stdout


def test_the_nearest_bundle_upwards_is_used(bundle_folder):
    below = bundle_folder / "fixtures" / "loop02_visibility"
    (bundle_folder / FIXTURE).write_text("{")
    result = run("check", cwd=below, code=1)
    assert (
        b"../../fixtures/loop02_visibility/fixture.json" in result.stdout
        or str(bundle_folder).encode() in result.stdout
    )


def test_an_empty_folder_checks_the_bundle_that_kvaudit_brings(tmp_path):
    assert run("check", cwd=tmp_path).stdout.endswith(b": ok\n")


def test_no_manifest_could_not_run(tmp_path):
    result = run("check", "--root", tmp_path, code=3)
    assert b"no readable manifest" in result.stderr
    assert result.stdout == b""


def test_a_malformed_manifest_could_not_run(tmp_path):
    (tmp_path / "kvaudit.yaml").write_text("entries: [\n")
    assert b"yaml.syntax" in run("check", cwd=tmp_path, code=3).stderr


def test_usage_errors_are_exit_code_2(tmp_path):
    assert b"Did you mean check?" in run("chek", code=2).stderr
    assert b"did you mean" in run("check", "loop2_visibilty", code=2).stderr
    assert b"did you mean" in run("rule", "json.duplicate-keys", code=2).stderr
    assert b"exists already" in run("init", ".", cwd=ROOT, code=2).stderr
    assert b"could not" not in run("--version").stderr
    assert not list(tmp_path.iterdir())


def test_a_broken_pipe_keeps_the_verdict(bundle_folder):
    (bundle_folder / FIXTURE).write_text("{")
    for folder, code in ((ROOT, 0), (bundle_folder, 1)):
        process = subprocess.Popen(
            [*KVAUDIT, "rule"] if code == 0 else [*KVAUDIT, "check", "--root", str(folder)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        process.stdout.close()
        errors = process.stderr.read()
        process.stderr.close()
        assert process.wait(timeout=60) == code
        assert errors == b""


@pytest.mark.parametrize(
    "environment", [{"LC_ALL": "C"}, {"PYTHONIOENCODING": "cp1252"}, {"PYTHONIOENCODING": "ascii"}]
)
def test_other_encodings(bundle_folder, environment):
    path = bundle_folder / FIXTURE
    text = path.read_text(encoding="utf-8").replace('"request_id": "request-a"', '"request_id": "r\u2713\u00e9"', 1)
    path.write_text(text, encoding="utf-8")
    result = run("check", "--root", bundle_folder, code=1, **environment)
    assert b"visibility.request-mismatch" in result.stdout
    document = json.loads(run("check", "--root", bundle_folder, "--format", "json", code=1, **environment).stdout)
    assert any("r\u2713\u00e9" in finding["message"] for finding in document["findings"])


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b'{"a": 1, "a": 2}', "json.duplicate-key"),
        (b'{"a": NaN}', "json.non-finite"),
        (b"\xef\xbb\xbf{}", "file.byte-order-mark"),
        (b'{"a":' * 10_000 + b"0" + b"}" * 10_000, "json.too-deep"),
        (b'{"a": "\xff"}', "file.not-utf8"),
        (b"", "json.syntax"),
        (b"[]", "schema.mismatch"),
    ],
)
def test_hostile_fixtures(bundle_folder, data, code):
    (bundle_folder / FIXTURE).write_bytes(data)
    result = run("check", "visibility", "--root", bundle_folder, "--format", "json", code=1)
    assert code in [finding["code"] for finding in json.loads(result.stdout)["findings"]]
    assert code.encode() in run("visibility", "--fixture", bundle_folder / FIXTURE, code=1).stdout


def test_a_fixture_with_crlf(bundle_folder):
    path = bundle_folder / FIXTURE
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert b"line endings only" in run("check", "visibility", "--root", bundle_folder, code=1).stdout


def test_a_fixture_of_50_megabytes(bundle_folder):
    """It is read and judged; nothing about it is quadratic."""
    path = bundle_folder / FIXTURE
    fixture = json.loads(path.read_text())
    fixture["packed_view"]["original_position_map"] = list(range(10**19, 10**19 + 2_400_000))
    path.write_text(json.dumps(fixture))
    assert 50_000_000 < path.stat().st_size < 64 * 1024 * 1024
    result = run("visibility", "--fixture", path, "--format", "json", code=1)
    assert "visibility.packed-shape" in [finding["code"] for finding in json.loads(result.stdout)["findings"]]


def test_a_symbolic_link_out_of_the_bundle(bundle_folder, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside") / "f.json"
    (bundle_folder / FIXTURE).rename(outside)
    (bundle_folder / FIXTURE).symlink_to(outside)
    assert b"path.escapes-bundle" in run("check", "--root", bundle_folder, code=1).stdout


def without_override():
    """Return a command prefix under which even root respects the mode of a folder."""
    if os.geteuid() != 0:
        return ()
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        pytest.skip("root ignores file modes, and there is no setpriv to drop that right")
    return (setpriv, "--bounding-set=-dac_override", "--inh-caps=-dac_override")


def test_a_read_only_folder(bundle_folder):
    report = bundle_folder / "reports" / "loop02_visibility.md"
    report.write_text("stale")
    (bundle_folder / "reports").chmod(0o555)
    try:
        result = run("regenerate", "--root", bundle_folder, code=3, prefix=without_override())
    finally:
        (bundle_folder / "reports").chmod(0o755)
    assert b"cannot write" in result.stderr
    assert report.read_text() == "stale"


def test_interrupted_by_a_signal(bundle_folder):
    """Ctrl-C ends with 130 and leaves no temporary files."""
    script = (
        "import signal, os, kvaudit.suite.entry as entry\n"
        "real = entry.examine\n"
        "import kvaudit.suite.regenerate as regenerate\n"
        "def interrupted(*a, **k):\n    os.kill(os.getpid(), signal.SIGINT)\n    return real(*a, **k)\n"
        "regenerate.examine = interrupted\n"
        "import sys\nsys.argv = ['kvaudit', 'regenerate', '--root', sys.argv[1]]\n"
        "from kvaudit.cli.main import main\nmain()\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", script, str(bundle_folder)],
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert result.returncode == 130
    assert b"Traceback" not in result.stderr
    assert not list(bundle_folder.rglob("*.tmp"))


def on_terminal(*arguments, columns=80, **environment):
    """Run on a pseudo-terminal and return what it shows."""
    parent, child = pty.openpty()
    process = subprocess.Popen(
        [*KVAUDIT, *map(str, arguments)],
        stdout=child,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": str(columns), "TERM": "xterm-256color", **environment},
    )
    os.close(child)
    shown = b""
    while True:
        try:
            chunk = os.read(parent, 65536)
        except OSError:  # Linux says EIO when the other end is closed
            break
        if not chunk:
            break
        shown += chunk
    os.close(parent)
    process.wait(timeout=60)
    return shown.decode()


def test_a_terminal_gets_frames_and_colour_within_its_width(bundle_folder):
    (bundle_folder / FIXTURE).write_text("{")
    shown = on_terminal("check", "--root", bundle_folder)
    assert "\x1b[1;31mjson.syntax\x1b[0m" in shown
    assert "\u256d" in shown
    lines = on_terminal("visibility", "--root", ROOT, NO_COLOR="1").replace("\r", "").splitlines()
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_escape_bytes_when_asked(bundle_folder, environment):
    (bundle_folder / FIXTURE).write_text("{")
    shown = on_terminal("check", "--root", bundle_folder, **environment)
    assert "json.syntax" in shown
    assert "\x1b" not in shown


@pytest.mark.parametrize("seed", ["0", "4242"])
@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_the_same_report_bytes_under_every_hash_seed_and_locale(bundle_folder, seed, locale):
    before = {path.name: path.read_bytes() for path in (bundle_folder / "reports").iterdir()}
    shutil.rmtree(bundle_folder / "reports")
    run("regenerate", "--root", bundle_folder, PYTHONHASHSEED=seed, LC_ALL=locale)
    assert {path.name: path.read_bytes() for path in (bundle_folder / "reports").iterdir()} == before

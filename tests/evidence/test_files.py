"""Confinement and atomic writing, on a real file system."""

import os
import stat
import unicodedata

import pytest

from kvaudit.errors import FileDefect, KvauditError
from kvaudit.evidence import files
from kvaudit.evidence.text import Limits


def code_of(call, *arguments):
    with pytest.raises(FileDefect) as caught:
        call(*arguments)
    return caught.value.diagnostic.code


@pytest.mark.parametrize(
    "path",
    ["../x.json", "/etc/passwd", "a/../../x", "a/..", "C:\\x", "C:/x", "a\\b", "", "a//b", "/", "nul\0byte"],
)
def test_escaping_paths(tmp_path, path):
    assert code_of(files.read_in_bundle, tmp_path, path) == "path.escapes-bundle"


def test_symbolic_link_out_of_the_bundle(tmp_path):
    outside = tmp_path / "outside.json"
    outside.write_text("{}")
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    (bundle / "result.json").symlink_to(outside)
    (bundle / "folder").symlink_to(tmp_path)
    assert code_of(files.read_in_bundle, bundle, "result.json") == "path.escapes-bundle"
    assert code_of(files.read_in_bundle, bundle, "folder/outside.json") == "path.escapes-bundle"


def test_symbolic_link_inside_the_bundle(tmp_path):
    (tmp_path / "real.json").write_text("{}")
    (tmp_path / "link.json").symlink_to("real.json")
    assert files.read_in_bundle(tmp_path, "link.json") == b"{}"


def test_symbolic_link_loop(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert code_of(files.read_in_bundle, tmp_path, "a") in ("path.escapes-bundle", "path.missing")


def test_bundle_behind_a_symbolic_link(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "x").write_text("x")
    (tmp_path / "alias").symlink_to("real")
    assert files.read_in_bundle(tmp_path / "alias", "x") == b"x"


def test_a_named_pipe_does_not_block(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert code_of(files.read_in_bundle, tmp_path, "pipe") == "path.not-a-file"


def test_a_folder_and_a_device(tmp_path):
    (tmp_path / "folder").mkdir()
    assert code_of(files.read_in_bundle, tmp_path, "folder") == "path.not-a-file"
    assert code_of(files.read_regular, tmp_path.__class__("/dev/zero")) == "path.not-a-file"


def test_missing(tmp_path):
    assert code_of(files.read_in_bundle, tmp_path, "gone.json") == "path.missing"


def test_a_name_in_another_normal_form(tmp_path):
    decomposed = unicodedata.normalize("NFD", "r\u00e9sultat.json")
    assert code_of(files.read_in_bundle, tmp_path, decomposed) == "path.not-normalised"


def test_size_is_refused_before_reading(tmp_path):
    with (tmp_path / "huge.json").open("wb") as file:
        file.truncate(10**12)  # sparse: no such space is used
    assert code_of(files.read_in_bundle, tmp_path, "huge.json") == "file.too-large"
    assert code_of(files.read_regular, tmp_path / "huge.json", Limits(max_bytes=10)) == "file.too-large"


def test_files_below_is_sorted_and_recursive(tmp_path):
    for name in ("b/z", "b/a/y", "a"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    assert list(files.files_below(tmp_path, "b")) == ["b/z", "b/a/y"]
    assert list(files.files_below(tmp_path, "a")) == ["a"]


def test_write_replaces_and_keeps_the_mode(tmp_path):
    target = tmp_path / "new" / "report.json"
    files.write_atomically(target, b"one")
    target.chmod(0o640)
    files.write_atomically(target, b"two")
    assert target.read_bytes() == b"two"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert [path.name for path in target.parent.iterdir()] == ["report.json"]


@pytest.mark.parametrize("step", ["fsync", "replace", "chmod"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_an_interrupted_write_leaves_the_old_bytes(tmp_path, monkeypatch, step, error):
    target = tmp_path / "report.json"
    target.write_bytes(b"old")

    def fail(*_, **__):
        raise error

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(KvauditError if isinstance(error, OSError) else KeyboardInterrupt):
        files.write_atomically(target, b"new")
    monkeypatch.undo()
    assert target.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]

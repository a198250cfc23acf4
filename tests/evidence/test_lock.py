"""The lock: pins, invisible differences, and the digest formula."""

import hashlib

import pytest

from kvaudit.errors import FileDefect
from kvaudit.evidence import lock
from kvaudit.evidence.canonical import sha256


def test_lock_round_trip_is_sorted_one_artefact_a_line():
    pins = {"b.json": "0" * 64, "a.json": "1" * 64}
    data = lock.lock_bytes(pins)
    assert lock.parse_lock(data) == pins
    lines = data.decode().splitlines()
    assert [line.split('"')[1] for line in lines if ".json" in line] == ["a.json", "b.json"]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b'{"k": 1}\r\n', "line endings only"),
        (b'{"k": 1}', "final newline only"),
        (b'{"k": 1}\n\n', "final newline only"),
        (b'{"k": 2}\n', "found"),
    ],
)
def test_mismatch_names_what_cannot_be_seen(data, words):
    pins = {"a.json": sha256(b'{"k": 1}\n')}
    with pytest.raises(FileDefect, match=words) as caught:
        lock.require_pinned(pins, "a.json", data)
    assert caught.value.diagnostic.code == "lock.hash-mismatch"


def test_unpinned():
    with pytest.raises(FileDefect) as caught:
        lock.require_pinned({}, "a.json", b"")
    assert caught.value.diagnostic.code == "lock.unpinned"


@pytest.mark.parametrize("data", [b"{}", b'{"schema": "kvaudit.lock/1", "artefacts": {"a": "XYZ"}}', b"not json"])
def test_malformed_lock(data):
    with pytest.raises(FileDefect):
        lock.parse_lock(data)


def test_suite_digest_is_the_specification_formula():
    """0x0FB, joined by newlines in dependency order: written out by hand here."""
    lines = [("a", "f1", "r1", "visibility/1"), ("b", "f2", "r2", "cost/1")]
    assert lock.suite_digest(lines) == hashlib.sha256(b"a:f1:r1:visibility/1\nb:f2:r2:cost/1").hexdigest()
    assert lock.suite_digest(lines[::-1]) != lock.suite_digest(lines)

"""Strict YAML: the JSON part of YAML, and nothing that YAML 1.1 would read in its own way."""

from fractions import Fraction

import pytest

from kvaudit.errors import FileDefect
from kvaudit.evidence.strict_yaml import line_of, parse_yaml
from kvaudit.evidence.text import Limits

REFUSED = {
    "duplicate key": (b"id: a\nid: b", "yaml.duplicate-key", "/id", 2),
    "nested duplicate key": (b"a:\n  - {b: 1, b: 2}", "yaml.duplicate-key", "/a/0/b", 2),
    "alias": (b"a: &x {rows: 4}\nb: *x", "yaml.alias", "", 2),
    "no": (b"cohort: no", "yaml.ambiguous-scalar", "/cohort", 1),
    "yes": (b"- Yes", "yaml.ambiguous-scalar", "/0", 1),
    "TRUE": (b"- TRUE", "yaml.ambiguous-scalar", "/0", 1),
    "date": (b"a: 2024-07-11", "yaml.ambiguous-scalar", "/a", 1),
    "sexagesimal": (b"a: 12:30:00", "yaml.ambiguous-scalar", "/a", 1),
    "octal": (b"a: 010", "yaml.ambiguous-scalar", "/a", 1),
    "hexadecimal": (b"a: 0x1F", "yaml.ambiguous-scalar", "/a", 1),
    "underscore": (b"a: 1_000", "yaml.ambiguous-scalar", "/a", 1),
    "infinity": (b"a: .inf", "yaml.ambiguous-scalar", "/a", 1),
    "exponent without sign": (b"a: 1e5", "yaml.ambiguous-scalar", "/a", 1),
    "tilde": (b"a: ~", "yaml.ambiguous-scalar", "/a", 1),
    "nothing": (b"a:\nb: 1", "yaml.ambiguous-scalar", "/a", 1),
    "integer key": (b"1: a", "yaml.ambiguous-scalar", "", 1),
    "merge key": (b"<<: {a: 1}", "yaml.ambiguous-scalar", "", 1),
    "tag": (b"a: !!python/name:os.system x", "yaml.ambiguous-scalar", "/a", 1),
    "unfinished": (b"entries: [", "yaml.syntax", "", 2),
    "two documents": (b"a: 1\n---\nb: 2", "yaml.syntax", "", 2),
    "empty": (b"# nothing", "yaml.syntax", "", 1),
    "tab": (b"a:\n\t- 1", "yaml.syntax", "", 2),
    "control character": (b"a: \x07", "yaml.syntax", "", None),
    "deep": (b"[" * 200 + b"]" * 200, "yaml.too-deep", "", 1),
    "byte-order mark": (b"\xef\xbb\xbfa: 1", "file.byte-order-mark", "", 1),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    data, code, pointer, line = REFUSED[name]
    with pytest.raises(FileDefect) as caught:
        parse_yaml(data)
    found = caught.value
    assert (found.diagnostic.code, found.pointer) == (code, pointer)
    assert line is None or found.line in (line, line - 1)  # the C and the Python parser name the last line differently


def test_json_values():
    document = parse_yaml(b'a: 1\nb: 0.1\nc: "no"\nd: [true, null, x y]\ne: {f: -2.5e+1}\ng: "2024-07-11"\n')
    assert document == {
        "a": 1,
        "b": Fraction(1, 10),
        "c": "no",
        "d": [True, None, "x y"],
        "e": {"f": Fraction(-25)},
        "g": "2024-07-11",
    }


def test_depth_limit():
    assert parse_yaml(b"[[]]", Limits(max_depth=2)) == [[]]
    with pytest.raises(FileDefect):
        parse_yaml(b"[[]]", Limits(max_depth=1))


def test_line_of():
    text = "a:\n  - b: 1\n  - c/d: 2\n"
    assert line_of(text, "/a") == 2
    assert line_of(text, "/a/1/c~1d") == 3
    assert line_of(text, "/a/7") is None
    assert line_of(text, "/x") is None

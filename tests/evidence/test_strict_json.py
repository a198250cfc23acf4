"""Strict JSON, byte by byte: what is refused, where, and that numbers are exact."""

import json
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvaudit.errors import FileDefect
from kvaudit.evidence import strict_json
from kvaudit.evidence.strict_json import line_of, parse_json
from kvaudit.evidence.text import Limits

REFUSED = {
    "duplicate key": (b'{"budget": {"value": 128, "value": 1024}}', "json.duplicate-key", "/budget/value", 1),
    "duplicate key in an array, second line": (b'[1, {"a": [],\n"a": {}}]', "json.duplicate-key", "/1/a", 2),
    "duplicate key spelt with an escape": (rb'{"a": 1, "\u0061": 2}', "json.duplicate-key", "/a", 1),
    "NaN": (b'{"auroc": NaN, "max": 1}', "json.non-finite", "/auroc", 1),
    "Infinity": (b"[0, -Infinity]", "json.non-finite", "/1", 1),
    "a float that overflows": (b'{"max":\n1e999}', "json.non-finite", "/max", 2),
    "a float that underflows": (b'{"min": -0.1e-999}', "json.non-finite", "/min", 1),
    "an exponent that would take for ever": (b"[1e-99999999999]", "json.non-finite", "/0", 1),
    "an integer of 5000 digits": (b"[" + b"7" * 5000 + b"]", "json.non-finite", "/0", 1),
    "byte-order mark": (b'\xef\xbb\xbf{"k": 1}', "file.byte-order-mark", "", 1),
    "not UTF-8": (b'{"a": 1,\n"\xe9": 1}', "file.not-utf8", "", 2),
    "lone surrogate": (rb'{"name": "\ud800"}', "json.lone-surrogate", "", 1),
    "trailing comma": (b'{"rows": 4,}', "json.syntax", "", 1),
    "a log line before the JSON": (b'found 1 device\n[{"test": 1}]', "json.syntax", "", 1),
    "text after the JSON": (b"{}\n{}", "json.syntax", "", 2),
    "empty file": (b"", "json.syntax", "", 1),
    "single quotes": (b"{'a': 1}", "json.syntax", "", 1),
    "unterminated string": (b'["abc', "json.syntax", "", 1),
    "unbalanced": (b"[1", "json.syntax", "", 1),
    "10,000 brackets": (b"[" * 10_000, "json.too-deep", "", 1),
    "10,000 objects": (b'{"a":' * 10_000 + b"0" + b"}" * 10_000, "json.too-deep", "", 1),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    data, code, pointer, line = REFUSED[name]
    with pytest.raises(FileDefect) as caught:
        parse_json(data)
    assert (caught.value.diagnostic.code, caught.value.pointer, caught.value.line) == (code, pointer, line)


def test_syntax_errors_differ_by_python_only_in_their_words():
    with pytest.raises(FileDefect, match="column"):
        parse_json(b'{"a" 1}')


def test_size_limit():
    with pytest.raises(FileDefect) as caught:
        parse_json(b"[1, 2, 3]", Limits(max_bytes=8))
    assert caught.value.diagnostic.code == "file.too-large"
    assert parse_json(b"[1, 2, 3]", Limits(max_bytes=9)) == [1, 2, 3]


def test_depth_limit_counts_brackets_outside_strings():
    assert parse_json(b'["[[[[[["]', Limits(max_depth=1)) == ["[[[[[["]
    assert parse_json(b"[[]]", Limits(max_depth=2)) == [[]]
    with pytest.raises(FileDefect):
        parse_json(b"[[]]", Limits(max_depth=1))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"0.1", Fraction(1, 10)),
        (b"1.0", Fraction(1)),
        (b"-0.0", Fraction(0)),
        (b"2.5e3", Fraction(2500)),
        (b"123456789012345678901234567890", 123456789012345678901234567890),
    ],
)
def test_numbers_are_exact(text, value):
    parsed = parse_json(text)
    assert parsed == value
    assert type(parsed) is type(value)


def test_a_sum_of_decimals_is_the_decimal_sum():
    first, second, third = parse_json(b"[0.1, 0.2, 0.3]")
    assert first + second == third


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


@given(json_values, st.sampled_from([None, 1, "\t"]), st.booleans())
def test_what_json_writes_is_read_back(value, indent, ascii_only):
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert parse_json(text.encode()) == value


@given(json_values)
def test_every_value_is_found_by_its_pointer(value):
    text = json.dumps(value, indent=2)
    lines = text.splitlines()
    for token in strict_json._walk(text):
        line = line_of(text, token.pointer)
        assert line is not None
        assert token.literal[0] in lines[line - 1]


def test_line_of():
    text = '{\n  "a": [\n    1,\n    {"b/c": true}\n  ],\n  "~": null\n}'
    assert line_of(text, "") == 1
    assert line_of(text, "/a") == 2
    assert line_of(text, "/a/0") == 3
    assert line_of(text, "/a/1/b~1c") == 4
    assert line_of(text, "/~0") == 6
    assert line_of(text, "/gone") is None

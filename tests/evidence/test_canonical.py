"""Canonical bytes and report bytes: RFC 8785 vectors, exact rounding, round trips."""

import json
from decimal import ROUND_HALF_EVEN, Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvaudit.errors import FileDefect
from kvaudit.evidence.canonical import canonical_bytes, canonical_sha256, exact_json_text, json_text, reported, sha256
from kvaudit.evidence.strict_json import parse_json


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Fraction(10), b"10"),
        (Fraction("-0.0"), b"0"),
        (Fraction("1e-7"), b"1e-7"),
        (Fraction("1e20"), b"100000000000000000000"),
        ({"b": 1, "a": {"d": [2, 1], "c": None}}, b'{"a":{"c":null,"d":[2,1]},"b":1}'),
        ({"\u20ac": 1, "\r": 2, "1": 3}, b'{"\\r":2,"1":3,"\xe2\x82\xac":1}'),
    ],
)
def test_rfc_8785(value, expected):
    assert canonical_bytes(value) == expected


def test_one_and_one_point_zero_have_one_digest():
    assert canonical_sha256({"budget": 1}) == canonical_sha256({"budget": Fraction(1)})


def test_array_order_is_kept_and_key_order_is_not():
    assert canonical_sha256({"a": 1, "b": 2}) == canonical_sha256({"b": 2, "a": 1})
    assert canonical_sha256([0, 1]) != canonical_sha256([1, 0])


@pytest.mark.parametrize("value", [{"a": 2**53}, {"a": -(2**53)}, {"a": "\ud800"}])
def test_not_canonical(value):
    with pytest.raises(FileDefect) as caught:
        canonical_bytes(value)
    assert caught.value.diagnostic.code == "json.not-canonical"


def test_known_digest():
    assert sha256(b'{"k": 1}\n') == "fbf7612302afd65c06009618d5144fcb3957387bd75bd9b9d232a27293d9c072"


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (Fraction(3, 7), "0.428571428571"),
        (Fraction(2, 3), "0.666666666667"),
        (Fraction(833, 64), "13.015625"),
        (Fraction(0), "0.0"),
        (Fraction(-1, 10**20), "-1e-20"),
        (Fraction(5), "5.0"),
        # Halfway cases round to even from the exact value, not from its nearest double.
        (Fraction(1000000000005, 10**13), "0.1"),
        (Fraction(1000000000015, 10**13), "0.100000000002"),
    ],
)
def test_reported_numbers(number, text):
    assert json.dumps(reported(number)) == text


@given(st.fractions())
def test_reported_is_the_decimal_rounding(number):
    exact = Decimal(number.numerator) / Decimal(number.denominator)  # 28 digits, far more than 12
    if exact == 0:
        assert reported(number) == 0.0
    else:
        step = Decimal(1).scaleb(exact.adjusted() - 11)
        assert reported(number) == float(exact.quantize(step, ROUND_HALF_EVEN))


decimals = st.decimals(allow_nan=False, allow_infinity=False, places=6, min_value=-(10**9), max_value=10**9)
documents = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | decimals.map(lambda number: Fraction(str(number))),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=15,
)


@given(documents)
def test_canonical_round_trip(document):
    """Parsing canonical bytes and canonicalising again gives the same bytes."""
    data = canonical_bytes(document)
    assert canonical_bytes(parse_json(data)) == data


@given(documents)
def test_a_fixture_is_written_with_every_digit(document):
    assert parse_json(exact_json_text(document).encode()) == document


def test_report_layout():
    text = json_text({"b": [1, 2], "a": {"x": Fraction(1, 3)}, "c": [[1], [2, 3]], "d": [], "e": {}})
    assert text == (
        '{\n  "b": [1, 2],\n  "a": {\n    "x": 0.333333333333\n  },\n  "c": [\n    [1],\n    [2, 3]\n  ],\n'
        '  "d": [],\n  "e": {}\n}\n'
    )

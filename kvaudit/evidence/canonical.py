"""From exact values to bytes: the canonical form that is hashed, and the readable form that reports are written in.

*Canonical* is RFC 8785 over the plain JSON document: keys sorted recursively, array order kept, a decimal as the
binary64 nearest to it. *Written* is what a person reads in a diff: declared key order, two spaces, one final newline.
This module has the one place where an exact number becomes a float: 12 significant digits, rounded half to even from
the exact value, so that no machine can write another digit.
"""

import hashlib
import json
from collections.abc import Mapping
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import rfc8785

from kvaudit.errors import FileDefect
from kvaudit.model import Diagnostic

NOT_CANONICAL = Diagnostic(
    code="json.not-canonical",
    contract="An object that is hashed holds integers within 2^53 - 1 in magnitude and no lone surrogates.",
    why="RFC 8785 has one byte form a value only within binary64; past it two tools would hash different bytes.",
    fix="Use smaller integers in hashed objects, or write the large number as a string.",
    example='{"policy_generation": 9007199254740993}',
)
DIAGNOSTICS = (NOT_CANONICAL,)

SIGNIFICANT_DIGITS = 12
_ROUNDING = Context(prec=SIGNIFICANT_DIGITS)


def reported(number: Fraction) -> float:
    """Return the float that a report writes for an exact number: 12 significant digits, never -0.0."""
    rounded = _ROUNDING.divide(Decimal(number.numerator), Decimal(number.denominator))
    return float(rounded) + 0.0


def written(value: Any) -> Any:
    """Return a document with every exact number replaced by the float that a report writes for it."""
    return _mapped(value, reported)


def json_text(value: Any) -> str:
    """Return the readable form of a report: its numbers as `written`, declared key order, indent 2, final newline."""
    return exact_json_text(written(value))


def exact_json_text(value: Any) -> str:
    """Return the readable form of a fixture: as `json_text`, but every decimal with all of its digits."""
    return _indented(value, "") + "\n"


def canonical_bytes(value: Any) -> bytes:
    """Return the RFC 8785 form of a document, or raise `FileDefect` if it has none."""
    try:
        return rfc8785.dumps(_mapped(value, float))
    except (rfc8785.CanonicalizationError, UnicodeEncodeError) as error:
        raise FileDefect(NOT_CANONICAL, "", str(error)) from None


def canonical_sha256(value: Any) -> str:
    """Return the SHA-256 (64 lowercase hexadecimal digits) of the canonical form of a document."""
    return sha256(canonical_bytes(value))


def sha256(data: bytes) -> str:
    """Return the SHA-256 of raw bytes as 64 lowercase hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def _mapped(value: Any, number: Any) -> Any:
    if isinstance(value, Fraction):
        return number(value)
    if isinstance(value, Mapping):
        return {key: _mapped(member, number) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_mapped(item, number) for item in value]
    return value


def _indented(value: Any, margin: str) -> str:
    inner = margin + "  "
    if isinstance(value, dict) and value:
        members = (f"{inner}{_scalar(key)}: {_indented(member, inner)}" for key, member in value.items())
        return "{\n" + ",\n".join(members) + f"\n{margin}}}"
    if isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        # Arrays of scalars stay on one line, so that a row of positions diffs as one line.
        return "[\n" + ",\n".join(inner + _indented(item, inner) for item in value) + f"\n{margin}]"
    return _scalar(value)


def _scalar(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(_scalar(item) for item in value) + "]"
    if isinstance(value, Fraction):
        return _decimal(value)
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _decimal(number: Fraction) -> str:
    """Return the finite decimal that a JSON text gave as `number`, which has only 2 and 5 in its denominator."""
    digits = 0
    while (number.numerator * 10**digits) % number.denominator:
        digits += 1
    whole = number.numerator * 10**digits // number.denominator
    text = str(abs(whole)).rjust(digits + 1, "0")
    sign = "-" if whole < 0 else ""
    return f"{sign}{text[: len(text) - digits]}.{text[len(text) - digits :] or '0'}"

"""Strict JSON: RFC 8259 without the freedoms that let two readers disagree.

Refused, each with its line and, where there is one, its JSON pointer: duplicate keys, NaN and Infinity, numbers beyond
binary64, lone surrogates, nesting over the limit. Integers become `int`; a number written with a fraction or an
exponent becomes the `Fraction` that its decimal prints, so that 0.1 + 0.2 equals 0.3 in every oracle.

`json.loads` parses. The small token walk below serves messages only: it finds the pointer of a defect, or the line of
a pointer, in a text that has already parsed.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from kvaudit.errors import FileDefect
from kvaudit.evidence.text import DEFAULT_LIMITS, Limits, decode
from kvaudit.model import Diagnostic, pointer

SYNTAX = Diagnostic(
    code="json.syntax",
    contract="A JSON document is one RFC 8259 value and nothing around it.",
    why="A reader that guesses (a log line before the JSON, a trailing comma) can read another document.",
    fix="Correct the text at the line named; write only the JSON to the file.",
    example='{"rows": 4,}',
)
DUPLICATE_KEY = Diagnostic(
    code="json.duplicate-key",
    contract="An object names each key once.",
    why="Most readers keep the last value, so a second `budget` silently replaces the one that was reviewed.",
    fix="Delete the repeated member.",
    example='{"budget": {"value": 128, "value": 1024}}',
)
NON_FINITE = Diagnostic(
    code="json.non-finite",
    contract="A number is finite and lies within the range of binary64.",
    why="NaN and Infinity are not JSON, and 1e999 becomes infinity in one reader and an error in the next.",
    fix="Write null for what was not measured; write a finite number otherwise.",
    example='{"perplexity": NaN}',
)
TOO_DEEP = Diagnostic(
    code="json.too-deep",
    contract="Arrays and objects nest no deeper than the limit, 128 unless --max-depth says otherwise.",
    why="Deep nesting exhausts the stack of a reader, which then fails past every other check.",
    fix="Flatten the document, or raise --max-depth.",
    example="10,000 opening brackets",
)
LONE_SURROGATE = Diagnostic(
    code="json.lone-surrogate",
    contract="A string is a sequence of Unicode characters; half of a surrogate pair is none.",
    why="Such a string has no UTF-8 form, so it has no canonical hash.",
    fix="Write the character itself or the complete pair of escapes.",
    example=r'{"name": "\ud800"}',
)

DIAGNOSTICS = (SYNTAX, DUPLICATE_KEY, NON_FINITE, TOO_DEEP, LONE_SURROGATE)

# Digits past this are no measurement; the limit keeps int() and Fraction() from quadratic work on hostile text.
_MAX_NUMBER_CHARACTERS = 1000

_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"'
_BRACKETS_AND_STRINGS = re.compile(_STRING + r"?|[\[\]{}]")
_TOKENS = re.compile(_STRING + r"|[\[\]{}:,]|[^\s\[\]{}:,\"]+")
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


class _RefusedError(Exception):
    """Raised inside `json.loads`, which does not know where it is; the place is looked up afterwards."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        self.diagnostic = diagnostic


def parse_json(data: bytes, limits: Limits = DEFAULT_LIMITS) -> Any:
    """Return the document in `data`, or raise `FileDefect` with the place and the reason."""
    text = decode(data, limits)
    _refuse_deep_nesting(text, limits)
    try:
        value = json.loads(
            text,
            parse_int=_parse_int,
            parse_float=_parse_float,
            parse_constant=_refuse_constant,
            object_pairs_hook=_object,
        )
    except json.JSONDecodeError as error:
        raise FileDefect(SYNTAX, "", f"{error.msg} (column {error.colno})", error.lineno) from None
    except RecursionError:
        raise FileDefect(TOO_DEEP, "", "nested deeper than this Python can parse; lower --max-depth") from None
    except _RefusedError as refused:
        raise _located(text, refused.diagnostic) from None
    if _SURROGATE_ESCAPE.search(text):
        _refuse_lone_surrogates(text)
    return value


def line_of(text: str, target: str) -> int | None:
    """Return the one-based line on which the value at the JSON pointer `target` starts, or None if there is none."""
    for token in _walk(text):
        if token.kind == "value" and token.pointer == target:
            return _line(text, token.offset)
    return None


def line_in(data: bytes, target: str) -> int | None:
    """Return the line of the JSON pointer `target` in a file that has parsed; None for the whole document."""
    return line_of(data.decode("utf-8"), target) if target else None


def parse_number(literal: str) -> int | Fraction:
    """Return the exact value of a JSON number, or raise `ValueError` if it is not finite in binary64."""
    if len(literal) > _MAX_NUMBER_CHARACTERS:
        raise ValueError(f"a number of {len(literal)} characters")
    if literal.lstrip("-").isdigit():
        return int(literal)
    approximate = float(literal)
    if approximate in (float("inf"), float("-inf")):
        raise ValueError("a number beyond binary64")
    if approximate == 0.0 and literal.lower().partition("e")[0].strip("-0."):
        raise ValueError("a number too small for binary64")
    return Fraction(literal)


def _parse_int(literal: str) -> int:
    if len(literal) > _MAX_NUMBER_CHARACTERS:
        raise _RefusedError(NON_FINITE)
    return int(literal)


def _parse_float(literal: str) -> int | Fraction:
    try:
        return parse_number(literal)
    except ValueError:
        raise _RefusedError(NON_FINITE) from None


def _refuse_constant(_: str) -> None:
    raise _RefusedError(NON_FINITE)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _RefusedError(DUPLICATE_KEY)
    return members


def _refuse_deep_nesting(text: str, limits: Limits) -> None:
    depth = 0
    for match in _BRACKETS_AND_STRINGS.finditer(text):
        token = match[0]
        if token in ("[", "{"):
            depth += 1
            if depth > limits.max_depth:
                line = _line(text, match.start())
                raise FileDefect(TOO_DEEP, "", f"expected at most {limits.max_depth} levels of nesting", line)
        elif token in ("]", "}"):
            depth -= 1


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str  # "value" where a value starts, "duplicate" at a repeated key
    pointer: str
    literal: str
    offset: int


def _walk(text: str) -> Iterator[_Token]:
    """Yield every value of a well-formed JSON text with its pointer, and every repeated key."""
    path: list[str | int] = []
    seen: list[set[str]] = []  # the keys of each open object; an empty set for an open array
    expects_key = False
    for match in _TOKENS.finditer(text):
        literal = match[0]
        if literal in ("}", "]"):
            path.pop()
            seen.pop()
            expects_key = False
        elif literal == ",":
            step = path[-1]
            if isinstance(step, int):
                path[-1] = step + 1
            expects_key = isinstance(step, str)
        elif literal == ":":
            expects_key = False
        elif expects_key:
            key = json.loads(literal)
            path[-1] = key
            if key in seen[-1]:
                yield _Token("duplicate", pointer(*path), literal, match.start())
            seen[-1].add(key)
        else:
            yield _Token("value", pointer(*path), literal, match.start())
            if literal in ("{", "["):
                path.append("" if literal == "{" else 0)
                seen.append(set())
                expects_key = literal == "{"


def _located(text: str, diagnostic: Diagnostic) -> FileDefect:
    for token in _walk(text):
        if diagnostic is DUPLICATE_KEY and token.kind == "duplicate":
            reason = f"the key {token.literal} is named twice in one object"
            return FileDefect(diagnostic, token.pointer, reason, _line(text, token.offset))
        if diagnostic is NON_FINITE and token.kind == "value" and _is_refused_number(token.literal):
            shown = token.literal if len(token.literal) < 40 else f"a number of {len(token.literal)} characters"
            reason = f"expected a finite number within binary64, found {shown}"
            return FileDefect(diagnostic, token.pointer, reason, _line(text, token.offset))
    raise AssertionError(f"{diagnostic.code} was raised by a text that does not show it")


def _is_refused_number(literal: str) -> bool:
    if literal in ("NaN", "Infinity", "-Infinity"):
        return True
    if literal[0] not in "-0123456789":
        return False
    try:
        parse_number(literal)
    except ValueError:
        return True
    return False


def _refuse_lone_surrogates(text: str) -> None:
    for match in _TOKENS.finditer(text):
        if match[0].startswith('"'):
            try:
                json.loads(match[0]).encode("utf-8")
            except UnicodeEncodeError:
                line = _line(text, match.start())
                raise FileDefect(LONE_SURROGATE, "", f"the string {match[0][:60]} has no UTF-8 form", line) from None


def _line(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1

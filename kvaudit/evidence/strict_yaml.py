"""Strict YAML: the part of YAML that means the same as JSON.

PyYAML follows YAML 1.1, in which `no` is false, `12:30:00` a number and `2024-07-11` a date. A plain scalar that
YAML 1.1 types as anything but the JSON value it looks like is refused, with the advice to quote it. So are duplicate
keys, aliases (two places in a file that are one object), tags and keys that are not strings.
"""

import json
import re
from fractions import Fraction
from typing import Any

import yaml

from kvaudit.errors import FileDefect
from kvaudit.evidence import strict_json
from kvaudit.evidence.text import DEFAULT_LIMITS, Limits, decode
from kvaudit.model import Diagnostic, pointer

SYNTAX = Diagnostic(
    code="yaml.syntax",
    contract="A YAML file holds one well-formed document.",
    why="A manifest that only half parses would leave evidence unchecked.",
    fix="Correct the text at the line named.",
    example="entries: [",
)
DUPLICATE_KEY = Diagnostic(
    code="yaml.duplicate-key",
    contract="A mapping names each key once.",
    why="The last one would win silently and replace a value that was reviewed.",
    fix="Delete the repeated key.",
    example="id: a\nid: b",
)
ALIAS = Diagnostic(
    code="yaml.alias",
    contract="A value is written where it is used: no anchors, aliases or merge keys.",
    why="An alias makes one edit change two entries, and nested aliases can blow up the document.",
    fix="Write the value out in both places.",
    example="a: &x {rows: 4}\nb: *x",
)
AMBIGUOUS_SCALAR = Diagnostic(
    code="yaml.ambiguous-scalar",
    contract="A plain scalar is a JSON number, true, false, null, or a text that no YAML reader types otherwise.",
    why="`no` is a word to a person and false to YAML 1.1; a date becomes an object that JSON does not have.",
    fix="Put the text in quotes, or write the JSON form of the value.",
    example="cohort: no",
)
TOO_DEEP = Diagnostic(
    code="yaml.too-deep",
    contract="Sequences and mappings nest no deeper than the limit, 128 unless --max-depth says otherwise.",
    why="Deep nesting exhausts the stack of a reader, which then fails past every other check.",
    fix="Flatten the document, or raise --max-depth.",
    example="200 opening brackets",
)

DIAGNOSTICS = (SYNTAX, DUPLICATE_KEY, ALIAS, AMBIGUOUS_SCALAR, TOO_DEEP)

# The parser written in C where PyYAML was built with it; both give the same events and marks.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_JSON_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?")
_TAG = "tag:yaml.org,2002:"


def parse_yaml(data: bytes, limits: Limits = DEFAULT_LIMITS) -> Any:
    """Return the document in `data` as JSON values (numbers exact), or raise `FileDefect`."""
    return _value(_composed(decode(data, limits), limits), "")


def line_of(text: str, target: str) -> int | None:
    """Return the one-based line on which the value at the JSON pointer `target` starts, or None if there is none."""
    node = yaml.compose(text, Loader=_Loader)
    for step in target.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(node, yaml.MappingNode):
            node = next((value for key, value in node.value if key.value == name), None)
        elif isinstance(node, yaml.SequenceNode) and name.isdigit() and int(name) < len(node.value):
            node = node.value[int(name)]
        else:
            node = None
        if node is None:
            return None
    return _line(node.start_mark) if node is not None else None


def _composed(text: str, limits: Limits) -> yaml.Node:
    try:
        depth = 0
        for event in yaml.parse(text, Loader=_Loader):
            if isinstance(event, yaml.AliasEvent):
                raise FileDefect(ALIAS, "", f"found the alias *{event.anchor}", _line(event.start_mark))
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
                if depth > limits.max_depth:
                    reason = f"expected at most {limits.max_depth} levels of nesting"
                    raise FileDefect(TOO_DEEP, "", reason, _line(event.start_mark))
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
        node = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        raise FileDefect(SYNTAX, "", error.problem or "not YAML", _line(error.problem_mark)) from None
    except yaml.YAMLError as error:
        raise FileDefect(SYNTAX, "", str(error).splitlines()[0]) from None
    if node is None:
        raise FileDefect(SYNTAX, "", "expected a document, found an empty file", 1)
    return node


def _value(node: yaml.Node, at: str) -> Any:
    line = _line(node.start_mark)
    if isinstance(node, yaml.SequenceNode):
        return [_value(item, at + pointer(index)) for index, item in enumerate(node.value)]
    if isinstance(node, yaml.MappingNode):
        members: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = _scalar(key_node, at) if isinstance(key_node, yaml.ScalarNode) else None
            if not isinstance(key, str):
                raise FileDefect(AMBIGUOUS_SCALAR, at, "a key is not a text; put it in quotes", line)
            if key in members:
                reason = f"the key {json.dumps(key)} is named twice in one mapping"
                raise FileDefect(DUPLICATE_KEY, at + pointer(key), reason, _line(key_node.start_mark))
            members[key] = _value(value_node, at + pointer(key))
        return members
    assert isinstance(node, yaml.ScalarNode)
    return _scalar(node, at)


def _scalar(node: yaml.ScalarNode, at: str) -> str | int | bool | Fraction | None:
    text = str(node.value)
    kind = node.tag.removeprefix(_TAG)
    # `1e5` is a text to YAML 1.1 and a number to YAML 1.2 and JSON, so it is refused as well, unless it is quoted.
    if kind == "str" and (node.style or not _JSON_NUMBER.fullmatch(text)):
        return text
    if kind == "bool" and text in ("true", "false"):
        return text == "true"
    if kind == "null" and text == "null":
        return None
    if kind in ("int", "float"):
        try:
            json.loads(text, parse_constant=_refuse)
            return strict_json.parse_number(text)
        except ValueError:
            pass
    raise FileDefect(
        AMBIGUOUS_SCALAR,
        at,
        f"YAML reads the plain text {text!r} as {kind}, JSON does not; put it in quotes or write the JSON value",
        _line(node.start_mark),
    )


def _line(mark: Any) -> int | None:
    return int(mark.line) + 1 if mark is not None else None


def _refuse(literal: str) -> None:
    raise ValueError(literal)

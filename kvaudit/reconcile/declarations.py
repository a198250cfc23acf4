"""What a reader of the answer states for a document that does not say it: `--declare`.

A declaration fills what a document leaves undeclared. It overrides nothing, it is printed with the answer, and it is
marked as declared by the reader, so that nobody takes it for the document's own statement.
"""

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kvaudit.errors import FileDefect, UsageError
from kvaudit.evidence import files, schema, strict_json, strict_yaml
from kvaudit.evidence.text import DEFAULT_LIMITS, Limits
from kvaudit.reconcile import coordinates as systems
from kvaudit.reconcile.coordinates import State, Value
from kvaudit.reconcile.subjects import Subject

SCHEMA = "kvaudit.declarations/1"

_FLAG = re.compile(r"([AB]):([^=]+)=(.*)", re.DOTALL)
_KEY = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*")


@dataclass(frozen=True, slots=True)
class Declaration:
    """One statement for side A or B. `text` is how it was written on the command line, None for one from a file."""

    side: str
    key: str
    value: Any
    text: str | None


def parse(arguments: Iterable[str], limits: Limits = DEFAULT_LIMITS) -> tuple[Declaration, ...]:
    """Return what `A:key=value` arguments and YAML files with the members A and B declare, or raise `UsageError`."""
    declared: dict[tuple[str, str], Declaration] = {}
    for argument in arguments:
        flag = _FLAG.fullmatch(argument)
        for each in [_from_flag(*flag.groups())] if flag else _from_file(argument, limits):
            if declared.setdefault((each.side, each.key), each) != each:
                raise UsageError(f"--declare {each.side}:{each.key}: declared twice, and not alike")
    return tuple(declared.values())


def declare(a: Subject, b: Subject, declarations: Iterable[Declaration]) -> tuple[Subject, Subject]:
    """Return the two subjects with what is declared for them.

    Raises `UsageError` for a contradiction of a document, for a value that the key does not take, and for a key that
    neither the systems nor the documents know: a misspelt key would separate the two for good.
    """
    every = tuple(declarations)
    known = {*a.system.keys, *b.system.keys, *a.coordinates, *b.coordinates}
    one, other = ([each for each in every if each.side == side] for side in ("A", "B"))
    return _declared(a, one, known), _declared(b, other, known)


def _declared(subject: Subject, declarations: Iterable[Declaration], known: Iterable[str]) -> Subject:
    filled = {}
    for each in declarations:
        where = f"--declare {each.side}:{each.key}"
        if each.key not in known:
            near = difflib.get_close_matches(each.key, sorted(known), n=3)
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            raise UsageError(f"{where}: neither {subject.system.id} nor the two documents have this key{hint}")
        if any(each.key in metric.coordinates for metric in subject.metrics.values()):
            raise UsageError(f"{where}: the metrics of {subject.id} state it themselves")
        value = _value(subject.system.key(each.key), each, where)
        present = subject.coordinates.get(each.key, State.UNDECLARED)
        if present is State.UNDECLARED:
            filled[each.key] = value
        elif systems.identity(present) != systems.identity(value):
            raise UsageError(
                f"{where} contradicts {subject.id}, which declares {_shown(present)}, not {_shown(value)}; a "
                "declaration fills what a document leaves open and overrides nothing"
            )
    return replace(subject, coordinates={**subject.coordinates, **filled}, declared=filled)


def _value(key: systems.Key, declaration: Declaration, where: str) -> Value:
    value = systems.from_json(declaration.value)
    if value is State.UNDECLARED:
        raise UsageError(f"{where}: undeclared is what it is without a declaration")
    refused = systems.refusal(key, value)
    if refused and declaration.text is not None:  # a revision such as 4e12 is a number to JSON and a text to its key
        value, refused = declaration.text, systems.refusal(key, declaration.text)
    if refused:
        raise UsageError(f"{where}: {refused}")
    return value


def _from_flag(side: str, key: str, text: str) -> Declaration:
    if not _KEY.fullmatch(key):
        raise UsageError(f"--declare {side}:{key}: expected a key such as budget.unit")
    try:
        value = strict_json.parse_json(text.encode("utf-8", "replace"))
    except FileDefect:
        return Declaration(side, key, text, text)
    document = {side: {key: value}}
    if schema.defects(SCHEMA, document):
        raise UsageError(f"--declare {side}:{key}: expected a text, a number, true, false or a state, found {text}")
    return Declaration(side, key, value, text)


def _from_file(path: str, limits: Limits) -> Iterable[Declaration]:
    try:
        document = strict_yaml.parse_yaml(files.read_regular(Path(path), limits), limits)
        schema.check(SCHEMA, document)
    except FileDefect as defect:
        line = f":{defect.line}" if defect.line else ""
        at = f" at {defect.pointer}" if defect.pointer else ""
        raise UsageError(
            f"--declare {path}{line}{at}: {defect.message}; expected A:KEY=VALUE, B:KEY=VALUE or a YAML file with "
            "the members A and B"
        ) from None
    for side, statements in document.items():
        for key, value in statements.items():
            yield Declaration(side, key, value, None)


def _shown(value: Value) -> str:
    return value.value.replace("_", " ") if isinstance(value, State) else str(systems.to_json(value))

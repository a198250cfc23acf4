"""JSON Schema (Draft 2020-12) for every document that kvaudit reads or writes, with errors for people.

The schemas lie in `schemas/`, one file a document type, and are compiled once a process. `integer` accepts a Python
int only: not 1.0, which is another text with other bytes, and not true.
"""

import functools
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonpointer

import kvaudit
from kvaudit.errors import Defect, FileDefect
from kvaudit.evidence import canonical, files, strict_json
from kvaudit.model import Diagnostic, Document, Finding, pointer

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

MISMATCH = Diagnostic(
    code="schema.mismatch",
    contract="A document has exactly the members, types and ranges that its schema names.",
    why="A misspelt or missing member would otherwise be ignored, and the check would pass without it.",
    fix="Compare the place named with the schema of the document (schemas/ in the source, or the installed bundle).",
    example='{"kv_heads": 2.0}',
)
DIAGNOSTICS = (MISMATCH,)

_MAX_REASONS = 20


@dataclass(frozen=True, slots=True)
class SchemaDefect:
    """One place where a document departs from its schema."""

    pointer: str
    message: str


class SchemaMismatch(FileDefect):
    """A document that departs from its schema: the first place, as for any defect, and all of them in `places`."""

    def __init__(self, places: tuple[SchemaDefect, ...]) -> None:
        super().__init__(MISMATCH, places[0].pointer, places[0].message)
        self.places = places


def shipped_root() -> Path:
    """Return the folder of the bundle that this kvaudit brings: inside a wheel, or the source tree around it."""
    package = Path(kvaudit.__file__).resolve().parent
    installed = package / "bundle"
    return installed if installed.is_dir() else package.parent


def schema_path(name: str) -> str:
    """Return the bundle path of a schema: `kvaudit.fixture.cost/1` lies in `schemas/fixture.cost.1.json`.

    Schemas refer to each other by file name, so that an editor or another validator can follow them as well.
    """
    return f"schemas/{name.removeprefix('kvaudit.').replace('/', '.')}.json"


def defects(name: str, document: Any) -> tuple[SchemaDefect, ...]:
    """Return where `document` departs from the schema called `name`, in document order; empty if nowhere."""
    return _readable(_validator(name).iter_errors(document))


def member_defects(name: str, document: Document, places: Iterable[str | tuple[str, ...]]) -> tuple[SchemaDefect, ...]:
    """Return the defects of an object that is known to pass except below `places`.

    A place is a member, by its name, or what lies deeper, by the names on the way. An invalid case changes one member
    of a fixture that has passed; checking the others again for each of hundreds of cases is most of a check's work.
    """
    paths = frozenset((place,) if isinstance(place, str) else place for place in places)
    return _readable(_validator(name, paths).iter_errors(document))


def check(name: str, document: Any) -> None:
    """Raise `SchemaMismatch` with every departure of `document` from the schema called `name`, if there is one."""
    found = defects(name, document)
    if found:
        raise SchemaMismatch(found)


def findings(path: str, defect: Defect, data: bytes) -> tuple[Finding, ...]:
    """Return the findings that a defect of a JSON file amounts to: one, or each place where it departs from its schema.

    `data` are the bytes of the file, in which the line of each place is looked up.
    """
    return tuple(
        Finding(
            path,
            place.pointer,
            place.message,
            defect.diagnostic,
            defect.line or strict_json.line_in(data, place.pointer),
        )
        for place in places(defect)
    )


def places(defect: Defect) -> tuple[SchemaDefect, ...]:
    """Return each place that a defect names: one, or every place where a document departs from its schema."""
    return defect.places if isinstance(defect, SchemaMismatch) else (SchemaDefect(defect.pointer, defect.message),)


@functools.cache
def _read(path: str) -> Document:
    schema: Document = json.loads(files.read_in_bundle(shipped_root(), path))
    return schema


@functools.cache
def _validator_class() -> Any:
    import jsonschema

    types = jsonschema.Draft202012Validator.TYPE_CHECKER.redefine_many(
        {
            "integer": lambda _, value: isinstance(value, int) and not isinstance(value, bool),
            "number": lambda _, value: isinstance(value, int | float | Fraction) and not isinstance(value, bool),
        }
    )
    return jsonschema.validators.extend(jsonschema.Draft202012Validator, type_checker=types)  # type: ignore[no-untyped-call]


@functools.cache
def _registry(path: str) -> Any:
    """Return the schema files that the one at `path` refers to, directly or not.

    They are crawled here, once; a registry that retrieves them on demand is crawled again at every reference.
    """
    import referencing

    needed, waiting = {}, [path]
    while waiting:
        schema = _read(current := waiting.pop())
        needed[current] = schema
        waiting.extend(other for other in _referred(schema) if other not in needed)
    resources = ((name.removeprefix("schemas/"), referencing.Resource.from_contents(needed[name])) for name in needed)
    return referencing.Registry().with_resources(resources).crawl()


def _referred(part: Any) -> Iterator[str]:
    """Yield the schema files that a part of a schema refers to."""
    if isinstance(part, dict):
        file = part["$ref"].partition("#")[0] if isinstance(part.get("$ref"), str) else ""
        if file:
            yield f"schemas/{file}"
    for inner in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from _referred(inner)


@functools.cache
def _validator(name: str, places: frozenset[tuple[str, ...]] | None = None) -> "Validator":
    schema = _read(schema_path(name))
    if places is not None:
        schema = _only_below(schema, places)
    validator: Validator = _validator_class()(schema, registry=_registry(schema_path(name)))
    return validator


def _only_below(schema: Document, places: frozenset[tuple[str, ...]]) -> Document:
    """Return the schema of an object without what it says of members that no place leads into."""
    known, others = schema.get("properties", {}), schema.get("additionalProperties")
    properties: Document = dict.fromkeys(known, True)
    for key in {place[0] for place in places}:
        value = known.get(key, others)
        if isinstance(value, dict):  # not a member that the schema refuses, or leaves free
            properties[key] = _narrowed(value, frozenset(place[1:] for place in places if place[0] == key))
    mapping = isinstance(others, dict)
    return {**schema, "properties": properties, **({"additionalProperties": True} if mapping else {})}


def _narrowed(value: Document, below: frozenset[tuple[str, ...]]) -> Any:
    if () in below:
        return value
    referred = _followed(value)
    is_object = "properties" in referred or isinstance(referred.get("additionalProperties"), dict)
    return _only_below(referred, below) if is_object else value


def _followed(value: Any) -> Any:
    """Return the schema that a reference into another file leads to, with its own references anchored in that file."""
    while isinstance(value, dict) and list(value) == ["$ref"] and not value["$ref"].startswith("#"):
        file, _, fragment = value["$ref"].partition("#")
        value = _anchored(jsonpointer.resolve_pointer(_read(f"schemas/{file}"), fragment), file)
    return value


def _anchored(part: Any, file: str) -> Any:
    if isinstance(part, dict):
        anchored = {key: _anchored(inner, file) for key, inner in part.items()}
        if isinstance(part.get("$ref"), str) and part["$ref"].startswith("#"):
            anchored["$ref"] = file + part["$ref"]
        return anchored
    return [_anchored(inner, file) for inner in part] if isinstance(part, list) else part


def _readable(errors: Iterable[Any]) -> tuple[SchemaDefect, ...]:
    found = [SchemaDefect(pointer(*error.absolute_path), _reason(error)) for error in errors]
    return tuple(found[:_MAX_REASONS])


def _reason(error: Any) -> str:
    """Return the reason of a `jsonschema.ValidationError`: what its keyword expects, what was found."""
    value, expected, allowed = error.instance, error.validator_value, error.schema
    match error.validator:
        case "required":
            missing = [name for name in expected if name not in value]
            return f"expected the member {_shown(missing[0])}, found none"
        case "additionalProperties":
            known = sorted(allowed.get("properties", {}))
            unknown = [name for name in value if name not in known]
            return f"expected only the members {', '.join(known)}; found {', '.join(map(_shown, unknown))}"
        case "type":
            kinds = expected if isinstance(expected, str) else " or ".join(expected)
            return f"expected {kinds}, found {_shown(value)}"
        case "enum":
            return f"expected one of {', '.join(map(_shown, expected))}; found {_shown(value)}"
        case "const":
            return f"expected {_shown(expected)}, found {_shown(value)}"
        case "minimum":
            return f"expected at least {expected}, found {_shown(value)}"
        case "maximum":
            return f"expected at most {expected}, found {_shown(value)}"
        case "exclusiveMinimum":
            return f"expected more than {expected}, found {_shown(value)}"
        case "minItems":
            return f"expected at least {expected} items, found {len(value)}"
        case "maxItems":
            return f"expected at most {expected} items, found {len(value)}"
        case "minLength":
            return f"expected at least {expected} characters, found {len(value)}"
        case "minProperties":
            return f"expected at least {expected} members, found {len(value)}"
        case "uniqueItems":
            return "expected different items, found one twice"
        case "pattern":
            return f"expected a text that matches {expected}, found {_shown(value)}"
        case _:
            return f"breaks the rule {error.validator!r} of its schema: found {_shown(value)}"


def _shown(value: Any) -> str:
    if isinstance(value, Fraction):
        return f"{canonical.reported(value)}, a number written with a fraction or an exponent"
    if isinstance(value, dict):
        return f"an object of {len(value)} members"
    if isinstance(value, list):
        return f"an array of {len(value)} items"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "..."

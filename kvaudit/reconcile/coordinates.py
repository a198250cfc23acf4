"""Coordinates: the typed facts that must agree before two values may be compared, and the systems that define them.

Rules of this module:
- A coordinate is a text, an integer, an exact number, a boolean, *undeclared* (nobody said) or *not applicable* (the
  kind has no such thing). The last two are never the same. A key that is missing is undeclared.
- Values are equal if their kind and their value are: 1 and 1.0 are one number, 1 and true are not, 1 and "1" are not.
- A coordinate system is data: `schemas/coordinates/NAME.VERSION.yaml`, checked against its schema when it is read.
- A key that a document states and its system does not know is *residue*. It is compared like any other and may be
  ignored for no metric, so that a forgotten key can separate two values and can never join them.
"""

import enum
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from kvaudit.evidence import files, schema, strict_yaml
from kvaudit.model import Document

SYSTEM_SCHEMA = "kvaudit.coordinate-system/1"
OTHER = "other"  # the kind of a metric that a system does not know, and the residue outside its groups


class State(enum.Enum):
    """What a coordinate is when it has no value."""

    UNDECLARED = "undeclared"
    NOT_APPLICABLE = "not_applicable"


Value = str | int | Fraction | State  # a bool is an int to Python; `identity` keeps the two apart
Coordinates = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a system. `types` is empty for a residue key, which takes any value.

    `ignorable_for` maps a kind of metric to the reason why the key cannot enter its value. `why` says why a difference
    matters, `why_for` says it for kinds of metric where there is more to say, `remedy` what removes the difference.
    """

    name: str
    types: tuple[str, ...]
    unit: str | None
    allowed: tuple[str, ...]
    ignorable_for: Mapping[str, str]
    why: str
    why_for: Mapping[str, str]
    remedy: str


@dataclass(frozen=True, slots=True)
class System:
    """A coordinate system: kinds of metric, the keys of a document, and the keys that each metric has of its own.

    `units` maps a unit to the kind of metric that it tells. `residue` has one key a group (the part before the dot).
    """

    id: str
    title: str
    kinds: Mapping[str, str]
    units: Mapping[str, str]
    keys: Mapping[str, Key]
    metric_keys: Mapping[str, Key]
    residue: Mapping[str, Key]

    def key(self, name: str) -> Key:
        """Return what the system says of a key; for a key that it does not know, what it says of its group."""
        known = self.keys.get(name) or self.metric_keys.get(name)
        return known or self.residue.get(name.partition(".")[0]) or self.residue[OTHER]

    def ordered(self, names: set[str]) -> tuple[str, ...]:
        """Return these keys in the order of the system, residue last and by name."""
        known = [name for name in (*self.keys, *self.metric_keys) if name in names]
        return (*known, *sorted(names.difference(known)))


@functools.cache
def system(name: str) -> System:
    """Return the coordinate system called `name`, such as `report/1`, from the file that kvaudit brings."""
    path = f"schemas/coordinates/{name.replace('/', '.')}.yaml"
    return parse_system(files.read_in_bundle(schema.shipped_root(), path))


def parse_system(data: bytes) -> System:
    """Return the coordinate system in a YAML file, or raise `FileDefect`."""
    document = strict_yaml.parse_yaml(data)
    schema.check(SYSTEM_SCHEMA, document)
    kinds = document["metrics"]
    return System(
        id=document["id"],
        title=document["title"],
        kinds={kind: item["about"] for kind, item in kinds.items()},
        units={unit: kind for kind, item in kinds.items() for unit in item.get("units", ())},
        keys={key: _key(key, item) for key, item in document["keys"].items()},
        metric_keys={key: _key(key, item) for key, item in document["metric_keys"].items()},
        residue={group: _key(group, item) for group, item in document["residue"].items()},
    )


def identity(value: Value) -> tuple[str, Any]:
    """Return a hashable that two values share exactly if they are equal."""
    return kind_of(value), value


def kind_of(value: Value) -> str:
    """Return `text`, `number`, `boolean` or `state`."""
    if isinstance(value, State):
        return "state"
    if isinstance(value, bool):
        return "boolean"
    return "text" if isinstance(value, str) else "number"


def from_json(value: Any) -> Value:
    """Return the coordinate that a JSON value writes; it has passed `common.1.json#/$defs/coordinate`."""
    return State(value["state"]) if isinstance(value, Mapping) else value


def to_json(value: Value) -> Any:
    """Return a coordinate as JSON writes it."""
    return {"state": value.value} if isinstance(value, State) else value


def refusal(key: Key, value: Value) -> str | None:
    """Return why a key does not take this value, or None if it does."""
    if isinstance(value, State) or not key.types:
        return None
    kind = "integer" if isinstance(value, int) and not isinstance(value, bool) else kind_of(value)
    if kind not in key.types and not (kind == "integer" and "number" in key.types):
        return f"expected {' or '.join(key.types)} for {key.name}, found {kind} {to_json(value)}"
    if key.allowed and isinstance(value, str) and value not in key.allowed:
        return f"expected one of {', '.join(key.allowed)} for {key.name}, found {value!r}"
    return None


def _key(name: str, item: Document) -> Key:
    waived = item.get("ignorable_for")
    return Key(
        name=name,
        types=tuple(item.get("types", ())),
        unit=item.get("unit"),
        allowed=tuple(item.get("allowed", ())),
        ignorable_for=dict.fromkeys(waived["metrics"], waived["because"]) if waived else {},
        why=item["why"],
        why_for=item.get("why_for", {}),
        remedy=item["remedy"],
    )

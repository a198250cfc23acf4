"""Whether the points of a frontier are of one cohort, and if not, which two are not and why.

Rules of this module:
- A point is a subject like any other: coordinates of `result/1`, and four metrics. Two points stand on one frontier
  only if all four of their metrics may be compared, as `relate` says.
- What the sweep varies is no coordinate of its cohort: the policy with its parameters and its rules, the budget asked
  for, the rows in fact kept, and the kernel path. A point names these itself. These keys, and no others, are left out.
- An engine setting of a point is the coordinate `runtime.NAME`. So two points with different settings are of two
  cohorts, whether or not the system knows the setting.
- Coordinates are stated in layers (a whole section, one set, one point); the nearest statement counts.
"""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kvaudit.errors import FileDefect
from kvaudit.model import Document, pointer
from kvaudit.reconcile import coordinates as systems
from kvaudit.reconcile.coordinates import OTHER, State, System, Value
from kvaudit.reconcile.explain import Explanation, explain
from kvaudit.reconcile.relation import relate
from kvaudit.reconcile.subjects import VALUE_NOT_ALLOWED, Metric, Subject

DOCUMENT_SCHEMA = "kvaudit.frontier/1"

# The four metrics of a point: unit and kind, as `result/1` names kinds. It has none for traffic, so that nothing is
# ignored there.
METRICS = {
    "resident_bytes_per_token": ("B/token", "resident_bytes"),
    "hbm_bytes_per_token": ("B/token", OTHER),
    "tokens_per_second": ("tokens/s", "throughput"),
    "quality": ("score", "task_score"),
}

SWEPT_GROUPS = ("policy", "budget")
SWEPT_KEYS = (
    "phase.prefill_rule",
    "phase.decode_rule",
    "phase.budget_decision",
    "cache.owner_granularity",
    "cache.owners",
    "cache.quantisation",
    "observed.rows",
    "runtime.attention_backend",
)

Layer = tuple[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Mixed:
    """Two points that are not of one cohort: the first point and `other`, which may be the first itself.

    `key` is the first coordinate that separates them. `open_in` is the index of the point that leaves it undeclared,
    None if both state it. `place` is the pointer to where it is stated, or to what leaves it open.
    """

    other: int
    key: str
    open_in: int | None
    place: str
    explanation: Explanation


def is_swept(key: str) -> bool:
    """Return whether a coordinate is one that the sweep of a frontier varies."""
    return key in SWEPT_KEYS or key.partition(".")[0] in SWEPT_GROUPS


@functools.cache
def system() -> System:
    """Return `result/1` without the keys that a sweep varies."""
    whole = systems.system("result/1")
    keys = {name: key for name, key in whole.keys.items() if not is_swept(name)}
    return replace(whole, title="point of a sweep", keys=keys)


def subjects(layers: Sequence[Layer], points: Sequence[Document], at: str) -> tuple[Subject, ...]:
    """Return each point as a subject. `layers` are (pointer, document) from the outermost in; `at` is that of `points`.

    Raises `FileDefect` for a value that its key does not take.
    """
    shared: dict[str, Value] = {}
    shared_own: dict[str, dict[str, Value]] = {name: {} for name in METRICS}
    for place, document in layers:
        _lay(shared, shared_own, document, place)
    found = []
    for index, point in enumerate(points):
        place = at + pointer(index)
        stated, own = dict(shared), {name: dict(values) for name, values in shared_own.items()}
        _lay(stated, own, point, place)
        metrics = {
            name: Metric(point[name], unit, {**own[name], "unit": unit, "kind": kind})
            for name, (unit, kind) in METRICS.items()
        }
        found.append(Subject(f"{point['method']}/{point['budget_index']}", place, system(), stated, metrics))
    return tuple(found)


def mixed(layers: Sequence[Layer], points: Sequence[Document], at: str) -> Mixed | None:
    """Return the first point that is not of the first one's cohort, None if all are of one. Linear in their number.

    Raises `FileDefect` as `subjects` does.
    """
    every = subjects(layers, points, at)
    for index, subject in enumerate(every):
        relation = relate(every[0], subject)
        blocking = system().ordered({key for each in relation.metrics for key in each.undeclared})
        open_in = None
        if blocking:
            open_in = index if _is_open(subject, blocking[0]) else 0
            place = _open_at(layers, points[open_in], at + pointer(open_in), blocking[0])
        else:
            blocking = system().ordered({key for each in relation.metrics for key in each.differing})
            if not blocking:
                continue
            stated = (_stated_at(points[each], at + pointer(each), blocking[0]) for each in (index, 0))
            place = next(filter(None, stated), at + pointer(index))
        return Mixed(index, blocking[0], open_in, place, explain(every[0], subject))
    return None


def _is_open(subject: Subject, key: str) -> bool:
    """Return whether one of the metrics of a point leaves a key undeclared."""
    return any(
        subject.effective(metric).get(key, State.UNDECLARED) is State.UNDECLARED for metric in subject.metrics.values()
    )


def _lay(stated: dict[str, Value], own: dict[str, dict[str, Value]], layer: Mapping[str, Any], place: str) -> None:
    """Write the statements of one layer over those of the layers around it."""
    settings = {f"runtime.{name}": value for name, value in layer.get("engine_settings", {}).items()}
    for member, statements, at in (
        (stated, layer.get("coordinates", {}), place + pointer("coordinates")),
        (stated, settings, place + pointer("engine_settings")),
        *((own[name], values, place + pointer("metrics", name)) for name, values in layer.get("metrics", {}).items()),
    ):
        for key, item in statements.items():
            if is_swept(key):
                continue
            value = systems.from_json(item)
            refused = systems.refusal(system().key(key), value)
            if refused:
                name = key.removeprefix("runtime.") if statements is settings else key
                raise FileDefect(VALUE_NOT_ALLOWED, at + pointer(name), refused)
            member[key] = value


def _stated_at(point: Document, place: str, key: str) -> str | None:
    """Return where a point states a key itself, None if it does not."""
    for metric, values in point.get("metrics", {}).items():
        if key in values:
            return place + pointer("metrics", metric, key)
    if key.removeprefix("runtime.") in point["engine_settings"] and key.startswith("runtime."):
        return place + pointer("engine_settings", key.removeprefix("runtime."))
    return place + pointer("coordinates", key) if key in point.get("coordinates", {}) else None


def _open_at(layers: Sequence[Layer], point: Document, place: str, key: str) -> str:
    """Return where a key is said to be undeclared; where it is not mentioned, what should have stated it."""
    said = _stated_at(point, place, key)
    if said is not None:
        return said
    for at, document in reversed(layers):
        if key in document.get("coordinates", {}):
            return at + pointer("coordinates", key)
        for metric, values in document.get("metrics", {}).items():
            if values.get(key) == {"state": State.UNDECLARED.value}:
                return at + pointer("metrics", metric, key)
    outermost, document = layers[0]
    if key not in system().keys:  # another point has a setting that this one does not mention
        return place + pointer("engine_settings") if key.startswith("runtime.") else place
    if not key.startswith("metric."):
        return outermost + pointer("coordinates")
    stated = document.get("metrics", {})
    silent = next((name for name in METRICS if name in stated and key not in stated[name]), None)
    return outermost + (pointer("metrics") if silent is None else pointer("metrics", silent))

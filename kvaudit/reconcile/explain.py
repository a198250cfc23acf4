"""Why two documents may be compared or may not, and the least that would have to change.

An explanation is a value: the relation, the coordinates side by side, for each one that separates the two why it
matters and what removes it, and a smallest set of changes after which the pair is comparable. Every sentence about a
coordinate comes from its system; nothing is said of a value, and neither side is called better.

Decided here:
- A row is about the whole document, or about the metrics that state the key themselves. Rows of `unit` and `kind` are
  shown for the metrics that both sides have.
- Where the two have a metric in common, only a key that blocks one of these is explained, and with the sentences for
  their kinds. Where they have none, every key that differs or is undeclared is explained in general.
- A smallest set of changes belongs to one metric: each key that blocks it must be made equal (or declared, if nobody
  stated it), and a metric that only one side has must be reported by the other as well. Each change is needed and
  together they suffice, so of all metrics those with the fewest changes are taken. There is none for documents of two
  systems, nor for a name that means another kind of metric on each side.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from kvaudit.reconcile import coordinates as systems
from kvaudit.reconcile.coordinates import Coordinates, State, Value
from kvaudit.reconcile.relation import (
    DIFFERENT,
    PROJECTIONS,
    UNDECLARED,
    MetricRelation,
    Projection,
    Relation,
    metric_relation,
    relate,
    required_keys,
    state_of,
)
from kvaudit.reconcile.subjects import Subject

ALIGN = "align"
DECLARE = "declare"
REPORT = "report"


@dataclass(frozen=True, slots=True)
class Why:
    """Why a coordinate matters: a sentence, and the kinds of metric that it is about (none: any)."""

    kinds: tuple[str, ...]
    sentence: str


@dataclass(frozen=True, slots=True)
class Row:
    """One coordinate, side by side. `metrics` are those that state it themselves; empty for the whole document.

    `blocks` are the shared metrics that it keeps from being compared. `waived` are those for which it may be ignored,
    with the reason. `by_reader` are the sides on which a reader of the answer declared it.
    """

    key: str
    unit: str | None
    metrics: tuple[str, ...]
    a: Value
    b: Value
    state: str
    blocks: tuple[str, ...]
    waived: tuple[tuple[str, str], ...]
    why: tuple[Why, ...]
    remedy: str
    by_reader: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that has to change: a key to align, a key to declare on `sides`, or a metric to report there."""

    action: str
    name: str
    sides: tuple[str, ...]
    remedy: str


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """A smallest set of changes, and the metrics whose two values it puts into one cohort."""

    metrics: tuple[str, ...]
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """The whole answer about a pair. `smallest` is None where no change of coordinates helps."""

    relation: Relation
    rows: tuple[Row, ...]
    smallest: ChangeSet | None


def explain(a: Subject, b: Subject, projections: tuple[Projection, ...] = PROJECTIONS) -> Explanation:
    """Return the explanation of a pair. `explain(b, a)` is the same with the sides exchanged."""
    relation = relate(a, b, projections)
    if not relation.same_system:
        return Explanation(relation, (), None)
    return Explanation(relation, _rows(relation), _smallest(relation))


def _rows(relation: Relation) -> tuple[Row, ...]:
    a, b = relation.a, relation.b
    shared = tuple(each for each in relation.metrics if each.shared)
    own = {key for each in shared for subject in (a, b) for key in subject.metrics[each.metric].coordinates}
    rows = [
        _row(relation, shared, key, (), a.coordinates, b.coordinates)
        for key in required_keys(a, a.coordinates, b.coordinates)
        if key not in own
    ]
    stated = {each: tuple(subject.effective(subject.metrics[each.metric]) for subject in (a, b)) for each in shared}
    for key in a.system.ordered(own):
        groups: dict[object, list[MetricRelation]] = {}
        for each, (one, other) in stated.items():
            if key in a.system.keys or key in one or key in other:
                alike = tuple(systems.identity(values.get(key, State.UNDECLARED)) for values in (one, other))
                groups.setdefault(alike, []).append(each)
        for members in groups.values():
            names = tuple(each.metric for each in members)
            rows.append(_row(relation, tuple(members), key, names, *stated[members[0]]))
    return tuple(rows)


def _row(
    relation: Relation,
    shared: tuple[MetricRelation, ...],
    key: str,
    metrics: tuple[str, ...],
    one: Coordinates,
    other: Coordinates,
) -> Row:
    a, b = relation.a, relation.b
    known = a.system.key(key)
    state = state_of(one, other, key)
    blocked = tuple(each.metric for each in shared if key in each.blocking)
    waived = tuple(
        (each.metric, known.ignorable_for[a.metrics[each.metric].kind]) for each in shared if key in each.waived
    )
    kinds = sorted({subject.metrics[name].kind for name in blocked for subject in (a, b)})
    explained = state in (DIFFERENT, UNDECLARED) and (bool(blocked) or not any(r.shared for r in relation.metrics))
    return Row(
        key=key,
        unit=known.unit,
        metrics=metrics,
        a=one.get(key, State.UNDECLARED),
        b=other.get(key, State.UNDECLARED),
        state=state,
        blocks=blocked,
        waived=waived,
        why=_why(known, kinds) if explained else (),
        remedy=known.remedy if explained else "",
        by_reader=tuple(side for side, subject in (("A", a), ("B", b)) if key in subject.declared),
    )


def _why(key: systems.Key, kinds: Iterable[str]) -> tuple[Why, ...]:
    """Return the sentence for each of these kinds of metric, and the general one for those that have none."""
    particular = tuple(Why((kind,), key.why_for[kind]) for kind in kinds if kind in key.why_for)
    if particular and all(kind in key.why_for for kind in kinds):
        return particular
    return (Why((), key.why), *particular)


def _smallest(relation: Relation) -> ChangeSet | None:
    candidates = [
        (each.metric, changes) for each in relation.metrics if (changes := _changes(relation, each)) is not None
    ]
    if not candidates:
        return None
    fewest = min((changes for _, changes in candidates), key=len)
    return ChangeSet(tuple(metric for metric, changes in candidates if changes == fewest), fewest)


def _changes(relation: Relation, each: MetricRelation) -> tuple[Change, ...] | None:
    """Return what has to change before the two values of a metric may be compared: every change is needed.

    None for a name that means two kinds of metric: these stay two metrics whatever else agrees.
    """
    if "kind" in each.blocking:
        return None
    a, b = relation.a, relation.b
    changes = []
    if not each.shared:
        present, absent = (a, b) if "A" in each.sides else (b, a)
        completed = replace(absent, metrics={**absent.metrics, each.metric: present.metrics[each.metric]})
        a, b = (present, completed) if "A" in each.sides else (completed, present)
        side = "B" if "A" in each.sides else "A"
        changes.append(Change(REPORT, each.metric, (side,), f"Report {each.metric} in {side} as well."))
        each = metric_relation(a, b, each.metric)
    stated = [(side, subject.effective(subject.metrics[each.metric])) for side, subject in (("A", a), ("B", b))]
    for key in a.system.ordered(set(each.blocking)):
        open_on = tuple(side for side, values in stated if values.get(key, State.UNDECLARED) is State.UNDECLARED)
        remedy = a.system.key(key).remedy
        changes.append(Change(DECLARE if open_on else ALIGN, key, open_on or ("A", "B"), remedy))
    return tuple(changes)

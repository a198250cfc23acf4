"""The relation of two subjects: comparable, shared lineage, or incompatible.

Rules of this module:
- Two values of one metric may be compared if every coordinate that is not declared ignorable for that kind of metric
  is declared on both sides and equal. Not applicable on both sides is equal; not applicable against a value is
  different; undeclared on either side is unstated, and never comparable.
- A metric that only one of the two has is not comparable.
- Documents of different systems are different kinds of statement. Only a declared projection makes one of them a
  document of the other's system.
- A pair is comparable if one metric of the two is; otherwise it shares lineage if a link joins the two; otherwise it is
  incompatible. A link says where two documents come from and makes no value comparable.
- Nothing here reads a value, so nothing can be ranked by one.

`cohorts` groups any number of documents by the very coordinates that `relate` requires, in time linear in their number.
"""

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kvaudit.reconcile import coordinates as systems
from kvaudit.reconcile.coordinates import Coordinates, State
from kvaudit.reconcile.subjects import Link, Metric, Subject

COMPARABLE = "comparable"
SHARED_LINEAGE = "shared_lineage"
INCOMPATIBLE = "incompatible"

SYSTEM = "system"  # stands for a key where two documents have no system in common

EQUAL = "equal"
DIFFERENT = "different"
UNDECLARED = "undeclared"
NOT_APPLICABLE = "not_applicable"


# The setup of a result (specification 0x10B), each with the groups of keys in result/1 that state it. Source, location
# and value identify a record. The name of the policy is set aside here as well: it differs wherever two policies are
# set against each other, so that with it "nothing is comparable" would be trivial.
RESULT_GROUPS: Mapping[str, tuple[str, ...]] = {
    "checkpoint": ("checkpoint",),
    "hardware_and_runtime": ("hardware", "runtime"),
    "workload": ("workload",),
    "budget": ("cache", "budget", "phase", "observed"),
    "baseline": ("baseline",),
    "metric": ("metric", "unit", "kind"),
    "quality_condition": ("quality",),
    "evidence_class": ("evidence", "claim"),
}


@dataclass(frozen=True, slots=True)
class Projection:
    """A declared way to read a document of one system as one of another, such as a record's policy as a contract."""

    source: str
    target: str
    project: Callable[[Subject], Subject]


# None is declared yet; a record's policy parameters may come to project onto a contract.
PROJECTIONS: tuple[Projection, ...] = ()


@dataclass(frozen=True, slots=True)
class MetricRelation:
    """Whether the values of one metric may be compared. Keys stand in the order of their system.

    `sides` has the sides that report the metric. `waived` are keys that differ or are undeclared and are declared
    ignorable for this kind of metric.
    """

    metric: str
    sides: tuple[str, ...]
    differing: tuple[str, ...] = ()
    undeclared: tuple[str, ...] = ()
    waived: tuple[str, ...] = ()

    @property
    def shared(self) -> bool:
        return len(self.sides) == 2

    @property
    def comparable(self) -> bool:
        return self.shared and not self.differing and not self.undeclared

    @property
    def blocking(self) -> tuple[str, ...]:
        return (*self.differing, *self.undeclared)


@dataclass(frozen=True, slots=True)
class Relation:
    """What may be said of two subjects together. `a` and `b` are as projected into one system, where they were."""

    kind: str
    a: Subject
    b: Subject
    metrics: tuple[MetricRelation, ...]
    links: tuple[Link, ...]

    @property
    def same_system(self) -> bool:
        return self.a.system.id == self.b.system.id

    @property
    def comparable_metrics(self) -> tuple[str, ...]:
        return tuple(each.metric for each in self.metrics if each.comparable)


@dataclass(frozen=True, slots=True)
class Cohorts:
    """Values by cohort, each as (subject, metric), and those that state too little to belong to one."""

    groups: tuple[tuple[tuple[Subject, str], ...], ...]
    unplaced: tuple[tuple[Subject, str], ...]


def relate(a: Subject, b: Subject, projections: tuple[Projection, ...] = PROJECTIONS) -> Relation:
    """Return the relation of two subjects. It is symmetric: only the sides change places."""
    for projection in projections:
        if (a.system.id, b.system.id) == (projection.source, projection.target):
            a = projection.project(a)
        elif (b.system.id, a.system.id) == (projection.source, projection.target):
            b = projection.project(b)
    links = tuple(sorted({*_links(a, b), *_links(b, a)}, key=lambda link: (link.source, link.target, link.kind)))
    metrics = tuple(metric_relation(a, b, name) for name in sorted({*a.metrics, *b.metrics}))
    kind = SHARED_LINEAGE if links else INCOMPATIBLE
    if any(each.comparable for each in metrics):
        kind = COMPARABLE
    return Relation(kind, a, b, metrics, links)


def relations(subjects: Iterable[Subject]) -> tuple[Relation, ...]:
    """Return the relation of every unordered pair, in the order of the subjects."""
    return tuple(relate(a, b) for a, b in itertools.combinations(subjects, 2))


def metric_relation(a: Subject, b: Subject, name: str) -> MetricRelation:
    """Return whether the two values of a metric, which one of the two has at least, may be compared."""
    sides = tuple(side for side, subject in (("A", a), ("B", b)) if name in subject.metrics)
    if a.system.id != b.system.id:
        return MetricRelation(name, sides, differing=(SYSTEM,))
    if len(sides) < 2:
        return MetricRelation(name, sides)
    one, other = a.effective(a.metrics[name]), b.effective(b.metrics[name])
    differing, undeclared, waived = [], [], []
    for key in required_keys(a, one, other):
        found = state_of(one, other, key)
        if found in (EQUAL, NOT_APPLICABLE):
            continue
        if all(subject.metrics[name].kind in a.system.key(key).ignorable_for for subject in (a, b)):
            waived.append(key)
        elif found == UNDECLARED:
            undeclared.append(key)
        else:
            differing.append(key)
    return MetricRelation(name, sides, tuple(differing), tuple(undeclared), tuple(waived))


def groups_apart(relation: Relation) -> tuple[str, ...]:
    """Return the groups of two results' setup in which a key is declared on both sides and differs.

    Where the two have no metric in common, the metric is one of them. Empty for documents of two systems.
    """
    if not relation.same_system:
        return ()
    a, b = relation.a, relation.b
    differing = {
        key
        for key in required_keys(a, a.coordinates, b.coordinates)
        if state_of(a.coordinates, b.coordinates, key) == DIFFERENT
    }
    shared = [each for each in relation.metrics if each.shared]
    differing |= {key for each in shared for key in each.differing}
    heads = {key.partition(".")[0] for key in differing} | (set() if shared else {"metric"})
    return tuple(group for group, members in RESULT_GROUPS.items() if heads.intersection(members))


def required_keys(a: Subject, *stated: Coordinates) -> tuple[str, ...]:
    """Return every key of the system of `a` and every key that is stated beside it, in the order of the system."""
    return a.system.ordered({*a.system.keys, *(key for each in stated for key in each)})


def state_of(one: Coordinates, other: Coordinates, key: str) -> str:
    """Return how two statements of a key stand to each other."""
    left, right = one.get(key, State.UNDECLARED), other.get(key, State.UNDECLARED)
    if left is State.UNDECLARED or right is State.UNDECLARED:
        return UNDECLARED
    if left is not right and systems.identity(left) != systems.identity(right):
        return DIFFERENT
    return NOT_APPLICABLE if left is State.NOT_APPLICABLE else EQUAL


def cohorts(subjects: Iterable[Subject]) -> Cohorts:
    """Group values so that two of them share a group exactly if `relate` finds them comparable."""
    groups: dict[Any, list[tuple[Subject, str]]] = {}
    unplaced = []
    for subject in subjects:
        for name, metric in subject.metrics.items():
            key = _cohort_key(subject, name, metric)
            if key is None:
                unplaced.append((subject, name))
            else:
                groups.setdefault(key, []).append((subject, name))
    return Cohorts(tuple(map(tuple, groups.values())), tuple(unplaced))


def _cohort_key(subject: Subject, name: str, metric: Metric) -> Any:
    stated = subject.effective(metric)
    parts = []
    for key in required_keys(subject, stated):
        if metric.kind in subject.system.key(key).ignorable_for:
            continue
        value = stated.get(key, State.UNDECLARED)
        if value is State.UNDECLARED:
            return None
        parts.append((key, systems.identity(value)))
    return subject.system.id, name, tuple(parts)


def _links(a: Subject, b: Subject) -> tuple[Link, ...]:
    return tuple(link for link in a.links if (link.source, link.target) == (a.id, b.id) and link in b.links)

"""Laws of the relation: symmetric, reflexive on what is fully declared, transitive, and never made of silence."""

import itertools
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from kvaudit.reconcile import coordinates as systems
from kvaudit.reconcile.explain import ALIGN, DECLARE, REPORT, explain
from kvaudit.reconcile.relation import (
    COMPARABLE,
    INCOMPATIBLE,
    SHARED_LINEAGE,
    Projection,
    cohorts,
    relate,
    relations,
)
from kvaudit.reconcile.subjects import Link
from tests.reconcile.documents import SYSTEMS, full, subject, value_for

NOT_APPLICABLE = {"state": "not_applicable"}
UNDECLARED = {"state": "undeclared"}
RESIDUE = ("policy.window", "zoo.animal")
OWN = "metric.statistic"


@st.composite
def coordinates(draw, system, *, declared=False):
    """Draw the coordinates of a document that departs from the full one in a few keys."""
    values = full(system)
    keys = systems.system(system).keys
    for name in draw(st.lists(st.sampled_from([*keys, *RESIDUE]), max_size=4, unique=True)):
        key = systems.system(system).key(name)
        others = [systems.to_json(value_for(key, 1))] if name in keys else [1, "1", True]
        values[name] = draw(st.sampled_from([*others, NOT_APPLICABLE, *([] if declared else [UNDECLARED])]))
        if not declared and draw(st.booleans()):
            del values[name]
    return values


@st.composite
def documents(draw, *, declared=False, system=None):
    system = system or draw(st.sampled_from(SYSTEMS))
    kinds = list(systems.system(system).kinds)
    values = draw(coordinates(system, declared=declared))
    names = draw(st.lists(st.sampled_from(["m", "n", "o"]), min_size=1, unique=True))
    own = system == "result/1" and draw(st.booleans())
    if own:
        values.pop(OWN, None)
    metrics = {}
    for name in names:
        unit, kind = draw(st.sampled_from(["s", "ms", "B"])), draw(st.sampled_from([kinds[0], kinds[-1]]))
        metrics[name] = {"value": draw(st.integers(0, 3)), "unit": unit, "kind": kind}
        if own and (declared or draw(st.booleans())):
            metrics[name]["coordinates"] = {OWN: draw(st.sampled_from(["mean", "text 0"]))}
    return subject(values, metrics, system, draw(st.sampled_from("abc")))


def mirrored(sides):
    return tuple(sorted({"A": "B", "B": "A"}[side] for side in sides))


@given(documents(), documents())
def test_the_relation_and_the_explanation_are_symmetric(a, b):
    there, back = explain(a, b), explain(b, a)
    assert there.relation.kind == back.relation.kind
    assert there.relation.metrics == tuple(replace(m, sides=mirrored(m.sides)) for m in back.relation.metrics)
    assert there.rows == tuple(replace(row, a=row.b, b=row.a) for row in back.rows)
    assert (there.smallest is None) == (back.smallest is None)
    if there.smallest is not None:
        assert there.smallest.metrics == back.smallest.metrics
        assert [(c.action, c.name, mirrored(c.sides)) for c in there.smallest.changes] == [
            (c.action, c.name, c.sides) for c in back.smallest.changes
        ]


@given(st.data())
def test_the_rows_say_what_keeps_each_metric_apart(data):
    system = data.draw(st.sampled_from(SYSTEMS))
    explanation = explain(data.draw(documents(system=system)), data.draw(documents(system=system)))
    for each in explanation.relation.metrics:
        if each.shared:
            assert {row.key for row in explanation.rows if each.metric in row.blocks} == set(each.blocking)
            assert {row.key for row in explanation.rows if each.metric in dict(row.waived)} == set(each.waived)
    for row in explanation.rows:
        assert bool(row.why) == bool(row.remedy)
        if row.blocks:
            assert row.why
            assert row.state in ("different", "undeclared")


@given(documents(declared=True))
def test_a_fully_declared_document_is_comparable_with_itself(a):
    relation = relate(a, a)
    assert relation.kind == COMPARABLE
    assert set(relation.comparable_metrics) == set(a.metrics)
    assert explain(a, a).smallest.changes == ()


@given(st.lists(documents(system="result/1"), min_size=3, max_size=3))
def test_comparability_of_one_metric_is_transitive(three):
    a, b, c = three
    both = set(relate(a, b).comparable_metrics) & set(relate(b, c).comparable_metrics)
    assert both <= set(relate(a, c).comparable_metrics)


@given(documents(), st.data())
def test_silence_never_makes_a_pair_comparable(a, data):
    """Leaving a coordinate open on either side can only take metrics away, and takes every one that requires it."""
    b = data.draw(documents(system=a.system.id))
    key = data.draw(st.sampled_from([*a.system.keys]))
    silent = replace(b, coordinates={name: value for name, value in b.coordinates.items() if name != key})
    before, after = set(relate(a, b).comparable_metrics), set(relate(a, silent).comparable_metrics)
    assert after <= before
    for name in after:
        stated = key in silent.metrics[name].coordinates
        assert stated or silent.metrics[name].kind in a.system.key(key).ignorable_for


@given(st.lists(documents(), max_size=5))
def test_a_cohort_is_what_the_relation_finds_comparable(subjects):
    subjects = [replace(each, id=str(number)) for number, each in enumerate(subjects)]
    found = cohorts(subjects)
    groups = {(member.id, name): number for number, group in enumerate(found.groups) for member, name in group}
    assert len(groups) + len(found.unplaced) == sum(len(each.metrics) for each in subjects)
    for a, b in itertools.combinations(subjects, 2):
        together = {n for n in {*a.metrics} & {*b.metrics} if groups.get((a.id, n), -1) == groups.get((b.id, n), -2)}
        assert together == set(relate(a, b).comparable_metrics)


def test_cohorts_of_many_documents_take_linear_work(monkeypatch):
    """Each document is looked at once: the number of key look-ups grows with the documents, not with their pairs."""
    one = subject(full())
    calls = 0
    real = systems.identity

    def counting(value):
        nonlocal calls
        calls += 1
        return real(value)

    monkeypatch.setattr(systems, "identity", counting)
    counts = []
    for size in (100, 200):
        calls = 0
        found = cohorts([replace(one, id=str(number)) for number in range(size)])
        assert [len(group) for group in found.groups] == [size]
        counts.append(calls)
    assert counts[1] == 2 * counts[0]


def applied(a, b, changes):
    """Return the pair after these changes, each made in the plainest way: B is given what A states, or a value."""
    for change in changes:
        if change.action == REPORT:
            source, target = (a, b) if change.sides == ("B",) else (b, a)
            done = replace(target, metrics={**target.metrics, change.name: source.metrics[change.name]})
            a, b = (a, done) if change.sides == ("B",) else (done, b)
            continue
        assert change.action in (ALIGN, DECLARE)
        key = a.system.key(change.name)
        value = value_for(key, 1) if key.types else "agreed"
        a, b = (with_key(each, change.name, value) for each in (a, b))
    return a, b


def with_key(each, name, value):
    metrics = {
        metric: replace(item, coordinates={**item.coordinates, name: value}) if name in item.coordinates else item
        for metric, item in each.metrics.items()
    }
    stated = each.coordinates if name in each.system.metric_keys else {**each.coordinates, name: value}
    return replace(each, coordinates=stated, metrics=metrics)


@given(st.data())
def test_the_smallest_change_suffices_and_no_part_of_it_does(data):
    system = data.draw(st.sampled_from(SYSTEMS))
    a, b = data.draw(documents(system=system)), data.draw(documents(system=system))
    smallest = explain(a, b).smallest
    if smallest is None:
        assert all("kind" in each.blocking for each in relate(a, b).metrics)
        return
    for size in range(len(smallest.changes)):
        for part in itertools.combinations(smallest.changes, size):
            assert relate(*applied(a, b, part)).kind != COMPARABLE
    made = relate(*applied(a, b, smallest.changes))
    assert set(smallest.metrics) <= set(made.comparable_metrics)


def test_documents_without_a_common_metric_are_told_to_report_one():
    a = subject(full(), {"x": {"value": 1, "unit": "B", "kind": "resident_bytes"}})
    b = subject(full(), {"y": {"value": 1, "unit": "s", "kind": "latency"}})
    explanation = explain(a, b)
    assert explanation.relation.kind == INCOMPATIBLE
    assert [(c.action, c.name, c.sides) for c in explanation.smallest.changes] == [(REPORT, "x", ("B",))]


def test_a_document_without_metrics_has_nothing_to_compare():
    assert explain(replace(subject(full()), metrics={}), replace(subject(full()), metrics={})).smallest is None


def test_a_link_joins_and_makes_nothing_comparable():
    link = Link("b", "a", "shared_contract_lineage", "one manifest schema")
    a = replace(subject(full(), name="a"), links=(link,))
    b = replace(subject(full(budget__value=7), name="b"), links=(link,))
    assert relate(a, b).kind == relate(b, a).kind == SHARED_LINEAGE
    assert relate(a, b).links == relate(b, a).links == (link,)
    assert relate(a, b).comparable_metrics == ()
    assert relate(a, replace(b, links=())).kind == INCOMPATIBLE
    assert relate(replace(a, links=()), b).kind == INCOMPATIBLE
    assert relate(a, replace(b, id="c")).kind == INCOMPATIBLE


def test_two_systems_are_two_kinds_of_statement_except_through_a_projection():
    record, contract = (
        subject(full(), name="r"),
        subject(full("contract/1"), {"m": {"value": None, "unit": "1"}}, "contract/1"),
    )
    assert relate(record, contract).kind == INCOMPATIBLE
    assert explain(record, contract).smallest is None
    projection = Projection("result/1", "contract/1", lambda _: replace(contract, id="r"))
    for pair in ((record, contract), (contract, record)):
        assert relate(*pair, projections=(projection,)).kind == COMPARABLE


def test_every_unordered_pair_once():
    subjects = [subject(full(), name=name) for name in "abcd"]
    assert [(pair.a.id, pair.b.id) for pair in relations(subjects)] == list(itertools.combinations("abcd", 2))


def test_a_number_and_the_text_of_it_are_two_cohorts():
    one, other = (subject({**full(), "policy.window": value}, name=str(value)) for value in (1, "1"))
    assert len(cohorts([one, other]).groups) == 2
    assert relate(one, other).kind == INCOMPATIBLE


def test_a_key_that_one_metric_states_is_open_for_the_other():
    coordinates = full()
    del coordinates[OWN]
    score = {"value": 1, "unit": "points", "kind": "task_score"}
    metrics = {"x": {**score, "coordinates": {OWN: "mean"}}, "y": score}
    explanation = explain(subject(coordinates, metrics), subject(coordinates, metrics, name="b"))
    assert explanation.relation.comparable_metrics == ("x",)
    assert [(row.metrics, row.state) for row in explanation.rows if row.key == OWN] == [
        (("x",), "equal"),
        (("y",), "undeclared"),
    ]


def test_one_name_for_two_kinds_of_metric_stays_two_metrics():
    a, b = (subject(full(), {"m": {"value": 1, "unit": "1", "kind": kind}}) for kind in ("ratio", "task_score"))
    explanation = explain(a, b)
    assert explanation.relation.metrics[0].differing == ("kind",)
    assert explanation.smallest is None

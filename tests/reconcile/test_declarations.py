"""What a reader declares: it fills, it is marked, and it overrides nothing."""

from fractions import Fraction

import pytest

from kvaudit.errors import UsageError
from kvaudit.reconcile.coordinates import State
from kvaudit.reconcile.declarations import declare, parse
from tests.reconcile.documents import full, subject

A = subject({"checkpoint.name": "m", "budget.value": Fraction(1, 2), "policy.window": 8})
B = subject({}, name="b")


def stated(*arguments, side="B"):
    a, b = declare(A, B, parse(arguments))
    return (a if side == "A" else b).declared


@pytest.mark.parametrize(
    ("argument", "key", "value"),
    [
        ("B:budget.unit=rows", "budget.unit", "rows"),
        ("B:budget.value=0.50", "budget.value", Fraction(1, 2)),
        ("B:workload.few_shot=5", "workload.few_shot", 5),
        ("B:runtime.device_sync=true", "runtime.device_sync", True),
        ("B:checkpoint.revision=4e12", "checkpoint.revision", "4e12"),
        ("B:checkpoint.revision=12", "checkpoint.revision", "12"),
        ('B:checkpoint.revision="12"', "checkpoint.revision", "12"),
        ("B:policy.branch=a=b", "policy.branch", "a=b"),
        ("B:policy.branch=", "policy.branch", ""),
        ('B:runtime.page_rows={"state": "not_applicable"}', "runtime.page_rows", State.NOT_APPLICABLE),
        ("B:policy.window=8", "policy.window", 8),
    ],
)
def test_a_flag_is_json_or_else_a_text(argument, key, value):
    [(found_key, found)] = stated(argument).items()
    assert (found_key, found, type(found)) == (key, value, type(value))


def test_a_file_declares_for_both_sides(tmp_path):
    path = tmp_path / "declared.yaml"
    path.write_text(
        "A: {runtime.engine: e, budget.rounding: floor}\nB:\n  runtime.page_rows: {state: not_applicable}\n"
    )
    assert stated(str(path), side="A") == {"runtime.engine": "e", "budget.rounding": "floor"}
    assert stated(str(path)) == {"runtime.page_rows": State.NOT_APPLICABLE}


def test_a_statement_that_agrees_with_the_document_is_the_documents():
    assert stated("A:budget.value=0.5", "A:checkpoint.name=m", side="A") == {}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["A:checkpoint.name=other"], "contradicts a, which declares m, not other"),
        (['A:checkpoint.name={"state": "not_applicable"}'], "contradicts a"),
        (["B:budget.unitt=rows"], r"neither result/1 nor the two documents have this key; did you mean budget\.unit"),
        (["B:budget.unit=tokens"], "expected one of rows"),
        (["B:budget.value=many"], "expected integer or number for budget.value, found text many"),
        (['B:budget.value={"state": "undeclared"}'], "without a declaration"),
        (["B:budget.value=[1]"], "expected a text, a number"),
        (["B:budget.value=null"], "expected a text, a number"),
        (["B:Budget=1"], "expected a key such as"),
        (["B:budget.unit=rows", "B:budget.unit=bytes"], "declared twice"),
        (["B:unit=ms"], "neither result/1 nor"),
        (["C:budget.unit=rows"], "expected A:KEY=VALUE"),
        (["nowhere.yaml"], "cannot be read"),
    ],
)
def test_refused(arguments, message):
    with pytest.raises(UsageError, match=message):
        stated(*arguments)


@pytest.mark.parametrize(
    "text", ["A: {x: 1, x: 2}", "C: {}", "A: [1]", "A: {k: no}", "A: {k: null}", "A: &a {k: 1}\nB: *a", ""]
)
def test_a_file_is_read_strictly(tmp_path, text):
    path = tmp_path / "declared.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"declared\.yaml"):
        parse([str(path)])


def test_a_key_that_the_metrics_state_is_theirs():
    own = {"x": {"value": 1, "unit": "s", "coordinates": {"metric.statistic": "mean"}}}
    with pytest.raises(UsageError, match="the metrics of a state it themselves"):
        declare(subject({}, own), B, parse(["A:metric.statistic=p99"]))


def test_declaring_what_is_missing_makes_a_pair_comparable():
    from kvaudit.reconcile.relation import COMPARABLE, INCOMPATIBLE, relate

    coordinates = full()
    value = coordinates.pop("budget.rounding")
    a, b = subject(full()), subject(coordinates, name="b")
    assert relate(a, b).kind == INCOMPATIBLE
    assert relate(*declare(a, b, parse([f"B:budget.rounding={value}"]))).kind == COMPARABLE
    assert relate(*declare(a, b, parse(["B:budget.rounding=ceil"]))).kind == INCOMPATIBLE

"""Values of coordinates, and the systems as they are shipped."""

import json
import re
from fractions import Fraction
from pathlib import Path

import pytest

from kvaudit.errors import FileDefect
from kvaudit.reconcile import coordinates as systems
from kvaudit.reconcile.coordinates import State
from tests.reconcile.documents import SYSTEMS

ROOT = Path(__file__).parents[2]
EVERY_KEY = [
    (name, key)
    for name in SYSTEMS
    for part in ("keys", "metric_keys", "residue")
    for key in getattr(systems.system(name), part).values()
]


def test_numbers_compare_by_value_and_kinds_stay_apart():
    assert systems.identity(1) == systems.identity(Fraction(1))
    values = [1, True, "1", "true", State.UNDECLARED, State.NOT_APPLICABLE, "undeclared", 0, False]
    assert len({systems.identity(value) for value in values}) == len(values)
    assert systems.identity(Fraction(1, 10) + Fraction(2, 10)) == systems.identity(Fraction(3, 10))


@pytest.mark.parametrize("value", [1, Fraction(1, 3), True, "a", State.UNDECLARED, State.NOT_APPLICABLE])
def test_json_and_back(value):
    assert systems.identity(systems.from_json(systems.to_json(value))) == systems.identity(value)


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("budget.value", 128, True),
        ("budget.value", Fraction(1, 2), True),
        ("budget.value", "128", False),
        ("budget.value", True, False),
        ("budget.unit", "rows", True),
        ("budget.unit", "Rows", False),
        ("hardware.memory_gib", 24, True),
        ("workload.few_shot", Fraction(5), False),
        ("workload.batch", "auto:4", True),
        ("workload.batch", 4, True),
        ("runtime.device_sync", 1, False),
        ("policy.window", Fraction(1, 2), True),
        ("budget.unit", State.NOT_APPLICABLE, True),
        ("budget.value", State.UNDECLARED, True),
    ],
)
def test_a_key_takes_its_types_and_allowed_values(key, value, allowed):
    system = systems.system("result/1")
    assert (systems.refusal(system.key(key), value) is None) == allowed


def test_the_report_system_has_the_coordinates_that_a_report_has():
    common = json.loads((ROOT / "schemas" / "common.1.json").read_text(encoding="utf-8"))
    assert list(systems.system("report/1").keys) == common["$defs"]["coordinates"]["required"]


def test_the_contract_system_has_the_twelve_of_the_tuple():
    """0x10A: O, Phi, G, S, B, C, U, R, W, E, F, A."""
    heads = list(dict.fromkeys(key.partition(".")[0] for key in systems.system("contract/1").keys))
    assert heads == [
        "persistent_object",
        "decision_phase",
        "owner_granularity",
        "signal",
        "budget",
        "calibration_or_training",
        "update_after_new_row",
        "recoverability",
        "supported_workload",
        "evaluation",
        "runtime_dependencies",
        "assumptions_and_guarantee",
    ]


def test_the_result_system_has_no_source_location_or_value():
    """0x10B: V, C_s and Y identify a record; as coordinates they would make every pair trivially incomparable."""
    heads = {key.partition(".")[0] for key in systems.system("result/1").keys}
    assert heads >= {
        "checkpoint",
        "hardware",
        "workload",
        "policy",
        "budget",
        "baseline",
        "metric",
        "quality",
        "evidence",
    }
    assert not heads & {"source", "location", "value", "reported_value"}


@pytest.mark.parametrize(("system", "key"), EVERY_KEY, ids=[f"{name}:{key.name}" for name, key in EVERY_KEY])
def test_every_key_is_explained_briefly_and_without_ranking(system, key):
    kinds = systems.system(system).kinds
    assert {*key.ignorable_for, *key.why_for} <= set(kinds)
    for sentence in (key.why, *key.why_for.values(), key.remedy):
        assert sentence.endswith(".")
        assert 20 < len(sentence) < 320
        assert sentence.count(". ") <= 2
        assert not re.search(r"\b(better|worse|best|worst|winner|outperforms?|superior)\b", sentence, re.IGNORECASE)
    for reason in key.ignorable_for.values():
        assert not reason.endswith(".")


def test_residue_is_explained_by_its_group():
    system = systems.system("result/1")
    assert system.key("policy.window").name == "policy"
    assert system.key("zoo.anything").name == "other"
    assert system.ordered({"zoo.a", "claim.type", "checkpoint.name", "policy.window"}) == (
        "checkpoint.name",
        "claim.type",
        "policy.window",
        "zoo.a",
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("id: report/1", "id: report"),
        ("types: [text]", "types: [texts]"),
        ("residue:\n  other:", "residue:\n  policy:"),
        ("  cohort:\n", "  cohort:\n    weight: 3\n"),
        ("  phase:\n", "  cohort:\n"),
    ],
)
def test_a_system_is_read_strictly(old, new):
    text = (ROOT / "schemas" / "coordinates" / "report.1.yaml").read_text(encoding="utf-8")
    assert systems.parse_system(text.encode()).id == "report/1"
    assert old in text
    with pytest.raises(FileDefect):
        systems.parse_system(text.replace(old, new, 1).encode())

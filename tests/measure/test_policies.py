"""The table of policies: every parameter is read or refused, and a checkpoint admits what it was trained for."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from kvaudit.measure import outcomes, policies, selection
from kvaudit.measure.selection import Budget
from tests.measure import tiny


def named(name):
    return policies.policy_by_name(name)


def test_parameters_have_defaults_and_all_are_written_down():
    found = policies.resolved(named("adakv"), {"alpha": "0.3", "kernel_rows": "3"})
    assert found["alpha"] == Fraction(3, 10)
    assert policies.shown(found) == {
        "window_rows": 32,
        "kernel_rows": 3,
        "pooling": "maximum",
        "reduction": "mean",
        "alpha": "3/10",
        "floor_rows": 1,
    }


def test_a_record_names_a_file_and_no_path():
    found = policies.resolved(named("headkv"), {"profile": "/somewhere/heads.json"})
    assert found["profile"] == Path("/somewhere/heads.json")
    assert policies.shown(found)["profile"] == "heads.json"


@pytest.mark.parametrize(
    ("policy", "stated", "said"),
    [
        ("h2o", {"recents": "3"}, "no parameter recents"),
        ("full", {"rows": "3"}, "it has none"),
        ("h2o", {"recent_rows": "1.5"}, "whole number"),
        ("h2o", {"recent_rows": "-1"}, "whole number"),
        ("h2o", {"recent_rows": "few"}, "expected a number"),
        ("h2o", {"reduction": "median"}, "one of sum, mean, max"),
    ],
)
def test_a_bad_parameter_is_refused(policy, stated, said):
    with pytest.raises(outcomes.Stopped, match=said):
        policies.resolved(named(policy), stated)


@pytest.mark.parametrize("name", ["dmc", "lckv"])
def test_trained_policies_need_a_checkpoint_that_says_so(name):
    checkpoint = tiny.checkpoint()
    with pytest.raises(outcomes.Stopped) as stopped:
        policies.admit(named(name), checkpoint, budget_stated=False)
    assert stopped.value.outcome == outcomes.CHECKPOINT_INCOMPATIBLE
    with pytest.raises(outcomes.Stopped) as stopped:
        policies.admit(named(name), replace(checkpoint, trained_for=(name,)), budget_stated=False)
    assert stopped.value.outcome == outcomes.BACKEND_INCOMPATIBLE


@pytest.mark.parametrize(
    ("budget", "rows"),
    [
        (Budget(Fraction(1, 3), "fraction_kept", "kv_head"), 33),
        (Budget(Fraction(1, 3), "fraction_kept", "model"), 33),
        (Budget(Fraction(12), "rows", "kv_head"), 12),
        (Budget(Fraction(12), "rows", "layer"), 6),
        (Budget(Fraction(72), "rows", "model"), 12),
    ],
)
def test_rows_of_a_budget(budget, rows):
    """A prompt of 101 rows, 3 layers of 2 K/V heads; a fraction is rounded down once a K/V head."""
    assert selection.rows_per_head(budget, 101, 3, 2) == rows


@pytest.mark.parametrize(
    ("budget", "reason"),
    [
        (None, outcomes.BUDGET),
        (Budget(Fraction(7), "rows", "layer"), outcomes.BUDGET),
        (Budget(Fraction(0), "rows", "kv_head"), outcomes.BUDGET_TOO_SMALL),
        (Budget(Fraction(1, 1000), "fraction_kept", "kv_head"), outcomes.BUDGET_TOO_SMALL),
        (Budget(Fraction(102), "rows", "kv_head"), outcomes.BUDGET_ABOVE_PROMPT),
        (Budget(Fraction(5, 4), "fraction_kept", "kv_head"), outcomes.BUDGET_ABOVE_PROMPT),
    ],
)
def test_budgets_that_there_are_not(budget, reason):
    with pytest.raises(outcomes.Stopped) as stopped:
        selection.rows_per_head(budget, 101, 3, 2)
    assert stopped.value.reason == reason

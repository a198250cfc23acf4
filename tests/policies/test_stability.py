"""The brittleness law, the gate against an independent replay, and the witnesses by hand."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvaudit.policies.stability import (
    BRITTLE,
    ESCALATE_TIER,
    FORCE_RETENTION,
    RELEASE,
    SAFE,
    WATCH,
    Gate,
    argmax,
    brittleness,
    certified,
    disagreement,
    emitted,
    half_range,
    margin,
    quality_drop,
    regime,
    run_gate,
    termination,
    trajectory,
)

GATE = Gate(Fraction("0.4"), Fraction("0.8"), Fraction("0.3"), 2, 4)

numbers = st.integers(-8, 8).map(lambda value: Fraction(value, 4))
fractions_of_eta = st.lists(st.integers(-4, 4).map(lambda value: Fraction(value, 4)), min_size=6, max_size=6)


@given(st.lists(numbers, min_size=2, max_size=6), st.integers(0, 8).map(lambda v: Fraction(v, 4)), fractions_of_eta)
def test_below_one_no_perturbation_within_eta_changes_the_argmax(logits, eta, directions):
    moved = [logit + eta * share for logit, share in zip(logits, directions, strict=False)]
    assert half_range(logits, moved) <= eta
    if certified(brittleness(eta, margin(logits))):
        assert argmax(moved) == argmax(logits)
        assert argmax([each + 17 for each in moved]) == argmax(logits)  # a common shift is no perturbation


@given(st.lists(numbers, min_size=2, max_size=6), st.integers(0, 8).map(lambda v: Fraction(v, 4)))
def test_from_one_on_some_perturbation_within_eta_makes_a_tie_or_a_flip(logits, eta):
    """The certificate is exact: where it is refused, pushing the two top logits together removes the margin."""
    if certified(brittleness(eta, margin(logits))):
        return
    first = argmax(logits)
    second = argmax([logit - (100 if index == first else 0) for index, logit in enumerate(logits)])
    moved = [logit + {first: -eta, second: eta}.get(index, 0) for index, logit in enumerate(logits)]
    assert half_range(logits, moved) <= eta
    assert moved[second] >= moved[first]


def test_the_certificate_reads_in_both_directions():
    """What the gate sees are compressed logits; if it certifies them, the dense argmax is theirs."""
    dense, compressed = [Fraction(3), Fraction(2), Fraction(0)], [Fraction(5, 2), Fraction(2), Fraction(1, 4)]
    eta = half_range(dense, compressed)
    assert eta == Fraction(3, 8)  # moves of -1/2, 0 and 1/4
    assert not certified(brittleness(eta, margin(compressed)))
    assert certified(brittleness(eta, margin(dense)))


def test_at_exactly_one_the_argmax_can_change():
    logits, eta = [Fraction(0), Fraction(1)], Fraction(1, 2)
    assert brittleness(eta, margin(logits)) == 1
    assert not certified(Fraction(1))
    assert certified(Fraction(99, 100))
    assert argmax(logits) == 1
    assert argmax([logits[0] + eta, logits[1] - eta]) == 0  # a tie, and the first of equals wins


def test_a_margin_of_zero_has_no_brittleness():
    assert brittleness(Fraction(1), Fraction(0)) is None
    assert brittleness(0, 0) is None
    assert not certified(None)
    assert regime(GATE, None) == BRITTLE
    assert margin([1, 3, 3]) == 0
    assert argmax([1, 3, 3]) == 1


@pytest.mark.parametrize(
    ("value", "expected"),
    [("0", SAFE), ("0.39", SAFE), ("0.4", WATCH), ("0.79", WATCH), ("0.8", BRITTLE), ("9", BRITTLE)],
)
def test_a_threshold_belongs_to_the_regime_above_it(value, expected):
    assert regime(GATE, Fraction(value)) == expected


def replay(gate, base, top, series):
    """Return (tiers, actions) by a second reading of the rules: one loop over plain lists."""
    tiers, actions, tier, on = [], [], base, False
    for step, value in enumerate(series):
        tiers.append(tier)
        alarm = value is None or value >= gate.act_threshold
        on = on or alarm
        lately = sum(1 for at, action in actions if action != RELEASE and step - at < gate.rate_window_steps)
        if alarm and tier < top and lately < gate.rate_interventions:
            actions.append((step, ESCALATE_TIER if tier else FORCE_RETENTION))
            tier += 1
        elif on and not alarm and value < gate.act_threshold - gate.hysteresis_width:
            actions.append((step, RELEASE))
            tier, on = base, False
    return tiers, actions


series_of_steps = st.lists(st.one_of(st.none(), st.integers(0, 12).map(lambda v: Fraction(v, 10))), max_size=24)


@given(series_of_steps, st.integers(0, 2), st.integers(1, 3), st.integers(2, 6))
def test_the_gate_by_a_second_reading(series, base, interventions, window):
    gate = Gate(Fraction("0.4"), Fraction("0.8"), Fraction("0.3"), interventions, window)
    watched = run_gate(gate, base, 3, len(series), lambda step, _: series[step])
    tiers, actions = replay(gate, base, 3, series)
    assert [each.tier for each in watched] == tiers
    assert [(each.step, each.decision.action) for each in watched if each.decision] == actions
    granted = [at for at, action in actions if action != RELEASE]
    for first in range(len(series)):
        assert sum(first <= at < first + window for at in granted) <= interventions
    for each in watched:
        if each.suppressed:
            assert each.regime == BRITTLE
        if each.decision is not None:
            assert abs(each.decision.to_tier - each.decision.from_tier) == 1 or each.decision.action == RELEASE


def test_hysteresis_keeps_a_swinging_signal_from_thrashing():
    """Between 0.5 and 0.8 the gate stays as it is; without the band it switches with every swing."""
    series = [Fraction(value) for value in ("0.9", "0.7", "0.9", "0.7", "0.9", "0.7", "0.4")]
    changes = {}
    for width in (Fraction("0.3"), Fraction(0)):
        gate = Gate(Fraction("0.4"), Fraction("0.8"), width, 2, 4)
        watched = run_gate(gate, 1, 2, len(series), lambda step, _: series[step])
        changes[width] = [(each.step, each.decision.action) for each in watched if each.decision]
    assert changes[Fraction("0.3")] == [(0, ESCALATE_TIER), (6, RELEASE)]
    assert len(changes[Fraction(0)]) == 6


def test_a_decision_holds_from_the_next_step_on():
    watched = run_gate(GATE, 0, 2, 2, lambda _step, tier: [Fraction(1), Fraction(0), Fraction(0)][tier])
    assert [each.tier for each in watched] == [0, 1]
    assert watched[0].decision.action == FORCE_RETENTION
    assert watched[1].decision.action == RELEASE


def test_the_rate_limit_suppresses_and_says_so():
    watched = run_gate(GATE, 0, 3, 6, lambda _step, _tier: None)
    assert [each.tier for each in watched] == [0, 1, 2, 2, 2, 3]
    assert [each.step for each in watched if each.suppressed] == [2, 3]


def test_witnesses_by_hand():
    dense, run = ("a", "b", "c", "d"), ("a", "b", "x", "d", "e")
    assert trajectory(dense, run) == Fraction(1, 2)
    assert disagreement(dense, run) == Fraction(1, 4)
    assert termination(dense, run) == 1
    assert quality_drop(("a", "b", "c"), dense, run) == Fraction(1, 3)
    assert quality_drop(("a", "x", "x"), dense, run) == Fraction(-1, 3)
    assert (trajectory(dense, dense), disagreement(dense, dense), termination(dense, dense)) == (0, 0, 0)
    assert trajectory(dense, dense[:3]) == Fraction(1, 4)  # it ends early: what is missing is behind the difference
    assert disagreement(dense, dense[:3]) == Fraction(1, 4)


def test_a_run_ends_with_its_first_stop_token():
    assert emitted(["a", ".", "b", "."], ".") == ("a", ".")
    assert emitted(["a", "b"], ".") == ("a", "b")
    assert emitted(["a", "b"], None) == ("a", "b")

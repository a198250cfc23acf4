"""FastGen: the choice against a plain search, unions, the fallback's real recovery, and the paper's nested families."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvaudit.policies import fastgen

PATTERNS = {
    "special": [0],
    "punctuation": [3, 6],
    "locality": [5, 6, 7],
    "frequency": [1, 2, 4, 5],
    "full": list(range(8)),
}


def percent(*parts):
    return [Fraction(part, 100) for part in parts]


@pytest.mark.parametrize(
    ("mass", "policy", "recovery", "nested", "nested_rows"),
    [
        (percent(92, 1, 1, 1, 1, 1, 1, 2), "special", "0.92", "special", 1),
        (percent(2, 1, 1, 50, 1, 1, 42, 2), "punctuation", "0.92", "special+punctuation", 3),
        (percent(2, 2, 1, 2, 1, 30, 32, 30), "locality", "0.92", "full", 8),
        ([Fraction(1, 8)] * 8, "full", "1", "full", 8),
    ],
)
def test_by_hand(mass, policy, recovery, nested, nested_rows):
    choice = fastgen.choose(mass, PATTERNS, Fraction("0.9"))
    assert (choice.policy, choice.recovery, choice.fallback) == (policy, Fraction(recovery), False)
    families = fastgen.nested_families(PATTERNS)
    other = fastgen.choose(mass, families, Fraction("0.9"))
    assert (other.policy, len(other.positions)) == (nested, nested_rows)


def test_nested_families_each_hold_the_one_before():
    families = list(fastgen.nested_families(PATTERNS).values())
    assert families == [(0,), (0, 3, 6), (0, 1, 2, 3, 4, 5, 6), tuple(range(8)), tuple(range(8))]


def test_the_fallback_reports_what_full_recovers():
    choice = fastgen.choose([Fraction(1, 10)] * 8, PATTERNS, Fraction("0.9"))
    assert (choice.policy, choice.recovery, choice.fallback) == ("full", Fraction("0.8"), True)


def test_a_union_counts_a_shared_position_once():
    hybrid = fastgen.union([PATTERNS["punctuation"], PATTERNS["locality"]])
    assert hybrid == (3, 5, 6, 7)
    assert fastgen.recovery(percent(2, 1, 1, 40, 1, 15, 25, 15), hybrid) == Fraction("0.95")


def test_reaching_the_threshold_exactly_is_enough():
    mass = [Fraction("0.7"), Fraction("0.1"), Fraction("0.1"), Fraction("0.1")]
    policies = {"three": [0, 1, 2], "full": [0, 1, 2, 3]}
    assert fastgen.choose(mass, policies, Fraction("0.9")).policy == "three"  # 0.8999999999999999 in binary64
    assert fastgen.choose(mass, policies, Fraction("0.90001")).policy == "full"


@given(st.lists(st.integers(0, 9), min_size=4, max_size=4).filter(any), st.data())
def test_no_smaller_policy_is_feasible(parts, data):
    mass = [Fraction(part, sum(parts)) for part in parts]
    threshold = data.draw(st.fractions(Fraction(1, 10), 1, max_denominator=10))
    names = st.sampled_from("abcdef")
    subsets = st.lists(st.integers(0, 3), unique=True, max_size=4)
    policies = {**data.draw(st.dictionaries(names, subsets, max_size=5)), "full": [0, 1, 2, 3]}
    choice = fastgen.choose(mass, policies, threshold)
    feasible = {n: len(p) for n, p in policies.items() if sum(mass[i] for i in p) >= threshold}
    assert not choice.fallback
    assert (len(choice.positions), choice.policy) == min((size, name) for name, size in feasible.items())


@given(st.lists(st.integers(0, 9), min_size=4, max_size=4).filter(any), st.lists(st.integers(0, 3), unique=True))
def test_the_renormalised_distance_is_twice_the_omitted_mass(parts, positions):
    mass = [Fraction(part, sum(parts)) for part in parts]
    held = sum(mass[position] for position in positions)
    distance = fastgen.renormalised_distance(mass, positions)
    assert distance == (2 * (1 - held) if held else None)

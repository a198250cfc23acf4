"""The vectorised global top-B gives the winners of the policy, ties included, at small and at real sizes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvaudit.policies import adakv as policy
from kvaudit.selectors import adakv as selector


@given(st.integers(1, 4), st.integers(1, 6), st.data())
def test_the_winners_of_the_policy(heads, positions, data):
    """Few different scores, so that most cuts are tied; halves are exact in binary64."""
    cell = st.integers(-4, 4).map(lambda n: n / 2)
    rows = data.draw(st.lists(st.lists(cell, min_size=positions, max_size=positions), min_size=heads, max_size=heads))
    budget = data.draw(st.integers(0, heads * positions))
    mask = selector.global_top_b(np.array(rows), budget)
    assert {tuple(cell) for cell in np.argwhere(mask).tolist()} == set(policy.global_top_b(rows, budget))
    assert tuple(selector.head_budgets(np.array(rows), budget)) == policy.raw_counts(rows, budget)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_real_layer(dtype):
    """8 K/V heads by 32,768 positions; a stable sort of the flat scores is the reference. float16 is full of ties."""
    scores = np.random.default_rng(5).random((8, 32_768)).astype(dtype)
    budget = 8 * 1024
    order = np.argsort(-scores.ravel(), kind="stable")[:budget]
    expected = np.zeros(scores.size, dtype=bool)
    expected[order] = True
    assert np.array_equal(selector.global_top_b(scores, budget).ravel(), expected)
    assert selector.head_budgets(scores, budget).sum() == budget


def test_one_score_everywhere_goes_to_the_first_owners():
    scores = np.zeros((8, 32_768), dtype=np.float32)
    scores[3] = -0.0  # equal to the others, as it must be
    assert selector.head_budgets(scores, 4 * 32_768 + 10).tolist() == [32_768] * 4 + [10, 0, 0, 0]
    assert np.flatnonzero(selector.global_top_b(scores, 3)).tolist() == [0, 1, 2]


def test_permuting_heads_permutes_the_budgets():
    scores = np.random.default_rng(1).permutation(8 * 512).reshape(8, 512).astype(np.float64)
    order = np.array([3, 1, 7, 0, 2, 6, 5, 4])
    budgets = selector.head_budgets(scores, 1000)
    assert np.array_equal(selector.head_budgets(scores[order], 1000), budgets[order])


def test_infinities_are_ordered_like_any_score():
    scores = np.array([[1.0, -np.inf], [np.inf, 0.0]])
    assert selector.head_budgets(scores, 3).tolist() == [1, 2]


def test_no_winner_and_all_winners():
    scores = np.array([[0.1, 0.2], [0.3, 0.4]])
    assert selector.head_budgets(scores, 0).tolist() == [0, 0]
    assert selector.head_budgets(scores, 4).tolist() == [2, 2]


@pytest.mark.parametrize("budget", [-1, 5])
def test_an_impossible_budget_is_refused(budget):
    with pytest.raises(ValueError, match=r"not between 0 and the 4 candidates"):
        selector.global_top_b(np.zeros((2, 2)), budget)


def test_a_score_that_is_no_number_is_refused_with_its_place():
    scores = np.array([[0.1, 0.2], [np.nan, 0.4]])
    with pytest.raises(ValueError, match=r"head 1, position 0 is not a number"):
        selector.global_top_b(scores, 1)

"""The vectorised selection against the exact one: equal wherever scores are apart by more than rounding."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvaudit.policies import snapkv as exact
from kvaudit.selectors import snapkv as fast

POOLINGS = pytest.mark.parametrize("pooling", exact.POOLINGS)
CONTRACTS = pytest.mark.parametrize("contract", exact.OWNER_CONTRACTS)
MAPS = {"grouped": [0, 0, 0, 1, 1, 1], "uneven": [1, 0, 1, 1, 0, 2], "multi-head": [0, 1, 2, 3], "multi-query": [0, 0]}


def exact_scores(attention, head_map, contract, pooling, kernel):
    prefix = attention.shape[2] - attention.shape[1]
    votes = [
        exact.prefix_votes([[Fraction(float(weight)) for weight in row] for row in of_head], prefix)
        for of_head in attention
    ]
    owners = exact.owner_votes(votes, head_map, max(head_map) + 1, contract)
    return [exact.pooled(owner, pooling, kernel) for owner in owners]


@POOLINGS
@CONTRACTS
@pytest.mark.parametrize("head_map", MAPS.values(), ids=MAPS)
@pytest.mark.parametrize(("seed", "prompt", "window", "capacity", "kernel"), [(1, 24, 4, 12, 5), (2, 9, 3, 5, 13)])
def test_equal_to_the_exact_definition(pooling, contract, head_map, seed, prompt, window, capacity, kernel):
    """The exact side gets the same floating-point probabilities, as the decimals that they are.

    A kernel wider than the prefix gives every cell the same votes: exact ties, which must stay ties.
    """
    logits = np.random.default_rng(seed).normal(size=(len(head_map), window, prompt)) * 3
    attention = fast.window_attention(logits)
    stored = fast.packed_positions(
        attention, capacity, head_map, contract=contract, pooling=pooling, kernel_rows=kernel
    )
    scores = exact_scores(attention, head_map, contract, pooling, kernel)
    assert stored.shape == (len(scores), capacity)
    for owner, of_owner in enumerate(scores):
        gap = min((above - below for below, above in pairwise(sorted(set(of_owner)))), default=1)
        assert gap > 1e-12  # these inputs have no scores that are nearer than rounding and not equal
        selected = exact.selected_prefix(of_owner, capacity - window)
        assert stored[owner].tolist() == exact.packed_positions(selected, prompt - window, prompt)


@POOLINGS
@given(scores=st.lists(st.integers(-64, 64), min_size=1, max_size=9), kernel=st.sampled_from([1, 3, 5, 11]))
def test_pooled_scores_agree_below_zero_too(pooling, scores, kernel):
    """Quarters are exact in floating point; only the division by the kernel rounds."""
    quarters = [Fraction(score, 4) for score in scores]
    found = fast.pooled(np.array([quarters], dtype=float), pooling, kernel)
    expected = exact.pooled(quarters, pooling, kernel)
    assert np.allclose(found[0], [float(score) for score in expected], rtol=1e-15, atol=0)


@CONTRACTS
@pytest.mark.parametrize("head_map", MAPS.values(), ids=MAPS)
def test_owner_votes_agree(contract, head_map):
    attention = fast.window_attention(np.random.default_rng(6).normal(size=(len(head_map), 2, 7)))
    expected = exact_scores(attention, head_map, contract, "none", 1)
    found = fast.owner_votes(attention, head_map, contract)
    assert np.allclose(found, [[float(vote) for vote in owner] for owner in expected], rtol=1e-14, atol=0)


def test_softmax_agrees_with_fifty_digits():
    logits = np.random.default_rng(3).normal(size=(2, 3, 8)) * 4
    attention = fast.window_attention(logits)
    for of_head, rows in zip(attention, logits, strict=True):
        visible = [[Fraction(float(logit)) for logit in row[: 6 + query]] for query, row in enumerate(rows)]
        for query, expected in enumerate(exact.observation_attention(visible)):
            assert np.allclose(of_head[query, : 6 + query], [float(each) for each in expected], rtol=1e-13, atol=0)
            assert not of_head[query, 6 + query :].any()


@pytest.mark.parametrize("head_map", MAPS.values(), ids=MAPS)
def test_logits_are_those_of_repeated_keys(head_map):
    rng = np.random.default_rng(4)
    queries, keys = rng.normal(size=(len(head_map), 3, 16)), rng.normal(size=(max(head_map) + 1, 10, 16))
    repeated = np.einsum("hwd,htd->hwt", queries, keys[head_map]) / 4
    assert np.allclose(fast.window_logits(queries, keys, head_map), repeated, rtol=1e-12, atol=1e-12)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=12), st.data())
def test_equal_scores_go_to_the_lowest_position(scores, data):
    """Small integers, so that most scores are equal: by the order of (score descending, position ascending)."""
    count = data.draw(st.integers(0, len(scores)))
    rows = np.array([scores, scores[::-1]], dtype=float)
    for row, found in zip(rows, fast.top_k(rows, count), strict=True):
        assert found.tolist() == sorted(range(len(scores)), key=lambda position: (-row[position], position))[:count]


def test_a_short_prompt_keeps_its_cache_and_equality_permutes_it():
    attention = fast.window_attention(np.array([[[0.0, 2.0, 1.0, 0.0], [0.0, 2.0, 1.0, 0.0]]]))
    assert fast.packed_positions(attention, 5, [0], kernel_rows=1).tolist() == [[0, 1, 2, 3]]
    assert fast.packed_positions(attention, 4, [0], kernel_rows=1).tolist() == [[1, 0, 2, 3]]


@pytest.mark.parametrize("contract", exact.OWNER_CONTRACTS)
def test_the_number_of_owners(contract):
    attention = fast.window_attention(np.zeros((4, 2, 8)))
    for capacity in (5, 9):
        stored = fast.packed_positions(attention, capacity, [0, 0, 1, 1], contract=contract)
        assert stored.shape == ((4 if contract == "none" else 2), min(capacity, 8))


def test_what_is_refused():
    with pytest.raises(ValueError, match="odd number of rows"):
        fast.pooled(np.zeros((1, 4)), "maximum", 2)
    with pytest.raises(ValueError, match="not a number"):
        fast.top_k(np.array([[0.0, np.nan]]), 1)


def test_a_real_layer():
    """32 query heads on 8 K/V heads, 8,192 prompt rows, window 32, capacity 1,024, kernel 7."""
    rng = np.random.default_rng(5)
    head_map = [head // 4 for head in range(32)]
    queries, keys = rng.normal(size=(32, 32, 16)), rng.normal(size=(8, 8192, 16))
    attention = fast.window_attention(fast.window_logits(queries, keys, head_map))
    stored = fast.packed_positions(attention, 1024, head_map, kernel_rows=7)
    assert stored.shape == (8, 1024)
    assert stored.min() >= 0
    assert stored.max() == 8191
    assert all(len(set(row)) == 1024 for row in stored.tolist())
    scores = fast.pooled(fast.owner_votes(attention, head_map, "mean"), "average_padding_counted", 7)
    for owner, row in enumerate(stored):
        kept = scores[owner][row[:992]]
        assert (np.diff(kept) <= 0).all()
        assert np.delete(scores[owner], row[:992]).max() <= kept[-1]

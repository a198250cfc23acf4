"""The vectorised H2O decode selection is that of policies/, ties included, and runs at a real size."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvaudit.policies import h2o as policy
from kvaudit.policies import retention
from kvaudit.policies.retention import Rows
from kvaudit.selectors import h2o

widths = st.integers(0, 6)


@given(st.integers(1, 4), st.integers(1, 20), widths, widths, st.randoms(use_true_random=False))
def test_kept_rows_are_those_of_the_policy(owners, rows, heavy, recent, choose):
    """Sixteenths are exact in binary, and few values mean many ties."""
    values = [[Fraction(choose.randint(0, 6), 16) for _ in range(rows)] for _ in range(owners)]
    found = h2o.select(np.array(values, dtype=np.float64), heavy, recent)
    expected = [policy.select(Rows(tuple(range(rows)), tuple(one)), heavy, recent) for one in values]
    assert found.tolist() == [list(one) for one in expected]


@given(st.integers(1, 3), st.integers(0, 3), st.integers(0, 3), st.randoms(use_true_random=False))
def test_a_trajectory_is_that_of_the_policy(owners, heavy, recent, choose):
    states = [Rows((), ()) for _ in range(owners)]
    positions, scores = np.empty((owners, 0), np.int64), np.empty((owners, 0))
    for t in range(12):
        weights = [[Fraction(choose.randint(0, 8), 64) for _ in range(positions.shape[1] + 1)] for _ in range(owners)]
        candidate = np.concatenate([positions, np.full((owners, 1), t)], axis=1)
        carried = np.concatenate([scores, np.zeros((owners, 1))], axis=1)
        successor = h2o.decode_step(candidate, carried, np.array(weights, dtype=np.float64), heavy, recent)
        positions, scores = successor.positions, successor.scores
        for owner in range(owners):
            row = policy.accumulated(states[owner].appended([t]), weights[owner])
            kept = policy.select(row, heavy, recent)
            gathered = retention.packed_rows(row.positions, kept)
            states[owner] = row.gathered(gathered)
            assert successor.rows[owner].tolist() == gathered
        assert positions.tolist() == [list(state.positions) for state in states]
        assert scores.tolist() == [[float(score) for score in state.scores] for state in states]


def test_a_real_size():
    """Eight K/V heads with 32,768 candidate rows: kept sets against a sort of each owner."""
    generator = np.random.default_rng(5)
    owners, rows, heavy, recent = 8, 32_768, 16_384, 16_383
    positions = np.broadcast_to(np.arange(rows), (owners, rows))
    scores = generator.integers(0, 50, (owners, rows)).astype(np.float64)
    attention = np.zeros((owners, rows))
    successor = h2o.decode_step(positions, scores, attention, heavy, recent)
    for owner in range(owners):
        history = scores[owner, : rows - recent]
        stable = np.argsort(-history, kind="stable")[:heavy]
        assert np.array_equal(successor.rows[owner], [*np.sort(stable), *range(rows - recent, rows)])
    assert successor.positions.shape == (owners, rows - 1)


def test_scores_grow_past_half_precision():
    half = np.full((1, 2), 2048, dtype=np.float16)
    successor = h2o.decode_step(np.array([[0, 1]]), half, np.ones((1, 2), np.float16), 1, 1)
    assert successor.scores.tolist() == [[2049.0, 2049.0]]


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_score_that_is_not_finite_is_refused(value):
    attention = np.zeros((2, 3))
    attention[1, 2] = value
    with pytest.raises(ValueError, match="owner 1, row 2 is not finite"):
        h2o.decode_step(np.zeros((2, 3), np.int64), np.zeros((2, 3)), attention, 1, 1)


@pytest.mark.parametrize("reduction", ["sum", "mean", "max"])
def test_query_heads_are_reduced_as_in_the_policy(reduction):
    head_map = [0, 1, 0, 0]
    attention = np.arange(12, dtype=np.float64).reshape(4, 3) / 8
    found = h2o.reduce_query_heads(attention, head_map, 2, reduction)
    for kv_head in range(2):
        heads = [[Fraction(w) for w in attention[q]] for q, mapped in enumerate(head_map) if mapped == kv_head]
        assert found[kv_head].tolist() == pytest.approx([float(w) for w in retention.reduced(heads, reduction)])

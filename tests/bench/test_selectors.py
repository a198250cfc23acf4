"""Selectors at 8 K/V heads and 32,768 positions a layer, each over a plain NumPy softmax plus argpartition.

The yardstick is what one would write without ties, pooling or checks: softmax the logits, sum the rows of each owner,
argpartition, on the same arrays. Both sides start from the logits.
"""

import numpy as np
import pytest

from kvaudit.selectors import adakv, h2o, snapkv

KV_HEADS, GROUP, WINDOW, POSITIONS, KEPT = 8, 4, 32, 32_768, 1_024
HEAD_MAP = [head // GROUP for head in range(KV_HEADS * GROUP)]


@pytest.fixture(scope="module")
def window_logits():
    """Logits of the observation window, shape [query heads, W, T]."""
    return np.random.default_rng(0).normal(size=(KV_HEADS * GROUP, WINDOW, POSITIONS))


@pytest.fixture(scope="module")
def decode_logits():
    """Logits of one decode query for each K/V head, shape [H_kv, T]."""
    return np.random.default_rng(1).normal(size=(KV_HEADS, POSITIONS))


def softmax(logits):
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return weights


def largest(scores, count):
    return np.argpartition(scores, scores.shape[-1] - count, axis=-1)[..., -count:]


def test_snapkv(against, window_logits):
    def selector():
        return snapkv.packed_positions(snapkv.window_attention(window_logits), KEPT, HEAD_MAP)

    def plain():
        votes = softmax(window_logits).sum(axis=1).reshape(KV_HEADS, GROUP, POSITIONS).mean(axis=1)
        return largest(votes[:, : POSITIONS - WINDOW], KEPT - WINDOW)

    against("SnapKV over NumPy softmax + argpartition", selector, plain, 5)


def test_adakv(against, window_logits):
    def votes():
        return softmax(window_logits).sum(axis=1).reshape(KV_HEADS, GROUP, POSITIONS).mean(axis=1)

    def selector():
        return adakv.global_top_b(votes(), KV_HEADS * KEPT)

    def plain():
        return largest(votes().ravel(), KV_HEADS * KEPT)

    against("Ada-KV over NumPy softmax + argpartition", selector, plain, 5)


def test_h2o(against, decode_logits):
    positions = np.tile(np.arange(POSITIONS), (KV_HEADS, 1))
    scores = np.random.default_rng(2).random((KV_HEADS, POSITIONS))

    def selector():
        return h2o.decode_step(positions, scores, softmax(decode_logits), KEPT // 2, KEPT // 2)

    def plain():
        return largest(scores + softmax(decode_logits), KEPT)

    against("H2O step over NumPy softmax + argpartition", selector, plain, 15)

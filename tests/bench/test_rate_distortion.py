"""A million states of three tiers over one numpy.argsort of a million values: what any greedy by price must pay."""

import numpy as np

from kvaudit.selectors import rate_distortion

STATES, PAGE_TOKENS = 1_000_000, 64


def test_a_million_states(against):
    rng = np.random.default_rng(0)
    values = np.cumsum(rng.random((STATES, 4)) ** 4, axis=1)
    protected = rng.random(STATES) < 0.01
    bits = np.array([1048, 524, 334])
    pages = 32 + PAGE_TOKENS * bits // 8
    budget = int(0.5 * STATES * bits[0] / 8)
    keys = values[:, 0].copy()

    def allocate():
        return rate_distortion.allocate(values[:, :3], values[:, 3], protected, bits, pages, PAGE_TOKENS, budget)

    against(
        "rate-distortion retention of 1M states over numpy.argsort of 1M values", allocate, lambda: np.argsort(keys)
    )

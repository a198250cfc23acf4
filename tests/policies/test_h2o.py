"""H2O against hand-computed steps, the paper's removal rule by enumeration, and the pinned code's golden set."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvaudit.policies import h2o
from kvaudit.policies.retention import Rows, packed_rows


def decimals(text):
    return tuple(map(Fraction, text.split()))


def test_two_steps_by_hand():
    state = Rows((0, 1, 2, 3), decimals("0.4 0.3 0.2 0.1"))
    for position, attention, kept, scores in (
        (4, "0.1 0.05 0.45 0.2 0.2", (0, 2, 3, 4), "0.5 0.65 0.3 0.2"),
        (5, "0.2 0.2 0.1 0.3 0.2", (0, 2, 4, 5), "0.7 0.85 0.5 0.2"),
    ):
        candidate = h2o.accumulated(state.appended([position]), decimals(attention))
        assert h2o.select(candidate, 2, 2) == kept
        state = candidate.gathered(packed_rows(candidate.positions, kept))
        assert state.scores == decimals(scores)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=8))
def test_the_removal_rule_of_the_paper(values):
    """u maximises the set score of what is left; for an additive score that is the smallest, by enumeration."""
    candidate = Rows(tuple(range(len(values))), tuple(values))
    kept = h2o.select(candidate, len(values) - 1, 0)
    totals = {u: sum(values) - values[u] for u in range(len(values))}
    [evicted] = set(candidate.positions) - set(kept)
    assert totals[evicted] == max(totals.values())


@given(st.lists(st.lists(st.integers(1, 9), min_size=9, max_size=9), min_size=5, max_size=9), st.integers(0, 3))
def test_a_decode_step_changes_the_set_by_at_most_one_row(rows, recent):
    k = 3
    state = Rows((0, 1, 2), (0, 0, 0))
    for index, weights in enumerate(rows):
        candidate = state.appended([3 + index])
        candidate = h2o.accumulated(candidate, weights[: len(candidate.positions)])
        kept = h2o.select(candidate, k - recent, recent)
        assert len(kept) == k
        assert len(set(kept) - set(state.positions)) <= 1
        state = candidate.gathered(packed_rows(candidate.positions, kept))


def test_the_golden_selection_of_the_pinned_class():
    """H2OKVCache_LayerWise with hh_size 2, recent_size 3 on eight scores keeps these (the code was run)."""
    scores = decimals("0.5 0.9 0.1 0.7 0.2 0.3 0.4 0.6")
    assert h2o.select(Rows(tuple(range(8)), scores), 2, 3) == (1, 3, 5, 6, 7)


def test_uniform_prompt_attention_prefers_old_rows():
    """Row j is seen by T - j queries and nothing corrects for that: with equal attention the first rows are heavy."""
    uniform = [[Fraction(1, t + 1)] * (t + 1) for t in range(8)]
    assert h2o.prompt_in_bulk(uniform, 2, 2) == (0, 1, 6, 7)


def test_the_prompt_in_bulk_and_row_by_row():
    prompt = [
        decimals("1"),
        decimals("0.5 0.5"),
        decimals("0.4 0.1 0.5"),
        decimals("0.3 0.1 0.4 0.2"),
        decimals("0.2 0.1 0.3 0.2 0.2"),
        decimals("0.05 0.7 0.1 0.05 0.05 0.05"),
    ]
    # Position 1 is the lightest of {0, 1, 2} after query 4 and leaves; query 5 asks for nothing else.
    assert h2o.prompt_in_bulk(prompt, 2, 2) == (0, 1, 4, 5)
    assert h2o.prompt_row_by_row(prompt, 2, 2) == (0, 2, 4, 5)


def test_the_survivors_share_what_an_evicted_row_would_have_got():
    """At query 3 the evicted row 0 has 0.8 of the dense mass. Row 2 gets 0.1 / 0.2 of what is left and passes row 1."""
    prompt = [decimals("1"), decimals("0 1"), decimals("0 0.1 0.9"), decimals("0.8 0 0.1 0.1")]
    assert h2o.prompt_row_by_row(prompt, 1, 1) == (2, 3)
    assert h2o.prompt_in_bulk(prompt, 1, 1) == (0, 3)


def test_attention_to_evicted_rows_only_is_unknown():
    prompt = [decimals("1"), decimals("0 1"), decimals("1 0 0")]
    assert h2o.prompt_row_by_row(prompt, 0, 1) is None


@pytest.mark.parametrize("rows", [1, 3, 4])
def test_a_prompt_within_the_budget_is_kept_either_way(rows):
    prompt = [[Fraction(1, t + 1)] * (t + 1) for t in range(rows)]
    assert h2o.prompt_in_bulk(prompt, 2, 2) == h2o.prompt_row_by_row(prompt, 2, 2) == tuple(range(rows))

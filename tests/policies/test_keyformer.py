"""Keyformer against the figures of 0x06H and 0x06I, every pair of odds by itself, and a search for its inputs."""

from fractions import Fraction
from itertools import combinations

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvaudit.policies import keyformer
from kvaudit.policies.keyformer import Schedule
from kvaudit.policies.retention import Rows

logit_rows = st.lists(st.integers(-40, 40).map(lambda n: Fraction(n, 10)), min_size=2, max_size=6)
temperatures = st.integers(5, 40).map(lambda n: Fraction(n, 10))


def decimals(text):
    return [Fraction(each) for each in text.split()]


PROMPT, DECODE = decimals("0.9 0.7 0.9 0.2 0.8"), decimals("0.5 0.1 1.5 0.6 1.1")


def test_prompt_and_decode_of_the_specification():
    prompt = keyformer.gumbel_softmax(PROMPT, 1)
    assert [round(float(prompt[row]), 4) for row in (0, 2, 3)] == [0.237, 0.237, 0.1177]
    kept = keyformer.select(Rows(tuple(range(5)), prompt), 2, 2)
    assert kept == (0, 2, 3, 4)
    increments = keyformer.gumbel_softmax(DECODE, Fraction(3, 2))
    carried = [*(prompt[position] for position in kept), 0]
    total = [old + new for old, new in zip(carried, increments, strict=True)]
    assert [round(float(score), 4) for score in total] == [0.3963, 0.359, 0.4281, 0.3848, 0.2378]
    assert keyformer.select(Rows((0, 2, 3, 4, 5), tuple(total)), 2, 2) == (0, 3, 4, 5)


@given(logit_rows, temperatures)
def test_an_increment_is_the_softmax_by_mpmath(logits, temperature):
    with mpmath.workdps(60):
        powers = [mpmath.exp(mpmath.mpf(int(y * 10)) / 10 / mpmath.mpf(int(temperature * 10)) * 10) for y in logits]
        expected = [power / sum(powers) for power in powers]
        found = [mpmath.mpf(one.numerator) / one.denominator for one in keyformer.gumbel_softmax(logits, temperature)]
        assert all(abs(a - b) <= mpmath.mpf(10) ** -45 * b for a, b in zip(found, expected, strict=True))


@given(logit_rows, temperatures)
def test_the_odds_of_every_pair_one_by_one(logits, temperature):
    values = keyformer.gumbel_softmax(logits, temperature)
    for row, other in combinations(range(len(logits)), 2):
        with mpmath.workdps(60):
            y = (logits[row] - logits[other]) / temperature
            exponential = mpmath.exp(mpmath.mpf(y.numerator) / y.denominator)
            odds = values[row] / values[other]
            assert abs(mpmath.mpf(odds.numerator) / odds.denominator / exponential - 1) < mpmath.mpf(10) ** -45
    assert keyformer.pairs_with_exponential_odds(values, logits, temperature) == keyformer.pair_count(len(logits))


@given(logit_rows, st.data())
def test_pairs_are_counted_as_if_each_were_formed(logits, data):
    """Values that are exp(y) times one of few factors: pairs with one factor match, all others do not."""
    factors = data.draw(st.lists(st.integers(0, 3), min_size=len(logits), max_size=len(logits)))
    shares = keyformer.gumbel_softmax(logits, 1)
    values = [share * factor for share, factor in zip(shares, factors, strict=True)]
    expected = sum(1 for a, b in combinations(factors, 2) if a == b != 0)
    assert keyformer.pairs_with_exponential_odds(values, logits, 1) == expected


@given(st.integers(1, 12), st.integers(0, 30))
def test_past_the_schedule(expected, past):
    def at(beyond, budgets=None):
        return Schedule(1, 2, expected, beyond, budgets or {}).temperature(expected + past)

    assert at("clamp") == 2
    assert at("continue_rising") == 2 + Fraction(past, expected)
    assert at("recompute") == (2 if past == 0 else None)
    longer = expected + past + 5
    assert at("recompute", {expected: longer}) == 1 + Fraction(expected + past, longer)


def test_a_declared_length_holds_from_its_transaction_on():
    schedule = Schedule(1, 2, 4, "recompute", {3: 6, 5: 10})
    assert [schedule.temperature(t) for t in range(8)] == [
        1, Fraction(5, 4), Fraction(3, 2), Fraction(3, 2), 1 + Fraction(4, 6), Fraction(3, 2), 1 + Fraction(6, 10),
        1 + Fraction(7, 10),
    ]  # fmt: skip


@pytest.mark.parametrize(("transaction", "clamped", "rising"), [(3, "1.03", "1.03"), (150, "2", "2.5")])
def test_a_schedule_of_a_hundred_steps(transaction, clamped, rising):
    assert Schedule(1, 2, 100, "clamp", {}).temperature(transaction) == Fraction(clamped)
    assert Schedule(1, 2, 100, "continue_rising", {}).temperature(transaction) == Fraction(rising)


def test_a_falling_schedule_may_reach_zero_and_says_so():
    assert Schedule(1, Fraction(1, 2), 2, "continue_rising", {}).temperature(4) == 0


def test_several_query_rows_are_causal_and_add_up():
    """Equal logits: query q gives 1 / (q + 1) to each of its q + 1 rows, whatever the temperature."""
    found = keyformer.increments([[1], [1, 1], [1, 1, 1]], Fraction(7, 5), 3)
    assert found == pytest.approx([1 + 1 / 2 + 1 / 3, 1 / 2 + 1 / 3, 1 / 3])


def test_the_batch_and_query_sum_follows_no_exponential():
    sequences = [[DECODE], [decimals("1.5 2.5 0 0.4 0.7")]]
    total = keyformer.batch_and_query_sum(sequences, Fraction(3, 2), 5)
    rows = [keyformer.gumbel_softmax(row, Fraction(3, 2)) for [row] in sequences]
    assert total == tuple(a + b for a, b in zip(*rows, strict=True))
    for [row] in sequences:
        assert keyformer.pairs_with_exponential_odds(total, row, Fraction(3, 2)) == 0


def test_a_long_generation_keeps_its_scores_short():
    total = sum(keyformer.gumbel_softmax(decimals("0.1 0.2 0.3"), 1 + Fraction(t, 300))[0] for t in range(300))
    assert len(str(total.denominator)) < 70


def test_the_inputs_of_the_fixture_are_the_only_ones_of_one_decimal():
    """On the grid -4.0 to 4.0 the printed values leave one prompt (up to a common shift) with one decode step."""
    grid = np.round(np.arange(-40, 41) / 10, 1)
    found = set()
    for prompt in prompts_as_printed(grid):
        found |= {(prompt, step) for step in decode_steps_as_printed(grid, prompt)}
    assert found == {((0.7, 0.7, 0.0, 0.5, 0.6), (0.5, 0.6, 1.1))}


def prompts_as_printed(grid):
    """Logits of rows 0, 2, 3 and of 1 and 4 in either order, relative to row 3, that give the printed scores."""
    prompts = set()
    for y2 in grid[np.round(np.exp(-grid), 3) == 0.497]:
        y0, y1, y4 = np.meshgrid(grid, grid, grid, indexing="ij")
        scores = np.exp(np.stack([y0, y1, np.full_like(y0, y2), np.zeros_like(y0), y4]))
        scores = np.round(scores / scores.sum(axis=0), 4)
        hits = (scores[0] == 0.237) & (scores[2] == 0.237) & (scores[3] == 0.1177)
        for a, b, c in zip(y0[hits], y1[hits], y4[hits], strict=True):
            prompts.add(tuple(float(y) for y in (a, y2, 0, *sorted((b, c)))))
    return prompts


def decode_steps_as_printed(grid, prompt):
    """Logits of row 0 and of rows 4 and 5 in either order that give the printed steps, gaps, scores and odds."""
    old = np.exp(np.array(prompt))
    old0, old2, old3 = (old / old.sum())[:3]
    y0, y4, y5 = np.meshgrid(grid, grid, grid, indexing="ij")
    logits = np.stack([y0, np.full_like(y0, 0.1), np.full_like(y0, 1.5), y4, y5])

    def shares(temperature):
        powers = np.exp(logits / temperature)
        return powers / powers.sum(axis=0)

    step = shares(1.5)
    hits = (np.round(step[2], 4) == 0.3104) & (np.round(step[1], 4) == 0.1221)
    for temperature, gap in ((1, 0.2799), (1.5, 0.1884), (2, 0.1414)):
        other = shares(temperature)
        hits &= np.round(other[2] - other[1], 4) == gap
    total0, total2, total3 = old0 + step[0], old2 + step[1], old3 + step[2]
    hits &= (np.round(total3, 4) == 0.4281) & (np.round(total2, 4) == 0.359)
    hits &= np.round(total3 / total2, 3) == 1.192
    hits &= np.round(total3 / total2 / np.exp(1.4 / 1.5), 3) == 0.469
    hits &= np.round(total0 / total2 / np.exp((y0 - 0.1) / 1.5), 3) == 0.846
    return {tuple(float(y) for y in (a, *sorted((b, c)))) for a, b, c in zip(y0[hits], y4[hits], y5[hits], strict=True)}

"""DMC: the five-row trace by hand, and its recurrences against sums over the members of each segment."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvaudit.policies import dmc

ALPHA, OMEGA = (0, 1, 0, 1, 1), (1, 1, 2, 1, 1)
KEYS = ((1, 0), (3, 2), (5, 4), (7, 6), (9, 8))
VALUES = ((10, 0), (30, 20), (50, 40), (70, 60), (90, 80))

numbers = st.fractions(min_value=-100, max_value=100, max_denominator=50)
weights = st.fractions(min_value=Fraction(1, 100), max_value=10, max_denominator=100)
rows = st.tuples(st.integers(0, 1), weights, st.tuples(numbers, numbers), st.tuples(numbers, numbers))
traces = st.lists(rows, min_size=1, max_size=12).map(lambda trace: tuple(zip(*trace, strict=True)))


def members(alpha):
    """The row indices of each segment, oldest first: a second way to the spans."""
    found = []
    for index, decided in enumerate(alpha):
        if decided == 0 or not found:
            found.append([index])
        else:
            found[-1].append(index)
    return found


def weighted_mean(indices, omega, rows):
    mass = sum(omega[i] for i in indices)
    return tuple(Fraction(sum(omega[i] * rows[i][c] for i in indices)) / mass for c in range(len(rows[0])))


def test_the_five_row_trace():
    """0x0CC: [0, 1] with equal weights, [2, 4] with 2, 1, 1: (2 * 5 + 7 + 9) / 4 = 6.5."""
    first, second = dmc.segments(ALPHA, OMEGA, KEYS, VALUES)
    assert first == dmc.Segment(0, 1, Fraction(2), (2, 1), (20, 10))
    assert second == dmc.Segment(2, 4, Fraction(4), (Fraction(13, 2), Fraction(11, 2)), (65, 55))
    assert dmc.appended_rows(ALPHA) == 2
    assert dmc.compression_ratio(5, 2) == Fraction(5, 2)


@given(traces, st.integers(0, 1000))
def test_the_running_update_is_the_weighted_mean(trace, first):
    alpha, omega, keys, values = trace
    found = dmc.segments(alpha, omega, keys, values, first)
    groups = members(alpha)
    assert [(s.first - first, s.last - first) for s in found] == [(g[0], g[-1]) for g in groups]
    assert [s.mass for s in found] == [sum(omega[i] for i in g) for g in groups]
    assert [s.key for s in found] == [weighted_mean(g, omega, keys) for g in groups]
    assert [s.value for s in found] == [weighted_mean(g, omega, values) for g in groups]


@given(traces, weights)
def test_one_factor_on_all_weights_changes_masses_only(trace, factor):
    alpha, omega, keys, values = trace
    before = dmc.segments(alpha, omega, keys, values)
    after = dmc.segments(alpha, [factor * weight for weight in omega], keys, values)
    assert [(s.key, s.value) for s in after] == [(s.key, s.value) for s in before]
    assert [s.mass for s in after] == [factor * s.mass for s in before]


@given(traces)
def test_the_length_formula_undercounts_only_a_first_accumulation(trace):
    alpha = trace[0]
    stored = len(dmc.segments(*trace))
    assert dmc.appended_rows(alpha) == stored - alpha[0]


@given(traces)
def test_hard_training_states_end_in_the_inference_segments(trace):
    alpha, omega, keys, values = trace
    alpha = (0, *alpha[1:])
    states = dmc.relaxed_states(alpha, omega, keys, values)
    surviving = [state for state, share in zip(states, dmc.surviving_shares(alpha), strict=True) if share == 1]
    segments = dmc.segments(alpha, omega, keys, values)
    assert [(s.mass, s.key, s.value) for s in surviving] == [(s.mass, s.key, s.value) for s in segments]
    assert len(states) == len(alpha)


def test_a_relaxed_state_by_hand():
    """alpha 1/2: z = 1/2 * 1 + 3 = 7/2, k = (1/2 * 2 + 3 * 9) / (7/2) = 8."""
    states = dmc.relaxed_states((0, Fraction(1, 2)), (1, 3), ((2,), (9,)), ((0,), (7,)))
    assert states[1] == dmc.RelaxedState(Fraction(1, 2), Fraction(7, 2), (8,), (6,))


@pytest.mark.parametrize(("logit", "decided"), [(-1, 0), (Fraction(-1, 10**30), 0), (0, 1), (1, 1)])
def test_one_half_rounds_up(logit, decided):
    assert dmc.decision(logit) == decided
    assert (dmc.weight(logit) >= Fraction(1, 2)) == bool(decided)


@pytest.mark.parametrize(("logit", "decided"), [(0, 0), (5, 0), (Fraction("5.0078"), 0), (Fraction("5.00785"), 1)])
def test_the_pinned_code_appends_at_its_offset(logit, decided):
    assert dmc.pinned_decision(logit, 5) == decided


def test_a_pinned_weight_may_exceed_one():
    assert dmc.pinned_weight(0, 5) > 1
    assert float(dmc.pinned_weight(-5, 5)) == 0.5 + 2**-7


@given(traces, st.integers(1, 15))
def test_the_pinned_window_is_the_mean_of_the_newest_members(trace, window):
    alpha, omega, keys, values = trace
    found = dmc.pinned_segments(alpha, omega, keys, values, window)
    groups = [group[-window:] for group in members(alpha)]
    assert [s.key for s in found] == [weighted_mean(g, omega, keys) for g in groups]
    assert [s.mass for s in found] == [sum(omega[i] for i in g) for g in groups]
    assert [(s.first, s.last) for s in found] == [(g[0], g[-1]) for g in members(alpha)]


def test_a_segment_of_thirteen_rows_leaves_the_pinned_window():
    rows = [(row,) for row in range(13)]
    whole = dmc.segments([1] * 13, [1] * 13, rows, rows)
    newest = dmc.pinned_segments([1] * 13, [1] * 13, rows, rows, 12)
    assert whole[0].key == (6,)
    assert newest[0].key == (Fraction(13, 2),)


def test_zeroing_a_channel():
    assert dmc.without_channel((4, 5, 6), 0) == (0, 5, 6)
    assert dmc.without_channel((4, 5, 6), -1) == (4, 5, 0)


@pytest.mark.parametrize(
    ("appended", "decisions", "target", "loss"),
    [(10, 24, 2, 0), (12, 24, 2, 0), (10, 24, 4, Fraction(1, 6)), (24, 24, 4, Fraction(3, 4)), (0, 24, 4, 0)],
)
def test_the_loss_is_one_sided(appended, decisions, target, loss):
    assert dmc.compression_loss(appended, decisions, target) == loss


def test_ragged_bytes_by_hand():
    """Lengths 3, 1, 3, 3: ten rows of 8 bytes; padded 4 * 3; pages of two rows 2 + 1 + 2 + 2."""
    lengths = ((3, 1), (3, 3))
    assert dmc.payload_bytes(1, lengths, 8) == 80
    assert dmc.payload_bytes(2, lengths, 8) == 160
    assert dmc.padded_payload_bytes(1, lengths, 8) == 96
    assert dmc.pages_ceil(lengths, 2) == 7


@given(st.floats(-20, 20), st.floats(-5, 5), st.floats(-5, 5), st.floats(0.05, 5))
def test_gumbel_sigmoid_agrees_with_floats(logit, offset, noise, temperature):
    exact = dmc.gumbel_sigmoid(*map(Fraction, (logit, offset, noise, temperature)))
    argument = (logit - offset + noise) / temperature
    reference = 1 / (1 + math.exp(-argument)) if argument > -700 else 0.0
    assert float(exact) == pytest.approx(reference, rel=1e-9, abs=1e-39)

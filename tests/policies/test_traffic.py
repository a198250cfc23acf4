"""Peaks, updates and decode traffic: the numbers of 0x02F to 0x02I by hand, and closed forms against plain loops."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvaudit.policies import traffic

small = st.integers(0, 40)


def test_workspace_and_peaks_of_the_specification():
    assert traffic.topk_workspace_bytes(10, 4, 4) == 80
    assert traffic.transaction_peak_bytes(512, 545, 80, 0) == 1137
    assert traffic.transaction_peak_bytes(545, 545, 80, 0) == 1170


def test_every_term_of_a_peak_counts_once():
    assert traffic.transaction_peak_bytes(1, 10, 100, 1000) == 1111


def test_publication_and_both_amplifications_of_the_specification():
    assert traffic.publication_bytes(128, 160, 545) == 833
    assert traffic.amplification(160 + 160, 64) == 5
    assert traffic.amplification(833, 64) == Fraction("13.015625")


@pytest.mark.parametrize(
    ("head_map", "expected"),
    [
        ([0, 0, 1, 1], 20),  # two query heads a K/V head: (4 + 2 + 3 + 1) * 2
        ([0, 1], 10),  # multi-head attention: demand is storage
        ([0, 0, 0, 1], 24),  # uneven groups: (4 + 3) * 3 + (2 + 1) * 1
    ],
)
def test_query_expanded_rows(head_map, expected):
    assert traffic.query_expanded_rows([[[4, 2], [3, 1]]], head_map) == expected


@given(
    st.integers(1, 4).flatmap(
        lambda kv_heads: st.tuples(
            st.lists(
                st.lists(st.lists(small, min_size=kv_heads, max_size=kv_heads), min_size=1, max_size=3),
                min_size=1,
                max_size=3,
            ),
            st.lists(st.integers(0, kv_heads - 1), max_size=8),
        )
    )
)
def test_query_expanded_rows_is_every_query_head_reading_its_rows(case):
    rows, head_map = case
    reads = [
        (sequence, layer, kv_head, row)
        for sequence, layers in enumerate(rows)
        for layer, heads in enumerate(layers)
        for kv_head in head_map
        for row in range(heads[kv_head])
    ]
    assert traffic.query_expanded_rows(rows, head_map) == len(reads)


def test_the_trajectory_of_the_specification():
    assert traffic.cumulative_full_rows(32768, 512) == 16_908_032
    assert traffic.cumulative_bounded_rows(32768, 512, 4096) == 2_097_152
    assert traffic.steps_below_bound(32768, 512, 4096) == 0


@given(small, small, small)
def test_closed_forms_are_the_plain_loops(initial, steps, bound):
    prefixes = [initial + step for step in range(steps)]
    assert traffic.cumulative_full_rows(initial, steps) == sum(prefixes)
    assert traffic.cumulative_bounded_rows(initial, steps, bound) == sum(min(bound, prefix) for prefix in prefixes)
    assert traffic.steps_below_bound(initial, steps, bound) == sum(prefix < bound for prefix in prefixes)


def test_closed_forms_do_no_work_a_step():
    steps = 2**52
    assert traffic.cumulative_bounded_rows(1, steps, 4) == 1 + 2 + 3 + 4 * (steps - 3)

"""Packing against tables that are built row by row."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvaudit.policies import packing

ORIGIN, FRONTIER = 10, 12
owner_positions = st.lists(st.integers(ORIGIN, ORIGIN + FRONTIER - 1), unique=True, max_size=8)


@st.composite
def selections(draw):
    """Positions [L][H_kv] of up to three layers and three K/V heads, in any order, some owners empty."""
    layers, kv_heads = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    return [[draw(owner_positions) for _ in range(kv_heads)] for _ in range(layers)]


def rows_of(selected):
    """(layer, K/V head, position) of every packed row, by three plain loops."""
    rows = []
    for layer in range(len(selected)):
        for kv_head in range(len(selected[layer])):
            for position in selected[layer][kv_head]:
                rows.append((layer, kv_head, position))  # noqa: PERF401 - the plain form is the point
    return rows


@given(selections())
def test_gather_moves_each_source_row_to_its_packed_row(selected):
    """Each source row holds its own coordinates, so a wrong layer, head or position shows."""
    gathered = packing.gather(lambda layer, head, row: (layer, head, row), selected, ORIGIN)
    assert gathered == [(layer, head, position - ORIGIN) for layer, head, position in rows_of(selected)]
    assert packing.position_map(selected) == [position for _, _, position in rows_of(selected)]


@given(selections())
def test_offsets_are_monotone_and_cut_the_packed_rows_into_owners(selected):
    rows = rows_of(selected)
    owners = [(layer, head) for layer in range(len(selected)) for head in range(len(selected[0]))]
    flat = packing.flat_offsets(packing.lengths(selected))
    assert flat[0] == 0
    assert flat[-1] == len(rows)
    assert flat == sorted(flat)
    for owner, begin, end in zip(owners, flat, flat[1:], strict=False):
        assert [(layer, head) for layer, head, _ in rows[begin:end]] == [owner] * (end - begin)
        layer, head = owner
        assert [position for _, _, position in rows[begin:end]] == selected[layer][head]


@given(selections())
def test_the_three_offset_conventions_name_the_same_rows(selected):
    lengths = packing.lengths(selected)
    flat = packing.flat_offsets(lengths)
    by_layer = packing.global_offsets_per_layer(lengths)
    base, local = packing.layer_base_offsets(lengths)
    kv_heads = len(selected[0])
    for layer in range(len(selected)):
        for head in range(kv_heads + 1):
            row = flat[layer * kv_heads + head]
            assert by_layer[layer][head] == row
            assert base[layer] + local[layer][head] == row
        assert local[layer][0] == 0


@given(selections())
def test_owner_totals_are_kept(selected):
    lengths = packing.lengths(selected)
    assert sum(map(sum, lengths)) == len(rows_of(selected))
    assert [len(positions) for _, _, positions in packing.owners(selected)] == [n for heads in lengths for n in heads]


@given(st.sets(st.integers(ORIGIN, ORIGIN + FRONTIER - 1)))
def test_omitted_intervals_are_the_committed_positions_that_are_not_selected(selected):
    intervals = packing.omitted_intervals(sorted(selected, reverse=True), ORIGIN, FRONTIER)
    missing = [p for p in range(ORIGIN, ORIGIN + FRONTIER) if p not in selected]
    assert [p for begin, end in intervals for p in range(begin, end)] == missing
    assert all(begin < end for begin, end in intervals)
    assert all(intervals[i][1] < intervals[i + 1][0] for i in range(len(intervals) - 1))


def test_the_specifications_view():
    """The 2x2 owners of 0x01A with four rows each; packed row 1 of layer 1, K/V head 0 is position 3."""
    selected = [[[0, 2, 5, 7], [0, 1, 6, 7]], [[0, 3, 4, 7], [0, 2, 6, 7]]]
    lengths = packing.lengths(selected)
    assert packing.flat_offsets(lengths) == [0, 4, 8, 12, 16]
    assert packing.global_offsets_per_layer(lengths) == [[0, 4, 8], [8, 12, 16]]
    assert packing.layer_base_offsets(lengths) == ([0, 8], [[0, 4, 8], [0, 4, 8]])
    assert packing.position_map(selected)[8 + 1] == 3


@pytest.mark.parametrize(
    ("selected", "flat", "by_layer"),
    [
        ([[[]]], [0, 0], [[0, 0]]),
        ([[[4], []], [[], [1, 2]]], [0, 1, 1, 1, 3], [[0, 1, 1], [1, 1, 3]]),
    ],
)
def test_empty_owners_have_empty_slices(selected, flat, by_layer):
    lengths = packing.lengths(selected)
    assert packing.flat_offsets(lengths) == flat
    assert packing.global_offsets_per_layer(lengths) == by_layer

"""The vectorised packing packs the rows that the plain one packs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvaudit.policies import packing as plain
from kvaudit.selectors import packing

ORIGIN = 7


@st.composite
def sources(draw):
    """A source [L, H_kv, T, d_h] of distinct scalars, and a selection of its positions in any order."""
    shape = tuple(draw(st.integers(1, 4)) for _ in range(4))
    positions = st.permutations(range(ORIGIN, ORIGIN + shape[2]))
    selected = [[draw(positions)[: draw(st.integers(0, shape[2]))] for _ in range(shape[1])] for _ in range(shape[0])]
    return np.arange(np.prod(shape)).reshape(shape), selected


def arrays(selected):
    return [[np.array(positions, dtype=np.int64) for positions in heads] for heads in selected]


@given(sources())
def test_rows_offsets_and_positions_are_those_of_the_plain_packing(case):
    source, selected = case
    rows = packing.lengths(arrays(selected))
    assert rows.tolist() == plain.lengths(selected)
    assert packing.flat_offsets(rows).tolist() == plain.flat_offsets(plain.lengths(selected))
    assert packing.global_offsets_per_layer(rows).tolist() == plain.global_offsets_per_layer(plain.lengths(selected))
    assert packing.position_map(arrays(selected)).tolist() == plain.position_map(selected)
    gathered = plain.gather(lambda layer, head, row: source[layer, head, row].tolist(), selected, ORIGIN)
    assert packing.gather(source, arrays(selected), ORIGIN).tolist() == gathered


@given(st.integers(1, 3), st.integers(1, 3), st.integers(0, 9), st.randoms(use_true_random=False))
def test_a_mask_selects_its_true_columns(layers, kv_heads, columns, random):
    mask = [[[random.random() < 0.5 for _ in range(columns)] for _ in range(kv_heads)] for _ in range(layers)]
    expected = [[[ORIGIN + t for t, keep in enumerate(row) if keep] for row in heads] for heads in mask]
    found = packing.selection_of(np.array(mask, dtype=bool).reshape(layers, kv_heads, columns), ORIGIN)
    assert [[positions.tolist() for positions in heads] for heads in found] == expected


@pytest.mark.parametrize("position", [ORIGIN - 1, ORIGIN + 5])
def test_a_position_outside_the_source_is_refused(position):
    """A negative row would be read from the end of the cache: a row of another token, and no error."""
    with pytest.raises(ValueError, match=r"outside \[7, 12\)"):
        packing.gather(np.zeros((1, 1, 5, 2)), [[np.array([ORIGIN, position])]], ORIGIN)


@pytest.mark.parametrize("selected", [[[[0]]], [[[0], [0]]], [[[0], [0], [0]], [[0], [0], [0]]]])
def test_a_selection_of_other_owners_is_refused(selected):
    with pytest.raises(ValueError, match="the selection has the shape"):
        packing.gather(np.zeros((2, 2, 1, 1)), arrays(selected))


def test_a_real_models_cache_in_one_gather():
    """32 layers, 8 K/V heads, 4,096 positions; two scalars a row keep the array small. Each owner keeps other rows."""
    layers, kv_heads, positions = 32, 8, 4096
    source = np.arange(layers * kv_heads * positions * 2, dtype=np.int64).reshape(layers, kv_heads, positions, 2)
    selected = [
        [np.array([0, 1 + layer, 100 + head, positions - 1]) for head in range(kv_heads)] for layer in range(layers)
    ]
    packed = packing.gather(source, selected)
    offsets = packing.flat_offsets(packing.lengths(selected))
    assert packed.shape == (layers * kv_heads * 4, 2)
    assert packed.dtype == source.dtype
    for layer, head in ((0, 0), (17, 5), (31, 7)):
        owner = layer * kv_heads + head
        for row, position in enumerate(selected[layer][head].tolist()):
            assert packed[offsets[owner] + row].tolist() == source[layer, head, position].tolist()

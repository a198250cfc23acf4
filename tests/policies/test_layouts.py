"""Layout bytes against the toy of 0x02D, a real model's shape by hand, and rows that are really laid out."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvaudit.policies import layouts, packing
from kvaudit.policies.geometry import Geometry

TOY = Geometry(batch=1, layers=2, kv_heads=2, head_dimension=4, key_scalar_bytes=2, value_scalar_bytes=2)
TOY_POLICY = layouts.PolicyBytes(score_state=128, protected_bits=1, receipt=192)
LLAMA_8B = Geometry(batch=1, layers=32, kv_heads=8, head_dimension=128, key_scalar_bytes=2, value_scalar_bytes=2)

retained = st.integers(1, 3).flatmap(
    lambda kv_heads: st.integers(1, 3).flatmap(
        lambda layers: st.lists(
            st.lists(
                st.lists(st.integers(0, 6), min_size=kv_heads, max_size=kv_heads), min_size=layers, max_size=layers
            ),
            min_size=1,
            max_size=3,
        )
    )
)


def ragged(geometry, rows, policy=TOY_POLICY, convention=packing.GLOBAL_ROWS_PER_LAYER):
    return layouts.ragged(
        geometry, rows, policy, position_entry_bytes=4, offset_convention=convention, offset_entry_bytes=4
    )


def padded(geometry, slots, policy=TOY_POLICY):
    return layouts.padded(geometry, slots, policy, position_entry_bytes=4, validity_bits_per_slot=1)


def tombstone(geometry, positions, policy=TOY_POLICY):
    return layouts.tombstone(geometry, positions, policy, validity_bits_per_row=1)


@pytest.mark.parametrize(
    ("state", "slots", "terms", "total"),
    [
        (layouts.full(TOY, 8), 32, [512, 0, 0, 0, 0, 0, 0], 512),
        (ragged(TOY, 10), 10, [160, 40, 24, 0, 128, 1, 192], 545),
        (padded(TOY, 4), 16, [256, 64, 0, 2, 128, 1, 192], 643),
        (tombstone(TOY, 8), 32, [512, 0, 0, 4, 128, 1, 192], 837),
    ],
    ids=["full", "ragged", "padded", "tombstone"],
)
def test_the_toy_of_the_specification(state, slots, terms, total):
    assert state.row_slots == slots
    assert list(state.terms().values()) == terms
    assert state.total() == total
    assert state.metadata() == total - terms[0]


def test_a_real_models_shape_by_hand():
    """Llama-3.1-8B at 131,072 positions, 4,096 rows retained by each of 32 * 8 owners; no policy state at all."""
    nothing = layouts.PolicyBytes(score_state=0, protected_bits=0, receipt=0)
    assert layouts.full(LLAMA_8B, 131072).total() == 16 * 2**30
    compact = ragged(LLAMA_8B, 256 * 4096, nothing)
    assert compact.payload == 512 * 2**20
    assert compact.position_map == 4 * 2**20
    assert compact.offsets == 32 * 9 * 4
    assert tombstone(LLAMA_8B, 131072, nothing).validity == 4 * 2**20
    assert padded(LLAMA_8B, 4096, nothing).validity == 2**17


@given(retained)
def test_ragged_and_padded_bytes_are_those_of_the_rows_laid_out(rows):
    """Every owner's rows are packed or padded one by one, and what was written is counted."""
    batch, layers_, kv_heads = len(rows), len(rows[0]), len(rows[0][0])
    geometry = Geometry(batch, layers_, kv_heads, head_dimension=3, key_scalar_bytes=2, value_scalar_bytes=1)
    row = b"k" * 6 + b"v" * 3
    owners = [count for sequence in rows for heads in sequence for count in heads]
    packed = b"".join(row * count for count in owners)
    state = ragged(geometry, sum(owners))
    assert (state.payload, state.position_map) == (len(packed), len(packed) // len(row) * 4)
    slots = max(owners)
    filled = [[row] * count + [b"." * len(row)] * (slots - count) for count in owners]
    state = padded(geometry, slots)
    assert state.payload == sum(len(slot) for owner in filled for slot in owner)
    assert state.row_slots == sum(map(len, filled))


@given(retained)
def test_offset_entries_are_those_that_each_convention_writes(rows):
    geometry = Geometry(len(rows), len(rows[0]), len(rows[0][0]), 1, 1, 1)
    written = {packing.GLOBAL_ROWS_PER_LAYER: 0, packing.FLAT: 0, packing.LAYER_BASE_HEAD_LOCAL: 0}
    for sequence in rows:
        written[packing.GLOBAL_ROWS_PER_LAYER] += sum(map(len, packing.global_offsets_per_layer(sequence)))
        written[packing.FLAT] += len(packing.flat_offsets(sequence))
        base, local = packing.layer_base_offsets(sequence)
        written[packing.LAYER_BASE_HEAD_LOCAL] += len(base) + sum(map(len, local))
    assert written == {convention: layouts.offset_entries(convention, geometry) for convention in written}


@pytest.mark.parametrize(
    ("scope", "candidates"),
    [
        (layouts.EVERY_COMMITTED_POSITION, 32),
        (layouts.RETAINED_ROWS, 10),
        (layouts.RECALLABLE_ROWS, 14),
    ],
)
def test_score_candidates(scope, candidates):
    assert layouts.score_candidates(scope, committed_rows=32, retained_rows=10, recallable_rows=4) == candidates


def test_padding_efficiency_of_the_toy():
    assert layouts.padding_efficiency(10, 16) == Fraction(5, 8)


@given(st.integers(0, 200))
def test_a_bitmap_has_the_bytes_of_its_bits(bits):
    assert layouts.bitmap_bytes(bits) == len([bit for bit in range(bits) if bit % 8 == 0])


@given(st.sampled_from([1, 2, 4, 8]), st.integers(-(2**70), 2**70), st.integers(-(2**70), 2**70))
def test_an_entry_fits_if_python_can_write_it(entry_bytes, one, other):
    smallest, largest = min(one, other), max(one, other)
    assert layouts.integer_fits(entry_bytes, smallest, largest) == writable(entry_bytes, smallest, largest)


@pytest.mark.parametrize("largest", [127, 128, 255, 256, 65535, 65536])
@pytest.mark.parametrize("smallest", [-129, -128, -1, 0])
@pytest.mark.parametrize("entry_bytes", [1, 2])
def test_an_entry_at_its_limits(entry_bytes, smallest, largest):
    assert layouts.integer_fits(entry_bytes, smallest, largest) == writable(entry_bytes, smallest, largest)


def writable(entry_bytes, smallest, largest):
    try:
        for value in (smallest, largest):
            value.to_bytes(entry_bytes, "little", signed=smallest < 0)
    except OverflowError:
        return False
    return True

"""Summaries and memories: the ledgers by hand, and the two-tier memory against one position at a time."""

from hypothesis import given
from hypothesis import strategies as st

from kvaudit.policies import summaries


def test_summaries_grow_with_every_segment():
    assert [summaries.accumulated_vectors(segment, 50) for segment in (1, 2, 3)] == [0, 50, 100]
    assert [summaries.input_rows(segment, 50, 1000) for segment in (1, 2, 3)] == [1050, 1100, 1150]
    assert summaries.summary_payload_bytes(1, 100, 4096, 2) == 819_200


def test_equal_slots_are_not_equal_bytes():
    """Llama-3.1-8B: 32 layers, d_model 4096, 8 K/V heads of 128; 512 slots of two bytes."""
    assert summaries.raw_kv_bytes(32, 512, 8, 128, 2) == 64 * 2**20
    assert summaries.hidden_memory_bytes(32, 512, 4096, 2) == 128 * 2**20
    assert summaries.dual_activation_bytes(32, 384, 128, 4096, 2) == 128 * 2**20
    assert summaries.raw_kv_bytes(32, 512, 32, 128, 2) == 256 * 2**20  # multi-head


@given(st.integers(0, 60))
def test_causal_pairs_by_counting(rows):
    assert summaries.causal_pairs(rows) == sum(1 for query in range(rows) for key in range(rows) if key <= query)


@given(st.lists(st.integers(1, 12), min_size=1, max_size=6), st.integers(0, 10))
def test_the_recurrent_memory_keeps_the_newest_states(segments, memory):
    begin, end = summaries.transformer_xl_memory(segments, memory)
    positions = list(range(sum(segments)))
    assert list(range(begin, end)) == (positions[-memory:] if memory else [])


def slowly(segments, local_rows, compressed_rows, rate):
    """One position at a time, as lists."""
    local, slots, position = [], [], 0
    for tokens in segments:
        local += range(position, position + tokens)
        position += tokens
        leaving = local[: max(0, len(local) - local_rows)]
        local = local[len(leaving) :]
        while len(leaving) >= rate:
            slots.append(leaving[:rate])
            leaving = leaving[rate:]
        while len(slots) > compressed_rows:
            slots.pop(0)
    lost = set(range(position)) - set(local) - {each for slot in slots for each in slot}
    return local, slots, len(lost)


@given(st.lists(st.integers(1, 15), min_size=1, max_size=6), st.integers(0, 10), st.integers(0, 5), st.integers(1, 5))
def test_the_two_tier_memory_position_by_position(segments, local_rows, compressed_rows, rate):
    memory = summaries.compressive_memory_floor(segments, local_rows, compressed_rows, rate)
    local, slots, lost = slowly(segments, local_rows, compressed_rows, rate)
    assert list(range(*memory.local)) == local
    assert [list(range(*span)) for span in memory.compressed] == slots
    assert memory.lost_positions == lost


def test_a_segment_of_a_million_tokens_costs_no_more():
    memory = summaries.compressive_memory_floor([10**6], 512, 2, 3)
    assert memory.local == (10**6 - 512, 10**6)
    assert len(memory.compressed) == 2

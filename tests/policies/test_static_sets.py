"""Full cache, sliding window and StreamingLLM against queues filled token by token, and against the pinned code."""

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvaudit.policies import full_cache, prompt_handoff, sliding_window, streaming_llm
from kvaudit.policies.intervals import contains, difference, interval, size, union

frontiers = st.integers(0, 60)
widths = st.integers(1, 20)
sinks = st.integers(0, 12)


def positions(intervals):
    return [position for begin, end in intervals for position in range(begin, end)]


class Caches:
    """The three policies as queues of rows: what a runtime holds, with no formula in it."""

    def __init__(self, window_rows, sink_rows, recent_rows):
        self.full, self.window = [], deque(maxlen=window_rows)
        self.first, self.sink_rows, self.recent = [], sink_rows, deque(maxlen=recent_rows)

    def append(self, position):
        self.full.append(position)
        self.window.append(position)
        if len(self.first) < self.sink_rows:
            self.first.append(position)
        self.recent.append(position)

    def sink_recent(self):
        return sorted({*self.first, *self.recent})


@given(frontiers, widths, sinks, widths)
def test_views_are_those_of_queues_filled_token_by_token(frontier, window_rows, sink_rows, recent_rows):
    caches = Caches(window_rows, sink_rows, recent_rows)
    for position in range(frontier):
        caches.append(position)
    assert positions(full_cache.visible(frontier)) == caches.full
    assert positions(sliding_window.visible(frontier, window_rows)) == list(caches.window)
    assert positions(streaming_llm.visible(frontier, sink_rows, recent_rows)) == caches.sink_recent()


@given(frontiers, widths, sinks, widths)
def test_row_counts_and_overlap_are_those_of_the_sets(frontier, window_rows, sink_rows, recent_rows):
    caches = Caches(window_rows, sink_rows, recent_rows)
    for position in range(frontier):
        caches.append(position)
    assert full_cache.visible_rows(frontier) == len(caches.full)
    assert sliding_window.visible_rows(frontier, window_rows) == len(caches.window)
    assert streaming_llm.visible_rows(frontier, sink_rows, recent_rows) == len(caches.sink_recent())
    overlap = set(caches.first) & set(caches.recent)
    assert streaming_llm.overlap_rows(frontier, sink_rows, recent_rows) == len(overlap)


@given(st.lists(st.integers(1, 12), max_size=8), widths, sinks, widths)
def test_every_split_into_prompt_chunks_and_decode_steps_ends_in_one_view(chunks, window_rows, sink_rows, recent_rows):
    """Closure: a cache that is cut after each chunk ends where one ends that is cut once, or after each token."""
    window, retained, frontier = [], [], 0
    for rows in chunks:
        fresh = list(range(frontier, frontier + rows))
        frontier += rows
        window = (window + fresh)[-window_rows:]
        retained = [p for p in retained + fresh if p < sink_rows or p >= frontier - recent_rows]
    assert positions(sliding_window.visible(frontier, window_rows)) == window
    assert positions(streaming_llm.visible(frontier, sink_rows, recent_rows)) == retained


def test_the_specifications_table():
    """W = 3, K_s = 2, F = 0 to 8 (0x04 and 0x05)."""
    window = [[], [0], [0, 1], [0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 5], [4, 5, 6], [5, 6, 7]]
    assert [positions(sliding_window.visible(f, 3)) for f in range(9)] == window
    retained = [[], [0], [0, 1], [0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 3, 4], [0, 1, 3, 4, 5], [0, 1, 4, 5, 6]]
    assert [positions(streaming_llm.visible(f, 2, 3)) for f in range(8)] == retained
    assert positions(streaming_llm.visible(8, 2, 3)) == [0, 1, 5, 6, 7]
    assert [streaming_llm.overlap_rows(f, 2, 3) for f in range(9)] == [0, 1, 2, 2, 1, 0, 0, 0, 0]


def test_a_window_of_four_sees_four_keys():
    """Query 9 with W = 4 sees 6 to 9, not 5 to 9 (transformers issue 39408)."""
    assert positions(sliding_window.visible(10, 4)) == [6, 7, 8, 9]


def test_a_total_budget_contains_its_sinks():
    """Total 6, one sink: five recents. The rules that forget the sink agree at query 5 and part at query 6."""
    assert positions(streaming_llm.visible(6, 1, 5)) == [0, 1, 2, 3, 4, 5]
    assert positions(streaming_llm.visible(8, 1, 5)) == [0, 3, 4, 5, 6, 7]


@given(sinks, widths)
def test_landmarks_are_the_first_frontiers_that_have_the_property(sink_rows, recent_rows):
    views = {f: set(positions(streaming_llm.visible(f, sink_rows, recent_rows))) for f in range(40)}
    full = min(f for f, view in views.items() if len(view) == sink_rows + recent_rows)
    omission = min(f for f, view in views.items() if len(view) < f)
    assert streaming_llm.first_upper_bound(sink_rows, recent_rows) == full
    assert streaming_llm.first_middle_omission(sink_rows, recent_rows) == omission


@given(frontiers, widths)
def test_a_ring_holds_its_window_at_the_slots_of_the_positions(frontier, window_rows):
    ring = [None] * window_rows
    for position in range(frontier):
        ring[position % window_rows] = position
    view = positions(sliding_window.visible(frontier, window_rows))
    assert sorted(p for p in ring if p is not None) == view
    for position in view:
        assert ring[sliding_window.ring_slot(position, window_rows)] == position


def test_slot_zero_is_not_position_zero():
    assert sliding_window.ring_slot(6, 3) == 0


@given(frontiers, widths)
def test_recomputation_counts_the_causal_triangle(frontier, window_rows):
    rows = range(max(0, frontier - window_rows), frontier)
    assert sliding_window.recomputed_rows(frontier, window_rows) == len(rows)
    pairs = sum(key <= query for query in rows for key in rows)
    assert sliding_window.recomputed_pairs(frontier, window_rows) == pairs


def test_work_of_the_specifications_four_steps():
    assert sum(sliding_window.recomputed_pairs(f, 3) for f in (5, 6, 7, 8)) == 24
    assert sum(streaming_llm.retained_pairs(f, 2, 3) for f in (5, 6, 7, 8)) == 20


# Reservation. Rows are a Python list here, and the pinned code's two slices are taken from it.


def pinned_slices(rows, incoming, start_size, recent_size):
    if len(rows) + incoming <= start_size + recent_size:
        return rows
    return rows[0:start_size] + rows[len(rows) - recent_size + incoming : len(rows)]


@pytest.mark.parametrize(
    ("resident", "incoming", "kept"),
    [
        (12, 0, list(range(12))),
        (13, 0, [0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12]),
        (11, 1, list(range(11))),
        (12, 1, [0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11]),
        (12, 8, [0, 1, 2, 3]),
        (12, 9, [0, 1, 2, 3]),
    ],
)
def test_golden_vectors_of_the_pinned_code(resident, incoming, kept):
    """Observed at commit 2e5042606d69933d88fbf909bd77907456b9b4dd, start 4, recent 8; incoming 0 is `__call__`."""
    found, rows = streaming_llm.pinned_evict_for_space(resident, incoming, 4, 8)
    assert (positions(found), rows) == (kept, len(kept) + incoming)


@pytest.mark.parametrize(("incoming", "rows"), [(9, 13), (10, 14), (20, 24)])
def test_the_pinned_code_overruns_its_capacity_of_twelve(incoming, rows):
    """mit-han-lab/streaming-llm issue 78."""
    assert streaming_llm.pinned_evict_for_space(12, incoming, 4, 8)[1] == rows


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 8), widths)
def test_pinned_rows_are_those_of_its_slices(resident, incoming, start_size, recent_size):
    kept, rows = streaming_llm.pinned_evict_for_space(resident, incoming, start_size, recent_size)
    expected = pinned_slices(list(range(resident)), incoming, start_size, recent_size)
    assert (positions(kept), rows) == (expected, len(expected) + incoming)


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 8), widths, st.sampled_from(["chunk", "reject"]))
def test_a_reservation_leaves_what_appending_piece_by_piece_leaves(resident, incoming, sink_rows, recent_rows, path):
    capacity = sink_rows + recent_rows
    reservation = streaming_llm.reserve(resident, incoming, sink_rows, recent_rows, path)
    rows = list(range(resident))
    if resident + incoming <= capacity:
        assert reservation.decision == "fits"
        rows += range(resident, resident + incoming)
    elif incoming <= recent_rows:
        assert reservation.decision == "evict"
        rows = pinned_slices(rows, incoming, sink_rows, recent_rows)
        rows += range(resident, resident + incoming)
    elif path == "reject":
        assert reservation.decision == "reject"
    else:
        assert reservation.decision == "chunk"
        arriving = list(range(resident, resident + incoming))
        pieces = [arriving[begin : begin + recent_rows] for begin in range(0, incoming, recent_rows)]
        for piece in pieces:
            rows = pinned_slices(rows, len(piece), sink_rows, recent_rows) + piece
            assert len(rows) <= max(capacity, resident)
        assert streaming_llm.pieces(incoming, recent_rows) == (len(pieces), len(pieces[-1]))
    assert positions(reservation.kept) == [row for row in rows if row < resident]
    assert reservation.rows_after_append == len(rows)


@given(st.integers(0, 40), st.integers(1, 40), st.integers(0, 8), widths)
def test_a_reservation_ends_in_the_view_of_the_total_frontier(resident, incoming, sink_rows, recent_rows):
    """On a cache that still holds every row, an append through the reservation and the set formula agree."""
    resident = min(resident, sink_rows + recent_rows)
    reservation = streaming_llm.reserve(resident, incoming, sink_rows, recent_rows, "chunk")
    view = positions(streaming_llm.visible(resident + incoming, sink_rows, recent_rows))
    assert positions(reservation.kept) == [position for position in view if position < resident]
    assert reservation.rows_after_append == len(view)


def test_sequence_axes_of_the_pinned_code():
    axes = {"llama": (2, 2), "gpt_neox": (2, 2), "mpt": (3, 2), "falcon": (1, 1)}
    assert axes == streaming_llm.SEQUENCE_AXES


# Positions.


def test_absolute_and_repositioned_keys_of_one_view():
    """kvpress issue 158: the query stands 9 behind the first sink in one contract, and 4 in the other."""
    view = streaming_llm.visible(10, 2, 3)
    assert positions(view) == [0, 1, 7, 8, 9]
    assert positions(streaming_llm.key_positions(view, "post_rope_absolute")) == [0, 1, 7, 8, 9]
    assert streaming_llm.query_position(10, view, "post_rope_absolute") == 9
    assert positions(streaming_llm.key_positions(view, "pre_rope_repositioned")) == [0, 1, 2, 3, 4]
    assert streaming_llm.query_position(10, view, "pre_rope_repositioned") == 4


def test_an_absolute_query_counts_tokens_and_not_rows():
    """Twenty tokens seen, eight rows stored: the newest row stands at 19 (VeloxQuant-MLX issue 137)."""
    view = sliding_window.visible(20, 8)
    assert (size(view), streaming_llm.query_position(20, view, "post_rope_absolute")) == (8, 19)


@given(st.integers(1, 60), sinks, widths, st.sampled_from(list(streaming_llm.ATTENTION_PATHS)))
def test_the_query_stands_at_its_own_key_which_is_the_last(frontier, sink_rows, recent_rows, stage):
    view = streaming_llm.visible(frontier, sink_rows, recent_rows)
    keys = positions(streaming_llm.key_positions(view, stage))
    assert len(keys) == size(view)
    assert keys[-1] == max(keys) == streaming_llm.query_position(frontier, view, stage)


def test_off_by_one_leaves_mass_unassigned():
    assert streaming_llm.mass_at_equal_logits(4, "softmax") == 1
    assert float(streaming_llm.mass_at_equal_logits(4, "softmax_off_by_one")) == 0.8
    assert streaming_llm.mass_at_equal_logits(0, "softmax") is None


# Prompt hand-off.


@given(frontiers, widths)
def test_a_materialised_prompt_is_published_or_released(prompt_rows, window_rows):
    source, view = interval(0, prompt_rows), sliding_window.visible(prompt_rows, window_rows)
    release = prompt_handoff.release_intent("materialise_then_publish", source, view)
    assert sorted(positions(view) + positions(release)) == list(range(prompt_rows))
    assert prompt_handoff.release_intent("never_materialised", source, view) == ()


@given(frontiers, st.integers(1, 25), widths, sinks)
def test_the_prefill_peak_is_the_most_rows_held_at_once(prompt_rows, chunk_rows, recent_rows, sink_rows):
    materialised, bounded, held, peaks = [], [], {"all": [0], "bounded": [0]}, {}
    for begin in range(0, prompt_rows, chunk_rows):
        chunk = list(range(begin, min(begin + chunk_rows, prompt_rows)))
        materialised += chunk
        bounded += chunk
        held["all"].append(len(materialised))
        held["bounded"].append(len(bounded))
        bounded = [p for p in bounded if p < sink_rows or p > chunk[-1] - recent_rows]
    for design in prompt_handoff.DESIGNS:
        peaks[design] = prompt_handoff.peak_rows(
            design, prompt_rows, chunk_rows, lambda f: streaming_llm.visible_rows(f, sink_rows, recent_rows)
        )
    assert peaks["materialise_then_publish"] == max(held["all"])
    assert peaks["never_materialised"] == max(max(held["bounded"]), len(bounded))


# Intervals against sets.

pairs = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=6)


@given(pairs, pairs)
def test_interval_arithmetic_is_set_arithmetic(one, other):
    left = {p for begin, end in one for p in range(begin, end)}
    right = {p for begin, end in other for p in range(begin, end)}
    united, without = union(one, other), difference(union(one), union(other))
    assert positions(united) == sorted(left | right)
    assert positions(without) == sorted(left - right)
    for intervals in (united, without):
        assert size(intervals) == len(positions(intervals))
        assert all(begin < end for begin, end in intervals)
        assert all(intervals[i][1] < intervals[i + 1][0] for i in range(len(intervals) - 1))
    for position in range(-1, 32):
        assert contains(united, position) == (position in left | right)

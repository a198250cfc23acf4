"""The vectorised static views are those of policies/."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kvaudit.policies import full_cache, sliding_window, streaming_llm
from kvaudit.selectors import static

frontiers = st.integers(0, 60)
widths = st.integers(1, 20)
sinks = st.integers(0, 12)


def positions(intervals):
    return [position for begin, end in intervals for position in range(begin, end)]


@given(frontiers, widths, sinks, widths)
def test_positions_are_those_of_the_policies(frontier, window_rows, sink_rows, recent_rows):
    found = [
        static.full_positions(frontier),
        static.sliding_window_positions(frontier, window_rows),
        static.streaming_llm_positions(frontier, sink_rows, recent_rows),
    ]
    assert all(array.dtype == np.int64 for array in found)
    assert [array.tolist() for array in found] == [
        positions(full_cache.visible(frontier)),
        positions(sliding_window.visible(frontier, window_rows)),
        positions(streaming_llm.visible(frontier, sink_rows, recent_rows)),
    ]


@given(st.integers(0, 30), st.integers(1, 30), widths, sinks, widths)
def test_each_query_sees_the_view_after_its_own_row(first_query, queries, window_rows, sink_rows, recent_rows):
    """The queries are one chunk of a prefill, the keys all rows up to its end."""
    asked, keys = np.arange(first_query, first_query + queries), np.arange(first_query + queries)
    masks = {
        "full": static.full_mask(asked, keys),
        "window": static.sliding_window_mask(asked, keys, window_rows),
        "sinks": static.streaming_llm_mask(asked, keys, sink_rows, recent_rows),
    }
    for row, query in enumerate(asked.tolist()):
        seen = {name: keys[mask[row]].tolist() for name, mask in masks.items()}
        assert seen == {
            "full": positions(full_cache.visible(query + 1)),
            "window": positions(sliding_window.visible(query + 1, window_rows)),
            "sinks": positions(streaming_llm.visible(query + 1, sink_rows, recent_rows)),
        }


def test_a_real_models_view():
    """131,072 positions, a window of 4,096, four sinks."""
    frontier = 131_072
    assert static.full_positions(frontier).size == frontier
    window = static.sliding_window_positions(frontier, 4096)
    assert (window[0], window[-1], window.size) == (126_976, 131_071, 4096)
    retained = static.streaming_llm_positions(frontier, 4, 4092)
    assert retained[:5].tolist() == [0, 1, 2, 3, 126_980]
    assert retained.size == 4096

"""Three execution layouts by hand, and against counting slots one by one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvaudit.policies import ragged_execution
from kvaudit.policies.ragged_execution import execution


@pytest.mark.parametrize(
    ("layout", "slots", "launches"),
    [("native_ragged", 24, 3), ("padded_to_longest", 28, 3), ("grouped_by_length", 24, 5)],
)
def test_by_hand(layout, slots, launches):
    found = execution(layout, [[4, 6], [5, 3], [3, 3]])
    assert (found.row_slots, found.launches) == (slots, launches)


def test_one_long_head_takes_most_of_the_saving_back():
    """Four heads of 5, 17, 33 and 1 rows: 56 rows, 132 slots when padded."""
    assert execution("native_ragged", [[5, 17, 33, 1]]).row_slots == 56
    assert execution("padded_to_longest", [[5, 17, 33, 1]]).row_slots == 132
    assert execution("grouped_by_length", [[5, 17, 33, 1]]).launches == 4


@given(st.lists(st.lists(st.integers(0, 9), min_size=3, max_size=3), min_size=1, max_size=5))
def test_slot_by_slot(lengths):
    padded = sum(1 for heads in lengths for _ in heads for _ in range(sorted(heads)[-1]))
    assert execution("padded_to_longest", lengths).row_slots == padded
    rows = sum(1 for heads in lengths for rows in heads for _ in range(rows))
    assert {execution(layout, lengths).row_slots for layout in ragged_execution.LAYOUTS} == {rows, padded}
    assert execution("grouped_by_length", lengths).launches == len(
        {(layer, rows) for layer, heads in enumerate(lengths) for rows in heads}
    )

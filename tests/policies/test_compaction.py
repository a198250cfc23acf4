"""When a policy compacts and what it costs, against hand-computed numbers and plain loops."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvaudit.policies import compaction
from kvaudit.policies.allocator import Allocator, OutOfRows


def test_the_peak_and_the_ratios_of_the_specification():
    assert compaction.peak_bytes(6144, 4096, 1024, 2048, 512) == 13824
    assert compaction.amplification(8192, 1024) == 8
    assert compaction.amplification(8192, 0) is None
    assert compaction.churn((0, 9, 18, 33, 47, 62), (0, 18, 47, 63)) == Fraction(4, 7)
    assert compaction.churn((), ()) is None
    assert compaction.churn((1, 2), (1, 2)) == 0
    assert compaction.churn((1, 2), (3,)) == 1


@given(st.sets(st.integers(0, 9)), st.sets(st.integers(0, 9)))
def test_churn_is_the_share_of_positions_in_one_view_only(one, other):
    changed = [position for position in range(10) if (position in one) != (position in other)]
    union = [position for position in range(10) if position in one or position in other]
    assert compaction.churn(one, other) == (Fraction(len(changed), len(union)) if union else None)


@pytest.mark.parametrize(
    ("scope", "units"),
    [
        ("per_layer_kv_head", [((0, 0), 3), ((0, 1), 1), ((1, 0), 2), ((1, 1), 2)]),
        ("per_layer", [((0,), 4), ((1,), 4)]),
        ("global", [((), 8)]),
    ],
)
def test_the_units_of_a_budget(scope, units):
    assert compaction.unit_rows([[3, 1], [2, 2]], scope) == units


@pytest.mark.parametrize(("rows", "due"), [(5, False), (6, False), (7, True)])
def test_a_periodic_policy_compacts_past_its_trigger(rows, due):
    assert compaction.compacts("periodic", [[rows, 1]], "per_layer_kv_head", 6) is due
    assert compaction.compacts("every_decode_step", [[rows]], "per_layer_kv_head", None)


@given(st.integers(1, 8), st.integers(0, 8))
def test_a_cycle_is_what_a_simulated_owner_copies(maximum, slack):
    trigger = maximum + slack
    rows, accepted, copied = maximum, 0, 0
    while True:
        rows, accepted = rows + 1, accepted + 1
        if rows > trigger:
            copied += maximum
            break
        copied += 1
    assert compaction.cycle("periodic", maximum, trigger) == (accepted, copied)
    assert compaction.cycle("every_decode_step", maximum, trigger) == (1, maximum)


def test_only_strategies_with_scores_observe():
    assert [compaction.observes(cadence, True) for cadence in compaction.CADENCES] == [True, True, False, False]
    assert not compaction.observes("periodic", compacting=False)


def test_shared_blocks_are_freed_with_their_last_mapping():
    allocator = Allocator(10)
    block = allocator.take(6)
    allocator.share(block)
    copy = allocator.fork()
    with pytest.raises(OutOfRows):
        allocator.take(5)
    assert (allocator.drop(block), allocator.live_rows) == (0, 6)
    assert (allocator.drop(block), allocator.live_rows) == (6, 0)
    assert allocator.take(10) == 1  # numbers are never used again
    assert copy.live_rows == 6

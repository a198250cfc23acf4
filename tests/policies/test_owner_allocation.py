"""Layers, then heads: the teaching budgets by hand, every composition conserves, and a second pass over fewer rows."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvaudit.policies import owner_allocation
from kvaudit.policies.owner_allocation import Rules, allocate


def rules(layer_method="pyramidkv", head_method="adakv", **edits):
    parameters = {
        "per_kv_head": False,
        "floor": 1,
        "cap": 6,
        "pyramid_beta": 2,
        "sensitivities": [6, 4, 2],
        "minimum_layer_rows": 1,
        "alpha": Fraction("0.75"),
        "importances": [Fraction(part, 20) for part in (1, 7, 5, 2, 4, 1)],
        "headkv_beta": 2,
    }
    return Rules(layer_method=layer_method, head_method=head_method, **{**parameters, **edits})


SCORES = [
    [[30, 5, 10, 25, 8, 4], [20, 18, 16, 7, 22, 3]],
    [[28, 12, 20, 5, 16, 2], [9, 16, 8, 35, 6, 1]],
    [[40, 10, 6, 30, 5, 4], [8, 25, 12, 10, 9, 5]],
]
PREFIX = [[range(6)] * 2] * 3


@pytest.mark.parametrize(
    ("layer_method", "head_method", "layers", "owners"),
    [
        ("pyramidkv", "adakv", (6, 4, 2), ((2, 4), (3, 1), (1, 1))),
        ("zigzagkv", "adakv", (6, 4, 2), ((2, 4), (3, 1), (1, 1))),
        ("pyramidkv", "uniform", (6, 4, 2), ((3, 3), (2, 2), (1, 1))),
        ("uniform", "uniform", (4, 4, 4), ((2, 2),) * 3),
        ("all_owners", "headkv", None, ((1, 3), (3, 2), (2, 1))),
    ],
)
def test_by_hand(layer_method, head_method, layers, owners):
    found = allocate(rules(layer_method, head_method), SCORES, PREFIX, 12)
    assert (found.layers, found.owners) == (layers, owners)
    assert found.pools == tuple(map(sum, owners))


def test_a_capacity_of_each_head_is_not_a_total_of_the_layer():
    found = allocate(rules(head_method="uniform", per_kv_head=True), SCORES, PREFIX, 12)
    assert (found.layers, found.pools) == ((6, 4, 2), (12, 8, 4))
    assert found.owners == ((6, 6), (4, 4), (2, 2))


def test_a_second_pass_over_the_rows_that_are_left():
    """Nine rows: targets 4.5, 3, 1.5; layer 2 is lifted to its floor of two, and caps are what is still there."""
    retained = [[[0, 3], [0, 1, 2, 4]], [[0, 2, 4], [3]], [[0], [1]]]
    found = allocate(rules(), SCORES, retained, 9)
    assert (found.layers, found.owners) == ((4, 3, 2), ((2, 2), (2, 1), (1, 1)))
    assert found.caps == ((2, 4), (3, 1), (1, 1))
    with pytest.raises(ValueError, match=r"caps hold 12 rows"):
        allocate(rules(), SCORES, retained, 13)
    with pytest.raises(ValueError, match=r"floors need 6 rows"):
        allocate(rules(), SCORES, retained, 5)


def test_a_capacity_of_each_head_leaves_room_for_uneven_floors():
    """Owners with one and three rows have floors of 1 and 2: the layer needs a capacity of two, not of one and a half.

    With beta 1/2 the bottom layer has a target of zero, so that only the floor holds it up.
    """
    rule = rules(head_method="uniform", per_kv_head=True, floor=2, pyramid_beta=Fraction(1, 2))
    found = allocate(rule, SCORES[:2], [[[0], [0, 1, 2]], [range(6)] * 2], 6)
    assert (found.layers, found.owners) == ((2, 4), ((1, 3), (4, 4)))


@given(
    st.sampled_from(["pyramidkv", "zigzagkv", "uniform", "all_owners"]),
    st.sampled_from(["adakv", "uniform"]),
    st.booleans(),
    st.integers(0, 36),
    st.data(),
)
def test_every_composition_conserves(layer_method, head_method, per_kv_head, total, data):
    rule = rules(
        layer_method,
        "headkv" if layer_method == "all_owners" else head_method,
        per_kv_head=per_kv_head,
        floor=data.draw(st.integers(0, 2)),
        minimum_layer_rows=0,
    )
    rows = [st.lists(st.integers(0, 3), min_size=6, max_size=6)] * 6
    scores = owner_allocation.by_layer([data.draw(row) for row in rows], 2)
    pool = 2 * total if per_kv_head else total
    if not 6 * rule.floor <= pool <= 36:
        with pytest.raises(ValueError, match=r"rows"):
            allocate(rule, scores, PREFIX, total)
        return
    found = allocate(rule, scores, PREFIX, total)
    assert sum(found.pools) == sum(owner_allocation.flat(found.owners)) == pool
    assert all(rule.floor <= budget <= 6 for budget in owner_allocation.flat(found.owners))

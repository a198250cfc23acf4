"""The store: packing, appending, keeping, and the bytes of its tensors."""

import pytest
import torch

from kvaudit.measure import store


def rows(heads, count, channels=2):
    return torch.arange(heads * count * channels, dtype=torch.float32).reshape(heads, count, channels)


KEPT = torch.tensor([[True, False, True, True], [False, False, True, False]])


def ragged():
    keys = rows(2, 4)
    scores = torch.arange(8, dtype=torch.float64).reshape(2, 4)
    marks = torch.arange(24).reshape(3, 2, 4)
    return keys, store.packed(keys, -keys, KEPT, 2, scores, marks)


def test_packed_rows_are_the_kept_ones_in_order():
    keys, packed = ragged()
    assert packed.lengths == [3, 1]
    assert packed.positions[0, :3].tolist() == [0, 2, 3]
    assert packed.positions[1, :1].tolist() == [2]
    assert torch.equal(packed.keys[0, :3], keys[0, [0, 2, 3]])
    assert torch.equal(packed.values[1, :1], -keys[1, [2]])
    assert packed.scores[0, :3].tolist() == [0, 2, 3]
    assert packed.marks[2, 1, 0].item() == 22
    assert packed.visible().tolist() == [[True, True, True], [True, False, False]]


def test_an_append_goes_behind_each_head():
    _, packed = ragged()
    store.append(packed, torch.full((2, 1, 2), 7.0), torch.full((2, 1, 2), 8.0), 4)
    assert packed.lengths == [4, 2]
    assert packed.positions[0, :4].tolist() == [0, 2, 3, 4]
    assert packed.positions[1, :2].tolist() == [2, 4]
    assert packed.keys[1, 1].tolist() == [7, 7]
    assert packed.values[0, 3].tolist() == [8, 8]
    assert packed.scores[1, 1] == 0
    assert packed.marks[:, 1, 1].tolist() == [0, 0, 0]


def test_an_append_without_room_is_refused():
    _, packed = ragged()
    with pytest.raises(ValueError, match="no room"):
        store.append(packed, torch.zeros(2, 3, 2), torch.zeros(2, 3, 2), 4)


def test_keep_moves_everything_by_one_list():
    keys = rows(2, 4)
    everything = torch.ones(2, 4, dtype=torch.bool)
    scores, marks = keys[..., 0].clone(), keys[None, ..., 1].clone()
    packed = store.packed(keys, -keys, everything, 0, scores, marks)
    store.keep(packed, torch.tensor([[0, 3], [1, 2]]))
    assert packed.lengths == [2, 2]
    assert packed.positions[:, :2].tolist() == [[0, 3], [1, 2]]
    assert torch.equal(packed.keys[1, :2], keys[1, 1:3])
    assert torch.equal(packed.values[0, :2], -keys[0, [0, 3]])
    assert torch.equal(packed.scores[:, :2], packed.keys[:, :2, 0])
    assert torch.equal(packed.marks[0, :, :2], packed.keys[:, :2, 1])


def test_a_clone_shares_nothing():
    _, packed = ragged()
    copy, before = store.clone(packed), packed.keys.clone()
    store.append(copy, torch.ones(2, 1, 2), torch.ones(2, 1, 2), 4)
    assert packed.lengths == [3, 1]
    assert packed.positions[0, 3] == 0
    assert torch.equal(packed.keys, before)


def test_bytes_by_hand():
    """Four rows of 2 channels in float32, K and V: 64 B. Room for 2 * 5 rows, of which 6 are padding."""
    _, packed = ragged()
    size = store.measured_bytes([packed])
    assert size.payload == 4 * 2 * 2 * 4
    assert size.position_map == 4 * 4
    assert size.scores == 4 * (8 + 3 * 8)
    assert size.padding == 6 * (2 * 2 * 4 + 4 + 8 + 3 * 8)
    assert size.resident == 10 * (16 + 4 + 32)

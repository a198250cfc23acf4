"""The torch merge gives the rows, distances and exceptions of `policies.minicache`."""

from fractions import Fraction

import pytest
import torch

from kvaudit.measure import attention, merging, policies, run
from kvaudit.policies import minicache
from tests.measure import tiny


def exact(rows):
    return [[Fraction(channel.item()) for channel in row] for row in rows]


@pytest.mark.parametrize("rho", [Fraction(0), Fraction(1, 2), Fraction(7, 10)])
def test_restored_rows(rho):
    torch.manual_seed(1)
    low, high = torch.randn(1, 12, 4, dtype=torch.float64), torch.randn(1, 12, 4, dtype=torch.float64)
    high[0, 3] = 2 * low[0, 3]
    how = minicache.Interpolation(rho, Fraction(1, 10**6), Fraction(1, 10**6))
    merged = minicache.merge(exact(low[0]), exact(high[0]), how)
    found_low, found_high, distances = merging.restored(low, high, float(rho))
    for place, row in enumerate(merged):
        expected_low, expected_high = minicache.restore(row)
        assert found_low[0, place].tolist() == pytest.approx([float(each) for each in expected_low], abs=1e-9)
        assert found_high[0, place].tolist() == pytest.approx([float(each) for each in expected_high], abs=1e-9)
        assert distances[0, place].item() == pytest.approx(float(row.distance), abs=1e-9)


def test_rows_without_a_shared_direction_have_no_distance():
    low = torch.tensor([[[1.0, 0.0], [0.0, 0.0]]], dtype=torch.float64)
    _, _, distances = merging.restored(low, torch.tensor([[[-2.0, 0.0], [1.0, 0.0]]], dtype=torch.float64), 0.5)
    assert distances.isnan().all()


@pytest.mark.parametrize("distance", ["0.4", "0"])
def test_exceptions_and_bytes(distance):
    """One exception set for K and V; bytes are the ledger of the definition over pairs and heads, and single layers."""
    layers, rows = 5, 20
    checkpoint = tiny.checkpoint(torch.float64, layers=layers, query_heads=4, kv_heads=2, head_dimension=4)
    prompt = attention.prefill(checkpoint.model, tiny.token_ids(rows), 0)
    policy = policies.policy_by_name("minicache")
    parameters = policies.resolved(policy, {"start_layer": "1", "distance": distance})
    handoff = run.hand_off(checkpoint, prompt, run.Setting(policy, parameters, None), 4)
    how = minicache.Interpolation(Fraction(1, 2), Fraction(1, 10**6), Fraction(1, 10**6))
    widths = minicache.Widths(4, 8, 4, 4, 4)
    total = 2 * rows * 2 * 4 * 8  # the bottom layer stays on its own: 2 heads, K and V of 4 channels of 8 B
    for low, high in ((1, 2), (3, 4)):
        for head in range(2):
            parts = [
                minicache.merge(exact(source[low][head]), exact(source[high][head]), how)
                for source in (prompt.keys, prompt.values)
            ]
            retained = minicache.exceptions(*parts, Fraction(distance))
            total += minicache.pair_ledger(rows, len(retained), widths).merged()
            for place in retained:
                assert torch.equal(handoff.keys[low][head, place], prompt.keys[low][head, place])
                assert torch.equal(handoff.values[high][head, place], prompt.values[high][head, place])
            merged = sorted(set(range(rows)).difference(retained))
            if merged:
                assert not torch.equal(handoff.keys[low][head, merged], prompt.keys[low][head, merged])
    assert handoff.represented_bytes == total
    assert torch.equal(handoff.keys[0], prompt.keys[0])

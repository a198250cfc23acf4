"""Spherical codes in torch: the keys of `selectors.spherical`, and the allocation within its budget."""

from fractions import Fraction

import numpy as np
import pytest
import torch

from kvaudit.measure import attention, cache, coding, outcomes, policies, run
from kvaudit.measure.selection import Budget
from kvaudit.policies.spherical import FLOAT16, key_row_bits, uniform
from kvaudit.selectors import spherical
from tests.measure import tiny

PROMPT = 48


def handed_off(name, dtype=torch.float64, rows=24, **stated):
    checkpoint = tiny.checkpoint(dtype, layers=2, query_heads=4, kv_heads=2, head_dimension=8)
    policy = policies.policy_by_name(name)
    prompt = attention.prefill(checkpoint.model, tiny.token_ids(PROMPT), PROMPT)
    parameters = policies.resolved(policy, {key: str(value) for key, value in stated.items()})
    budget = Budget(Fraction(rows), "rows", "kv_head") if policy.takes_budget else None
    setting = run.Setting(policy, parameters, budget)
    return checkpoint, prompt, run.hand_off(checkpoint, prompt, setting, 4)


@pytest.mark.parametrize("widths", [(4, 4), (6, 6), (3, 2), (8, 1)])
def test_decoded_keys(widths):
    generator = np.random.default_rng(2)
    keys = generator.normal(size=(50, 16))
    keys[0] = 0
    keys[1] = 1  # every angle lies on a cell edge
    keys[2, ::2] = 0
    keys[3] = -0.0
    keys[4, 1::2] = -0.0
    tree = uniform(16, *widths)
    expected = spherical.decode(spherical.encode(keys, tree, FLOAT16))
    found = coding.recoded(torch.from_numpy(keys)[None], tree)[0].numpy()
    assert np.abs(found - expected).max() < 1e-12


@pytest.mark.parametrize("radius", [1e6, 1e-6])
def test_a_radius_outside_its_format_ends_the_run(radius):
    with pytest.raises(outcomes.Stopped, match="float16"):
        coding.recoded(torch.full((1, 1, 4), radius), uniform(4, 4, 4))


def test_every_row_is_coded_those_of_generated_tokens_too():
    checkpoint, prompt, handoff = handed_off("spherical", leaf_width=3, upper_width=2)
    tree = uniform(8, 3, 2)
    store = run.compacted(prompt, handoff, 4)
    for token in tiny.token_ids(4):
        cache.decode(checkpoint.model, token, store)
    for rows in store.stores:
        assert rows.lengths == [PROMPT + 4] * 2
        assert torch.allclose(coding.recoded(rows.keys[:, : rows.rows], tree), rows.keys[:, : rows.rows], atol=1e-2)
    for layer in range(2):
        assert torch.equal(handoff.keys[layer], coding.recoded(prompt.keys[layer], tree))
        assert handoff.values[layer] is prompt.values[layer]


def test_bytes_of_codes_by_hand():
    """Pages of 8 tokens, 6 of them an owner: 4 * 3 + 3 * 2 + 16 = 34 bits a key, 34 B and a header of 6 B, no rest."""
    _, _, handoff = handed_off(
        "spherical", leaf_width=3, upper_width=2, page_tokens=8, header_bytes=6, alignment_bytes=8
    )
    assert handoff.facts["key_row_bits"] == 34
    assert handoff.represented_bytes == 2 * 2 * (6 * 40 + PROMPT * 8 * 8)


def test_tiers_fit_the_bytes_of_the_budget():
    safe = {"window_rows": 4, "sink_rows": 2, "page_tokens": 8}
    found = []
    for rows in (12, 18, 24, 36, 47):
        _, prompt, handoff = handed_off("spherical_rdr", rows=rows, **safe)
        budget_bytes = rows * 4 * 2 * 8 * 8
        assert handoff.facts["budget_bytes"] == budget_bytes
        assert handoff.represented_bytes <= budget_bytes
        assert sum(handoff.facts["tier_rows"]) + handoff.facts["dropped_rows"] == 4 * PROMPT
        assert int(handoff.kept.sum()) == sum(handoff.facts["tier_rows"])
        assert handoff.kept[:, :, :2].all()
        assert handoff.kept[:, :, -4:].all()
        for layer in range(2):
            assert torch.equal(handoff.keys[layer][:, -4:], prompt.keys[layer][:, -4:])
        found.append(handoff.facts["dropped_rows"])
    assert found == sorted(found, reverse=True)
    assert found[0] > 0


def test_a_tier_is_the_code_of_its_widths():
    _, prompt, handoff = handed_off("spherical_rdr", rows=30, window_rows=4, sink_rows=2, page_tokens=8)
    for layer in range(2):
        forms = torch.stack(
            [prompt.keys[layer], *(coding.recoded(prompt.keys[layer], uniform(8, *widths)) for widths in coding.TIERS)]
        )
        matches = (forms == handoff.keys[layer]).all(dim=-1)  # [tiers, H, T]
        assert matches[:, handoff.kept[layer]].any(dim=0).all()


def test_tiers_fall_in_bits():
    bits = [key_row_bits(uniform(64, *widths), FLOAT16) for widths in coding.TIERS]
    assert bits == sorted(bits, reverse=True)


def test_a_budget_below_the_protected_rows_is_refused():
    with pytest.raises(outcomes.Stopped, match="protected"):
        handed_off("spherical_rdr", rows=6, window_rows=32)

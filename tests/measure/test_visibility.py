"""What a policy computes is the model's own attention under a mask of the rows that it left visible.

The model's eager path is given the whole text with a mask by hand: prompt queries see what is before them, decode
queries what the policy left them. Masks cannot differ between layers there, so policies whose layers differ run on one.
"""

from fractions import Fraction

import pytest
import torch

from kvaudit.measure import attention, cache, policies, run
from kvaudit.measure.selection import Budget
from tests.measure import tiny

PROMPT, STEPS, ROWS, GROUP, KV_HEADS = 40, 8, 16, 2, 3


def checkpoint_and_own(layers):
    shape = {"layers": layers, "query_heads": GROUP * KV_HEADS, "kv_heads": KV_HEADS}
    own = tiny.model(**shape)
    own.set_attn_implementation("eager")
    return tiny.checkpoint(**shape), own


def decoded(checkpoint, name, ids):
    policy = policies.policy_by_name(name)
    known = {parameter.name for parameter in policy.parameters}
    stated = {key: value for key, value in {"window_rows": "5", "threshold": "0.6"}.items() if key in known}
    budget = Budget(Fraction(ROWS), "rows", "kv_head") if policy.takes_budget else None
    setting = run.Setting(policy, policies.resolved(policy, stated), budget)
    prompt = attention.prefill(checkpoint.model, ids[:PROMPT], PROMPT)
    handoff = run.hand_off(checkpoint, prompt, setting, STEPS)
    store = run.compacted(prompt, handoff, STEPS)
    store.views = []
    return torch.stack([cache.decode(checkpoint.model, token, store) for token in ids[PROMPT:]]), store.views


@pytest.mark.parametrize(
    ("name", "layers"),
    [
        ("window", 3),
        ("streaming", 3),
        *((name, 1) for name in ("h2o", "scissorhands", "keyformer", "snapkv", "zigzagkv", "adakv", "fastgen")),
    ],
)
def test_logits_are_those_of_the_masked_model(name, layers):
    checkpoint, own = checkpoint_and_own(layers)
    ids = tiny.token_ids(PROMPT + STEPS)
    found, views = decoded(checkpoint, name, ids)
    total = PROMPT + STEPS
    visible = torch.tril(torch.ones(total, total, dtype=torch.bool)).expand(KV_HEADS, -1, -1).clone()
    for step, by_layer in enumerate(views):
        for head in range(KV_HEADS):
            seen = [position for position in by_layer[0][head].tolist() if position >= 0]
            visible[head, PROMPT + step] = False
            visible[head, PROMPT + step, seen] = True
            assert len(seen) == len(set(seen))
    assert visible[:, PROMPT:].sum() < sum(range(PROMPT + 1, total + 1)) * KV_HEADS
    mask = torch.zeros(1, KV_HEADS * GROUP, total, total).masked_fill_(
        ~visible.repeat_interleave(GROUP, dim=0)[None], torch.finfo(torch.float32).min
    )
    with torch.inference_mode():
        expected = own(torch.tensor([ids]), attention_mask=mask, use_cache=False).logits[0, PROMPT:]
    assert (found - expected).abs().max() < 1e-4


def test_repositioned_rows_are_a_shorter_text():
    """In one layer a row depends on its token alone, so the packed rows are the text of the kept tokens."""
    checkpoint, own = checkpoint_and_own(1)
    ids = tiny.token_ids(PROMPT + STEPS)
    found, _ = decoded(checkpoint, "streaming_repositioned", ids)
    for step in range(STEPS):
        end = PROMPT + step + 1
        with torch.inference_mode():
            expected = own(torch.tensor([[*ids[:4], *ids[end - (ROWS - 4) : end]]]), use_cache=False).logits[0, -1]
        assert (found[step] - expected).abs().max() < 1e-4


def test_repositioned_and_absolute_rows_differ():
    checkpoint, _ = checkpoint_and_own(1)
    ids = tiny.token_ids(PROMPT + STEPS)
    one, other = (decoded(checkpoint, name, ids)[0] for name in ("streaming", "streaming_repositioned"))
    assert (one - other).abs().max() > 1e-2

"""The taken-over attention is the model's own: prefill and decode give the logits of the eager path."""

import pytest
import torch

from kvaudit.measure import attention, cache, policies, run
from tests.measure import tiny


def own_logits(model, ids, path):
    """The model's own attention. Its eager path takes the softmax in float32 whatever the weights are."""
    model.set_attn_implementation(path)
    with torch.inference_mode():
        return model(torch.tensor([ids]), use_cache=False).logits[0]


def decoded(checkpoint, ids, prompt_rows, policy="full"):
    setting = run.Setting(policies.policy_by_name(policy), {}, None)
    prompt = attention.prefill(checkpoint.model, ids[:prompt_rows], 0)
    handoff = run.hand_off(checkpoint, prompt, setting, 8)
    store = run.compacted(prompt, handoff, len(ids) - prompt_rows)
    return torch.stack([prompt.logits, *(cache.decode(checkpoint.model, token, store) for token in ids[prompt_rows:])])


@pytest.mark.parametrize(
    ("dtype", "path", "tolerance"), [(torch.float32, "eager", 1e-4), (torch.float64, "sdpa", 1e-10)]
)
@pytest.mark.parametrize("prompt_rows", [1, 37, 300])
def test_prefill_and_decode_give_the_logits_of_the_model(dtype, path, tolerance, prompt_rows):
    ids = tiny.token_ids(prompt_rows + 12)
    expected = own_logits(tiny.model(dtype), ids, path)[prompt_rows - 1 :]
    found = decoded(tiny.checkpoint(dtype), ids, prompt_rows)
    assert (found - expected).abs().max() < tolerance

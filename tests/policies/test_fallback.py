"""The work of a recomputation, counted one token, layer and pair at a time."""

from hypothesis import given
from hypothesis import strategies as st

from kvaudit.policies import fallback

few = st.integers(1, 5)


@given(few, few, few, few)
def test_recomputation_runs_every_token_through_every_layer(sequences, positions, layers, query_heads):
    passes = [(s, t, l) for s in range(sequences) for t in range(positions) for l in range(layers)]  # noqa: E741
    pairs = [(one, head, key) for one in passes for head in range(query_heads) for key in range(one[1] + 1)]
    assert fallback.recomputed_token_layers(sequences, positions, layers) == len(passes)
    assert fallback.recomputed_causal_pairs(sequences, positions, layers, query_heads) == len(pairs)


def test_the_four_modes():
    """0x02J: who declares acceptance, serves work, moves rows and holds local capacity."""
    assert fallback.OWNERS == {
        "irrecoverable": "policy",
        "recomputable": "scheduler",
        "recallable": "recall",
        "full_cache_fallback": "allocator",
    }

"""LCKV: its maps by hand, the cycle as a search finds it, and the iteration claim on two other models."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvaudit.policies import lckv

TEACHING = (0, 5, 5, 5, 5, 5)


@st.composite
def legal_maps(draw):
    layers = draw(st.integers(1, 7))
    produced = draw(st.sets(st.integers(0, layers - 1), min_size=1))
    others = st.sampled_from(sorted(produced))
    return tuple(layer if layer in produced else draw(others) for layer in range(layers))


def test_the_six_layer_graph():
    assert lckv.producers(TEACHING) == (0, 5)
    assert lckv.first_illegal_consumer(TEACHING) is None
    assert lckv.reads_from_above(TEACHING) == (False, True, True, True, True, False)
    assert lckv.prompt_iterations(7, 2) == 9


@pytest.mark.parametrize(
    ("consumer_map", "illegal"), [((0, 2, 5, 5, 5, 5), 1), ((0, 6, 5, 5, 5, 5), 1), ((1, 0), 0), ((0,), None)]
)
def test_a_consumer_reads_a_producer(consumer_map, illegal):
    assert lckv.first_illegal_consumer(consumer_map) == illegal


@pytest.mark.parametrize(
    ("layers", "warmup", "expected"),
    [
        (6, 0, (5, 5, 5, 5, 5, 5)),
        (6, 2, (0, 4, 4, 4, 4, 5)),
        (6, 4, (0, 1, 3, 3, 4, 5)),
        (22, 2, (0, *[20] * 20, 21)),  # layer_types 0_20*20_21 of configs/tinyllama_lckv.json at dd21716
    ],
)
def test_sandwich_maps(layers, warmup, expected):
    assert lckv.sandwich_map(layers, warmup) == expected


@pytest.mark.parametrize(("layers", "warmup"), [(6, 1), (6, 6), (6, 8), (6, -2), (1, 2)])
def test_a_sandwich_needs_an_even_count_and_a_middle(layers, warmup):
    with pytest.raises(ValueError, match="warm-up"):
        lckv.sandwich_map(layers, warmup)


def waits_for_itself(consumer_map, masked):
    """Search the graph of one token: hidden state l needs hidden l - 1, and the K/V that it reads of its own token.

    K/V of layer p is projected from hidden state p - 1.
    """
    needs = {}
    for layer, source in enumerate(consumer_map):
        needs[layer] = {layer - 1} | (set() if masked[layer] else {source - 1})
    reached = set()

    def visit(layer, trail):
        if layer in trail:
            return True
        return any(visit(below, {*trail, layer}) for below in needs.get(layer, ()))

    return any(visit(layer, reached) for layer in needs)


@given(legal_maps())
def test_the_mask_breaks_every_cycle_and_is_needed(consumer_map):
    above = lckv.reads_from_above(consumer_map)
    assert not waits_for_itself(consumer_map, above)
    for layer, needed in enumerate(above):
        opened = [masked and other != layer for other, masked in enumerate(above)]
        assert waits_for_itself(consumer_map, opened) == needed
        assert (lckv.cycle(consumer_map, layer) is not None) == needed


def test_the_cycle_by_hand():
    assert lckv.cycle(TEACHING, 3) == (3, 4, 5, 3)
    assert lckv.cycle(TEACHING, 5) is None


def test_visible_tokens():
    """The first token of a condensed layer sees none, the third sees two (LCKV issue 16)."""
    assert [lckv.visible_tokens(TEACHING, 1, token) for token in range(3)] == [0, 1, 2]
    assert [lckv.visible_tokens(TEACHING, 0, token) for token in range(3)] == [1, 2, 3]
    assert [lckv.visible_tokens((0, 0, 2), 1, token) for token in range(3)] == [1, 2, 3]  # from below: no cycle
    assert [lckv.pinned_decode_visible_tokens(token) for token in range(4)] == [0, 0, 1, 2]


@given(legal_maps(), st.lists(st.integers(0, 10**6), min_size=1, max_size=7))
def test_token_i_is_exact_by_iteration_i(consumer_map, inputs):
    first = lckv.first_exact_iterations(consumer_map, inputs)
    assert all(found is not None and found <= token + 1 for token, found in enumerate(first))
    if not any(lckv.reads_from_above(consumer_map)):
        assert set(first) == {1}  # an ordinary graph is exact in one pass


def test_no_token_of_the_teaching_graph_is_exact_sooner():
    assert lckv.first_exact_iterations(TEACHING, [3, 1, 4, 1, 5, 9, 2]) == (1, 2, 3, 4, 5, 6, 7)


def softmax_attention(query, keys, values):
    if not len(keys):
        return np.zeros_like(query)  # a zero K/V adds nothing
    logits = keys @ query / np.sqrt(query.size)
    weights = np.exp(logits - logits.max())
    return weights @ values / weights.sum()


class Model:
    """A float LCKV with softmax attention, a residual stream and a nonlinearity; d = 8, one head."""

    def __init__(self, consumer_map, seed):
        noise = np.random.default_rng(seed)
        self.map = consumer_map
        self.query, self.key, self.value, self.out = noise.normal(0, 0.6, (4, len(consumer_map), 8, 8))

    def layer(self, layer, hidden, keys, values):
        return hidden + np.tanh(
            self.out[layer] @ (hidden + softmax_attention(self.query[layer] @ hidden, keys, values))
        )

    def sequential(self, tokens):
        keys, values = [[] for _ in self.map], [[] for _ in self.map]
        states = np.empty((len(self.map), *tokens.shape))
        for token, hidden in enumerate(tokens):
            for layer, source in enumerate(self.map):
                if source == layer:
                    keys[layer].append(self.key[layer] @ hidden)
                    values[layer].append(self.value[layer] @ hidden)
                upto = token if source > layer else token + 1
                hidden = self.layer(layer, hidden, np.array(keys[source][:upto]), np.array(values[source][:upto]))
                states[layer, token] = hidden
        return states

    def iterate(self, tokens, iterations):
        keys = values = np.zeros((len(self.map), *tokens.shape))
        for _ in range(iterations):
            new_keys, new_values = np.zeros_like(keys), np.zeros_like(values)
            states, hidden = np.empty((len(self.map), *tokens.shape)), tokens
            for layer, source in enumerate(self.map):
                if source == layer:
                    new_keys[layer] = hidden @ self.key[layer].T
                    new_values[layer] = hidden @ self.value[layer].T
                above = source > layer
                read = (keys, values) if above else (new_keys, new_values)
                hidden = np.array(
                    [
                        self.layer(
                            layer,
                            state,
                            read[0][source][: token + (not above)],
                            read[1][source][: token + (not above)],
                        )
                        for token, state in enumerate(hidden)
                    ]
                )
                states[layer] = hidden
            keys, values = new_keys, new_values
        return states


@pytest.mark.parametrize("consumer_map", [TEACHING, (0, 4, 4, 4, 4, 5), (3, 3, 3, 3), (0, 2, 2, 2, 0)])
def test_the_claim_holds_with_softmax_in_floating_point(consumer_map):
    model = Model(consumer_map, seed=1)
    tokens = np.random.default_rng(2).normal(size=(7, 8))
    sequential = model.sequential(tokens)
    for iterations in range(1, 8):
        found = model.iterate(tokens, iterations)
        exact = np.abs(found - sequential).max(axis=(0, 2)) < 1e-12
        assert exact[:iterations].all()
        assert not exact[iterations:].any()  # every later token reads K/V of a pass that was too early


def test_the_shifted_mask_of_the_pinned_decode_is_another_model():
    """Hiding the previous token at decode changes the state of every token but the first."""
    model = Model(TEACHING, seed=3)
    tokens = np.random.default_rng(4).normal(size=(5, 8))
    expected = model.sequential(tokens)

    def shifted(layer, hidden, keys, values):
        if TEACHING[layer] > layer:
            keys = np.vstack([np.zeros((1, 8)), keys[:-1]]) if len(keys) else keys
            values = np.vstack([np.zeros((1, 8)), values[:-1]]) if len(values) else values
        return Model.layer(model, layer, hidden, keys, values)

    model.layer = shifted
    found = model.sequential(tokens)
    differs = np.abs(found - expected).max(axis=(0, 2)) > 1e-6
    assert differs.tolist() == [False, True, True, True, True]

"""Layer-Condensed KV Cache: few layers produce K/V and all others read theirs (specification 0x0DA to 0x0DC).

`consumer_map[l]` is the layer whose K/V the queries of layer l read; a producer is a layer that reads itself. A layer
that reads from above would need, for its own token, K/V that does not exist before the token has passed that layer. So
its attention diagonal is masked: token t reads the tokens before t, the first token a zero K/V that adds nothing.

Source: arXiv 2405.10637. Pinned code: whyNLP/LCKV at dd21716b9295fb4dbe4af51ec3352a936b2b7df8, models/modeling_lckv.py,
models/cache_utils.py, configs/tinyllama_lckv.json (layer_types, forward_passes 7, backward_passes 2).
"""

from collections.abc import Sequence

# The toy graph computes in the integers modulo this prime: exact, bounded, and every wrong input changes the result.
_PRIME = 2**61 - 1

States = list[list[int]]


def producers(consumer_map: Sequence[int]) -> tuple[int, ...]:
    """Return the layers that read their own K/V, ascending: those whose rows the cache stores."""
    return tuple(layer for layer, source in enumerate(consumer_map) if source == layer)


def first_illegal_consumer(consumer_map: Sequence[int]) -> int | None:
    """Return the first layer that reads a layer outside the graph or one that produces nothing, None if none does."""
    produced = set(producers(consumer_map))
    return next((layer for layer, source in enumerate(consumer_map) if source not in produced), None)


def sandwich_map(layers: int, warmup_layers: int) -> tuple[int, ...]:
    """Return the sandwich of the pinned README: w/2 bottom and w/2 top layers read themselves.

    The layers between them read the topmost of them, as 0_20x20_21 does for 22 layers and w = 2. Raises `ValueError`
    unless w is even and leaves a layer between.
    """
    half, odd = divmod(warmup_layers, 2)
    if odd or not 0 <= warmup_layers < layers:
        raise ValueError(f"expected an even number of warm-up layers below {layers}, found {warmup_layers}")
    top = layers - half
    return (*range(half), *([top - 1] * (top - half)), *range(top, layers))


def reads_from_above(consumer_map: Sequence[int]) -> tuple[bool, ...]:
    """Return, layer by layer, whether it reads K/V of a higher layer: exactly then its diagonal must be masked."""
    return tuple(source > layer for layer, source in enumerate(consumer_map))


def cycle(consumer_map: Sequence[int], layer: int) -> tuple[int, ...] | None:
    """Return the layers that wait for each other if the diagonal of `layer` is not masked, None if none do.

    The layer waits for the K/V of its source at the same token, and that waits for every layer between.
    """
    source = consumer_map[layer]
    return (*range(layer, source + 1), layer) if source > layer else None


def visible_tokens(consumer_map: Sequence[int], layer: int, token: int) -> int:
    """Return how many tokens, from the first, a layer reads at `token`: itself included only on an open diagonal."""
    return token if consumer_map[layer] > layer else token + 1


def pinned_decode_visible_tokens(token: int) -> int:
    """Return how many tokens a layer that reads from above sees when the pinned code decodes `token`.

    The zero K/V is put in front while the mask hides the last column, so the previous token is hidden and the zero
    K/V is seen at every step.
    """
    return max(0, token - 1)


def prompt_iterations(forward_only: int, backward: int) -> int:
    """Return m + b, the iterations with which a prompt is encoded before ordinary decoding."""
    return forward_only + backward


def sequential_states(consumer_map: Sequence[int], inputs: Sequence[int]) -> States:
    """Return the hidden state after each layer, shape [L][n], of a toy model that runs token by token.

    `inputs` holds the embedding of each token. K/V of a producer at a token is the input of that layer there.
    """
    layers = len(consumer_map)
    keys: States = [[] for _ in range(layers)]
    states: States = [[] for _ in range(layers)]
    for token, embedding in enumerate(inputs):
        hidden = embedding
        for layer, source in enumerate(consumer_map):
            if source == layer:
                keys[layer].append(hidden)
            hidden = _layer(layer, hidden, keys[source][: visible_tokens(consumer_map, layer, token)])
            states[layer].append(hidden)
    return states


def next_iteration(consumer_map: Sequence[int], inputs: Sequence[int], previous: States) -> tuple[States, States]:
    """Return (states [L][n], K/V [L][n]) of one pass over all tokens at once.

    A layer that reads from above reads the K/V of the previous pass, every other one that of this pass. The K/V of a
    layer that produces none is an empty list.
    """
    keys: States = [[] for _ in consumer_map]
    states: States = []
    hidden = list(inputs)
    for layer, source in enumerate(consumer_map):
        if source == layer:
            keys[layer] = hidden
        read = previous[source] if source > layer else keys[source]
        hidden = [
            _layer(layer, state, read[: visible_tokens(consumer_map, layer, token)])
            for token, state in enumerate(hidden)
        ]
        states.append(hidden)
    return states, keys


def first_exact_iterations(consumer_map: Sequence[int], inputs: Sequence[int]) -> tuple[int | None, ...]:
    """Return, token by token, the first of n iterations from which all its states are those of the sequential model.

    Iterations count from 1 and start from zero K/V. Token i, counted from 1, is exact by iteration i: all that it reads
    from the pass before belongs to tokens before it. None stands for a token that n iterations leave inexact.
    """
    expected = list(zip(*sequential_states(consumer_map, inputs), strict=True))
    first: list[int | None] = [None] * len(inputs)
    keys: States = [[0] * len(inputs) for _ in consumer_map]
    for iteration in range(1, len(inputs) + 1):
        states, keys = next_iteration(consumer_map, inputs, keys)
        for token, found in enumerate(zip(*states, strict=True)):
            if found != expected[token]:
                first[token] = None
            elif first[token] is None:
                first[token] = iteration
    return tuple(first)


def _layer(layer: int, hidden: int, keys: Sequence[int]) -> int:
    """Return the next hidden state: a residual stream and a sum over the keys read that depends on the query too."""
    attended = sum((token + 1) * (hidden + key) * key for token, key in enumerate(keys))
    return ((layer + 2) * hidden + attended + 1) % _PRIME

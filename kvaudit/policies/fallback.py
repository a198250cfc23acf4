"""What it takes to live without an omitted row, or to get it back (specification 0x02J).

Each omitted row has one of four modes. A mode is a reservation and a service, never a label: it needs something, that
something belongs to a subsystem, and using it costs capacity and work. None of these bytes is policy state.
"""

IRRECOVERABLE = "irrecoverable"
RECOMPUTABLE = "recomputable"
RECALLABLE = "recallable"
FULL_CACHE = "full_cache_fallback"

# Who supplies what a mode needs: the policy the quality contract, the scheduler the extra model work, the recall path
# rows of another tier, the allocator the room for a full cache.
OWNERS = {
    IRRECOVERABLE: "policy",
    RECOMPUTABLE: "scheduler",
    RECALLABLE: "recall",
    FULL_CACHE: "allocator",
}
MODES = tuple(OWNERS)


def recomputed_token_layers(sequences: int, positions: int, layers: int) -> int:
    """Return the token-layer passes that rebuild omitted rows: every token of the prefix through every layer.

    A K/V row of layer l depends on all earlier tokens in all earlier layers. The row counts do not say which positions
    are missing, so the whole prefix is charged; that is an upper bound.
    """
    return sequences * positions * layers


def recomputed_causal_pairs(sequences: int, positions: int, layers: int, query_heads: int) -> int:
    """Return the query-key pairs of that rebuild: T (T + 1) / 2 a sequence, layer and query head, itself included."""
    return sequences * layers * query_heads * (positions * (positions + 1) // 2)

"""Query heads to K/V heads: multi-head (equal counts), multi-query (one K/V head) and grouped-query attention."""


def contiguous_gqa(query_heads: int, kv_heads: int) -> tuple[int, ...]:
    """Return the map of contiguous grouping, query head q to K/V head q // (H_q / H_kv).

    The arithmetic holds for this grouping only; a checkpoint with another one carries an explicit map.
    Raises `ValueError` if the query heads do not divide evenly over the K/V heads.
    Source: arXiv 2305.13245, section 2.2.
    """
    if query_heads % kv_heads:
        raise ValueError(f"{query_heads} query heads do not divide over {kv_heads} K/V heads")
    group_size = query_heads // kv_heads
    return tuple(query_head // group_size for query_head in range(query_heads))

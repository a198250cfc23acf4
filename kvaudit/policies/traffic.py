"""What is alive during an update, what an update moves, and what decoding reads (specification 0x02F to 0x02I).

All bytes are logical: they follow from a declared algorithm, here a rebuild, which scans every candidate's score, reads
the selected rows and writes the whole successor. What a kernel or a cache hierarchy really moves is measured elsewhere.
"""

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction


def topk_workspace_bytes(rows: int, score_entry_bytes: int, index_entry_bytes: int) -> int:
    """Return M_topk: a score and an index for each row that the selector may emit."""
    return rows * (score_entry_bytes + index_entry_bytes)


def transaction_peak_bytes(live: int, unpublished: int, topk: int, backend: int) -> int:
    """Return M_peak = M_old live + M_new unpublished + M_topk + M_backend.

    The old state stays readable until the successor is published, so both are alive at once.
    """
    return live + unpublished + topk + backend


def publication_bytes(score_scan: int, selected_read: int, persistent_write: int) -> int:
    """Return T_publish = T_score scan + T_selected read + T_persistent write."""
    return score_scan + selected_read + persistent_write


def amplification(moved_bytes: int, new_token_bytes: int) -> Fraction:
    """Return moved bytes per byte of newly admitted K/V. `new_token_bytes` is positive."""
    return Fraction(moved_bytes, new_token_bytes)


def query_expanded_rows(rows: Sequence[Sequence[Sequence[int]]], q_to_kv_head_map: Sequence[int]) -> int:
    """Return the row reads of one query step if every query head reads its own rows.

    `rows[b][l][h]` is the number of rows of an owner. A K/V head counts once for each query head that maps to it. This
    is demand: the rows are stored once.
    """
    consumers = Counter(q_to_kv_head_map)
    return sum(count * consumers[kv_head] for layers in rows for heads in layers for kv_head, count in enumerate(heads))


def cumulative_full_rows(initial_rows: int, steps: int) -> int:
    """Return the sum over g = 0 .. G-1 of T_0 + g, which is G T_0 + G (G - 1) / 2: row-time instances an owner."""
    return steps * initial_rows + steps * (steps - 1) // 2


def steps_below_bound(initial_rows: int, steps: int, bound: int) -> int:
    """Return how many of the steps g = 0 .. G-1 have a prefix T_0 + g that is shorter than the bound."""
    return min(steps, max(0, bound - initial_rows))


def cumulative_bounded_rows(initial_rows: int, steps: int, bound: int) -> int:
    """Return the sum over g = 0 .. G-1 of min(bound, T_0 + g): the whole prefix while it is shorter than the bound."""
    short = steps_below_bound(initial_rows, steps, bound)
    return cumulative_full_rows(initial_rows, short) + (steps - short) * bound

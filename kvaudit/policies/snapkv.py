"""SnapKV: one selection at the end of the prompt, by the attention of an observation window (specification 0x07).

The last W prompt queries attend to the whole prompt; what each prefix position receives is its vote. Votes are pooled
over neighbouring positions, the best prefix positions are kept with their original K and V rows, and the whole window
is appended. Decode appends; nothing is selected again.

    vote[j] = sum over i of A[i][j], j < L = T - W     pooled = Pool1D(vote)     kept = TopK(pooled, C - W) ++ [L, T)

Sources: arXiv 2404.14469, section 4; FasterDecoding/SnapKV at e216ddc84c5bd210378cbdbbba12ba02102aa640,
snapkv/monkeypatch/snapkv_utils.py, `SnapKVCluster.update_kv`. Where several query heads share one K/V head the paper
says nothing; the owner contracts below are the choices that implementations have made.
"""

from collections.abc import Sequence
from fractions import Fraction
from math import floor

from kvaudit.policies import attention
from kvaudit.policies.attention import Number

FULL_CACHE = "full_cache"
SELECTION = "selection"

# Who owns a selection when several query heads read one K/V head.
MEAN = "mean"  # a K/V head, by the mean vote of its query heads
MAXIMUM = "max"  # a K/V head, by the largest vote among its query heads
NONE = "none"  # each query head for itself, as after `repeat_kv` in the pinned code
OWNER_CONTRACTS = (MEAN, MAXIMUM, NONE)

AVERAGE_PADDING_COUNTED = "average_padding_counted"
AVERAGE_IN_RANGE = "average_in_range"
MAX_POOLING = "maximum"
NO_POOLING = "none"
POOLINGS = (AVERAGE_PADDING_COUNTED, AVERAGE_IN_RANGE, MAX_POOLING, NO_POOLING)


def branch(prompt_rows: int, capacity_rows: int) -> str:
    """Return `full_cache` for a prompt shorter than the capacity, before any budget is formed, else `selection`.

    The comparison is strict, as in the pinned code: a prompt of exactly `capacity_rows` rows is selected from, keeps
    every row, and has its prefix in score order afterwards.
    """
    return FULL_CACHE if prompt_rows < capacity_rows else SELECTION


def selected_rows_of_capacity(capacity_rows: int, window_rows: int) -> int:
    """Return K = C - W, the prefix rows that are kept beside the observation window (pinned code)."""
    return capacity_rows - window_rows


def selected_rows_floor_of_removed_share(removed_share: Number, prefix_rows: int) -> int:
    """Return K = floor((1 - p) L), where p is the share of prefix rows that is removed (specification 0x07A).

    The share is exact: p = 0.9 of 100 rows keeps 10, where binary64 makes 9.999... of it and the floor 9.
    """
    return floor((1 - removed_share) * prefix_rows)


def selected_rows_floor_of_kept_share(kept_share: Number, prefix_rows: int) -> int:
    """Return K = floor(p L), where p is the share of prefix rows that is kept (as copies of the paper print it)."""
    return floor(kept_share * prefix_rows)


def observation_attention(logits: Sequence[Sequence[Number]]) -> list[tuple[Fraction, ...]]:
    """Return the causal attention of the window, one row for each query, over the keys that the query may see.

    `logits` has one row for each window query, of the visible keys only: row i has L + i + 1 entries. The softmax is
    over all of them, window keys included; normalised over the prefix alone, a query that looks at the window would
    vote as loudly as one that looks at the prefix.
    """
    return [attention.softmax(row) for row in logits]


def prefix_votes(window_attention: Sequence[Sequence[Number]], prefix_rows: int) -> list[Fraction]:
    """Return vote[j], shape [L]: the attention that the window queries together give to prefix position j.

    `window_attention` has one row for each window query, of at least L entries; later ones are discarded.
    """
    votes = [Fraction(0)] * prefix_rows
    for row in window_attention:
        for position in range(prefix_rows):
            votes[position] += row[position]
    return votes


def owner_votes(
    votes: Sequence[Sequence[Fraction]], q_to_kv_head_map: Sequence[int], kv_heads: int, contract: str
) -> list[list[Fraction]]:
    """Return one row of L votes for each owner, from one for each query head (specification 0x07D).

    The reduction comes before pooling. `mean` and `max` give K/V heads, each of which some query head reads; `none`
    gives the query heads unchanged.
    """
    if contract == NONE:
        return [list(row) for row in votes]
    groups: list[list[Sequence[Fraction]]] = [[] for _ in range(kv_heads)]
    for query_head, kv_head in enumerate(q_to_kv_head_map):
        groups[kv_head].append(votes[query_head])
    if contract == MAXIMUM:
        return [[max(column) for column in zip(*group, strict=True)] for group in groups]
    return [[sum(column, Fraction(0)) / len(group) for column in zip(*group, strict=True)] for group in groups]


def kv_head_of_owner(owner: int, q_to_kv_head_map: Sequence[int], contract: str) -> int:
    """Return the K/V head whose rows an owner keeps."""
    return q_to_kv_head_map[owner] if contract == NONE else owner


def pooled(votes: Sequence[Fraction], pooling: str, kernel_rows: int) -> list[Fraction]:
    """Return the votes after pooling with stride one, shape [L]: neighbours share credit, no K or V row is merged.

    A cell is position j with (r - 1) / 2 neighbours on each side. Out of range, `average_padding_counted` adds zeros
    and divides by r all the same (the default of `avg_pool1d`, and so the pinned code), `average_in_range` divides by
    the cells that exist, and `maximum` looks at those only (`max_pool1d` pads with minus infinity).
    Raises `ValueError` for an even kernel: with padding r // 2 it returns L + 1 cells, each half a cell to the right.
    """
    if kernel_rows % 2 == 0:
        raise ValueError(f"a pooling kernel has an odd number of rows, not {kernel_rows}")
    if pooling == NO_POOLING:
        return list(votes)
    reach = kernel_rows // 2
    cells = [votes[max(0, position - reach) : position + reach + 1] for position in range(len(votes))]
    if pooling == MAX_POOLING:
        return [max(cell) for cell in cells]
    if pooling == AVERAGE_IN_RANGE:
        return [sum(cell, Fraction(0)) / len(cell) for cell in cells]
    return [sum(cell, Fraction(0)) / kernel_rows for cell in cells]


def selected_prefix(scores: Sequence[Fraction], selected_rows: int) -> tuple[int, ...]:
    """Return the K prefix positions with the best pooled scores, best first, equal scores by lowest position.

    `torch.topk` in the pinned code leaves the order of equal scores open; the rule here is one of those it allows.
    """
    return attention.top_k(scores, selected_rows)


def packed_positions(selected: Sequence[int], prefix_rows: int, prompt_rows: int) -> list[int]:
    """Return the original position of every packed row: the selected prefix in score order, then the whole window."""
    return [*selected, *range(prefix_rows, prompt_rows)]

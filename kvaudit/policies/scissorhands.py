"""Scissorhands: a batch of repeatedly low-scored rows leaves at a time (arXiv 2305.17118; 0x06B to 0x06D).

The *persistence of importance* is a hypothesis about pivotal sets, and `coverage` is its diagnostic. What is evicted
follows from another statistic: how often a row's attention fell below the uniform baseline 1/t, over the last w query
rows. Large counts leave first.

Decided here: recent rows are protected, as comment and prose of Algorithm 2 say; the slice that it prints,
`I[:-r] <- 0`, zeroes the history instead and is `compress_as_printed`, an alternative for comparison. The history is
the last w rows, as code and prose say; the printed sum from t - w to t has w + 1 terms. m rows leave with
n - B <= m <= n - r; the printed bound 0 < m <= n - B + m holds for every m once n > B. No repository is pinned.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from kvaudit.policies.attention import top_k
from kvaudit.policies.retention import Number, recent


@dataclass(frozen=True, slots=True)
class AttentionRow:
    """What one query attended to: weight by original position. A position that it could not see is absent, not 0."""

    query_position: int
    weights: Mapping[int, Number]


def pivotal(row: AttentionRow, threshold: Number) -> frozenset[int]:
    """Return P_t(alpha) = {j : a_(t,j) > alpha}, the positions that are pivotal for one query (0x06B)."""
    return frozenset(position for position, weight in row.weights.items() if weight > threshold)


def coverage(earlier: Iterable[frozenset[int]], later: frozenset[int]) -> Fraction | None:
    """Return R = |P_b & (P_a | ... | P_(b-1))| / |P_b|, or None where the later set is empty."""
    if not later:
        return None
    before: frozenset[int] = frozenset().union(*earlier)
    return Fraction(len(later & before), len(later))


def low_score_counts(positions: Sequence[int], history: Sequence[AttentionRow], t: int) -> tuple[int, ...]:
    """Return I_j, in how many rows of the history the attention to position j was below 1/t.

    `t` is the number of positions processed so far. A position that a row does not name (not yet there, or evicted
    since) counts nothing in it.
    """
    baseline = Fraction(1, t)
    return tuple(
        sum(1 for row in history if position in row.weights and row.weights[position] < baseline)
        for position in positions
    )


def low_score_counts_per_step(positions: Sequence[int], history: Sequence[AttentionRow]) -> tuple[int, ...]:
    """Return the counts that a runtime has which maintains them: each row is compared with its own 1/t.

    The paper offers this and recomputing at compression as two ways to one measure; the baselines differ.
    """
    return tuple(
        sum(low_score_counts([position], [row], row.query_position + 1)[0] for row in history) for position in positions
    )


def drop_limits(candidate_rows: int, budget_rows: int, recent_rows: int) -> tuple[int, int]:
    """Return the least and the largest m that ends within the budget and touches no recent row: (n - B, n - r)."""
    return candidate_rows - budget_rows, candidate_rows - recent_rows


def compress(positions: Sequence[int], counts: Sequence[Number], recent_rows: int, drop_rows: int) -> tuple[int, ...]:
    """Return the positions that survive one compression: of the rows before the recents, those `drop_rows` with the
    largest counts leave, equal counts by lowest position. `drop_rows` lies within `drop_limits`.
    """
    historical = len(positions) - len(recent(positions, recent_rows))
    dropped = frozenset(top_k(counts[:historical], drop_rows))
    return tuple(position for row, position in enumerate(positions) if row not in dropped)


def compress_as_printed(
    positions: Sequence[int], counts: Sequence[Number], recent_rows: int, drop_rows: int
) -> tuple[int, ...]:
    """Return what survives under the slice that Algorithm 2 prints, I[:-r] <- 0: the recents are what is evicted."""
    historical = len(positions) - len(recent(positions, recent_rows))
    zeroed = (*(0 for _ in range(historical)), *counts[historical:])
    dropped = frozenset(top_k(zeroed, drop_rows))
    return tuple(position for row, position in enumerate(positions) if row not in dropped)


def owner_budget(layer_budget_rows: int, owners: int) -> int:
    """Return B of one owner: a layer budget is split evenly over the owners of the layer (0x06C).

    Raises `ValueError` if it does not divide evenly. Layers may differ; the paper gives later layers more.
    """
    if layer_budget_rows % owners:
        raise ValueError(f"{layer_budget_rows} rows do not divide over {owners} owners")
    return layer_budget_rows // owners

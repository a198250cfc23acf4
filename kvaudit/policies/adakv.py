"""Ada-KV: the rows of one layer are shared out between its heads by one global top-B (specification 0x08E).

All (head, position) scores of the layer are ranked together; the number of winners of a head is its raw budget. The
reason is a bound on the change of the layer's output y = sum_i sum_j A_i^j V_i^j W_i^O, with I marking retained rows:

    ||y - y^||_1 <= 2 H C - 2 C sum_i sum_j I_i^j A_i^j

C is the largest L1 norm of a projected value row V_i^j W_i^O. The factor 2 belongs to weights that are renormalised
over the retained rows; a head that retains nothing contributes nothing. The bound orders a local proxy, not quality.
Source: arXiv 2407.11550, section 3; code FFY0/AdaKV, `adaptive_snapkv/monkeypatch/snapkv_utils.py`, read at efe4e2e
(the pin 04497ab is not in the public history); NVIDIA/kvpress `AdaKVPress`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from kvaudit.policies import attention
from kvaudit.policies.apportionment import Number, rounded_half_even

Winner = tuple[int, int]


def global_top_b(scores: Sequence[Sequence[Number]], budget: int) -> tuple[Winner, ...]:
    """Return the `budget` winners as (head, position), largest score first; equal scores by head, then by position.

    `scores` has shape [H][positions]; heads may have different numbers of candidates. Raises `ValueError` where the
    budget exceeds the candidates.
    """
    candidates = [(head, position) for head, row in enumerate(scores) for position in range(len(row))]
    if budget > len(candidates):
        raise ValueError(f"a budget of {budget} rows exceeds the {len(candidates)} candidates")
    return tuple(sorted(candidates, key=lambda each: (-scores[each[0]][each[1]], *each))[:budget])


def raw_counts(scores: Sequence[Sequence[Number]], budget: int) -> tuple[int, ...]:
    """Return B_i*, the winners of each head, shape [H], summing to `budget`. Raises as `global_top_b`."""
    counts = [0] * len(scores)
    for head, _ in global_top_b(scores, budget):
        counts[head] += 1
    return tuple(counts)


def tied_at_cut(scores: Sequence[Sequence[Number]], budget: int) -> bool:
    """Return whether the last winner and the first loser have equal scores, so that the tie rule decides."""
    candidates = sum(map(len, scores))
    if not 0 < budget < candidates:
        return False
    (head, position), (other_head, other_position) = global_top_b(scores, budget + 1)[-2:]
    return scores[head][position] == scores[other_head][other_position]


def safeguarded_targets(counts: Sequence[int], alpha: Number) -> tuple[Fraction, ...]:
    """Return B~_i = alpha B_i* + (1 - alpha) B / H in rows, shape [H], with B the sum of the counts; they sum to B."""
    uniform = Fraction(sum(counts), len(counts))
    return tuple(alpha * count + (1 - alpha) * uniform for count in counts)


def output_difference(
    weights: Sequence[Sequence[Number]],
    projected: Sequence[Sequence[Sequence[Number]]],
    retained: Sequence[Sequence[int]],
    *,
    renormalise: bool,
) -> Fraction:
    """Return ||y - y^||_1 of one query. Weights [H][T] sum to one a head, projected rows [H][T][d], retained [H][...].

    Without `renormalise`, y^ sums the retained rows under their dense weights.
    """
    change = [Fraction(0)] * len(projected[0][0])
    for row, values, kept in zip(weights, projected, retained, strict=True):
        dense = [Fraction(weight) for weight in row]
        mass = attention.retained_mass(dense, kept)
        scale = 1 / mass if renormalise and mass else Fraction(1)
        for position, value in enumerate(values):
            factor = dense[position] * (1 - scale if position in kept else 1)
            change = [total + factor * channel for total, channel in zip(change, value, strict=True)]
    return _l1(change)


@dataclass(frozen=True, slots=True)
class Bound:
    """The bound of one query and what it bounds: the L1 difference of the output, by which weights it is formed.

    `bound` holds for renormalised weights, half of it for dense ones.
    """

    largest_row_norm: Fraction
    retained_mass: Fraction
    bound: Fraction
    difference: Fraction
    dense_difference: Fraction


def output_bound(
    weights: Sequence[Sequence[Number]],
    projected: Sequence[Sequence[Sequence[Number]]],
    retained: Sequence[Sequence[int]],
) -> Bound:
    """Return 2 H C - 2 C sum I A and its terms; shapes as in `output_difference`."""
    largest = max(_l1(row) for head in projected for row in head)
    kept = (weights[head][position] for head, positions in enumerate(retained) for position in positions)
    mass = sum((Fraction(weight) for weight in kept), Fraction(0))
    return Bound(
        largest_row_norm=largest,
        retained_mass=mass,
        bound=2 * largest * (len(weights) - mass),
        difference=output_difference(weights, projected, retained, renormalise=True),
        dense_difference=output_difference(weights, projected, retained, renormalise=False),
    )


def pinned_head_capacities(base: int, counts: Sequence[int], floor_share: Number) -> tuple[int, ...]:
    """Return the prefix rows a head of the released code: round(count (1 - f) + int(base f)), halves to even.

    `base` is the mean per head without the window, `counts` the winners of a top-(base H). The total is not conserved.
    `floor_share` is the uniform part, so 0.2 here is an alpha of 0.8 in the paper's formula. Computed exactly; the
    code multiplies in float32.
    """
    least = int(base * floor_share)
    return rounded_half_even([count * (1 - floor_share) + least for count in counts])


def kvpress_retained(
    scores: Sequence[Sequence[Number]], rows_per_head: int, safeguard: Number
) -> tuple[tuple[int, ...], ...]:
    """Return the positions each head retains in kvpress, ascending: a protected share of each head first, then top-B.

    The best int(rows_per_head * safeguard) rows of every head are safe; the rest of H * rows_per_head goes to the best
    of the others. A third meaning of the same number: a guaranteed least share of a head, not a blend.
    """
    safe = int(rows_per_head * safeguard)
    retained = {(head, position) for head, row in enumerate(scores) for position in attention.top_k(row, safe)}
    budget = len(scores) * rows_per_head
    for winner in global_top_b(scores, sum(map(len, scores))):
        if len(retained) >= budget:
            break
        retained.add(winner)
    return tuple(
        tuple(position for position in range(len(row)) if (head, position) in retained)
        for head, row in enumerate(scores)
    )


def _l1(vector: Sequence[Number]) -> Fraction:
    return sum((abs(Fraction(channel)) for channel in vector), Fraction(0))

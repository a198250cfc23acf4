"""What Scissorhands, H2O and Keyformer have in common: one phase order, and rows whose score travels with them (0x06A).

A retained row is an original position with its K row, V row and method score. One transaction appends the accepted
rows, attends over every candidate, and only then scores, protects, selects and gathers. The selectors differ and live
in the modules of the three papers; nothing here decides which row leaves.

Positions are kept in ascending order, so that the lowest candidate row is the lowest position. Ties go to the larger
score first, then to the lower position.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from kvaudit.policies.attention import top_k

Number = int | Fraction

APPEND, ATTEND, SCORE, PROTECT, SELECT, GATHER, PUBLISH = PHASES = (
    "append",
    "attend",
    "score",
    "protect",
    "select",
    "gather",
    "publish",
)

REDUCTIONS = ("sum", "mean", "max")


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of one owner in packed order: original positions, ascending, and one score a row."""

    positions: tuple[int, ...]
    scores: tuple[Number, ...]

    def appended(self, positions: Sequence[int]) -> "Rows":
        """Return the candidate C_t = S_(t-1) + new rows. A new row carries no score yet."""
        return Rows((*self.positions, *positions), (*self.scores, *(0 for _ in positions)))

    def gathered(self, rows: Sequence[int]) -> "Rows":
        """Return these packed rows, position and score by one index list, as K and V must be gathered too."""
        return Rows(tuple(self.positions[row] for row in rows), tuple(self.scores[row] for row in rows))


def next_phase(finished: int) -> str | None:
    """Return the phase that comes after `finished` phases, None after the last."""
    return PHASES[finished] if finished < len(PHASES) else None


def carried_rows(parent: Sequence[int], candidate: Sequence[int]) -> list[int | None]:
    """Return for each candidate row the packed parent row that its score is carried from, None for a new row."""
    rows = {position: row for row, position in enumerate(parent)}
    return [rows.get(position) for position in candidate]


def packed_rows(candidate: Sequence[int], kept: Sequence[int]) -> list[int]:
    """Return the candidate's packed rows at which the kept positions lie: the one index list of the gather."""
    rows = {position: row for row, position in enumerate(candidate)}
    return [rows[position] for position in kept]


def recent(positions: Sequence[int], width: int) -> tuple[int, ...]:
    """Return the newest `width` positions. Width 0 protects none (a slice from -0 would protect all)."""
    return tuple(positions[max(0, len(positions) - width) :])


def largest_and_recent(candidate: Rows, largest: int, recent_rows: int) -> tuple[int, ...]:
    """Return the kept positions, ascending: the newest `recent_rows`, and of the others those with the largest scores.

    A candidate of at most `largest + recent_rows` rows is kept whole: nothing leaves before the budget is reached.
    """
    if len(candidate.positions) <= largest + recent_rows:
        return candidate.positions
    protected = recent(candidate.positions, recent_rows)
    historical = len(candidate.positions) - len(protected)
    chosen = top_k(candidate.scores[:historical], largest)
    return (*(candidate.positions[row] for row in sorted(chosen)), *protected)


def reduced(per_head: Sequence[Sequence[Number]], reduction: str | None) -> tuple[Number, ...]:
    """Return one contribution a row from those of the mapped query heads, shape [heads][rows] to [rows].

    `reduction` is sum, mean or max over heads, or None where the owner has one query head only.
    """
    if reduction is None:
        [single] = per_head
        return tuple(single)
    columns = zip(*per_head, strict=True)
    if reduction == "max":
        return tuple(max(column) for column in columns)
    divisor = len(per_head) if reduction == "mean" else 1
    return tuple(Fraction(sum(column)) / divisor for column in columns)


def summed_over_queries(rows: Sequence[Sequence[Number]], candidates: int) -> tuple[Number, ...]:
    """Return the sum over query rows, shape [candidates].

    A query sees a prefix of the candidate, itself included, so an earlier query's row is shorter; a row that it cannot
    see gets nothing from it.
    """
    return tuple(sum((row[column] for row in rows if column < len(row)), Fraction(0)) for column in range(candidates))

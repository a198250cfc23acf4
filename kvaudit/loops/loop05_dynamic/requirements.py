"""What a receipt must be, and the message that says where it is not."""

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

from kvaudit.errors import ContractViolation
from kvaudit.evidence import canonical
from kvaudit.loops.loop05_dynamic.diagnostics import EVIDENCE_SHAPE, MASS, OWNER_COUNT, SPREAD
from kvaudit.loops.loop05_dynamic.state import Method
from kvaudit.model import Diagnostic, pointer
from kvaudit.policies.retention import Number

# exp(-300) is below the least float32 and its squares are still within the range of a double.
_LARGEST_SPREAD = 300


def _equal(one: object, other: object) -> bool:
    return one == other


def require_lists(
    diagnostic: Diagnostic,
    expected: Sequence[Sequence[Any]],
    found: Sequence[Sequence[Any]],
    where: str,
    same: Callable[[Any, Any], bool] = _equal,
) -> None:
    """Raise `diagnostic` at the first entry in which the lists of the owners differ."""
    require_count(found, len(expected), "owners", OWNER_COUNT, where)
    for owner, (wanted, stated) in enumerate(zip(expected, found, strict=True)):
        require_row(diagnostic, wanted, stated, where + pointer(owner), same)


def require_row(
    diagnostic: Diagnostic,
    expected: Sequence[Any],
    found: Sequence[Any],
    where: str,
    same: Callable[[Any, Any], bool] = _equal,
) -> None:
    for index, (wanted, stated) in enumerate(zip(expected, found, strict=False)):
        if not same(wanted, stated):
            raise ContractViolation(
                diagnostic, where + pointer(index), f"expected {shown(wanted)}, found {shown(stated)}"
            )
    if len(expected) != len(found):
        raise ContractViolation(diagnostic, where, f"expected {len(expected)} entries, found {len(found)}")


def require_count(found: Sequence[Any], expected: int, things: str, diagnostic: Diagnostic, where: str) -> None:
    if len(found) != expected:
        raise ContractViolation(diagnostic, where, f"expected {expected} {things}, found {len(found)}")


def require_ascending(
    positions: Sequence[int], end: int | None, diagnostic: Diagnostic, where: str, member: str | None = None
) -> None:
    """Raise unless the positions ascend, none twice, and stay below `end`."""
    for index, position in enumerate(positions):
        place = where + pointer(index) + (pointer(member) if member else "")
        if index and position <= positions[index - 1]:
            raise ContractViolation(diagnostic, place, f"expected more than {positions[index - 1]}, found {position}")
        if end is not None and position >= end:
            raise ContractViolation(diagnostic, place, f"expected a position below {end}, found {position}")


def require_mass(weights: Sequence[Number], tolerance: Number, where: str) -> None:
    mass = sum((Fraction(weight) for weight in weights), Fraction(0))
    if abs(mass - 1) > tolerance:
        raise ContractViolation(MASS, where, f"expected weights that sum to 1, found {shown(mass)}")


def require_spread(logits: Sequence[Number], temperature: Number, where: str) -> None:
    exact = [Fraction(logit) for logit in logits]
    spread: Fraction = (max(exact) - min(exact)) / temperature
    if spread > _LARGEST_SPREAD:
        raise ContractViolation(SPREAD, where, f"expected a spread of at most {_LARGEST_SPREAD}, found {shown(spread)}")


def require_evidence(
    method: Method, evidence: Any, visible: Sequence[Sequence[int]], diagnostic: Diagnostic, where: str
) -> None:
    """Raise unless evidence has the shape [owner][query head][query row][visible row].

    `visible` is [owner][query row]; `diagnostic` is raised where a query row has another number of entries.
    """
    require_count(evidence, len(method.owners), "owners", EVIDENCE_SHAPE, where)
    for owner, heads in enumerate(evidence):
        count = len(method.owners[owner].query_heads)
        require_count(heads, count, "query heads", EVIDENCE_SHAPE, where + pointer(owner))
        for head, rows in enumerate(heads):
            require_count(rows, len(visible[owner]), "query rows", EVIDENCE_SHAPE, where + pointer(owner, head))
            for query, row in enumerate(rows):
                place = where + pointer(owner, head, query)
                require_count(row, visible[owner][query], "visible rows", diagnostic, place)


def every_query_row(evidence: Any, where: str) -> Iterator[tuple[str, Sequence[Number]]]:
    """Yield (place, row) for every query row of evidence [owner][query head][query row][visible row]."""
    for owner, heads in enumerate(evidence):
        for head, rows in enumerate(heads):
            for query, row in enumerate(rows):
                yield where + pointer(owner, head, query), row


def within(tolerance: Number) -> Callable[[Any, Any], bool]:
    return lambda one, other: abs(one - other) <= tolerance


def shown(value: object) -> str:
    """Return a value as a message shows it, a decimal as a report would write it."""
    if value is None:
        return "null"
    return f"{canonical.reported(value):.12g}" if isinstance(value, Fraction) else str(value)

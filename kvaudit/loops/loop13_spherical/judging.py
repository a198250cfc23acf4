"""What the sections of loop 13 share: how a tree and a page are judged, and how a value is shown in a message."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from kvaudit.errors import ContractViolation
from kvaudit.evidence import canonical
from kvaudit.loops.loop13_spherical.diagnostics import DIMENSION, LEVEL_COUNT, PAGE_TOKENS, WIDTH
from kvaudit.model import Diagnostic, Document, pointer
from kvaudit.policies import spherical
from kvaudit.policies.spherical import Tree


def judge_dimension(dimension: int, where: str) -> None:
    if not spherical.is_dimension(dimension):
        raise ContractViolation(DIMENSION, where, f"expected a power of two from 2 on, found {dimension}")


def judge_tree(dimension: int, widths: Sequence[int], where: str) -> Tree:
    """Return the tree of a dimension that was judged before, or raise what is wrong with its widths at `where`."""
    require_count(LEVEL_COUNT, widths, dimension.bit_length() - 1, "widths", where)
    for level, width in enumerate(widths):
        if not spherical.LEAST_WIDTH <= width <= spherical.GREATEST_WIDTH:
            raise ContractViolation(WIDTH, where + pointer(level), f"expected 1 to 8 bits, found {width}")
    return Tree(dimension, tuple(widths))


def judge_page(pages: Document, where: str) -> None:
    if not spherical.is_page(pages["tokens"]):
        reason = f"expected a multiple of 8 rows, found {pages['tokens']}"
        raise ContractViolation(PAGE_TOKENS, where + pointer("tokens"), reason)


def require_count(diagnostic: Diagnostic, found: Sequence[Any], expected: int, things: str, where: str) -> None:
    if len(found) != expected:
        raise ContractViolation(diagnostic, where, f"expected {expected} {things}, found {len(found)}")


def require_close(diagnostic: Diagnostic, found: Fraction, expected: Fraction, tolerance: Fraction, where: str) -> None:
    if abs(found - expected) > tolerance:
        raise ContractViolation(diagnostic, where, f"expected {shown(expected)}, found {shown(found)}")


def shown(value: object) -> str:
    """Return a value as a message shows it, a decimal as a report would write it."""
    if value is None:
        return "null"
    return f"{canonical.reported(value):.12g}" if isinstance(value, Fraction) else str(value)

"""FastGen: a policy family a head, the cheapest that recovers enough attention mass (specification 0x08H).

A policy is one pattern of positions (special tokens, punctuation, a local window, frequent positions, everything) or
the union of several. Each head is profiled once after the prompt. A head that nothing cheaper serves keeps the full
cache, and says what that really recovers.
Source: arXiv 2310.01801, section 3. The official repository machilusZ/FastGen at fb707b6 has no method source.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from kvaudit.policies.apportionment import Number

FULL = "full"

# The paper's own families are nested: each adds one pattern to the one before it.
PAPER_ORDER = ("special", "punctuation", "frequency", "locality")


@dataclass(frozen=True, slots=True)
class Choice:
    """The policy of one head: its positions, ascending, the mass they hold, and whether it is the fallback."""

    policy: str
    positions: tuple[int, ...]
    recovery: Fraction
    fallback: bool


def union(patterns: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """Return the positions of several patterns, ascending; a position that two of them name counts once."""
    return tuple(sorted({position for pattern in patterns for position in pattern}))


def recovery(mass: Sequence[Number], positions: Iterable[int]) -> Fraction:
    """Return the attention mass at `positions`, which are all different; `mass` has one entry a position."""
    return Fraction(sum(mass[position] for position in positions))


def choose(mass: Sequence[Number], policies: Mapping[str, Sequence[int]], threshold: Number) -> Choice:
    """Return the policy with the fewest positions that recovers `threshold` or more, by name where sizes are equal.

    `policies` maps a name to different positions and has `full`. Where none is feasible the full cache is the
    fallback; this happens only to a profile whose whole mass is below the threshold.
    """
    candidates = sorted((len(positions), name) for name, positions in policies.items())
    for _, name in candidates:
        held = recovery(mass, policies[name])
        if held >= threshold:
            return Choice(name, tuple(sorted(policies[name])), held, fallback=False)
    return Choice(FULL, tuple(sorted(policies[FULL])), recovery(mass, policies[FULL]), fallback=True)


def nested_families(patterns: Mapping[str, Sequence[int]]) -> dict[str, tuple[int, ...]]:
    """Return the paper's feasible set: its four patterns added up one after the other, then full.

    A labelled alternative to free unions: every family holds the special tokens. `patterns` also has `full`.
    """
    families = {
        "+".join(PAPER_ORDER[: count + 1]): union(patterns[name] for name in PAPER_ORDER[: count + 1])
        for count in range(len(PAPER_ORDER))
    }
    return {**families, FULL: union([patterns[FULL]])}


def renormalised_distance(mass: Sequence[Number], positions: Sequence[int]) -> Fraction | None:
    """Return the L1 distance of a row of mass one to the row renormalised over `positions`, or None if they hold none.

    It is 2 (1 - recovery), so a threshold on recovery and one on this distance are different numbers.
    """
    held = recovery(mass, positions)
    if not held:
        return None
    kept = set(positions)
    differences = (each - (each / held if index in kept else 0) for index, each in enumerate(mass))
    return sum((abs(Fraction(each)) for each in differences), Fraction(0))

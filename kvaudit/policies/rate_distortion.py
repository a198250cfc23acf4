"""Rate-distortion retention: which precision tier each state keeps, and which states go, under a hard byte budget.

From Spherical KV (arXiv 2605.18856, appendix B): score each state and tier, enforce protection at once, start from a
safe tier, lower the states of the least value per byte until the budget is met, only then drop the least valuable ones,
write tier-homogeneous pages. What was read of the paper leaves open the order among ties, the value per byte, what a
page costs and how far from the best allocation this may end. Those are **this project's contract**:

- A *state* is one row of (layer, K/V head, token). Tiers stand safest first, each with fewer row bits than the one
  before; the distortion of a state does not fall from tier to tier, and dropping it costs at least as much as the last.
- A *step* lowers one state by one tier. Its price is added distortion over row bits saved, judged again after each
  step; the cheapest goes first, then the lowest state. Once nothing can be lowered, the cheapest drop goes first.
- Protected states stay at the safe tier. If their pages alone exceed the budget, there is no allocation.
- A tier of n rows takes ceil(n / P) pages, full or not. So page bytes are not additive: lowering one row of four may
  *raise* them. Steps are priced in row bits; after each the rows are packed again, and the first assignment whose page
  bytes fit is the answer. (Row bytes never exceed page bytes, so packing before the rows fit could end nothing.)
- Nothing is raised again, although that could be better after a step that overshoots.

The order of lowering before dropping is a heuristic. With convex distortions, a budget on row bits and no drop, the
answer is within the added distortion of its last step of the best one without drops, since all steps but the last are
those of the linear relaxation. Beyond that nothing is promised: `optimum` and `relaxed_optimum` say what was missed.
"""

import heapq
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

Number = int | Fraction
Assignment = Sequence[int | None]


@dataclass(frozen=True, slots=True)
class State:
    """The distortion of one row at each tier, safest first, and when it is dropped; protected rows keep the safest."""

    distortions: tuple[Number, ...]
    drop_distortion: Number
    protected: bool = False

    def distortion(self, tier: int | None) -> Number:
        return self.drop_distortion if tier is None else self.distortions[tier]


@dataclass(frozen=True, slots=True)
class Tiers:
    """Row bits of each tier, safest first, and the bytes of one page of `page_tokens` rows of each tier."""

    row_bits: tuple[int, ...]
    page_bytes: tuple[int, ...]
    page_tokens: int


@dataclass(frozen=True, slots=True)
class Step:
    """One state from one tier to the next, or out (`target` None), with what it adds and saves."""

    state: int
    source: int
    target: int | None
    added_distortion: Fraction
    saved_bits: int

    @property
    def price(self) -> Fraction:
        """Added distortion per row bit saved."""
        return self.added_distortion / self.saved_bits


@dataclass(frozen=True, slots=True)
class Allocation:
    """The steps taken, the tier of each state (None is dropped), and the page bytes, at most the budget."""

    steps: tuple[Step, ...]
    assignment: tuple[int | None, ...]
    page_bytes: int


class BelowProtectedError(ValueError):
    """The pages of the protected states alone exceed the budget."""


def counts(assignment: Assignment, tiers: Tiers) -> tuple[int, ...]:
    """Return the rows of each tier."""
    found = Counter(assignment)
    return tuple(found[tier] for tier in range(len(tiers.row_bits)))


def row_bits(rows: Sequence[int], tiers: Tiers) -> int:
    """Return the bits of rows alone, given the rows of each tier."""
    return sum(count * bits for count, bits in zip(rows, tiers.row_bits, strict=True))


def page_bytes(rows: Sequence[int], tiers: Tiers) -> int:
    """Return the bytes of tier-homogeneous pages, given the rows of each tier."""
    return sum(-(-count // tiers.page_tokens) * each for count, each in zip(rows, tiers.page_bytes, strict=True))


def packed(assignment: Assignment, tiers: Tiers) -> list[tuple[int, list[int]]]:
    """Return (tier, states) of each page: safest tier first, states ascending, each page full but a tier's last."""
    pages = []
    for tier in range(len(tiers.row_bits)):
        states = [index for index, each in enumerate(assignment) if each == tier]
        pages += [(tier, states[at : at + tiers.page_tokens]) for at in range(0, len(states), tiers.page_tokens)]
    return pages


def mixed_page_bytes(assignment: Assignment, tiers: Tiers) -> int:
    """Return the bytes of pages filled in state order whatever the tiers: each costs a page of its safest row."""
    kept = [tier for tier in assignment if tier is not None]
    pages = (kept[at : at + tiers.page_tokens] for at in range(0, len(kept), tiers.page_tokens))
    return sum(tiers.page_bytes[min(page)] for page in pages)


def distortion(states: Sequence[State], assignment: Assignment) -> Fraction:
    """Return the distortion of an assignment, summed over states."""
    return sum((Fraction(s.distortion(tier)) for s, tier in zip(states, assignment, strict=True)), Fraction(0))


def step_of(state: State, tiers: Tiers, index: int, source: int, target: int | None) -> Step:
    """Return the step of a state, the `index`-th one, from a tier to a lower one or out."""
    left = 0 if target is None else tiers.row_bits[target]
    added = Fraction(state.distortion(target)) - state.distortions[source]
    return Step(index, source, target, added, tiers.row_bits[source] - left)


def lowering(states: Sequence[State], tiers: Tiers, source: Assignment | None = None) -> Iterator[Step]:
    """Yield every step that lowers a state, in greedy order, from the safe tier or from `source`."""
    start = [0] * len(states) if source is None else source
    offers: list[tuple[Fraction, int, Step]] = []

    def offer(index: int, tier: int) -> None:
        if tier + 1 < len(tiers.row_bits):
            step = step_of(states[index], tiers, index, tier, tier + 1)
            heapq.heappush(offers, (step.price, index, step))

    for index, (state, tier) in enumerate(zip(states, start, strict=True)):
        if tier is not None and not state.protected:
            offer(index, tier)
    while offers:
        _, index, step = heapq.heappop(offers)
        yield step
        assert step.target is not None
        offer(index, step.target)


def dropping(states: Sequence[State], tiers: Tiers, source: Assignment) -> Iterator[Step]:
    """Yield every step that drops a state from its tier in `source`, the cheapest first."""
    steps = [
        step_of(state, tiers, index, tier, None)
        for index, (state, tier) in enumerate(zip(states, source, strict=True))
        if tier is not None and not state.protected
    ]
    yield from sorted(steps, key=lambda step: (step.price, step.state))


def joint_steps(states: Sequence[State], tiers: Tiers) -> Iterator[Step]:
    """Yield every step of rate-distortion retention: all lowering, then all dropping from the last tier."""
    yield from lowering(states, tiers)
    last = len(tiers.row_bits) - 1
    yield from dropping(states, tiers, [0 if state.protected else last for state in states])


def allocate(states: Sequence[State], tiers: Tiers, budget_bytes: int) -> Allocation:
    """Return the allocation of rate-distortion retention. Raises `BelowProtectedError` where there is none."""
    found = first_fit(states, tiers, joint_steps(states, tiers), budget_bytes)
    if found is None:
        raise BelowProtectedError(f"the protected rows alone need more than {budget_bytes} bytes")
    return found


def first_fit(
    states: Sequence[State],
    tiers: Tiers,
    steps: Iterator[Step],
    budget_bytes: int,
    source: Assignment | None = None,
) -> Allocation | None:
    """Return the first assignment within the budget that the steps lead to from `source`, or None."""
    assignment: list[int | None] = [0] * len(states) if source is None else list(source)
    rows, taken = list(counts(assignment, tiers)), []
    while (size := page_bytes(rows, tiers)) > budget_bytes:
        step = next(steps, None)
        if step is None:
            return None
        taken.append(step)
        assignment[step.state] = step.target
        rows[step.source] -= 1
        if step.target is not None:
            rows[step.target] += 1
    return Allocation(tuple(taken), tuple(assignment), size)


def within_row_bits(states: Sequence[State], tiers: Tiers, budget_bits: int) -> Allocation | None:
    """Return what greedy lowering gives under a budget on row bits alone, without drops; None if it does not fit.

    The last step's added distortion bounds its gap to the best such allocation if the distortions are convex.
    """
    alone = Tiers(tuple(8 * bits for bits in tiers.row_bits), tiers.row_bits, 1)
    return first_fit(states, alone, lowering(states, alone), budget_bits)


def is_convex(state: State, tiers: Tiers) -> bool:
    """Return whether each further tier costs at least as much distortion per bit as the one before."""
    last = len(tiers.row_bits) - 1
    prices = [step_of(state, tiers, 0, tier, tier + 1).price for tier in range(last)]
    return prices == sorted(prices)


def least_distortions(states: Sequence[State], tiers: Tiers, *, may_drop: bool) -> dict[tuple[int, ...], Fraction]:
    """Return the least distortion of any assignment, by how many rows each tier holds.

    Exact: dynamic programming over the states. Every cost depends on these counts alone; there are at most
    `optimum_size` of them.
    """
    # Whole numbers over one denominator: sums of Fractions would reduce each time.
    values = [[Fraction(state.distortion(tier)) for tier in _options(state, tiers, may_drop)] for state in states]
    unit = math.lcm(*(each.denominator for of_state in values for each in of_state))
    best = {(0,) * len(tiers.row_bits): 0}
    for state, of_state in zip(states, values, strict=True):
        options = list(zip(_options(state, tiers, may_drop), (int(each * unit) for each in of_state), strict=True))
        successors: dict[tuple[int, ...], int] = {}
        for rows, total in best.items():
            for tier, value in options:
                after = rows if tier is None else (*rows[:tier], rows[tier] + 1, *rows[tier + 1 :])
                if after not in successors or total + value < successors[after]:
                    successors[after] = total + value
        best = successors
    return {rows: Fraction(total, unit) for rows, total in best.items()}


def optimum(
    least: Mapping[tuple[int, ...], Fraction], tiers: Tiers, cost: Callable[[Sequence[int], Tiers], int], budget: int
) -> Fraction | None:
    """Return the least distortion whose `cost` (`row_bits` or `page_bytes`) fits the budget; None if none does."""
    return min((total for rows, total in least.items() if cost(rows, tiers) <= budget), default=None)


def optimum_size(states: int, tiers: int) -> int:
    """Return the most counts of rows by tier that `least_distortions` keeps: binomial(n + t, t)."""
    return math.comb(states + tiers, tiers)


def relaxed_optimum(states: Sequence[State], tiers: Tiers, budget_bits: int, *, may_drop: bool) -> Fraction | None:
    """Return a lower bound on the distortion of every assignment within `budget_bits` of rows; None if none exists.

    It is the largest Lagrangian bound, max over m >= 0 of sum_i min_t (D_it + m bits_t) - m budget, which equals the
    linear relaxation: follow the lower convex hulls of all states, the last edge in part. Page bytes are at least row
    bytes, so it bounds a budget on pages too.
    """
    total = sum((Fraction(state.distortions[0]) for state in states), Fraction(0))
    excess = len(states) * tiers.row_bits[0] - budget_bits
    edges = [edge for state in states for edge in _hull(state, tiers, may_drop)]
    for slope, saved in sorted(edges):
        if excess <= 0:
            break
        used = min(saved, excess)
        total += slope * used
        excess -= used
    return None if excess > 0 else total


def retention_only(states: Sequence[State], tiers: Tiers, budget_bytes: int) -> Allocation | None:
    """Return the single lever of dropping: every kept row at the safe tier. None if the protected rows do not fit."""
    return first_fit(states, tiers, dropping(states, tiers, [0] * len(states)), budget_bytes)


def lowering_only(states: Sequence[State], tiers: Tiers, budget_bytes: int) -> Allocation | None:
    """Return the single lever of precision: nothing is dropped. None if the last tier does not fit."""
    return first_fit(states, tiers, lowering(states, tiers), budget_bytes)


def uniform_only(states: Sequence[State], tiers: Tiers, budget_bytes: int) -> Allocation | None:
    """Return the safest tier that fits when every unprotected row has the same; None if none does."""
    for tier in range(len(tiers.row_bits)):
        assignment = tuple(0 if state.protected else tier for state in states)
        size = page_bytes(counts(assignment, tiers), tiers)
        if size <= budget_bytes:
            return Allocation((), assignment, size)
    return None


def decoupled(states: Sequence[State], tiers: Tiers, budget_bytes: int, dropped_share: Number) -> Allocation | None:
    """Return both levers decided apart: dropping first frees `dropped_share` of the excess, lowering the rest of it.

    A share of 0 is lowering alone, 1 dropping alone. None if the second stage cannot reach the budget.
    """
    full = page_bytes(counts([0] * len(states), tiers), tiers)
    target = max(budget_bytes, math.ceil(full - Fraction(dropped_share) * max(0, full - budget_bytes)))
    first = first_fit(states, tiers, dropping(states, tiers, [0] * len(states)), target)
    if first is None:
        return None
    rest = first_fit(states, tiers, lowering(states, tiers, first.assignment), budget_bytes, first.assignment)
    return None if rest is None else Allocation((*first.steps, *rest.steps), rest.assignment, rest.page_bytes)


def _options(state: State, tiers: Tiers, may_drop: bool) -> tuple[int | None, ...]:
    if state.protected:
        return (0,)
    every = tuple(range(len(tiers.row_bits)))
    return (*every, None) if may_drop else every


def _hull(state: State, tiers: Tiers, may_drop: bool) -> Iterator[tuple[Fraction, int]]:
    """Yield (distortion per bit, bits) of each edge of the lower convex hull of a state, from the safe tier on."""
    options = _options(state, tiers, may_drop)
    points = [(0 if tier is None else tiers.row_bits[tier], Fraction(state.distortion(tier))) for tier in options]
    at = 0
    while at + 1 < len(points):
        bits, value = points[at]
        slopes = [((points[to][1] - value) / (bits - points[to][0]), -to) for to in range(at + 1, len(points))]
        slope, to = min(slopes)
        yield slope, bits - points[-to][0]
        at = -to

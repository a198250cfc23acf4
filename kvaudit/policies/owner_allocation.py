"""From one total to a budget for every (layer, K/V head) owner: layers first, then the heads of each layer (0x08A).

A layer method gives every layer its rows, a head method shares them out within the layer; HeadKV shares one pool over
all owners instead. The composition ends in exact integers at both steps. It can run again over the rows that are left,
which is what a recalibration does: owners then have fewer candidates, and floors and caps shrink with them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from kvaudit.policies import adakv, headkv, pyramidkv, zigzagkv
from kvaudit.policies.apportionment import Number, apportion

PYRAMIDKV, ZIGZAGKV, UNIFORM, ALL_OWNERS = "pyramidkv", "zigzagkv", "uniform", "all_owners"
ADAKV, HEADKV = "adakv", "headkv"

Candidates = Sequence[Sequence[Sequence[int]]]
Counts = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Rules:
    """The methods and their parameters. `floor` and `cap` are rows an owner.

    `per_kv_head` tells what a layer budget is: the capacity of each K/V head of the layer, or a total for the layer.
    """

    layer_method: str
    head_method: str
    per_kv_head: bool
    floor: int
    cap: int
    pyramid_beta: Number
    sensitivities: Sequence[Number]
    minimum_layer_rows: Number
    alpha: Number
    importances: Sequence[Number]
    headkv_beta: Number


@dataclass(frozen=True, slots=True)
class Allocation:
    """Owner budgets and their floors and caps, shape [L][H_kv], and the rows of each layer, shape [L].

    `layers` is in the unit of the rules, None where all owners share one pool and layers have no budget.
    """

    layers: tuple[int, ...] | None
    pools: tuple[int, ...]
    owners: Counts
    floors: Counts
    caps: Counts


def allocate(
    rules: Rules, scores: Sequence[Sequence[Sequence[Number]]], candidates: Candidates, total: int
) -> Allocation:
    """Share `total` out over owners that can retain `candidates`, ascending positions, shape [L][H_kv][...].

    `scores` has shape [L][H_kv][prefix]; `total` is in the unit of the rules. Raises `ValueError` where floors, caps
    or a method leave no solution.
    """
    floors, caps = owner_limits(rules, candidates)
    kv_heads = len(candidates[0])
    if rules.layer_method == ALL_OWNERS:
        pool = pooled(rules, total, kv_heads)
        owners = by_layer(apportion(headkv_targets(rules, pool), pool, flat(floors), flat(caps)), kv_heads)
        return Allocation(None, tuple(map(sum, owners)), owners, floors, caps)
    targets = layer_targets(rules, rules.layer_method, total, len(candidates))
    layers = apportion(targets, total, *layer_limits(rules, floors, caps))
    pools = tuple(pooled(rules, rows, kv_heads) for rows in layers)
    owners = tuple(
        apportion(_head_targets(rules, scores[layer], candidates[layer], pool), pool, floors[layer], caps[layer])
        for layer, pool in enumerate(pools)
    )
    return Allocation(layers, pools, owners, floors, caps)


def owner_limits(rules: Rules, candidates: Candidates) -> tuple[Counts, Counts]:
    """Return floors and caps an owner; an owner with fewer candidates than its floor keeps all of them."""
    floors = tuple(tuple(min(rules.floor, len(positions)) for positions in heads) for heads in candidates)
    caps = tuple(tuple(min(rules.cap, len(positions)) for positions in heads) for heads in candidates)
    return floors, caps


def layer_limits(rules: Rules, floors: Counts, caps: Counts) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return floors and caps of the layer budgets, in their unit, such that the owners' limits can be met."""
    share = pooled(rules, 1, len(floors[0]))
    return tuple(-(-sum(heads) // share) for heads in floors), tuple(sum(heads) // share for heads in caps)


def pooled(rules: Rules, rows: int, kv_heads: int) -> int:
    """Return the rows of all K/V heads together that `rows` in the unit of the rules amount to."""
    return rows * kv_heads if rules.per_kv_head else rows


def layer_targets(rules: Rules, method: str, total: int, layers: int) -> tuple[Fraction, ...]:
    """Return the real-valued layer targets of one layer method, shape [L]. Raises as the method does."""
    mean = Fraction(total, layers)
    if method == PYRAMIDKV:
        return pyramidkv.layer_targets(total, layers, rules.pyramid_beta)
    if method == ZIGZAGKV:
        return zigzagkv.layer_targets(rules.sensitivities, mean, rules.minimum_layer_rows)
    return (mean,) * layers


def headkv_targets(rules: Rules, pool: int) -> tuple[Fraction, ...]:
    """Return HeadKV's targets for a pool of rows over all owners, shape [L * H_kv]. Raises as the method does."""
    return headkv.owner_targets(rules.importances, Fraction(pool, len(rules.importances)), rules.headkv_beta)


def by_layer(budgets: Sequence[int], kv_heads: int) -> Counts:
    """Return owner budgets in packing order as [L][H_kv]."""
    return tuple(tuple(budgets[first : first + kv_heads]) for first in range(0, len(budgets), kv_heads))


def flat(budgets: Sequence[Sequence[int]]) -> list[int]:
    """Return owner budgets of shape [L][H_kv] in packing order."""
    return [budget for heads in budgets for budget in heads]


def _head_targets(
    rules: Rules, scores: Sequence[Sequence[Number]], candidates: Sequence[Sequence[int]], pool: int
) -> tuple[Fraction, ...]:
    if rules.head_method == UNIFORM:
        return (Fraction(pool, len(candidates)),) * len(candidates)
    contenders = [
        [head_scores[position] for position in positions]
        for head_scores, positions in zip(scores, candidates, strict=True)
    ]
    return adakv.safeguarded_targets(adakv.raw_counts(contenders, pool), rules.alpha)

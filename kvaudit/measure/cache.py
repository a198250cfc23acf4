"""A cache while tokens are generated: append a row, perhaps evict, attend, perhaps score and evict.

What happens in a step is the *rule*. Static rules evict before attention, so that a query sees exactly the view at its
frontier, its own row included. Scored rules evict after it, for a row is scored by the attention of this step over
every candidate (specification 0x06A). Without either, the cache only appends.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from kvaudit.measure import attention, rope, store
from kvaudit.measure.store import LayerRows


@dataclass(frozen=True, slots=True)
class Step:
    """One decode step of one layer: what a scored rule sees. logits and weights [H, G, 1, n] of every candidate row.

    `number` counts the steps from 0; `position` is the original position of the query.
    """

    layer: int
    number: int
    position: int
    logits: Tensor
    weights: Tensor


Before = Callable[[LayerRows], Tensor | None]
After = Callable[[LayerRows, Step], Tensor | None]


@dataclass(frozen=True, slots=True)
class Rule:
    """What happens to a layer's rows in a step; None appends only. Both return packed rows to keep, or None for all.

    `arrived` gives the marks of a new row, and `encoded` what is stored of new keys and values. `most_rows` is what
    the rule leaves of each head at most, None where the cache grows.
    """

    before: Before | None = None
    after: After | None = None
    arrived: Callable[[LayerRows, int], None] | None = None
    encoded: Callable[[int, Tensor, Tensor], tuple[Tensor, Tensor]] | None = None
    most_rows: int | None = None


APPEND_ONLY = Rule()


@dataclass(slots=True)
class Cache:
    """The stores of all layers under one rule. `position` is the original position of the next row.

    With a `rotation`, keys are stored without one and take that of their packed row. Where `views` is a list, the
    positions that each layer attended to are appended to it, step by step: [H, n], with -1 in columns that hold no
    row; likewise `queries` [Hq, 1, d]. `slot` is the packed row that the new row of a re-positioned rule will have once
    the rule has evicted.
    """

    stores: list[LayerRows]
    rule: Rule
    position: int
    rotation: rope.Rotation | None = None
    number: int = 0
    slot: int = 0
    views: list[list[Tensor]] | None = None
    queries: list[list[Tensor]] | None = None
    _step_views: list[Tensor] = field(default_factory=list)
    _step_queries: list[Tensor] = field(default_factory=list)

    def attend(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor, scaling: float) -> Tensor:
        """Return the output [Hq, 1, d] of one query a head; the rows of the layer are those that the rule leaves."""
        rows, rule = self.stores[layer], self.rule
        if rule.encoded is not None:
            keys, values = rule.encoded(layer, keys, values)
        if self.rotation is not None:
            keys = self.rotation.undone(keys, self.slot)
        store.append(rows, keys, values, self.position)
        if rule.arrived is not None:
            rule.arrived(rows, layer)
        if rule.before is not None:
            leave = rule.before(rows)
            if leave is not None:
                store.keep(rows, leave)
        count = rows.rows
        stored_keys, stored_values = rows.keys[:, :count], rows.values[:, :count]  # [H, n, d]
        if self.rotation is not None:
            stored_keys = self.rotation.applied(stored_keys, 0)
        logits = attention.grouped_logits(queries, stored_keys, scaling)  # [H, G, 1, n]
        visible = rows.visible()
        if visible is not None:
            logits = logits.masked_fill(~visible[:, None, None], -torch.inf)
        weights = attention.probabilities(logits)
        if self.views is not None:
            seen = rows.positions[:, :count].clone()
            self._step_views.append(seen if visible is None else seen.masked_fill(~visible, -1))
        if self.queries is not None:
            self._step_queries.append(queries.clone())
        output = attention.weighted(weights, stored_values)
        if rule.after is not None:
            leave = rule.after(rows, Step(layer, self.number, self.position, logits, weights))
            if leave is not None:
                store.keep(rows, leave)
        return output

    def finish_step(self) -> None:
        """Note that every layer has seen the token."""
        self.position += 1
        self.number += 1
        if self.views is not None:
            self.views.append(self._step_views)
            self._step_views = []
        if self.queries is not None:
            self.queries.append(self._step_queries)
            self._step_queries = []


def decode(model: Any, token_id: int, cache: Cache) -> Tensor:
    """Return the logits [V] after one more token."""
    at = cache.position
    if cache.rotation is not None:
        assert cache.rule.most_rows is not None
        at = cache.slot = min(cache.stores[0].rows, cache.rule.most_rows - 1)
    logits = attention.forward(model, [token_id], at, cache)
    cache.finish_step()
    return logits


def branched(cache: Cache) -> Cache:
    """Return an independent copy of a cache, for one of several continuations."""
    return Cache([store.clone(rows) for rows in cache.stores], cache.rule, cache.position, cache.rotation, cache.number)

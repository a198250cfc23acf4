"""From scores to kept rows: the largest of each head, equal scores by lowest position; budgets in whole rows.

Torch's own top-k leaves the order of equal scores open, so the rows are sorted stably: linear would be faster, and a
prompt is sorted once.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import floor

import torch
from torch import Tensor

from kvaudit.measure.outcomes import (
    BUDGET,
    BUDGET_ABOVE_PROMPT,
    BUDGET_TOO_SMALL,
    RUNTIME_INADMISSIBLE,
    Stopped,
)

ROWS, FRACTION_KEPT = "rows", "fraction_kept"
UNITS = (ROWS, FRACTION_KEPT)
KV_HEAD, LAYER, MODEL = "kv_head", "layer", "model"
SCOPES = (KV_HEAD, LAYER, MODEL)


@dataclass(frozen=True, slots=True)
class Budget:
    """What was asked for: a number of rows, or the fraction of the prompt's rows that is kept.

    `scope` says whose rows: those of each K/V head of a layer, of a layer over its K/V heads, or of the whole model.
    Everything that is kept of the prompt counts: sinks, windows and recent rows are inside.
    """

    value: Fraction
    unit: str
    scope: str


def rows_per_head(budget: Budget | None, prompt_rows: int, layers: int, kv_heads: int) -> int:
    """Return the rows of each K/V head, on average over the owners in scope; raise `Stopped` if there are none such.

    A fraction is rounded down once, for each K/V head. Rows of a layer or of the model are divided over its owners,
    and must come out whole: what to do with a remainder would be a choice of ours.
    """
    if budget is None:
        raise Stopped(RUNTIME_INADMISSIBLE, BUDGET, "this policy needs a budget: rows or a fraction of the prompt")
    if budget.unit == FRACTION_KEPT:
        if not 0 < budget.value <= 1:
            raise Stopped(
                RUNTIME_INADMISSIBLE, BUDGET_ABOVE_PROMPT, f"a fraction of {budget.value} is not within (0, 1]"
            )
        rows = floor(budget.value * prompt_rows)
    else:
        owners = {KV_HEAD: 1, LAYER: kv_heads, MODEL: kv_heads * layers}[budget.scope]
        share = budget.value / owners
        if share.denominator != 1:
            raise Stopped(
                RUNTIME_INADMISSIBLE,
                BUDGET,
                f"{budget.value} rows of a {budget.scope} do not divide over its {owners} owners",
            )
        rows = int(share)
    if rows < 1:
        raise Stopped(
            RUNTIME_INADMISSIBLE, BUDGET_TOO_SMALL, f"the budget keeps no row of a prompt of {prompt_rows} rows"
        )
    if rows > prompt_rows:
        raise Stopped(
            RUNTIME_INADMISSIBLE,
            BUDGET_ABOVE_PROMPT,
            f"a budget of {rows} rows a K/V head is above the {prompt_rows} rows of the prompt",
        )
    return rows


def largest(scores: Tensor, counts: Tensor | int) -> Tensor:
    """Return a mask of the `counts` largest scores of each row of `scores` [..., n], equal scores by lowest column.

    `counts` is one number, or one a row, shape [...].
    """
    order = scores.sort(dim=-1, descending=True, stable=True).indices
    ranks = torch.empty_like(order)
    ranks.scatter_(-1, order, torch.arange(scores.shape[-1], device=scores.device).expand_as(order).contiguous())
    return ranks < (counts[..., None] if isinstance(counts, Tensor) else counts)


def columns(kept: Tensor) -> Tensor:
    """Return the columns that are true, ascending, [H, n], of a mask [H, C] with n true entries in every row."""
    heads = kept.shape[0]
    return kept.nonzero()[:, 1].reshape(heads, -1)


def with_last(prefix: Tensor, rows: int) -> Tensor:
    """Return a mask [..., L + rows]: a mask of the prefix [..., L], then `rows` rows that are all kept."""
    return torch.nn.functional.pad(prefix, (0, rows), value=True)

"""Attention over rows of ours, in the place of a model's own: transformers' AttentionInterface and mask interface.

A model is called with `use_cache=False`, so that its attention is handed the new rows only, after rotation; which rows
they attend to is for the object in the keyword `kvaudit_rows` to say. The mask interface gives no mask, because
causality is a matter of rows too. Position ids are always passed: without a cache the model would count from zero.

Query heads are grouped over the K/V head that they read; K and V are never repeated. Probabilities are formed in
float32 or wider and in blocks of queries, so that a policy sees the same numbers as the output and memory grows with
the prompt and not with its square.

Shapes: Hq query heads, H K/V heads, G = Hq / H, t new rows, n rows in the cache, T prompt rows, d channels, V tokens.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from kvaudit.measure.outcomes import (
    CHECKPOINT_INCOMPATIBLE,
    MODEL_ARCHITECTURE,
    NOT_FINITE,
    RUNTIME_INADMISSIBLE,
    Stopped,
)

INTERFACE = "kvaudit"
BLOCK_QUERIES = 256

# What an attention function may be asked for beside the rows, that rows in a store cannot give.
_REFUSED = ("sliding_window", "softcap", "s_aux", "position_bias")


class Rows(Protocol):
    """What stands in the place of a cache: it takes the new rows of a layer and returns what they attend to."""

    def attend(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor, scaling: float) -> Tensor:
        """Return the attention output [Hq, t, d] of queries [Hq, t, d], whose own rows are keys, values [H, t, d]."""


def take_over(model: Any) -> None:
    """Make a model's attention call `kvaudit_rows`."""
    import transformers

    transformers.AttentionInterface.register(INTERFACE, _attention)
    transformers.AttentionMaskInterface.register(INTERFACE, _no_mask)
    model.set_attn_implementation(INTERFACE)


def forward(model: Any, token_ids: Sequence[int], first_position: int, rows: Rows) -> Tensor:
    """Return the logits [V] after the last of `token_ids`, which stand at `first_position` and after.

    Raises `Stopped` if a logit is not finite: whatever came of it would be noise with a number.
    """
    device = model.device
    ids = torch.tensor([list(token_ids)], device=device)  # [1, t]
    positions = torch.arange(first_position, first_position + len(token_ids), device=device)[None]  # [1, t]
    with torch.inference_mode():
        output = model(input_ids=ids, position_ids=positions, use_cache=False, logits_to_keep=1, kvaudit_rows=rows)
    logits: Tensor = output.logits[0, -1]
    if not bool(torch.isfinite(logits).all()):
        at = first_position + len(token_ids) - 1
        raise Stopped(RUNTIME_INADMISSIBLE, NOT_FINITE, f"the logits after position {at} are not all finite numbers")
    return logits


def grouped_logits(queries: Tensor, keys: Tensor, scaling: float) -> Tensor:
    """Return q . k * scaling, shape [H, G, t, n], of queries [Hq, t, d] and keys [H, n, d]: contiguous grouping."""
    heads, rows, channels = keys.shape
    query_heads, count, _ = queries.shape
    group = query_heads // heads
    by_group = (queries * scaling).reshape(heads, group * count, channels)  # [H, G t, d]
    return (by_group @ keys.transpose(1, 2)).reshape(heads, group, count, rows)


def probabilities(logits: Tensor) -> Tensor:
    """Return the softmax over the last axis, in float32 or wider; masked logits are minus infinity."""
    wide = torch.float64 if logits.dtype == torch.float64 else torch.float32
    return torch.softmax(logits, dim=-1, dtype=wide)


def weighted(weights: Tensor, values: Tensor) -> Tensor:
    """Return the output [Hq, t, d] of weights [H, G, t, n] over values [H, n, d]."""
    heads, group, count, rows = weights.shape
    output = weights.to(values.dtype).reshape(heads, group * count, rows) @ values  # [H, G t, d]
    return output.reshape(heads * group, count, values.shape[2])


def causal_blocks(
    queries: Tensor, keys: Tensor, scaling: float, block: int = BLOCK_QUERIES
) -> Iterator[tuple[int, Tensor]]:
    """Yield (position of the first query, masked logits [H, G, t, n]) for consecutive blocks of queries.

    `queries` [Hq, R, d] are those of the last R of the T rows in `keys` [H, T, d]; a block sees the first n rows, of
    which a query sees itself and what is before it.
    """
    rows, count = keys.shape[1], queries.shape[1]
    for begin in range(0, count, block):
        end = min(begin + block, count)
        first = rows - count + begin
        last = rows - count + end
        logits = grouped_logits(queries[:, begin:end], keys[:, :last], scaling)
        columns = torch.arange(last, device=keys.device)
        hidden = columns > torch.arange(first, last, device=keys.device)[:, None]  # [t, n]
        yield first, logits.masked_fill_(hidden, -torch.inf)


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt after its full prefill, from which every policy starts. One list entry a layer.

    keys, values [H, T, d], queries [Hq, R, d] of the last R positions; logits [V] after the last token.
    """

    token_ids: tuple[int, ...]
    keys: list[Tensor]
    values: list[Tensor]
    queries: list[Tensor]
    logits: Tensor
    scaling: float
    elapsed_ns: int

    @property
    def rows(self) -> int:
        return len(self.token_ids)

    @property
    def layers(self) -> int:
        return len(self.keys)

    @property
    def kv_heads(self) -> int:
        return int(self.keys[0].shape[0])


def prefill(model: Any, token_ids: Sequence[int], query_rows: int) -> Prompt:
    """Return a prompt after causal attention over all of it, with the queries of its last `query_rows` positions."""
    capture = _Capture(query_rows, [], [], [], [])
    begin = now_ns(model)
    logits = forward(model, token_ids, 0, capture)
    elapsed = now_ns(model) - begin
    return Prompt(tuple(token_ids), capture.keys, capture.values, capture.queries, logits, capture.scaling[0], elapsed)


def now_ns(model: Any) -> int:
    """Return a monotonic clock in nanoseconds, after the device has finished what it was given."""
    if model.device.type == "cuda":
        torch.cuda.synchronize(model.device)
    return time.perf_counter_ns()


@dataclass(frozen=True, slots=True)
class _Capture:
    """The rows of a prefill: the prompt attends to itself, and what policies select from is kept."""

    query_rows: int
    keys: list[Tensor]
    values: list[Tensor]
    queries: list[Tensor]
    scaling: list[float]

    def attend(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor, scaling: float) -> Tensor:
        assert layer == len(self.keys)
        output = torch.cat(
            [
                weighted(probabilities(logits), values[:, : logits.shape[-1]])
                for _, logits in causal_blocks(queries, keys, scaling)
            ],
            dim=1,
        )  # [Hq, T, d]
        self.keys.append(keys)
        self.values.append(values)
        self.queries.append(queries[:, max(0, queries.shape[1] - self.query_rows) :].clone())
        self.scaling.append(scaling)
        return output


def _attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    kvaudit_rows: Rows | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """Hand the new rows of one layer, [1, heads, t, d], to `kvaudit_rows`; return its output as [1, t, Hq, d]."""
    asked = [name for name in _REFUSED if others.get(name) is not None]
    if asked or attention_mask is not None:
        kinds = ", ".join(asked) or "a mask of its own"
        raise Stopped(CHECKPOINT_INCOMPATIBLE, MODEL_ARCHITECTURE, f"the attention of this model uses {kinds}")
    if kvaudit_rows is None:
        raise ValueError("the attention of this model was taken over: call it through kvaudit.measure.attention")
    if query.shape[0] != 1:
        raise ValueError(f"a store holds one sequence, and a batch of {query.shape[0]} was given")
    output = kvaudit_rows.attend(
        module.layer_idx, query[0], key[0], value[0], query.shape[-1] ** -0.5 if scaling is None else scaling
    )
    return output.transpose(0, 1)[None], None


def _no_mask(*_: Any, **__: Any) -> None:
    """Return no mask: which rows are visible is decided where the rows are."""

"""The rows of one layer, K/V head by K/V head: keys, values, original positions, scores (specification 0x01A).

Heads may keep different numbers of rows. The tensors are as long as the longest head and have room for rows to come, so
an append writes in place; how many bytes of them hold no row is part of the ledger. Keys are stored as attention hands
them over: rotated at their original positions. Rows are packed by ascending position.

Shapes: H K/V heads, C rows of room, n rows in use of the longest head, d channels.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

POSITION = torch.int32


@dataclass(slots=True)
class LayerRows:
    """The rows of one layer. `lengths` are the rows in use of each head; `marks` is what a rule keeps beside a row.

    keys, values [H, C, d]; positions [H, C]; scores [H, C] or None; marks [..., H, C] or None.
    """

    keys: Tensor
    values: Tensor
    positions: Tensor
    lengths: list[int]
    scores: Tensor | None = None
    marks: Tensor | None = None

    @property
    def rows(self) -> int:
        """The rows of the longest head."""
        return max(self.lengths)

    @property
    def even(self) -> bool:
        """Whether all heads have the same number of rows, so that nothing has to be masked."""
        return min(self.lengths) == max(self.lengths)

    def visible(self) -> Tensor | None:
        """Return which of the first `rows` columns hold a row, [H, n], or None where all do."""
        if self.even:
            return None
        lengths = torch.tensor(self.lengths, device=self.keys.device)
        return torch.arange(self.rows, device=self.keys.device) < lengths[:, None]  # [H, n]


@dataclass(frozen=True, slots=True)
class Bytes:
    """What the tensors of a store occupy, in bytes, by purpose. `padding` holds no row: shorter heads and reserve."""

    payload: int
    position_map: int
    scores: int
    padding: int

    @property
    def resident(self) -> int:
        """All bytes of the tensors together."""
        return self.payload + self.position_map + self.scores + self.padding


def packed(
    keys: Tensor,
    values: Tensor,
    kept: Tensor,
    reserve_rows: int,
    scores: Tensor | None = None,
    marks: Tensor | None = None,
) -> LayerRows:
    """Return a store of the kept rows of a prompt: a gather, with room for `reserve_rows` more rows.

    keys, values [H, T, d], scores [H, T], marks [..., H, T]; `kept` [H, T] is true for the rows that stay. Original
    position t is column t.
    """
    heads, prompt_rows = kept.shape
    lengths = [int(count) for count in kept.sum(dim=1)]
    longest = max(lengths)
    # A stable sort of "dropped" brings the kept columns to the front and leaves them ascending.
    columns = torch.argsort(~kept, dim=1, stable=True)[:, :longest]  # [H, n]
    room = longest + reserve_rows
    positions = torch.zeros((heads, room), dtype=POSITION, device=keys.device)
    positions[:, :longest] = columns.to(POSITION)
    whole = longest == prompt_rows
    return LayerRows(
        keys=_rows_gathered(keys, columns, room, whole=whole),
        values=_rows_gathered(values, columns, room, whole=whole),
        positions=positions,
        lengths=lengths,
        scores=_columns_gathered(scores, columns, room),
        marks=_columns_gathered(marks, columns, room),
    )


def append(store: LayerRows, keys: Tensor, values: Tensor, position: int) -> None:
    """Write the new rows [H, t, d] of the positions `position`, `position` + 1, ... behind those of each head.

    New rows have score and mark zero. Raises `ValueError` if there is no room: a cache that grows in silence would hide
    what it costs.
    """
    count = keys.shape[1]
    if store.rows + count > store.keys.shape[1]:
        raise ValueError(f"no room for {count} rows behind {store.rows} of {store.keys.shape[1]}")
    fresh = torch.arange(position, position + count, dtype=POSITION, device=keys.device)
    if store.even:
        span = slice(store.rows, store.rows + count)
        store.keys[:, span] = keys
        store.values[:, span] = values
        store.positions[:, span] = fresh
        _zeroed(store, (slice(None), span))
    else:
        heads = torch.arange(len(store.lengths), device=keys.device)[:, None]
        columns = torch.tensor(store.lengths, device=keys.device)[:, None] + torch.arange(count, device=keys.device)
        store.keys[heads, columns] = keys
        store.values[heads, columns] = values
        store.positions[heads, columns] = fresh
        _zeroed(store, (heads, columns))
    store.lengths = [length + count for length in store.lengths]


def keep(store: LayerRows, columns: Tensor) -> None:
    """Keep these packed rows of each head, [H, n], ascending, and let the others go: one gather for everything.

    All heads have the same number of rows before and after.
    """
    heads, count = columns.shape
    wide = columns[:, :, None].expand(-1, -1, store.keys.shape[2])
    store.keys[:, :count] = store.keys.gather(1, wide)
    store.values[:, :count] = store.values.gather(1, wide)
    store.positions[:, :count] = store.positions.gather(1, columns)
    if store.scores is not None:
        store.scores[:, :count] = store.scores.gather(1, columns)
    if store.marks is not None:
        shape = (*store.marks.shape[:-2], heads, count)
        store.marks[..., :count] = store.marks.gather(-1, columns.expand(shape))
    store.lengths = [count] * heads


def clone(store: LayerRows) -> LayerRows:
    """Return an independent copy, for one of several continuations of the same cache."""
    return LayerRows(
        keys=store.keys.clone(),
        values=store.values.clone(),
        positions=store.positions.clone(),
        lengths=list(store.lengths),
        scores=None if store.scores is None else store.scores.clone(),
        marks=None if store.marks is None else store.marks.clone(),
    )


def measured_bytes(stores: list[LayerRows]) -> Bytes:
    """Return the bytes of all tensors of the stores. Tied rows count once, as each store owns its tensors."""
    payload = position_map = scores = whole = 0
    for store in stores:
        rows = sum(store.lengths)
        extra = [each for each in (store.scores, store.marks) if each is not None]
        per_column = [(tensor, tensor.numel() // (tensor.shape[-1] * tensor.shape[-2])) for tensor in extra]
        payload += rows * store.keys.shape[2] * (store.keys.element_size() + store.values.element_size())
        position_map += rows * store.positions.element_size()
        scores += sum(rows * depth * tensor.element_size() for tensor, depth in per_column)
        whole += sum(
            tensor.numel() * tensor.element_size() for tensor in (store.keys, store.values, store.positions, *extra)
        )
    return Bytes(payload, position_map, scores, whole - payload - position_map - scores)


def _rows_gathered(source: Tensor, columns: Tensor, room: int, *, whole: bool) -> Tensor:
    heads, count = columns.shape
    target = source.new_zeros((heads, room, source.shape[2]))  # [H, C, d]
    target[:, :count] = source if whole else source.gather(1, columns[:, :, None].expand(-1, -1, source.shape[2]))
    return target


def _columns_gathered(source: Tensor | None, columns: Tensor, room: int) -> Tensor | None:
    if source is None:
        return None
    heads, count = columns.shape
    target = source.new_zeros((*source.shape[:-1], room))  # [..., H, C]
    target[..., :count] = source.gather(-1, columns.expand((*source.shape[:-2], heads, count)))
    return target


def _zeroed(store: LayerRows, where: tuple[Any, Any]) -> None:
    if store.scores is not None:
        store.scores[where] = 0
    if store.marks is not None:
        store.marks[(..., *where)] = 0

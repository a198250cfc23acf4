"""Ragged packing of selected rows: offsets, the original-position map, and the gather (specification 0x01A).

`selected[layer][kv_head]` holds the original positions that one owner keeps, in the order in which they are packed.
Owners are laid out layer by layer, K/V head by K/V head. A packed row index is a storage coordinate and never a token
position: row 2 of [0, 2, 5, 7] is position 5.
"""

from collections.abc import Callable, Iterator, Sequence

Selection = Sequence[Sequence[Sequence[int]]]

GLOBAL_ROWS_PER_LAYER = "global_rows_per_layer"
FLAT = "flat"
LAYER_BASE_HEAD_LOCAL = "layer_base_head_local"
OFFSET_CONVENTIONS = (GLOBAL_ROWS_PER_LAYER, FLAT, LAYER_BASE_HEAD_LOCAL)


def lengths(selected: Selection) -> list[list[int]]:
    """Return the number of rows of each owner, shape [L][H_kv]."""
    return [[len(positions) for positions in heads] for heads in selected]


def position_map(selected: Selection) -> list[int]:
    """Return the original position of every packed row, shape [R_total]."""
    return [position for _, _, positions in owners(selected) for position in positions]


def owners(selected: Selection) -> Iterator[tuple[int, int, Sequence[int]]]:
    """Yield (layer, K/V head, positions) in packing order."""
    for layer, heads in enumerate(selected):
        for kv_head, positions in enumerate(heads):
            yield layer, kv_head, positions


def flat_offsets(rows: Sequence[Sequence[int]]) -> list[int]:
    """Return one list of L * H_kv + 1 offsets: owner i holds the packed rows [offsets[i], offsets[i + 1])."""
    offsets = [0]
    for heads in rows:
        for count in heads:
            offsets.append(offsets[-1] + count)
    return offsets


def global_offsets_per_layer(rows: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return a row of H_kv + 1 offsets a layer, all counted from the first packed row of the whole view.

    The last offset of a layer is repeated as the first of the next one, so the shape is [L][H_kv + 1].
    """
    table: list[list[int]] = []
    begin = 0
    for heads in rows:
        offsets = [begin]
        for count in heads:
            offsets.append(offsets[-1] + count)
        table.append(offsets)
        begin = offsets[-1]
    return table


def layer_base_offsets(rows: Sequence[Sequence[int]]) -> tuple[list[int], list[list[int]]]:
    """Return a base a layer, shape [L], and offsets counted from that base, shape [L][H_kv + 1]."""
    table = global_offsets_per_layer(rows)
    return [offsets[0] for offsets in table], [[offset - offsets[0] for offset in offsets] for offsets in table]


def gather(source: Callable[[int, int, int], Sequence[int]], selected: Selection, origin: int) -> list[Sequence[int]]:
    """Return the packed rows, shape [R_total][d_h]: row (l, h, r) is `source(l, h, selected[l][h][r] - origin)`.

    Selecting original rows is a gather and nothing else: no scalar is computed, scaled or re-positioned.
    """
    return [
        source(layer, kv_head, position - origin)
        for layer, kv_head, positions in owners(selected)
        for position in positions
    ]


def omitted_intervals(positions: Sequence[int], origin: int, frontier: int) -> list[list[int]]:
    """Return the committed positions that are not selected, as half-open intervals [begin, end) in ascending order.

    Committed are the positions [origin, origin + frontier).
    """
    intervals: list[list[int]] = []
    begin = origin
    for position in sorted(set(positions)):
        if position > begin:
            intervals.append([begin, position])
        begin = position + 1
    if begin < origin + frontier:
        intervals.append([begin, origin + frontier])
    return intervals

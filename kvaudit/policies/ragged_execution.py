"""Three ways in which a decode kernel can execute owners of different lengths (specification 0x08I).

`native_ragged` reads the packed rows through their offsets. `padded_to_longest` gives every owner of a layer as many
slots as its longest one; the padding is stored and read. `grouped_by_length` runs the owners of a layer that have
equal lengths together, without padding, in one launch a length. The selection is the same in all three; the slots that
are stored and read are not, and a backend has to admit the layout that is used.
"""

from collections.abc import Sequence
from dataclasses import dataclass

NATIVE_RAGGED = "native_ragged"
PADDED_TO_LONGEST = "padded_to_longest"
GROUPED_BY_LENGTH = "grouped_by_length"
LAYOUTS = (NATIVE_RAGGED, PADDED_TO_LONGEST, GROUPED_BY_LENGTH)


@dataclass(frozen=True, slots=True)
class Execution:
    """Row slots stored and read by one decode step over all owners, and kernel launches, at least one a layer."""

    row_slots: int
    launches: int


def execution(layout: str, lengths: Sequence[Sequence[int]]) -> Execution:
    """Return what a layout of `LAYOUTS` takes for owner lengths of shape [L][H_kv]."""
    rows = sum(map(sum, lengths))
    if layout == NATIVE_RAGGED:
        return Execution(rows, len(lengths))
    if layout == PADDED_TO_LONGEST:
        return Execution(sum(len(heads) * max(heads) for heads in lengths), len(lengths))
    return Execution(rows, sum(len(set(heads)) for heads in lengths))

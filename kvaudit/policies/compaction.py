"""When a policy compacts, and what a compaction costs (specification 0x0EC, 0x0EH and 0x0EJ).

    peak = parent live + successor unpublished + selector + backend + allocator metadata        traffic = read + write
    amplification = traffic / newly admitted K/V bytes        churn = 1 - |V' & V| / |V' | V|

The row budget bounds a compacted view. Under `periodic` a view may grow, row by row, up to the compaction trigger; the
row that would take it past the trigger makes the transaction compact. Every other cadence compacts in each transaction.
"""

from collections.abc import Collection, Sequence
from fractions import Fraction

EVERY_STEP = "every_decode_step"
PERIODIC = "periodic"
STATIC = "static"
LEARNED = "learned_transition"
CADENCES = (EVERY_STEP, PERIODIC, STATIC, LEARNED)

PER_OWNER = "per_layer_kv_head"
PER_LAYER = "per_layer"


def unit_rows(rows: Sequence[Sequence[int]], scope: str) -> list[tuple[tuple[int, ...], int]]:
    """Return (path, rows) of each unit that a budget bounds: an owner, a layer, or the whole view (path empty).

    `rows` holds the rows of each owner, shape [L][H_kv].
    """
    if scope == PER_OWNER:
        return [((layer, head), count) for layer, heads in enumerate(rows) for head, count in enumerate(heads)]
    if scope == PER_LAYER:
        return [((layer,), sum(heads)) for layer, heads in enumerate(rows)]
    return [((), sum(map(sum, rows)))]


def compacts(cadence: str, grown: Sequence[Sequence[int]], scope: str, trigger_rows: int | None) -> bool:
    """Return whether a transaction selects anew; `grown` are the rows of parent and appended rows, shape [L][H_kv]."""
    if cadence != PERIODIC or trigger_rows is None:
        return True
    return any(count > trigger_rows for _, count in unit_rows(grown, scope))


def observes(cadence: str, compacting: bool) -> bool:
    """Return whether a transaction needs fresh scores. A static rule has none, a learned one decides in the model."""
    return compacting and cadence in (EVERY_STEP, PERIODIC)


def cycle(cadence: str, maximum_rows: int, trigger_rows: int) -> tuple[int, int]:
    """Return (accepted rows, copied rows) an owner from one compaction to the next, one row a transaction.

    Starts at a compacted view of `maximum_rows`. Until the trigger, each transaction copies its new row alone and
    shares the rest; the last one copies the whole compacted view.
    """
    growing = trigger_rows - maximum_rows if cadence == PERIODIC else 0
    return growing + 1, growing + maximum_rows


def peak_bytes(
    parent_bytes: int, fresh_bytes: int, selector_bytes: int, backend_bytes: int, allocator_metadata_bytes: int
) -> int:
    """Return what is live at once while parent and unpublished successor coexist (0x0EH)."""
    return parent_bytes + fresh_bytes + selector_bytes + backend_bytes + allocator_metadata_bytes


def amplification(traffic_bytes: int, admitted_bytes: int) -> Fraction | None:
    """Return the bytes moved for each byte of newly admitted K/V, or None where nothing was admitted."""
    return Fraction(traffic_bytes, admitted_bytes) if admitted_bytes else None


def churn(one: Collection[int], other: Collection[int]) -> Fraction | None:
    """Return the share of the union of two views that they do not have in common, or None for two empty views."""
    union = set(one) | set(other)
    return 1 - Fraction(len(set(one) & set(other)), len(union)) if union else None

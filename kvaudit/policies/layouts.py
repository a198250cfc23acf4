"""Bytes of one policy state, term by term, in the layouts that can hold it (specification 0x02C to 0x02E).

    M_policy = M_visible + M_position + M_offset + M_validity + M_score + M_protected + M_receipt

A layout decides how many row slots exist and what must say which of them are live; the visible set stays the same.
Score state, protected positions and the receipt belong to the policy and cost the same in every layout. Allocator
fragmentation, shared pages and a fallback copy in another tier are other owners' bytes and no term of this sum.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from kvaudit.policies import packing
from kvaudit.policies.geometry import Geometry

EVERY_COMMITTED_POSITION = "every_committed_position"
RETAINED_ROWS = "retained_rows"
RECALLABLE_ROWS = "recallable_rows"
SCORE_SCOPES = (EVERY_COMMITTED_POSITION, RETAINED_ROWS, RECALLABLE_ROWS)

_BITS_PER_BYTE = 8


@dataclass(frozen=True, slots=True)
class PolicyBytes:
    """What a policy stores beside its rows, in bytes, whatever the layout."""

    score_state: int
    protected_bits: int
    receipt: int


@dataclass(frozen=True, slots=True)
class StateBytes:
    """M_policy term by term, in bytes, and the number of row slots that its payload has."""

    row_slots: int
    payload: int
    position_map: int
    offsets: int
    validity: int
    score_state: int
    protected_bits: int
    receipt: int

    def terms(self) -> Mapping[str, int]:
        """Return the seven terms by name, in the order of the formula."""
        return {
            "payload": self.payload,
            "position_map": self.position_map,
            "offsets": self.offsets,
            "validity": self.validity,
            "score_state": self.score_state,
            "protected_bits": self.protected_bits,
            "receipt": self.receipt,
        }

    def total(self) -> int:
        return sum(self.terms().values())

    def metadata(self) -> int:
        """Return everything but the payload."""
        return self.total() - self.payload


def full(geometry: Geometry, positions: int) -> StateBytes:
    """Return the bare full payload: a full cache needs no map (a row's index is its position) and no selector.

    This is also what the first transaction counts as live: 0x02F adds 512 B for the toy, without scores or receipt.
    """
    return StateBytes(
        row_slots=geometry.owners() * positions,
        payload=geometry.full_payload_bytes(positions),
        position_map=0,
        offsets=0,
        validity=0,
        score_state=0,
        protected_bits=0,
        receipt=0,
    )


def ragged(
    geometry: Geometry,
    retained_rows: int,
    policy: PolicyBytes,
    *,
    position_entry_bytes: int,
    offset_convention: str,
    offset_entry_bytes: int,
) -> StateBytes:
    """Return the state that stores the retained rows and nothing else, one behind the other.

    Offsets bound every owner's rows, so that no validity bit is needed.
    """
    return StateBytes(
        row_slots=retained_rows,
        payload=retained_rows * geometry.row_bytes(),
        position_map=retained_rows * position_entry_bytes,
        offsets=offset_entries(offset_convention, geometry) * offset_entry_bytes,
        validity=0,
        score_state=policy.score_state,
        protected_bits=policy.protected_bits,
        receipt=policy.receipt,
    )


def padded(
    geometry: Geometry,
    slots_per_owner: int,
    policy: PolicyBytes,
    *,
    position_entry_bytes: int,
    validity_bits_per_slot: int,
) -> StateBytes:
    """Return the state that gives every owner the same number of slots, live or not.

    The stride takes the place of offsets. Every slot has a position entry; validity bits mark the live slots.
    """
    slots = geometry.owners() * slots_per_owner
    return StateBytes(
        row_slots=slots,
        payload=slots * geometry.row_bytes(),
        position_map=slots * position_entry_bytes,
        offsets=0,
        validity=bitmap_bytes(slots * validity_bits_per_slot),
        score_state=policy.score_state,
        protected_bits=policy.protected_bits,
        receipt=policy.receipt,
    )


def tombstone(geometry: Geometry, positions: int, policy: PolicyBytes, *, validity_bits_per_row: int) -> StateBytes:
    """Return the state that keeps the full payload and marks the rows that are still live.

    A row's index is its position, so there is neither a position map nor an offset; and no payload byte is saved.
    """
    rows = geometry.owners() * positions
    return StateBytes(
        row_slots=rows,
        payload=geometry.full_payload_bytes(positions),
        position_map=0,
        offsets=0,
        validity=bitmap_bytes(rows * validity_bits_per_row),
        score_state=policy.score_state,
        protected_bits=policy.protected_bits,
        receipt=policy.receipt,
    )


def padding_efficiency(retained_rows: int, row_slots: int) -> Fraction:
    """Return eta_pad = retained rows / row slots. `row_slots` is positive."""
    return Fraction(retained_rows, row_slots)


def score_candidates(scope: str, committed_rows: int, retained_rows: int, recallable_rows: int) -> int:
    """Return the sum of |C_blh(t)|: the row instances that the selector can still choose or keep (0x02E).

    `committed_rows` counts every committed row of every owner. A selector that scores retained rows only can never
    reconsider an omitted one; one that scores recallable rows sees them beside the retained ones.
    """
    return {
        EVERY_COMMITTED_POSITION: committed_rows,
        RETAINED_ROWS: retained_rows,
        RECALLABLE_ROWS: retained_rows + recallable_rows,
    }[scope]


def offset_entries(convention: str, geometry: Geometry) -> int:
    """Return the number of offset entries of all sequences; each sequence has offsets of its own, from 0."""
    layers, kv_heads = geometry.layers, geometry.kv_heads
    per_sequence = {
        packing.GLOBAL_ROWS_PER_LAYER: layers * (kv_heads + 1),
        packing.FLAT: layers * kv_heads + 1,
        packing.LAYER_BASE_HEAD_LOCAL: layers + layers * (kv_heads + 1),
    }[convention]
    return geometry.batch * per_sequence


def bitmap_bytes(bits: int) -> int:
    """Return the whole bytes that hold so many bits."""
    return -(-bits // _BITS_PER_BYTE)


def integer_fits(entry_bytes: int, smallest: int, largest: int) -> bool:
    """Return whether an entry holds every integer from `smallest` to `largest`; it is signed if `smallest` is < 0."""
    bits = entry_bytes * _BITS_PER_BYTE
    if smallest < 0:
        return -(1 << bits - 1) <= smallest and largest < 1 << bits - 1
    return largest < 1 << bits

"""What one K/V row costs, and what a cache of such rows costs (specification 0x01A, 0x02A and 0x02B).

Bytes follow K/V heads, the persistent owners. Under GQA several query heads read one stored K/V head; that is demand,
not storage, and appears in no formula here.
"""

from dataclasses import dataclass

# Bytes of one stored scalar, by the name of its representation.
SCALAR_BYTES = {"fp32": 4, "bf16": 2, "fp16": 2, "fp8_e4m3": 1, "fp8_e5m2": 1, "int8": 1}


@dataclass(frozen=True, slots=True)
class Geometry:
    """The shape of a K/V cache: counts of sequences, layers, K/V heads and scalars a row, and widths in bytes."""

    batch: int
    layers: int
    kv_heads: int
    head_dimension: int
    key_scalar_bytes: int
    value_scalar_bytes: int

    def row_bytes(self) -> int:
        """Return B_row = d_h (b_K + b_V): the key row and the value row of one position in one K/V head."""
        return self.head_dimension * (self.key_scalar_bytes + self.value_scalar_bytes)

    def owners(self) -> int:
        """Return the number of (sequence, layer, K/V head) owners, each of which stores one row a position."""
        return self.batch * self.layers * self.kv_heads

    def token_bytes(self) -> int:
        """Return the bytes that one position adds over all owners."""
        return self.owners() * self.row_bytes()

    def full_payload_bytes(self, positions: int) -> int:
        """Return M_full = B L H_kv T d_h (b_K + b_V) for `positions` committed positions a sequence (0x02B)."""
        return self.token_bytes() * positions

"""Physical blocks of K/V rows with reference counts: what the allocator owns of a transaction (specification 0x0EE).

The allocator knows blocks and how many mappings hold each; which original positions lie in them is not its business.
A block is freed when the last mapping drops it, so that two generations can share rows and neither frees the other's.
"""

from dataclasses import dataclass, field


class OutOfRows(Exception):  # noqa: N818 - an answer of the allocator, which the transaction turns into a rollback
    """The allocator has no room for the rows that were asked for."""


@dataclass(slots=True)
class Allocator:
    """Blocks by number: the rows of each, and how many mappings hold it. Numbers are never used again.

    `live_rows` is the sum of the rows of all blocks.
    """

    capacity_rows: int
    rows: dict[int, int] = field(default_factory=dict)
    references: dict[int, int] = field(default_factory=dict)
    next_block: int = 0
    live_rows: int = 0

    def take(self, rows: int) -> int:
        """Return a new block of `rows` rows, held once. Raises `OutOfRows` without any effect."""
        if self.live_rows + rows > self.capacity_rows:
            raise OutOfRows(f"{self.live_rows} of {self.capacity_rows} rows are live, {rows} more do not fit")
        block = self.next_block
        self.next_block += 1
        self.live_rows += rows
        self.rows[block] = rows
        self.references[block] = 1
        return block

    def share(self, block: int) -> None:
        """Hold a live block once more."""
        self.references[block] += 1

    def drop(self, block: int) -> int:
        """Give up one hold of a live block; return the rows that this frees, 0 while another mapping holds it."""
        self.references[block] -= 1
        if self.references[block]:
            return 0
        del self.references[block]
        freed = self.rows.pop(block)
        self.live_rows -= freed
        return freed

    def fork(self) -> "Allocator":
        """Return an independent copy."""
        return Allocator(self.capacity_rows, dict(self.rows), dict(self.references), self.next_block, self.live_rows)

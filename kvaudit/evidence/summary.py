"""Long lists in a report: pinned by a hash, so that a report of a real model's shape still reads and diffs well."""

from collections.abc import Sequence
from typing import Any

from kvaudit.evidence import canonical

LISTED_ITEMS = 64


def summarised(items: Sequence[Any]) -> list[Any] | dict[str, Any]:
    """Return a list of at most 64 scalars as it is, and a longer one as their count and its canonical SHA-256.

    Nested lists count their innermost scalars.
    """
    listed = [list(item) if isinstance(item, tuple) else item for item in items]
    count = _scalars(listed)
    if count <= LISTED_ITEMS:
        return listed
    return {"count": count, "sha256": canonical.canonical_sha256(listed)}


def _scalars(value: Any) -> int:
    return sum(_scalars(item) for item in value) if isinstance(value, list | tuple) else 1

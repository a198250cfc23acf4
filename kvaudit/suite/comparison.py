"""Comparing what a report should be, byte for byte, with what is on disk."""

import difflib

from kvaudit.model import Diagnostic

STALE = Diagnostic(
    code="report.stale",
    contract="A report, a table page or a suite report has the very bytes that its oracle writes now.",
    why="Someone edited the report, or an input or the oracle changed after it was written; what it says is not what "
    "the evidence gives.",
    fix="Run `kvaudit regenerate` and review the difference; never edit a report by hand.",
    example='a report in which "value": 512 was changed to 511',
)
DIAGNOSTICS = (STALE,)

SHOWN_LINES = 12


def difference(old: bytes, new: bytes, limit: int | None = SHOWN_LINES) -> str:
    """Return a unified diff without context from `old` to `new`, cut after `limit` lines (None: not cut)."""
    before, after = (data.decode("utf-8", "replace").splitlines() for data in (old, new))
    lines = list(difflib.unified_diff(before, after, "on disk", "recomputed", n=0, lineterm=""))[2:]
    if not lines and old != new:
        return "only line endings or the final newline differ"
    if limit is not None and len(lines) > limit:
        lines = [*lines[:limit], f"... and {len(lines) - limit} more lines"]
    return "\n".join(lines)

"""`kvaudit.lock`: SHA-256 pins of raw bytes, one artefact a line, sorted, written by `kvaudit regenerate` only.

The suite digest is not stored: it is derived from the pins in dependency order, so that nothing has to contain its own
hash. It can be pinned from outside with `kvaudit check --expect-digest`.
"""

from collections.abc import Iterable, Mapping

from kvaudit.errors import FileDefect
from kvaudit.evidence import canonical, schema, strict_json
from kvaudit.model import Diagnostic

LOCK_NAME = "kvaudit.lock"
LOCK_SCHEMA = "kvaudit.lock/1"

HASH_MISMATCH = Diagnostic(
    code="lock.hash-mismatch",
    contract="The raw bytes of every artefact have the SHA-256 that kvaudit.lock pins.",
    why="The artefact is not the one that was reviewed; every number cited from it may have changed.",
    fix="Restore the file, or, if the change is meant, run `kvaudit regenerate` and review the difference.",
    example="a fixture with one more space at the end",
)
UNPINNED = Diagnostic(
    code="lock.unpinned",
    contract="Every artefact of the bundle has a pin in kvaudit.lock.",
    why="An unpinned artefact can drift without anyone noticing.",
    fix="Run `kvaudit regenerate` and commit the lock.",
    example="an entry added to kvaudit.yaml without a regenerate",
)
STALE_PIN = Diagnostic(
    code="lock.stale-pin",
    contract="kvaudit.lock pins artefacts of the bundle and nothing else.",
    why="A pin without an artefact means that evidence was dropped and the lock not rewritten.",
    fix="Run `kvaudit regenerate` and commit the lock.",
    example="an entry removed from kvaudit.yaml without a regenerate",
)
DIGEST_MISMATCH = Diagnostic(
    code="lock.digest-mismatch",
    contract="The suite digest equals the one given with --expect-digest.",
    why="The bundle as a whole is not the one that was cited, even if its lock agrees with itself.",
    fix="Check out the cited state, or cite the digest that `kvaudit digest` prints now.",
    example="kvaudit check --expect-digest 00…00",
)
DIAGNOSTICS = (HASH_MISMATCH, UNPINNED, STALE_PIN, DIGEST_MISMATCH)


def parse_lock(data: bytes) -> dict[str, str]:
    """Return the pins by path, or raise `FileDefect`."""
    document = strict_json.parse_json(data)
    schema.check(LOCK_SCHEMA, document)
    pins: dict[str, str] = document["artefacts"]
    return pins


def lock_bytes(pins: Mapping[str, str]) -> bytes:
    """Return the lock file for these pins: the same bytes on every machine."""
    document = {"schema": LOCK_SCHEMA, "artefacts": dict(sorted(pins.items()))}
    return canonical.json_text(document).encode()


def require_pinned(pins: Mapping[str, str], path: str, data: bytes) -> None:
    """Raise `FileDefect` if `path` has no pin or if its bytes do not have the pinned hash."""
    if path not in pins:
        raise FileDefect(UNPINNED, "", f"expected a pin in {LOCK_NAME}, found none")
    found = canonical.sha256(data)
    if found != pins[path]:
        raise FileDefect(HASH_MISMATCH, "", f"expected sha256 {pins[path]}, found {found}{_why(data, pins[path])}")


def suite_digest(lines: Iterable[tuple[str, str, str, str]]) -> str:
    """Return the SHA-256 over `id:fixture_hash:report_hash:adapter` lines in dependency order (0x0FB)."""
    return canonical.sha256("\n".join(":".join(line) for line in lines).encode())


def _why(data: bytes, pin: str) -> str:
    """Name a difference that a reader would not see: line endings, or the final newline."""
    unix = data.replace(b"\r\n", b"\n")
    if canonical.sha256(unix) == pin:
        return "; the file differs in its line endings only (CRLF for LF): check .gitattributes for `* -text`"
    if canonical.sha256(unix.rstrip(b"\n") + b"\n") == pin:
        return "; the file differs in its final newline only"
    return ""

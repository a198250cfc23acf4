"""Bytes to text, the step that strict JSON and strict YAML share.

Evidence is hashed as raw bytes, so nothing is repaired on the way in: a byte-order mark, a byte that is not UTF-8 or
a file over the size limit is refused with its place.
"""

from dataclasses import dataclass

from kvaudit.errors import FileDefect
from kvaudit.model import Diagnostic


@dataclass(frozen=True, slots=True)
class Limits:
    """How large a document may be (bytes) and how deeply its arrays and objects may nest."""

    max_bytes: int = 64 * 1024 * 1024
    max_depth: int = 128


DEFAULT_LIMITS = Limits()

TOO_LARGE = Diagnostic(
    code="file.too-large",
    contract="A document is no larger than the size limit, 64 MiB unless --max-bytes says otherwise.",
    why="A checker in CI must not be brought down by one file; evidence of this size belongs into a hash.",
    fix="Replace bulk data by its SHA-256 and a summary, or raise --max-bytes.",
    example="a JSON file of 65 MiB",
)
BYTE_ORDER_MARK = Diagnostic(
    code="file.byte-order-mark",
    contract="A document starts with its first character, not with a byte-order mark.",
    why="The mark is invisible and changes the SHA-256 that pins the file.",
    fix="Save the file as UTF-8 without a byte-order mark (remove the BOM).",
    example="the bytes EF BB BF 7B 7D",
)
NOT_UTF8 = Diagnostic(
    code="file.not-utf8",
    contract="A document is UTF-8.",
    why="Another encoding reads differently on another machine, so the same bytes would mean two things.",
    fix="Convert the file to UTF-8.",
    example='the bytes 7B 22 E9 22 3A 31 7D, which are {"é":1} in Latin-1',
)

DIAGNOSTICS = (TOO_LARGE, BYTE_ORDER_MARK, NOT_UTF8)


def refuse_oversize(size_bytes: int, limits: Limits) -> None:
    """Raise `FileDefect` if a file of this size is over the limit."""
    if size_bytes > limits.max_bytes:
        raise FileDefect(TOO_LARGE, "", f"expected at most {limits.max_bytes} bytes, found {size_bytes}")


def decode(data: bytes, limits: Limits) -> str:
    """Return the text of a document, or raise `FileDefect`."""
    refuse_oversize(len(data), limits)
    if data.startswith(b"\xef\xbb\xbf"):
        raise FileDefect(BYTE_ORDER_MARK, "", "the file starts with the byte-order mark EF BB BF; remove the BOM", 1)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise FileDefect(
            NOT_UTF8, "", f"expected UTF-8, found the byte 0x{data[error.start]:02X} at offset {error.start}", line
        ) from None

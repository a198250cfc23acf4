"""The only module that opens and writes files.

Reading: a path in a bundle is relative, has no `..`, and stays inside the bundle after every symbolic link is
followed; what it names is a regular file. Writing: a temporary file beside the target, flushed to the disk, then
renamed over it, so that a reader sees the old bytes or the new ones and an interrupted run leaves the old.
"""

import contextlib
import os
import re
import stat
import tempfile
import unicodedata
from collections.abc import Iterator
from pathlib import Path

from kvaudit.errors import FileDefect, KvauditError
from kvaudit.evidence.text import DEFAULT_LIMITS, Limits, refuse_oversize
from kvaudit.model import Diagnostic

ESCAPES = Diagnostic(
    code="path.escapes-bundle",
    contract="Every path in a bundle is relative, written with forward slashes, has no `..`, and stays inside the "
    "bundle after symbolic links are followed.",
    why="A verifier that opens what a manifest names could be made to read, hash or publish any file of the machine; "
    "and what lies outside can change without the bundle changing.",
    fix="Move the file into the bundle and name it by its path from the folder of kvaudit.yaml.",
    example="fixture: ../../etc/passwd",
)
MISSING = Diagnostic(
    code="path.missing",
    contract="Every file that a bundle names exists and can be read.",
    why="Evidence that is not there proves nothing; a skipped file would look like a passed check.",
    fix="Restore the file, correct the path, or run `kvaudit regenerate` if it is a report.",
    example="fixture: fixtures/gone.json",
)
NOT_A_FILE = Diagnostic(
    code="path.not-a-file",
    contract="What a path in a bundle names is a regular file.",
    why="A folder has no bytes to pin; a device or a named pipe can block a check or give other bytes each time.",
    fix="Name a regular file.",
    example="fixture: /dev/zero, or a named pipe inside the bundle",
)
NOT_NORMAL = Diagnostic(
    code="path.not-normalised",
    contract="A path in a bundle is in Unicode normal form C.",
    why="An accented letter has two spellings; a file listed in one and stored in the other is both missing and extra.",
    fix="Write the path in normal form C, or with ASCII letters only.",
    example="fixture: re\u0301sultat.json",
)
DIAGNOSTICS = (ESCAPES, MISSING, NOT_A_FILE, NOT_NORMAL)

_DRIVE = re.compile(r"^.:")  # a drive of Windows, or a stream of a file with a name of one character


def refused_spelling(relative: str) -> FileDefect | None:
    """Return why no bundle may spell a path like this, or None. It looks at the text alone."""
    if unicodedata.normalize("NFC", relative) != relative:
        return FileDefect(NOT_NORMAL, "", f"the path {relative!r} is not in Unicode normal form C")
    parts = relative.split("/")
    if not relative or "\0" in relative or "\\" in relative or _DRIVE.match(relative) or "" in parts:
        return FileDefect(ESCAPES, "", f"expected a relative path with forward slashes, found {relative!r}")
    if ".." in parts:
        return FileDefect(ESCAPES, "", f"expected a path without '..', found {relative!r}")
    return None


def confined(root: Path, relative: str) -> Path:
    """Return the real path of `relative` inside the bundle at `root`, or raise `FileDefect`. It need not exist."""
    refused = refused_spelling(relative)
    if refused is not None:
        raise refused
    try:
        real_root = root.resolve()
        real = (real_root / relative).resolve()
    except (OSError, RuntimeError) as error:
        raise FileDefect(ESCAPES, "", f"{relative!r} cannot be resolved: {error}") from None
    if not real.is_relative_to(real_root):
        raise FileDefect(ESCAPES, "", f"{relative!r} is a symbolic link that leaves the bundle")
    return real


def read_in_bundle(root: Path, relative: str, limits: Limits = DEFAULT_LIMITS) -> bytes:
    """Return the bytes of a regular file inside the bundle, or raise `FileDefect`."""
    return read_regular(confined(root, relative), limits)


def read_regular(path: Path, limits: Limits = DEFAULT_LIMITS) -> bytes:
    """Return the bytes of a regular file, or raise `FileDefect`."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise FileDefect(NOT_A_FILE, "", f"expected a regular file, found {_kind(status.st_mode)}")
        refuse_oversize(status.st_size, limits)
        with path.open("rb") as file:
            data = file.read(limits.max_bytes + 1)
    except OSError as error:
        raise FileDefect(MISSING, "", f"the file cannot be read: {error.strerror or error}") from None
    refuse_oversize(len(data), limits)
    return data


def files_below(root: Path, relative: str) -> Iterator[str]:
    """Yield the bundle path of every file below a folder of the bundle, sorted; a path that is a file yields itself."""
    real = confined(root, relative)
    if not real.is_dir():
        yield relative
        return
    for folder, folders, names in os.walk(real):
        folders.sort()
        for name in sorted(names):
            yield relative + "/" + (Path(folder) / name).relative_to(real).as_posix()


def write_atomically(path: Path, data: bytes) -> None:
    """Replace the file at `path` by `data`, or leave it as it was and raise `KvauditError`."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, _mode_for(path))
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise KvauditError(f"cannot write {path}: {error.strerror or error}; nothing was changed there") from error


def nearest_with(name: str, start: Path) -> Path | None:
    """Return the nearest folder, from `start` upwards, that holds a file called `name`."""
    for folder in (start, *start.parents):
        if (folder / name).is_file():
            return folder
    return None


def _mode_for(path: Path) -> int:
    """Return the mode of the file that is replaced, or the one that a new file gets under the current umask."""
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        umask = os.umask(0)
        os.umask(umask)
        return 0o666 & ~umask


def _kind(mode: int) -> str:
    kinds = {
        stat.S_IFDIR: "a folder",
        stat.S_IFIFO: "a named pipe",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
        stat.S_IFSOCK: "a socket",
    }
    return kinds.get(stat.S_IFMT(mode), "something else")

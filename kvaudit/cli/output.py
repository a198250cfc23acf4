"""The only place that prints: answers to stdout, progress and troubles to stderr."""

import contextlib
import errno
import os
import shutil
import sys
from collections.abc import Callable, Iterator

import click

from kvaudit.render.tables import PIPE, Display


def display() -> Display:
    """Return how stdout shows text: a terminal with or without colour, or a pipe."""
    stream = sys.stdout
    if not stream.isatty():
        return PIPE
    dumb = os.environ.get("TERM") == "dumb"
    return Display(
        width=shutil.get_terminal_size().columns,
        colour=not dumb and not os.environ.get("NO_COLOR"),
        ascii_only=dumb or "utf" not in (stream.encoding or "").lower(),
    )


def answer(text: str) -> None:
    """Print text for people in the encoding of the terminal; a character that it lacks becomes a question mark."""
    encoding = sys.stdout.encoding or "utf-8"
    _write(text.encode(encoding, "replace"))


def document(text: str) -> None:
    """Print a document for programs as UTF-8, whatever the locale says."""
    _write(text.encode("utf-8"))


def trouble(text: str) -> None:
    """Print a message on stderr."""
    encoding = sys.stderr.encoding or "utf-8"
    click.echo(text.encode(encoding, "replace").decode(encoding), err=True)


@contextlib.contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """Give a function that shows on stderr what is at work; silent unless stderr is a terminal."""
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield lambda _: None
        return
    try:
        yield lambda name: click.echo(f"\r\x1b[K{name}", nl=False, err=True)
    finally:
        click.echo("\r\x1b[K", nl=False, err=True)


def _write(data: bytes) -> None:
    try:
        click.echo(data, nl=False)
    except OSError as error:
        if error.errno != errno.EPIPE:
            raise
        # The reader (head, less) has seen enough. The exit code stays the verdict, so nothing more is written.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

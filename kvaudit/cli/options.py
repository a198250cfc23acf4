"""Options that several commands share."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from kvaudit.evidence.text import DEFAULT_LIMITS, Limits

Command = Callable[..., Any]


def root(command: Command) -> Command:
    """Add --root."""
    return click.option(
        "--root",
        type=click.Path(path_type=Path, file_okay=False),
        help="Folder of the bundle. Default: the nearest one upwards with a kvaudit.yaml, else the one kvaudit brings.",
    )(command)


def limits(command: Command) -> Command:
    """Add --max-bytes and --max-depth."""
    for option in (
        click.option(
            "--max-depth",
            type=click.IntRange(1, 900),
            default=DEFAULT_LIMITS.max_depth,
            show_default=True,
            help="How deeply a document may nest.",
        ),
        click.option(
            "--max-bytes",
            type=click.IntRange(1),
            default=DEFAULT_LIMITS.max_bytes,
            show_default=True,
            help="How large a file may be.",
        ),
    ):
        command = option(command)
    return command


def output_format(*formats: str) -> Callable[[Command], Command]:
    """Add --format with these choices, the first being the default."""
    return click.option(
        "--format",
        "output_format",
        type=click.Choice(formats),
        default=formats[0],
        show_default=True,
        help="How the answer is written. It never changes the exit code.",
    )


def to_limits(max_bytes: int, max_depth: int) -> Limits:
    """Return the limits that the options state."""
    return Limits(max_bytes, max_depth)

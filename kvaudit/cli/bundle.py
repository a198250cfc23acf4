"""Finding the bundle that a command works on, and how its path is shown."""

import os
from pathlib import Path

from kvaudit.evidence.bundle import Bundle, find_root, load_bundle
from kvaudit.evidence.text import Limits


def open_bundle(root: Path | None, limits: Limits) -> tuple[Bundle, str]:
    """Return the bundle and its path as seen from here: the empty string for the current folder."""
    here = Path.cwd()
    bundle = load_bundle(find_root(root, here), limits)
    try:
        shown = os.path.relpath(bundle.root, here)
    except ValueError:  # another drive
        shown = str(bundle.root)
    if shown.startswith(os.path.join("..", "..")):
        shown = str(bundle.root)
    return bundle, "" if shown == "." else Path(shown).as_posix()

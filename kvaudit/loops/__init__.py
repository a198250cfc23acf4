"""The loops, one module each. This tuple is the only list of them in the code."""

from kvaudit.loops import loop02_visibility, loop03_cost, loop04_static
from kvaudit.model import Loop

LOOPS: tuple[Loop, ...] = (
    loop02_visibility.LOOP,
    loop03_cost.LOOP,
    loop04_static.LOOP,
)


def loop_by_command(command: str) -> Loop | None:
    """Return the loop whose command and oracle have this name, or None."""
    return next((loop for loop in LOOPS if loop.command == command), None)

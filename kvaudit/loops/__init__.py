"""The loops, one module each. This tuple is the only list of them in the code."""

from kvaudit.loops import (
    loop02_visibility,
    loop03_cost,
    loop04_static,
    loop05_dynamic,
    loop06_snapkv,
    loop07_allocation,
    loop08_representation,
    loop09_transaction,
    loop10_reconciliation,
    loop11_papers,
    loop12_publication,
    loop13_spherical,
)
from kvaudit.model import Loop

LOOPS: tuple[Loop, ...] = (
    loop02_visibility.LOOP,
    loop03_cost.LOOP,
    loop04_static.LOOP,
    loop05_dynamic.LOOP,
    loop06_snapkv.LOOP,
    loop07_allocation.LOOP,
    loop08_representation.LOOP,
    loop09_transaction.LOOP,
    loop10_reconciliation.LOOP,
    loop11_papers.LOOP,
    loop12_publication.LOOP,
    loop13_spherical.LOOP,
)


def loop_by_command(command: str) -> Loop | None:
    """Return the loop whose command and oracle have this name, or None."""
    return next((loop for loop in LOOPS if loop.command == command), None)


def is_over_reports(command: str) -> bool:
    """Return whether the oracle of this name consumes reports and documents of a bundle besides its fixture."""
    loop = loop_by_command(command)
    return loop is not None and loop.collected_schema is not None

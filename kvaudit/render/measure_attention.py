"""Records of decode steps as tables, in the order in which the layouts were asked for.

Nothing is sorted by value. A ratio stands beside the copy of its own layout only.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from kvaudit.model import Document, Table
from kvaudit.render import tables
from kvaudit.render.tables import Display

_STORED = ("layout", "rows", "bytes addressed", "bytes resident", "error", "coding error")
_TIMED = ("layout", "backend", "step us", "95 % interval", "GB/s", "copy GB/s", "ratio")


def text(records: Sequence[Document], display: Display) -> str:
    """Return what was asked, the layouts, and their times as the display shows them."""
    return tables.text(record_tables(records), display)


def record_tables(records: Sequence[Document]) -> tuple[Table, ...]:
    """Return the tables of the records of one run."""
    asked, surroundings = records[0]["request"], records[0]["environment"]
    what = (
        ("heads", f"{asked['query_heads']} query, {asked['kv_heads']} K/V, dimension {asked['head_dimension']}"),
        ("rows", f"{asked['rows']} a head, batch {asked['batch']}, kept {asked['kept']}"),
        ("type", asked["dtype"]),
        ("device", str(surroundings["device"] or surroundings["device_kind"])),
        ("repetitions", f"{asked['repetitions']} after {asked['warm_up']} warm-ups"),
    )
    stored = tuple(
        (
            record["layout"]["name"],
            _of(record["layout"]["rows_per_owner"], "total"),
            _of(record["bytes"], "addressed_total"),
            _of(record["bytes"], "resident_total"),
            _digits(_of(record["check"], "largest_error"), 2),
            _digits(_of(record["check"], "coding_error"), 2),
        )
        for record in records
    )
    timed = tuple(
        (record["layout"]["name"], str(record["execution"]["backend"] or "none"), *_times(record["metrics"]))
        for record in records
    )
    found = [Table("Decode step", ("what", "stated"), what)]
    if any(record["bytes"] is not None for record in records):
        found += [Table("Layouts", _STORED, _texts(stored)), Table("Times", _TIMED, timed)]
    notes = dict[str, list[str]]()
    for record in records:
        for said in (record["execution"]["note"], record["outcome"]["message"]):
            if said is not None:
                notes.setdefault(said, []).append(record["layout"]["name"])
    if notes:
        rows = tuple((said, "all" if len(of) == len(records) else ", ".join(of)) for said, of in notes.items())
        found.append(Table("Notes", ("note", "layouts"), rows))
    return tuple(found)


def _times(metrics: Document | None) -> tuple[str, ...]:
    if metrics is None:
        return ("none", "", "none", "none", "none")
    step, interval = metrics["step_time"], metrics["step_time"]["interval"]
    between = "" if interval is None else f"{_scaled(interval['low'], 6)} to {_scaled(interval['high'], 6)}"
    return (
        _scaled(step["value"], 6),
        between,
        _scaled(metrics["effective_bandwidth"]["value"], -9),
        _scaled(metrics["copy_bandwidth"]["value"], -9),
        _digits(metrics["bandwidth_ratio"]["value"], 3),
    )


def _of(part: Document | None, name: str) -> Any:
    return None if part is None else part[name]


def _texts(rows: tuple[tuple[Any, ...], ...]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple("none" if cell is None else str(cell) for cell in row) for row in rows)


def _scaled(value: Fraction | float | None, power: int) -> str:
    return "none" if value is None else _digits(float(value) * 10.0**power, 3)


def _digits(value: Fraction | float | None, digits: int) -> str:
    if value is None:
        return "none"
    number = float(value)
    return f"{number:.0f}" if abs(number) >= 10**digits else f"{number:.{digits}g}"

"""A measurement record as tables: what was asked and what came of it, the metrics, the rungs of the ladder.

Metrics stand in the order of the record; nothing is sorted by value, and no value is set beside another record's.
"""

from typing import Any

from kvaudit.model import Document, Table
from kvaudit.render import tables
from kvaudit.render.tables import Display

_DIGITS = 6


def text(record: Document, display: Display) -> str:
    """Return the tables of a record as the display shows them."""
    return tables.text(record_tables(record), display)


def record_tables(record: Document) -> tuple[Table, ...]:
    """Return what a record says: its outcome and request, its metrics, and the lower rungs a layer."""
    outcome, request, budget = record["outcome"], record["request"], record["request"]["budget"]
    parameters = ", ".join(f"{name} {_shown(value)}" for name, value in record["policy"]["parameters"].items())
    asked = (
        ("outcome", outcome["class"] if outcome["reason"] is None else f"{outcome['class']} ({outcome['reason']})"),
        ("policy", record["policy"]["name"]),
        ("parameters", parameters or "none"),
        ("budget", "none" if budget is None else f"{budget['value']} {budget['unit']}, {budget['scope']}"),
        ("question", request["question"].replace("_", " ")),
        ("prompts finished", str(record["axes"]["failures"]["prompts_finished"])),
        ("device", _shown(record["environment"]["device"])),
        ("peak", "none" if not record["prompts"] else record["prompts"][0]["peak_counted"]),
    )
    metrics = tuple(
        (
            name.replace("_", " "),
            _shown(metric["value"]),
            metric["unit"],
            metric["coordinates"]["metric.statistic"],
            metric["coordinates"]["metric.denominator"],
            _interval(metric["interval"]),
        )
        for name, metric in record["metrics"].items()
    )
    rungs = tuple(
        tuple(_shown(row[name]) for name in ("layer", "retained_mass", "omitted_mass", "attention_output_error"))
        for row in record["ladder"]
    )
    found = [Table("Measurement", ("what", "stated"), asked)]
    if metrics:
        found.append(Table("Metrics", ("metric", "value", "unit", "statistic", "for each", "95 % interval"), metrics))
    if rungs:
        columns = ("layer", "retained mass", "omitted mass", "attention output error")
        found.append(Table("Lower rungs, a layer", columns, rungs))
    return tuple(found)


def _interval(interval: Document | None) -> str:
    return "" if interval is None else f"{_shown(interval['low'])} to {_shown(interval['high'])}"


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool | str | int):
        return str(value)
    if isinstance(value, list):
        return "[" + ", ".join(_shown(each) for each in value) + "]"
    return f"{float(value):.{_DIGITS}g}"

"""Measurement records as tables: one table a cohort, rows in the order given, and what a sweep came to.

Rules of this module:
- Values stand in one table only if they may be compared, apart from what the table is about: policy and budget.
- Nothing is sorted by a value, no value is marked, and nothing is subtracted or divided across rows.
- What was not measured is a dash.
"""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from kvaudit.model import Document, Table
from kvaudit.reconcile.coordinates import State, Value
from kvaudit.reconcile.measurements import Cohort, Grouped, declared_distances, grouped, mean_reference
from kvaudit.render import tables
from kvaudit.render.tables import Display

NONE = "-"

_DIGITS = 4
_WIDTH = 120
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class _Column:
    """A metric as a column: its heading with the unit, and what the value is divided by to be in that unit."""

    metric: str
    heading: str
    divisor: Fraction = Fraction(1)
    interval: bool = False


_COLUMNS = (
    _Column("kl_divergence", "KL, nat"),
    _Column("top1_agreement", "top-1"),
    _Column("nll_change", "NLL change, nat"),
    _Column("retained_mass", "retained mass"),
    _Column("attention_output_error", "output error"),
    _Column("kept_fraction", "kept"),
    _Column("resident_bytes", "resident, MiB", Fraction(_MIB)),
    _Column("represented_bytes", "as codes, MiB", Fraction(_MIB)),
    _Column("selection_time", "selection, ms", Fraction(1, 1000)),
    _Column("decode_step_time", "decode step, ms (95 %)", Fraction(1, 1000), interval=True),
)
_REFERENCE = "reference_log_probability"

_PREFACE = """\
One table a cohort: in a table every coordinate agrees but policy and budget, which it is about. Rows stand in the order
of the plan; nothing is ranked. Values of two tables must not be compared; `kvaudit explain A B` says why. A dash is a
value that was not measured.
"""

_LEGEND = """\
KL: mean divergence of next-token distributions from the full cache of the same run, on the tokens of the full cache.
top-1: share of steps in which the most probable token is the full cache's. NLL change: of the continuation, against the
full cache. reference N: mean log-probability, in nats, of answers to what was said about N tokens before the end of the
text. retained mass and output error are the lower rungs: dense attention probability of the visible rows, and relative
change of the attention output, layer by layer at the queries of the full cache. kept: rows over prompt rows, each K/V
head. resident: all tensors of the store after the hand-off, a prompt. as codes: what the changed representation would
take; the store itself holds decoded rows. Times are medians.
"""


def markdown(records: Sequence[Document], title: str, does_not_show: str | None = None) -> str:
    """Return the tables of records, which have passed their schema, as a Markdown page."""
    found = grouped(records)
    blocks = [f"# {title}\n", _PREFACE]
    if does_not_show is not None:
        blocks.append("## What this does not show\n")
        blocks.extend(f"{textwrap.fill(paragraph, _WIDTH)}\n" for paragraph in does_not_show.strip().split("\n\n"))
    for number, cohort in enumerate(found.cohorts, start=1):
        keys = "".join(f"- `{key}`: {_coordinate(cohort.stated[key])}\n" for key in cohort.apart)
        apart = f"It differs from the others in:\n\n{keys}\n" if keys else ""
        heading, _, rows = tables.markdown([_table(cohort, f"Cohort {number}")]).partition("\n\n")
        blocks.append(f"{heading}\n\n{apart}{rows}")
    if found.unplaced:
        blocks.append(tables.markdown([_unplaced(found)]))
    if found.cohorts:
        blocks.append(f"## Columns\n\n{_LEGEND}")
    return "\n".join(blocks)


def text(records: Sequence[Document], display: Display) -> str:
    """Return the tables of records, which have passed their schema, for a terminal or a pipe."""
    return tables.text(record_tables(grouped(records)), display)


def record_tables(found: Grouped) -> tuple[Table, ...]:
    """Return one table a cohort, and one of the records that are of none."""
    shown = [_table(cohort, f"Cohort {number}{_apart(cohort)}") for number, cohort in enumerate(found.cohorts, start=1)]
    return (*shown, *([_unplaced(found)] if found.unplaced else []))


def _table(cohort: Cohort, title: str) -> Table:
    columns = [
        column
        for column in _COLUMNS
        if column.metric in cohort.metrics
        and any(record["metrics"][column.metric]["value"] is not None for record in cohort.records)
    ]
    distances = declared_distances(cohort.records) if _REFERENCE in cohort.metrics else ()
    varied = _varied(cohort.records)
    rows = tuple(
        (
            _policy(record, varied),
            _budget(record),
            record["outcome"]["class"],
            *(_value(record["metrics"][column.metric], column) for column in columns),
            *(number(mean_reference(record, distance)) for distance in distances),
        )
        for record in cohort.records
    )
    headings = (
        "policy",
        "budget",
        "outcome",
        *(column.heading for column in columns),
        *(f"reference {distance}" for distance in distances),
    )
    return Table(title, headings, rows)


def _unplaced(found: Grouped) -> Table:
    varied = _varied(found.unplaced)
    rows = tuple(
        (
            _policy(record, varied),
            _budget(record),
            record["request"]["question"].replace("_", " "),
            record["outcome"]["class"],
            record["outcome"]["reason"] or NONE,
            record["outcome"]["message"] or NONE,
        )
        for record in found.unplaced
    )
    return Table("Of no cohort", ("policy", "budget", "question", "outcome", "reason", "message"), rows)


def _apart(cohort: Cohort) -> str:
    said = "; ".join(f"{key} {_coordinate(cohort.stated[key])}" for key in cohort.apart)
    return f": {said}" if said else ""


def _varied(records: Sequence[Document]) -> dict[str, tuple[str, ...]]:
    """Return, by policy, the parameters that were asked for with more than one value."""
    asked: dict[str, dict[str, list[Any]]] = {}
    for record in records:
        for name, value in record["request"]["parameters"].items():
            asked.setdefault(record["policy"]["name"], {}).setdefault(name, []).append(value)
    return {
        policy: tuple(name for name, values in each.items() if any(value != values[0] for value in values))
        for policy, each in asked.items()
    }


def _policy(record: Document, varied: Mapping[str, tuple[str, ...]]) -> str:
    """Return the policy, with the parameters that tell it from another record of the same policy."""
    name, parameters = record["policy"]["name"], record["request"]["parameters"]
    shown = ", ".join(f"{each} {parameters[each]}" for each in varied.get(name, ()) if each in parameters)
    return f"{name} ({shown})" if shown else str(name)


def _budget(record: Document) -> str:
    budget = record["request"]["budget"]
    if budget is None:
        return "none"
    unit = "of rows" if budget["unit"] == "fraction_kept" else "rows"
    return f"{budget['value']} {unit}, {budget['scope'].replace('_', ' ')}"


def _value(metric: Document, column: _Column) -> str:
    shown = number(metric["value"], column.divisor)
    interval = metric["interval"]
    if column.interval and interval is not None:
        shown += f" ({number(interval['low'], column.divisor)} to {number(interval['high'], column.divisor)})"
    return shown


def number(value: int | Fraction | None, divisor: Fraction = Fraction(1)) -> str:
    """Return a number with few digits, a dash for none."""
    return NONE if value is None else f"{float(Fraction(value) / divisor):.{_DIGITS}g}"


def _coordinate(value: Value) -> str:
    return value.value.replace("_", " ") if isinstance(value, State) else str(value)

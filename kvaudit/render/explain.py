"""An explanation of a pair as text, Markdown and JSON.

The values of a metric are shown only if they may be compared; no ratio, difference or order of values is ever written.
Two coordinates that are said to differ never look equal: where they would, they are shown as JSON writes them.
"""

import json as plain_json
import textwrap
import unicodedata
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import zip_longest
from typing import Any

from kvaudit.evidence.canonical import exact_json_text
from kvaudit.model import Finding, Table
from kvaudit.reconcile import relation as relations
from kvaudit.reconcile.coordinates import State, Value, kind_of, to_json
from kvaudit.reconcile.explain import ALIGN, REPORT, Change, Explanation, Row
from kvaudit.reconcile.relation import DIFFERENT, EQUAL, NOT_APPLICABLE, SYSTEM, UNDECLARED, MetricRelation, Relation
from kvaudit.reconcile.subjects import SECONDS, Metric, Subject
from kvaudit.render import tables
from kvaudit.render.check import finding_documents
from kvaudit.render.tables import Display, printable

SCHEMA = "kvaudit.explanation/1"
BY_READER = "declared by the reader"
CONTRACT = "contract/1"

_LISTED_KEYS = 8
_RELATIONS = {
    relations.COMPARABLE: "comparable",
    relations.SHARED_LINEAGE: "shared lineage; metric comparability none",
    relations.INCOMPATIBLE: "incompatible; metric comparability none",
}


def text(explanation: Explanation, display: Display) -> str:
    """Return the explanation for a terminal or a pipe."""
    relation, rows = explanation.relation, explanation.rows
    silent = _silent(rows)
    shown = [row for row in rows if row not in silent]

    def items(sentences: Iterable[str]) -> Iterable[str]:
        return (_line("", each, display, 2, 4) for each in sentences)

    def explained(state: str) -> Iterable[str]:
        return (line for row in shown if row.why and row.state == state for line in _explained(row, relation, display))

    absent = ", ".join(_name(row) for row in rows if row.state == NOT_APPLICABLE)
    sections = {
        "Metrics": items(_metrics(relation)),
        "Different": explained(DIFFERENT),
        "Undeclared": explained(UNDECLARED),
        f"Undeclared on both sides, {len(silent)} coordinates (--format json says why each matters)": [
            _line("", ", ".join(map(_name, silent)), display, 2) for _ in silent[:1]
        ],
        "Not equal, and ignored": items(f"{_name(row)} {each}" for row in rows for each in _waivers(row)),
        "Equal": _equal([row for row in rows if row.state == EQUAL], relation, display),
        "Not applicable to both": [_line("", absent, display, 2)] if absent else [],
        "Declared by the reader": items(_supplied(relation)),
        "What would put both into one cohort": items(_remedy(explanation)),
    }
    blocks = [
        [_line(side, _source(subject), display, 3) for side, subject in _sides(relation)],
        [_bold(_RELATIONS[relation.kind], display), *items(_grounds(relation))],
        *(_section(title, lines, display) for title, lines in sections.items()),
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def markdown(explanation: Explanation) -> str:
    """Return the explanation as a Markdown page, to be pasted into a review."""
    relation = explanation.relation
    rows = explanation.rows
    coordinates = Table("Coordinates", ("coordinate", "A", "B", "state"), tuple(map(_cells, rows)))
    sections = [
        "\n".join(f"- {side}: {_source(subject)}" for side, subject in _sides(relation)),
        "\n\n".join([f"**{_RELATIONS[relation.kind]}**", *_grounds(relation)]),
        _bullets("Metrics", _metrics(relation)),
        tables.markdown([coordinates]).rstrip() if rows else "",
        _bullets("Why it matters", (" ".join((f"`{_name(r)}`:", *_whys(r), f"*{_fix(r)}*")) for r in rows if r.why)),
        _bullets("Not equal, and ignored", (f"`{_name(row)}` {each}" for row in rows for each in _waivers(row))),
        _bullets("Declared by the reader", _supplied(relation)),
        _bullets("What would put both into one cohort", _remedy(explanation)),
    ]
    title = " and ".join(printable(subject.id) for _, subject in _sides(relation))
    return "\n\n".join([f"# {title}", *filter(None, sections)]) + "\n"


def json(explanation: Explanation) -> str:
    """Return the explanation as a JSON document."""
    return exact_json_text(document(explanation))


def document(explanation: Explanation) -> dict[str, Any]:
    """Return the explanation as JSON values, to be written exactly."""
    relation, smallest = explanation.relation, explanation.smallest
    return {
        "schema": SCHEMA,
        **{side.lower(): _subject_document(subject) for side, subject in _sides(relation)},
        "relation": relation.kind,
        "comparable_metrics": list(relation.comparable_metrics),
        "links": [
            {"from": link.source, "to": link.target, "kind": link.kind, "basis": link.basis} for link in relation.links
        ],
        "metrics": {each.metric: _metric_document(relation, each) for each in relation.metrics},
        "coordinates": [_row_document(row) for row in explanation.rows],
        "smallest_change": None
        if smallest is None
        else {
            "metrics": list(smallest.metrics),
            "changes": [
                {"action": each.action, "name": each.name, "sides": list(each.sides), "remedy": each.remedy}
                for each in smallest.changes
            ],
        },
        "findings": [],
    }


def findings_json(findings: Iterable[Finding]) -> str:
    """Return the document for a pair of which one could not be read."""
    return exact_json_text({"schema": SCHEMA, "relation": None, "findings": finding_documents(findings)})


def _sides(relation: Relation) -> tuple[tuple[str, Subject], tuple[str, Subject]]:
    return ("A", relation.a), ("B", relation.b)


def _source(subject: Subject) -> str:
    basis = f"; rests on {', '.join(subject.rests_on)}" if subject.rests_on else ""
    return printable(f"{subject.id} ({subject.system.title}, {subject.path}{basis})")


def _grounds(relation: Relation) -> Iterable[str]:
    """Yield the sentences that the relation rests on."""
    for link in relation.links:
        yield printable(f"{link.source} is linked to {link.target} by {link.kind}: {link.basis}.")
    if relation.kind == relations.SHARED_LINEAGE:
        yield "The link says where the two come from; it lets no value of one stand beside a value of the other."
    if not relation.same_system:
        one, other = relation.a.system.title, relation.b.system.title
        yield (
            f"A is a {one} and B is a {other}: these are different kinds of statement, and no declared projection "
            "reads one as the other."
        )
    elif not any(each.shared for each in relation.metrics):
        yield "The two have no metric in common."
    elif relation.kind == relations.INCOMPATIBLE:
        yield "No metric that the two share has all of its coordinates stated and equal."


def _metrics(relation: Relation) -> Iterable[str]:
    """Yield one line for all metrics of which the same is to be said."""
    if not relation.same_system:
        return
    verdicts: dict[str, list[str]] = {}
    for each in sorted(relation.metrics, key=lambda each: not each.shared):
        verdicts.setdefault(_verdict(relation, each), []).append(each.metric)
    for verdict, names in verdicts.items():
        yield f"{verdict}: {', '.join(names)}" if verdict.startswith("only") else f"{', '.join(names)}: {verdict}"


def _verdict(relation: Relation, each: MetricRelation) -> str:
    if not each.shared:
        return f"only in {each.sides[0]}"
    if each.comparable:
        values = (f"{side} {_measured(relation, subject, each)}" for side, subject in _sides(relation))
        return f"may be compared; {', '.join(values)}"
    differing = _counted(each.differing, "differs", "differ")
    undeclared = _counted(each.undeclared, "is undeclared", "are undeclared")
    return "; ".join(filter(None, ("may not be compared", differing, undeclared)))


def _counted(keys: Sequence[str], one: str, many: str) -> str:
    if len(keys) > _LISTED_KEYS:
        return f"{len(keys)} coordinates {many}"
    return f"{', '.join(keys)} {one if len(keys) == 1 else many}" if keys else ""


def _comparable_value(relation: Relation, subject: Subject, each: MetricRelation) -> tuple[Any, str]:
    """Return a value in the unit that both sides are shown in: as written, or seconds where they were written apart."""
    metric: Metric = subject.metrics[each.metric]
    if len({side.metrics[each.metric].unit for _, side in _sides(relation)}) == 1 or metric.value is None:
        return metric.value, metric.unit
    return Fraction(metric.value) * SECONDS[metric.unit], "s"


def _measured(relation: Relation, subject: Subject, each: MetricRelation) -> str:
    value, unit = _comparable_value(relation, subject, each)
    return "none" if value is None else f"{_number(value)} {printable(unit)}"


def _number(value: Any) -> str:
    return exact_json_text(int(value) if value == int(value) else value).strip()


def _silent(rows: Sequence[Row]) -> Sequence[Row]:
    """Return the rows that neither side states, where they are too many to explain each on a terminal."""
    found = [row for row in rows if row.why and row.a is row.b is State.UNDECLARED]
    return found if len(found) > _LISTED_KEYS else []


def _explained(row: Row, relation: Relation, display: Display) -> Iterable[str]:
    yield f"  {_bold(_name(row), display)}"
    if row.a is row.b is State.UNDECLARED:
        yield _line("    A, B", "(undeclared)", display, 9)
    else:
        for (side, subject), value in zip(_sides(relation), _values(row), strict=True):
            yield _line(f"    {side}", value, display, 9)
            if row.key in subject.details:
                yield _line("", printable(subject.details[row.key]), display, 9)
    for lead, sentence in zip_longest(["    why"], _whys(row), fillvalue=""):
        yield _line(lead, sentence, display, 9)
    yield _line("    fix", _fix(row), display, 9)


def _whys(row: Row) -> Iterable[str]:
    for why in row.why:
        about = f"For {', '.join(why.kinds).replace('_', ' ')}: " if why.kinds else ""
        yield about + why.sentence


def _fix(row: Row) -> str:
    if row.state != UNDECLARED:
        return row.remedy
    open_on = [side for side, value in (("A", row.a), ("B", row.b)) if value is State.UNDECLARED]
    return f"State it for {' and '.join(open_on)} if it is known. Otherwise: {row.remedy}"


def _waivers(row: Row) -> Iterable[str]:
    """Yield, for each reason, the metrics for which a key that differs or is undeclared may be ignored."""
    reasons: dict[str, list[str]] = {}
    for metric, reason in row.waived:
        reasons.setdefault(reason, []).append(metric)
    one, other = _values(row)
    for reason, metrics in reasons.items():
        yield f"(A {one}, B {other}) for {', '.join(metrics)}, because {reason}"


def _equal(rows: Sequence[Row], relation: Relation, display: Display) -> Iterable[str]:
    names = [_name(row) for row in rows]
    width = min(max(map(len, names), default=0), 36)
    for name, row in zip(names, rows, strict=True):
        marks = f" ({', '.join(row.by_reader)}: {BY_READER})" if row.by_reader else ""
        yield _line(f"  {name:{width}}", _plain(row.a) + marks, display, width + 4)
        for side, subject in _sides(relation):
            if row.key in subject.details:
                yield _line(f"    {side}", printable(subject.details[row.key]), display, 9)


def _supplied(relation: Relation) -> Iterable[str]:
    for side, subject in _sides(relation):
        for key, value in subject.declared.items():
            yield f"{side}: {printable(key)} = {_plain(value)}, {BY_READER}"


def _remedy(explanation: Explanation) -> Iterable[str]:
    """Yield what the smallest set of changes consists of, changes of one sort on one line."""
    relation, smallest = explanation.relation, explanation.smallest
    if explanation.relation.comparable_metrics:
        yield f"Nothing has to change for {', '.join(explanation.relation.comparable_metrics)}."
        return
    if smallest is None:
        yield "No change of coordinates puts these two into one cohort."
        return
    yield f"The smallest set of changes, for {', '.join(smallest.metrics)}; each is needed and together they suffice:"
    sorts: dict[str, list[str]] = {}
    for change in smallest.changes:
        sorts.setdefault(_sort(change, relation), []).append(change.name)
    open_on_both = {row.key for row in _silent(explanation.rows)}
    for sort, names in sorts.items():
        listed = [name for name in names if name not in open_on_both]
        if len(listed) < len(names):
            listed.append(f"the {len(names) - len(listed)} coordinates that neither side states")
        yield f"{sort}: {', '.join(listed)}"


def _sort(change: Change, relation: Relation) -> str:
    if change.action == REPORT:
        return f"report in {change.sides[0]} as well, with the coordinates of that metric"
    if change.action == ALIGN and relation.a.system.id == CONTRACT:
        return "make equal, which makes one contract of the two"
    if change.action == ALIGN:
        return "make equal, by a rerun or a restatement"
    if len(change.sides) == 2:
        return "state for A and B (the two join only if it is equal)"
    side, other = ("A", "B") if change.sides == ("A",) else ("B", "A")
    return f"state for {side} (the two join only if it is what {other} states)"


def _cells(row: Row) -> tuple[str, str, str, str]:
    state = row.state.replace("_", " ")
    if row.waived:
        state += ", ignored for " + ", ".join(metric for metric, _ in row.waived)
    return (_name(row), *_values(row), state)


def _name(row: Row) -> str:
    """Return the key with its unit, and the metrics that state it themselves."""
    unit = f" [{row.unit}]" if row.unit else ""
    metrics = f" of {', '.join(row.metrics)}" if row.metrics else ""
    return printable(f"{row.key}{metrics}{unit}")


def _values(row: Row) -> tuple[str, str]:
    """Return both sides as they are shown; sides that differ never look alike."""
    one, other = _plain(row.a), _plain(row.b)
    if row.state == DIFFERENT and _looks(one) == _looks(other):
        one, other = (_escaped(value) for value in (row.a, row.b))
    marks = (f" ({BY_READER})" if side in row.by_reader else "" for side in "AB")
    one, other = (value + mark for value, mark in zip((one, other), marks, strict=True))
    return one, other


def _plain(value: Value) -> str:
    if isinstance(value, State):
        return f"({value.value.replace('_', ' ')})"
    if kind_of(value) == "text":
        return printable(str(value)) if value and not str(value).startswith("(") else _escaped(value)
    return exact_json_text(value).strip()


def _escaped(value: Value) -> str:
    return _plain(value) if kind_of(value) != "text" else plain_json.dumps(value)


def _looks(shown: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", shown).split())


def _bullets(title: str, items: Iterable[str]) -> str:
    lines = [f"- {item}" for item in items]
    return "\n".join([f"## {title}", "", *lines]) if lines else ""


def _section(title: str, lines: Iterable[str], display: Display) -> list[str]:
    listed = list(lines)
    return [_bold(title, display), *listed] if listed else []


def _bold(words: str, display: Display) -> str:
    return f"\x1b[1m{words}\x1b[0m" if display.colour else words


def _line(lead: str, content: str, display: Display, indent: int, hanging: int | None = None) -> str:
    """Return a line that starts with `lead`, its content from column `indent` on, wrapped to the display."""
    start = f"{lead:{indent}}" if len(lead) < indent else f"{lead} "
    if display.width is None:
        return start + content
    return textwrap.fill(
        content,
        max(display.width, 40),
        initial_indent=start,
        subsequent_indent=" " * (indent if hanging is None else hanging),
        break_on_hyphens=False,
    )


def _subject_document(subject: Subject) -> dict[str, Any]:
    return {
        "id": subject.id,
        "path": subject.path,
        "system": subject.system.id,
        "declared_by_the_reader": {key: to_json(value) for key, value in subject.declared.items()},
        "rests_on": list(subject.rests_on),
        "details": dict(subject.details),
    }


def _metric_document(relation: Relation, each: MetricRelation) -> dict[str, Any]:
    values = None
    if each.comparable:
        values = {
            side: dict(zip(("value", "unit"), _comparable_value(relation, subject, each), strict=True))
            for side, subject in _sides(relation)
        }
    return {
        "reported_by": list(each.sides),
        "comparable": each.comparable,
        "differing": [key for key in each.differing if key != SYSTEM],
        "undeclared": list(each.undeclared),
        "ignored": list(each.waived),
        "values": values,
    }


def _row_document(row: Row) -> dict[str, Any]:
    return {
        "key": row.key,
        "unit": row.unit,
        "metrics": list(row.metrics),
        "a": to_json(row.a),
        "b": to_json(row.b),
        "state": row.state,
        "blocks": list(row.blocks),
        "ignored_for": dict(row.waived),
        "why": [{"kinds": list(why.kinds), "sentence": why.sentence} for why in row.why],
        "remedy": row.remedy or None,
        "declared_by_the_reader": list(row.by_reader),
    }

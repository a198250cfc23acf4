"""All pairs of a bundle as a grid with the relation in each cell."""

import textwrap
from collections.abc import Iterable, Sequence

from kvaudit.evidence.canonical import json_text
from kvaudit.model import Finding, Table
from kvaudit.reconcile import relation as relations
from kvaudit.reconcile.relation import Relation
from kvaudit.render import tables
from kvaudit.render.check import counted, finding_documents
from kvaudit.render.tables import PIPE, Display, printable

SCHEMA = "kvaudit.matrix/1"
_CELLS = {relations.COMPARABLE: "C", relations.SHARED_LINEAGE: "L", relations.INCOMPATIBLE: "-"}
_LEGEND = "C comparable, L shared lineage with metric comparability none, - incompatible"


def text(ids: Sequence[str], pairs: Sequence[Relation], display: Display) -> str:
    """Return the grid, its legend, and what each pair that is not incompatible rests on."""
    grid = tables.text([_grid(ids, pairs)], PIPE)  # without frames, so that a dozen entries fit 80 columns
    lines = (_wrapped(line, display) for line in (_LEGEND, *_grounds(pairs), _counts(pairs)))
    return "\n".join([grid, *lines, ""])


def markdown(ids: Sequence[str], pairs: Sequence[Relation]) -> str:
    """Return the same as Markdown."""
    grounds = [f"- {each}" for each in _grounds(pairs)]
    page = [tables.markdown([_grid(ids, pairs)]), f"{_LEGEND}.", ""]
    if grounds:
        page += [*grounds, ""]
    return "\n".join([*page, _counts(pairs), ""])


def json(ids: Sequence[str], pairs: Sequence[Relation], findings: Iterable[Finding] = ()) -> str:
    """Return the same as a JSON document."""
    return json_text(
        {
            "schema": SCHEMA,
            "documents": list(ids),
            "pairs": [
                {
                    "a": pair.a.id,
                    "b": pair.b.id,
                    "relation": pair.kind,
                    "comparable_metrics": list(pair.comparable_metrics),
                    "links": [
                        {"from": link.source, "to": link.target, "kind": link.kind, "basis": link.basis}
                        for link in pair.links
                    ],
                }
                for pair in pairs
            ],
            "counts": _count(pairs),
            "findings": finding_documents(findings),
        }
    )


def _grid(ids: Sequence[str], pairs: Sequence[Relation]) -> Table:
    """Return the square grid; columns bear the numbers of the rows, so that many entries fit a terminal."""
    kinds = {(pair.a.id, pair.b.id): pair.kind for pair in pairs} | {(p.b.id, p.a.id): p.kind for p in pairs}
    rows = tuple(
        (str(number), printable(one), *(_CELLS[kinds[one, other]] if one != other else "" for other in ids))
        for number, one in enumerate(ids, 1)
    )
    return Table("Relations", ("", "document", *(str(number) for number, _ in enumerate(ids, 1))), rows)


def _grounds(pairs: Iterable[Relation]) -> Iterable[str]:
    for pair in pairs:
        if pair.comparable_metrics:
            yield printable(f"C {pair.a.id}, {pair.b.id}: {', '.join(pair.comparable_metrics)}")
        elif pair.links:
            kinds = "; ".join(f"{link.kind}, {link.basis}" for link in pair.links)
            yield printable(f"L {pair.a.id}, {pair.b.id}: {kinds}")


def _count(pairs: Iterable[Relation]) -> dict[str, int]:
    kinds = [pair.kind for pair in pairs]
    return {"pairs": len(kinds), **{kind: kinds.count(kind) for kind in _CELLS}}


def _counts(pairs: Sequence[Relation]) -> str:
    count = _count(pairs)
    rest = ", ".join(f"{count[kind]} {kind.replace('_', ' ')}" for kind in _CELLS)
    return f"{counted(len(pairs), 'pair')}: {rest}"


def _wrapped(line: str, display: Display) -> str:
    if display.width is None:
        return line
    return textwrap.fill(line, max(display.width, 40), subsequent_indent="  ", break_on_hyphens=False)

"""The document as a whole: drawings, order of pages, registry of formulas, its own numbers (0x15A to 0x15C)."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from kvaudit.errors import ContractViolation
from kvaudit.evidence import canonical
from kvaudit.evidence.pages import Number, Page
from kvaudit.loops.loop12_publication import diagnostics as found
from kvaudit.loops.loop12_publication.text import Place, judge_number, parsed, resolved
from kvaudit.model import Document, LedgerRow, pointer

SETS = ("specification", "addition")
_TITLE = re.compile(r"<title[\s>]")
_DESCRIPTION = re.compile(r"<desc[\s>]")
_FOREIGN = re.compile(
    r"<script|<image\b|<foreignObject|Gradient|@import|url\(|href=[\"'](?!#)|\son[a-z]+=", re.IGNORECASE
)


def registry_rows(collected: Document) -> list[Document]:
    """Return the registry of formulas that the pages give, in their order."""
    return [
        {
            "page": page["path"],
            "heading": formula.heading,
            "family": formula.family,
            "owner": formula.owner,
            "guard": formula.guard,
            "sha256": formula.sha256,
            "latex": formula.latex,
        }
        for page, read in zip(collected["documents"]["pages"], parsed(collected), strict=True)
        for formula in read.formulas
    ]


def judge_drawings(collected: Document, read: Sequence[Page]) -> int:
    """Return how many drawings the pages show, or raise the first `ContractViolation`."""
    shown = {
        resolved(page["path"], image.target)
        for page, each in zip(collected["documents"]["pages"], read, strict=True)
        for image in each.images
    }
    for index, drawing in enumerate(collected["documents"]["figures"]):
        at = "/documents/figures" + pointer(index, "content")
        if drawing["path"] not in shown:
            raise ContractViolation(found.DRAWING_UNUSED, at, f"no page shows {drawing['path']}")
        content = drawing["content"]
        if not _TITLE.search(content) or not _DESCRIPTION.search(content):
            missing = "title" if not _TITLE.search(content) else "description"
            raise ContractViolation(found.DRAWING_UNDESCRIBED, at, f"{drawing['path']} has no {missing}")
        foreign = _FOREIGN.search(content)
        if foreign is not None:
            line = content.count("\n", 0, foreign.start()) + 1
            raise ContractViolation(found.DRAWING_FOREIGN, at, f"found {foreign.group().strip()}", line)
    return len(collected["documents"]["figures"])


def judge_page_list(collected: Document) -> None:
    """Raise `ContractViolation` unless the published pages are those of the fixture, in its order."""
    published = [page["path"] for page in collected["documents"]["pages"]]
    listed = [page["path"] for page in collected["pages"]]
    for index, (one, other) in enumerate(zip(published, listed, strict=False)):
        if one != other:
            reason = f"the fixture lists {other}, published is {one}"
            raise ContractViolation(found.PAGE_LIST, "/pages" + pointer(index, "path"), reason)
    if len(published) != len(listed):
        reason = f"the fixture lists {len(listed)} pages, published are {len(published)}"
        raise ContractViolation(found.PAGE_LIST, "/pages", reason)


def judge_formulas(collected: Document, read: Sequence[Page]) -> Document:
    """Return how many formulas the pages hold, or raise the first `ContractViolation`."""
    counts = dict.fromkeys(SETS, 0)
    for page, each in zip(collected["pages"], read, strict=True):
        counts[page["set"]] += len(each.formulas)
    for name in SETS:
        expected = collected["display_formulas"][name]
        if counts[name] != expected:
            reason = f"expected {expected} display formulas on the pages of this set, found {counts[name]}"
            raise ContractViolation(found.FORMULA_COUNT, "/display_formulas" + pointer(name), reason)
    rows = registry_rows(collected)
    _judge_registry(collected, read, rows)
    return {
        **counts,
        "inline": sum(len(each.inline_formulas) for each in read),
        "by_family": _counted(row["family"] for row in rows),
        "by_owner": _counted(row["owner"] for row in rows),
        "registry_sha256": canonical.canonical_sha256(rows),
    }


def judge_own_numbers(numbers: Sequence[Sequence[Number]], results: Document, ledgers: Any) -> None:
    """Raise `ContractViolation` unless the pages say of the publication what it says of itself."""
    own = canonical.written({"results": results, "ledgers": {row.name: _ledger(row) for row in ledgers}})
    for index, each in enumerate(numbers):
        for number in each:
            judge_number(Place(index), number, own)


def _judge_registry(collected: Document, read: Sequence[Page], rows: list[Document]) -> None:
    committed = collected["formula_registry"]
    lines = [(index, formula.line) for index, page in enumerate(read) for formula in page.formulas]
    for number, (row, place) in enumerate(zip(rows, lines, strict=True)):
        if number >= len(committed):
            reason = f"the registry ends before formula {number + 1}, which stands under {row['heading']!r}"
            raise Place(place[0]).at(found.FORMULA_DRIFT, place[1], reason)
        if row != committed[number]:
            name = next(name for name in row if row[name] != committed[number][name])
            reason = (
                f"formula {number + 1}: the registry has the {name} {committed[number][name]!r}, the page {row[name]!r}"
            )
            raise Place(place[0]).at(found.FORMULA_DRIFT, place[1], reason)
    if len(committed) > len(rows):
        reason = f"the pages hold {len(rows)} formulas, the registry {len(committed)}"
        raise ContractViolation(found.FORMULA_DRIFT, "/formula_registry", reason)


def _ledger(row: LedgerRow) -> Document:
    return {"value": row.value, "unit": row.unit, "formula": row.formula}


def _counted(names: Any) -> dict[str, int]:
    return dict(sorted(Counter(names).items()))

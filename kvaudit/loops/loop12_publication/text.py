"""What each page must keep by itself: delimiters, headings, formulas, drawings, links, numbers, citations (0x15)."""

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvaudit.errors import ContractViolation
from kvaudit.evidence import pages
from kvaudit.evidence.pages import Number, Page
from kvaudit.loops.loop12_publication import diagnostics as found
from kvaudit.model import Diagnostic, Document, pointer

_FAULTS = {
    pages.FENCE_OPEN: found.FENCE_OPEN,
    pages.COMMENT_OPEN: found.COMMENT_OPEN,
    pages.DISPLAY_OPEN: found.DELIMITER,
    pages.EMPTY_FORMULA: found.EMPTY_FORMULA,
    pages.UNBALANCED: found.FORMULA_UNBALANCED,
    pages.NO_FORMULA_COMMENT: found.FORMULA_UNCOMMENTED,
    pages.COMMENT_ALONE: found.COMMENT_ALONE,
    pages.MARKER_ALONE: found.MARKER_ALONE,
    pages.RAW_HTML: found.RAW_HTML,
}
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_CODE = re.compile(r"([a-z][a-z0-9]*)\.[a-z]+(?:-[a-z0-9]+)*")
_DEVIATION = re.compile(r"[A-Z][A-Z0-9]*-\d+")


@dataclass(frozen=True, slots=True)
class Context:
    """What a page may refer to: families with their owners, anchors by page, files, reports, codes, differences.

    `own` is the id of the publication's own entry, whose numbers are compared when they have been computed.
    """

    families: Mapping[str, Any]
    anchors: Mapping[str, frozenset[str]]
    files: frozenset[str]
    drawings: frozenset[str]
    reports: Mapping[str, Any]
    own: str
    codes: Mapping[str, frozenset[str]]
    deviations: frozenset[str]


def judge_page(index: int, path: str, page: Page, context: Context) -> tuple[Number, ...]:
    """Return the numbers of a page that come from the publication itself, or raise the first `ContractViolation`."""
    place = Place(index)
    for fault in page.faults:
        raise place.at(_FAULTS[fault.kind], fault.line, fault.message)
    _judge_headings(place, page)
    _judge_formulas(place, page, context)
    _judge_images(place, path, page, context)
    _judge_links(place, path, page, context)
    own = _judge_numbers(place, page, context)
    for number in page.bare:
        raise place.at(found.BARE_NUMBER, number.line, f"{number.text!r} is tied to no report")
    _judge_citations(place, page, context)
    return own


@dataclass(frozen=True, slots=True)
class Place:
    """The content of a page as the audit points at it."""

    index: int

    def at(self, diagnostic: Diagnostic, line: int | None, message: str) -> ContractViolation:
        """Return the violation that stands on a line of the page; None is the page as a whole."""
        return ContractViolation(diagnostic, "/documents/pages" + pointer(self.index, "content"), message, line)


def value_at(document: Any, place: str) -> Any:
    """Return the value at a JSON pointer, or raise `LookupError`."""
    for step in place.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        document = document[int(name)] if isinstance(document, list) and name.isdigit() else _member(document, name)
    return document


def judge_number(place: Place, number: Number, report: Any) -> None:
    """Raise `ContractViolation` unless the report says what the page says."""
    try:
        if not number.place.startswith("/"):
            raise LookupError
        value = value_at(report, number.place)
    except LookupError:
        reason = f"{number.entry} has nothing at {number.place}"
        raise place.at(found.MARKER_PLACE, number.line, reason) from None
    if not pages.agrees(number.value, value):
        reason = f"{number.entry} has {_shown(value)} at {number.place}, the page says {number.text}"
        raise place.at(found.NUMBER_MISMATCH, number.line, reason)


def _judge_headings(place: Place, page: Page) -> None:
    levels = [heading.level for heading in page.headings]
    if levels[:1] != [1] or levels.count(1) != 1:
        line = page.headings[0].line if page.headings else None
        raise place.at(found.TITLE_MISSING, line, f"expected one title of level one first, found {levels.count(1)}")
    seen: dict[str, int] = {}
    for before, heading in zip((page.headings[0], *page.headings), page.headings, strict=False):
        if heading.level > before.level + 1:
            reason = f"level {heading.level} follows level {before.level}"
            raise place.at(found.HEADING_LEVEL, heading.line, reason)
        first = seen.setdefault(heading.slug, heading.line)
        if first != heading.line:
            raise place.at(found.HEADING_TWICE, heading.line, f"#{heading.slug} is the heading of line {first} already")


def _judge_formulas(place: Place, page: Page, context: Context) -> None:
    for formula in page.formulas:
        family = context.families.get(formula.family or "")
        if family is None:
            reason = f"expected one of {', '.join(context.families)}; found {formula.family or 'none'}"
            raise place.at(found.FAMILY_UNKNOWN, formula.line, reason)
        if formula.owner not in family["owners"]:
            reason = f"a formula of {formula.family} belongs to {' or '.join(family['owners'])}, found {formula.owner}"
            raise place.at(found.FORMULA_OWNER, formula.line, reason)
        if not formula.guard:
            raise place.at(found.GUARD_MISSING, formula.line, "nothing says where the expression is defined")


def _judge_images(place: Place, path: str, page: Page, context: Context) -> None:
    for image in page.images:
        if not image.alt.strip():
            raise place.at(found.ALT_MISSING, image.line, f"the image {image.target} has no alternative text")
        if not image.source or not image.scope:
            missing = "source" if not image.source else "scope"
            raise place.at(found.FIGURE_UNCOMMENTED, image.line, f"the image {image.target} has no {missing}")
        if resolved(path, image.target) not in context.drawings:
            reason = f"{resolved(path, image.target)} is no drawing of the publication"
            raise place.at(found.IMAGE_MISSING, image.line, reason)


def _judge_links(place: Place, path: str, page: Page, context: Context) -> None:
    for link in page.links:
        if _SCHEME.match(link.text):
            if not link.text.startswith("https://"):
                raise place.at(found.LINK_INSECURE, link.line, f"expected https, found {link.text}")
            continue
        target, _, anchor = link.text.partition("#")
        file = resolved(path, target) if target else path
        if file not in context.files and file not in context.anchors:
            reason = f"{file} is no page, no pinned file and none of linked_files"
            raise place.at(found.LINK_UNRESOLVED, link.line, reason)
        if anchor and anchor not in context.anchors.get(file, frozenset()):
            raise place.at(found.ANCHOR_UNRESOLVED, link.line, f"{file} has no heading with the anchor #{anchor}")


def _judge_numbers(place: Place, page: Page, context: Context) -> tuple[Number, ...]:
    for number in page.numbers:
        if number.entry == context.own:
            continue
        if number.entry not in context.reports:
            reason = f"{number.entry} is no entry that the publication needs"
            raise place.at(found.MARKER_ENTRY, number.line, reason)
        judge_number(place, number, context.reports[number.entry]["document"])
    return tuple(number for number in page.numbers if number.entry == context.own)


def _judge_citations(place: Place, page: Page, context: Context) -> None:
    for span in page.cited:
        code = _CODE.fullmatch(span.text)
        if code is not None and code[1] in context.codes and span.text not in context.codes[code[1]]:
            raise place.at(found.CODE_UNKNOWN, span.line, f"no diagnostic is called {span.text}")
        if _DEVIATION.fullmatch(span.text) and span.text not in context.deviations:
            raise place.at(found.DEVIATION_UNKNOWN, span.line, f"the source registry has no {span.text}")


def resolved(path: str, target: str) -> str:
    """Return the bundle path of a link target that is written relative to a page."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), target))


def _member(document: Any, name: str) -> Any:
    if not isinstance(document, Mapping):
        raise LookupError(name)
    return document[name]


def _shown(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def parsed(collected: Document) -> list[Page]:
    """Return the pages of a publication, parsed, in the order of its documents."""
    return [pages.parse(page["content"]) for page in collected["documents"]["pages"]]

"""The render audit: what a browser will be given, checked without one (0x15C).

It reads the files of a site, not the builder's memory, so that it can be run on any copy of one. Formulas are counted
against the Markdown pages by another reader than the one that rendered them.
"""

import itertools
import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser

from kvaudit.model import Diagnostic, Finding

MISSING_PAGE = Diagnostic(
    code="site.page-missing",
    contract="Every page, drawing and style sheet of the publication is a file of the site.",
    why="A part of the document cannot be read.",
    fix="Build the site anew: `kvaudit publication --build DIR`.",
    example="a site from which 03_cost.html was deleted",
)
UNEXPECTED = Diagnostic(
    code="site.file-unexpected",
    contract="A site has no file besides those of the publication.",
    why="A page that was renamed or dropped stays readable, and nobody checks it any more.",
    fix="Delete the file, or build into an empty folder.",
    example="old_page.html in the folder of the site",
)
NOT_TEXT = Diagnostic(
    code="site.not-text",
    contract="A page of the site is UTF-8.",
    why="A browser would guess, and show other characters.",
    fix="Build the site anew: `kvaudit publication --build DIR`.",
    example="a page that was saved as Latin-1",
)
FORMULA_COUNT = Diagnostic(
    code="site.formula-count",
    contract="A page has as many display and inline formulas as its Markdown.",
    why="A formula was swallowed by the prose around it, or prose was read as a formula.",
    fix="Look at the delimiters of the page; then build the site anew.",
    example="18 formulas in the page, 17 MathML nodes in its HTML",
)
FORMULA_EMPTY = Diagnostic(
    code="site.formula-empty",
    contract="A formula of the site shows something.",
    why="A reader sees a gap where a definition should be.",
    fix="Correct the LaTeX of the formula.",
    example="<math></math>",
)
FORMULA_RAW = Diagnostic(
    code="site.formula-unconverted",
    contract="No LaTeX command is left in a formula of the site.",
    why="A reader sees a command instead of a sign.",
    fix="Write the formula with commands that the converter knows.",
    example="<math><mtext>\\widecheck</mtext></math>",
)
LINK_BROKEN = Diagnostic(
    code="site.link-broken",
    contract="A link within the site leads to a file and, where it names one, to an anchor of it.",
    why="The reader is led nowhere.",
    fix="Correct the link in the page that it comes from.",
    example='<a href="gone.html">',
)
IMAGE_BROKEN = Diagnostic(
    code="site.image-broken",
    contract="An image is a file of the site.",
    why="The page shows a broken frame.",
    fix="Name the drawing under documents.figures in kvaudit.yaml.",
    example='<img src="figures/gone.svg" alt="a view">',
)
ALT_EMPTY = Diagnostic(
    code="site.alt-empty",
    contract="An image has an alternative text.",
    why="Who cannot see the image is told nothing.",
    fix="Describe the image in the page that shows it.",
    example='<img src="figures/view.svg" alt="">',
)
NETWORK = Diagnostic(
    code="site.needs-network",
    contract="A page loads nothing from elsewhere and runs nothing: no script, no frame, no address in an image.",
    why="It could not be read offline, and would tell another site who reads it.",
    fix="Bring what the page needs into the site, or leave it out.",
    example='<script src="https://example.org/math.js">',
)
HEADINGS = Diagnostic(
    code="site.heading-order",
    contract="A page has one heading of level one in its text, it comes first, and no level is left out after it.",
    why="Readers who move by headings meet a gap.",
    fix="Correct the headings of the page.",
    example="an h4 after an h2",
)
DUPLICATE_ID = Diagnostic(
    code="site.duplicate-id",
    contract="An id names one element of a page.",
    why="A link to it leads to the first of them only.",
    fix="Rename one of the headings.",
    example='two elements with id="contents"',
)
INCOMPLETE = Diagnostic(
    code="site.head-incomplete",
    contract="A page names its language, its title and a viewport as wide as the device.",
    why="A screen reader guesses the language, a phone shows a page for a desk.",
    fix="Build the site anew: `kvaudit publication --build DIR`.",
    example="<html> without lang",
)
STALE = Diagnostic(
    code="site.stale",
    contract="A site has the bytes that its publication gives now.",
    why="It shows an older document than the evidence beside it.",
    fix="Build the site anew: `kvaudit publication --build DIR`.",
    example="a site that was built before a page was edited",
)
DIAGNOSTICS = (
    MISSING_PAGE,
    UNEXPECTED,
    NOT_TEXT,
    FORMULA_COUNT,
    FORMULA_EMPTY,
    FORMULA_RAW,
    LINK_BROKEN,
    IMAGE_BROKEN,
    ALT_EMPTY,
    NETWORK,
    HEADINGS,
    DUPLICATE_ID,
    INCOMPLETE,
    STALE,
)

_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*:|//", re.IGNORECASE)
_COMMAND = re.compile(r"\\[A-Za-z]+")
_LOADING = {"script", "iframe", "object", "embed", "base", "audio", "video", "source", "form", "style"}
_STYLE_LOADS = re.compile(r"url\(|@import")


@dataclass(frozen=True, slots=True)
class Expected:
    """What the Markdown of a page holds: display and inline formulas."""

    display: int
    inline: int


@dataclass(slots=True)
class _Math:
    line: int
    display: bool
    text: str = ""


@dataclass(slots=True)
class _Read:
    """What one page of the site holds, each with its line."""

    maths: list[_Math] = field(default_factory=list)
    links: list[tuple[int, str]] = field(default_factory=list)
    images: list[tuple[int, str, str]] = field(default_factory=list)
    headings: list[tuple[int, int]] = field(default_factory=list)
    ids: list[tuple[int, str]] = field(default_factory=list)
    loads: list[tuple[int, str]] = field(default_factory=list)
    head: set[str] = field(default_factory=set)


def audit(files: Mapping[str, bytes], expected: Mapping[str, Expected | None]) -> tuple[Finding, ...]:
    """Return what is wrong with the files of a site.

    `expected` has every file of the site: for a page its formulas, None for a file that is no page.
    """
    findings = [_found(name, MISSING_PAGE, None, "the file is not there") for name in expected if name not in files]
    unexpected = [name for name in files if name not in expected]
    findings += [_found(name, UNEXPECTED, None, "no page, drawing or linked evidence") for name in unexpected]
    pages: dict[str, _Read] = {}
    for name in sorted(files):
        if name.endswith(".html"):
            try:
                text = files[name].decode("utf-8")
            except UnicodeDecodeError as error:
                findings.append(_found(name, NOT_TEXT, None, f"byte {error.start} is not UTF-8"))
                continue
            pages[name] = read(text)
        elif name.endswith((".css", ".svg")):
            loads = _STYLE_LOADS.search(files[name].decode("utf-8", "replace"))
            if loads is not None:
                findings.append(_found(name, NETWORK, None, f"found {loads.group()}"))
    anchors = {name: {each for _, each in page.ids} for name, page in pages.items()}
    for name, page in pages.items():
        findings.extend(_page_findings(name, page, files, anchors, expected.get(name)))
    return tuple(findings)


def read(text: str) -> _Read:
    """Return what a page of the site holds."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    return reader.page


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.page = _Read()
        self.math: _Math | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        line, said = self.getpos()[0], {name: value or "" for name, value in attrs}
        if "id" in said:
            self.page.ids.append((line, said["id"]))
        for name, value in said.items():
            if name.startswith("on") or (name in ("src", "srcset", "poster") and _ADDRESS.match(value)):
                self.page.loads.append((line, f"{name}={value!r}"))
            if name == "style" and _STYLE_LOADS.search(value):
                self.page.loads.append((line, f"style={value!r}"))
        if tag in _LOADING:
            self.page.loads.append((line, f"<{tag}>"))
        match tag:
            case "math":
                self.math = _Math(line, said.get("display") == "block")
                self.page.maths.append(self.math)
            case "a" if "href" in said:
                self.page.links.append((line, said["href"]))
            case "img":
                self.page.images.append((line, said.get("src", ""), said.get("alt", "")))
            case "link" if said.get("rel") == "stylesheet":
                self.page.links.append((line, said.get("href", "")))
                if _ADDRESS.match(said.get("href", "")):
                    self.page.loads.append((line, f"href={said['href']!r}"))
            case "html" if said.get("lang"):
                self.page.head.add("lang")
            case "title":
                self.page.head.add("title")
            case "meta" if said.get("name") == "viewport" and "width=device-width" in said.get("content", ""):
                self.page.head.add("viewport")
            case "nav":
                self.page.headings.append((line, 0))  # the contents list has an order of its own
            case _ if re.fullmatch("h[1-6]", tag):
                self.page.headings.append((line, int(tag[1])))

    def handle_endtag(self, tag: str) -> None:
        if tag == "math":
            self.math = None

    def handle_data(self, data: str) -> None:
        if self.math is not None:
            self.math.text += data


def _page_findings(
    name: str, page: _Read, files: Mapping[str, bytes], anchors: Mapping[str, set[str]], expected: Expected | None
) -> Iterator[Finding]:
    if expected is not None:
        for kind, wanted, display in (("display", expected.display, True), ("inline", expected.inline, False)):
            count = sum(math.display == display for math in page.maths)
            if count != wanted:
                message = f"the page has {wanted} {kind} formulas, its HTML {count} MathML nodes of that kind"
                yield _found(name, FORMULA_COUNT, None, message)
    for math in page.maths:
        if not math.text.strip():
            yield _found(name, FORMULA_EMPTY, math.line, "the formula has no sign in it")
        command = _COMMAND.search(math.text)
        if command is not None:
            yield _found(name, FORMULA_RAW, math.line, f"found {command.group()}")
    for line, target in page.links:
        yield from _link_findings(name, line, target, files, anchors)
    for line, source, alt in page.images:
        if _within(name, source) not in files:
            yield _found(name, IMAGE_BROKEN, line, f"{source} is no file of the site")
        if not alt.strip():
            yield _found(name, ALT_EMPTY, line, f"{source} has no alternative text")
    for line, what in page.loads:
        yield _found(name, NETWORK, line, f"found {what}")
    yield from _heading_findings(name, page)
    seen: dict[str, int] = {}
    for line, identity in page.ids:
        if seen.setdefault(identity, line) != line or identity in {each for at, each in page.ids if at < line}:
            yield _found(name, DUPLICATE_ID, line, f"{identity!r} is an id of line {seen[identity]} already")
    missing = {"lang", "title", "viewport"} - page.head
    if missing:
        yield _found(name, INCOMPLETE, None, f"the page has no {', '.join(sorted(missing))}")


def _link_findings(
    name: str, line: int, target: str, files: Mapping[str, bytes], anchors: Mapping[str, set[str]]
) -> Iterator[Finding]:
    if _ADDRESS.match(target):
        return
    file, _, anchor = target.partition("#")
    path = _within(name, file) if file else name
    if path not in files:
        yield _found(name, LINK_BROKEN, line, f"{target} leads to {path}, which is no file of the site")
    elif anchor and anchor not in anchors.get(path, set()):
        yield _found(name, LINK_BROKEN, line, f"{path} has no anchor #{anchor}")


def _heading_findings(name: str, page: _Read) -> Iterator[Finding]:
    text = []
    for line, level in page.headings:
        if level == 0:
            break
        text.append((line, level))
    if [level for _, level in text].count(1) != 1 or text[0][1] != 1:
        yield _found(name, HEADINGS, text[0][0] if text else None, "expected one h1, first in the text")
    for (_, before), (line, level) in itertools.pairwise(text):
        if level > before + 1:
            yield _found(name, HEADINGS, line, f"an h{level} follows an h{before}")


def _within(page: str, target: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), target))


def _found(name: str, diagnostic: Diagnostic, line: int | None, message: str) -> Finding:
    return Finding(name, "", message, diagnostic, line)

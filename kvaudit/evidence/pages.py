"""A page of the published document: what its Markdown holds that can be checked, each thing with its line.

Markdown is read here as far as the contracts of a page go, and no further: fences, display and inline formulas,
comments, headings, images, links, code spans, and the prose that is left. A page is rendered elsewhere, by a maintained
parser, and the render audit counts its formulas against these, so that the two readings cannot part unnoticed.

What a page may say in a comment:

- `<!-- formula: family=payload owner=policy guard="..." -->` on the line before a display formula, which stands between
  two lines `$$`;
- `<!-- =ENTRY POINTER -->` directly after a number or a list of numbers: where a report says it;
- `<!-- figure: source=own scope="..." -->` on the line after an image.

Decided here: inline formulas stay on one line; a display delimiter stands on a line of its own; raw HTML other than a
comment, reference links and headings that are underlined are not part of a page. A *bare number* is a run of text with
a digit and no letter, outside comments, code, formulas, headings and link targets, that no comment ties to a report;
the number of an ordered list is none. LaTeX is normalised by collapsing white space, so that a formula may be wrapped
without becoming another.
"""

import bisect
import functools
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from kvaudit.evidence import canonical
from kvaudit.evidence.strict_json import parse_number

FENCE_OPEN = "fence-open"
DISPLAY_OPEN = "display-open"
COMMENT_OPEN = "comment-open"
EMPTY_FORMULA = "empty-formula"
UNBALANCED = "formula-unbalanced"
NO_FORMULA_COMMENT = "formula-uncommented"
NO_FIGURE_COMMENT = "figure-uncommented"
COMMENT_ALONE = "comment-alone"
MARKER_ALONE = "number-missing"
RAW_HTML = "raw-html"


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading with its level (1 to 6) and the anchor by which a link names it."""

    line: int
    level: int
    title: str
    slug: str


@dataclass(frozen=True, slots=True)
class Formula:
    """A display formula: normalised LaTeX, the heading above it, what its comment says (None where it is silent)."""

    line: int
    heading: str
    latex: str
    family: str | None
    owner: str | None
    guard: str | None

    @property
    def sha256(self) -> str:
        return canonical.sha256(self.latex.encode())


@dataclass(frozen=True, slots=True)
class Number:
    """A number, or a list of numbers, with the entry and the JSON pointer at which its report says it.

    `value` is what `stated` reads in the text; `start` is where in the page the text begins.
    """

    line: int
    text: str
    value: Any
    entry: str
    place: str
    start: int


@dataclass(frozen=True, slots=True)
class Image:
    """An image with its alternative text, and what the comment below it says of source and scope."""

    line: int
    target: str
    alt: str
    source: str | None
    scope: str | None


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of the text as it is written: the target of a link, a code span, an inline formula, a bare number."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment with where in the page it starts and ends."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Fault:
    """What keeps a part of the page from being read: one of the kinds above, where, and why."""

    line: int
    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class Page:
    """What a page holds, each list in the order of the text.

    `bare` holds the numbers that nothing ties to a report, `cited` the code spans.
    """

    headings: tuple[Heading, ...]
    formulas: tuple[Formula, ...]
    inline_formulas: tuple[Span, ...]
    numbers: tuple[Number, ...]
    bare: tuple[Span, ...]
    images: tuple[Image, ...]
    links: tuple[Span, ...]
    cited: tuple[Span, ...]
    comments: tuple[Comment, ...]
    faults: tuple[Fault, ...]


# One alternative a construct; what comes first in the text hides what is inside it.
_CONSTRUCT = re.compile(
    r"""
      ^(?P<fence>`{3,}|~{3,})[^\n]*$
    | ^(?P<display>\$\$)[ ]*$
    | (?P<comment><!--)
    | ^(?P<level>\#{1,6})[ ]+(?P<title>[^\n]*?)[ \#]*$
    | (?P<code>`+)
    | !\[(?P<alt>[^\]]*)\]\((?P<image>[^)\n]*)\)
    | \]\((?P<link>[^)\n]*)\)
    | (?P<math>\$+)
    | (?P<html></?[A-Za-z][^>\n]*>)
    """,
    re.MULTILINE | re.VERBOSE,
)
_NUMBER = r"-?\d[\d,]*(?:\.\d+)?%?"
_NUMBER_AT_END = re.compile(rf"{_NUMBER}\Z")
_MARKER = re.compile(r"=(\S+) (\S+)")
_ATTRIBUTE = re.compile(r'(\w+)=(?:"([^"]*)"|(\S+))')
_BARE = re.compile(r"[^\s|()\[\],;:]*\d[^\s|()\[\],;:]*")
_LIST_NUMBER = re.compile(r"^[ ]*\d+[.)](?=[ ])", re.MULTILINE)
_NOT_IN_SLUG = re.compile(r"[^\w\- ]")
_BRACE = re.compile(r"\\\\|\\[{}]|[{}]")
_LEFT_RIGHT = re.compile(r"\\(left|right)(?![A-Za-z])")
_ENVIRONMENT = re.compile(r"\\(begin|end)\{([^}]*)\}")


@functools.lru_cache(maxsize=256)
def parse(text: str) -> Page:
    """Return what a page holds. A part that cannot be read is a fault of the page; nothing is raised.

    Remembered by its text: an audit reads each page once more for every invalid case.
    """
    return _Reading(text).page()


def plain(latex: str) -> str:
    """Return LaTeX with every run of white space collapsed to one space."""
    return " ".join(latex.split())


def slug(title: str) -> str:
    """Return the anchor of a heading: lower case, words joined by hyphens, other signs dropped."""
    return _NOT_IN_SLUG.sub("", title.lower()).replace(" ", "-")


def stated(text: str) -> Any:
    """Return a number or list of numbers as written: (value, step) pairs, nested as the lists are.

    `step` is the unit of the last digit written. A value of percent is a hundredth of what is written. None if the text
    is neither.
    """
    if text.startswith("["):
        return _stated_list(text)
    if not re.fullmatch(_NUMBER, text):
        return None
    digits = text.rstrip("%").replace(",", "")
    decimals = len(digits.partition(".")[2])
    percent = 100 if text.endswith("%") else 1
    return Fraction(parse_number(digits)) / percent, Fraction(1, 10**decimals) / percent


def agrees(written: Any, value: Any) -> bool:
    """Say whether a value of a report, rounded to the digits that were written, is what `stated` read."""
    if isinstance(written, list):
        if not isinstance(value, list) or len(written) != len(value):
            return False
        return all(agrees(one, other) for one, other in zip(written, value, strict=True))
    if written is None or isinstance(value, bool) or not isinstance(value, int | float | Fraction):
        return False
    number, step = written
    return bool(abs(number - Fraction(value)) * 2 <= step)


def unbalanced(latex: str) -> str | None:
    """Return why the delimiters of a formula do not balance: braces, \\left and \\right, environments; else None."""
    depth = 0
    for match in _BRACE.finditer(latex):
        depth += {"{": 1, "}": -1}.get(match.group(), 0)
        if depth < 0:
            return "a closing brace has no opening one"
    if depth:
        return f"{depth} of the braces are not closed"
    open_delimiters = 0
    for match in _LEFT_RIGHT.finditer(latex):
        open_delimiters += 1 if match.group(1) == "left" else -1
        if open_delimiters < 0:
            return "\\right has no \\left"
    if open_delimiters:
        return "\\left has no \\right"
    environments: list[str] = []
    for match in _ENVIRONMENT.finditer(latex):
        if match.group(1) == "begin":
            environments.append(match.group(2))
        elif not environments or environments.pop() != match.group(2):
            return f"\\end{{{match.group(2)}}} closes no environment of that name"
    return f"the environment {environments[-1]} is not closed" if environments else None


def _stated_list(text: str) -> Any:
    stack: list[list[Any]] = [[]]
    for token in re.finditer(rf"\[|\]|,|\s+|{_NUMBER}|.", text):
        match token.group():
            case "[":
                stack.append([])
            case "]" if len(stack) > 1:
                inner = stack.pop()
                stack[-1].append(inner)
            case part if part.isspace() or part == ",":
                pass
            case part if (number := stated(part.rstrip(","))) is not None and len(stack) > 1:
                stack[-1].append(number)
            case _:
                return None
    return stack[0][0] if len(stack) == 1 and len(stack[0]) == 1 else None


class _Reading:
    """One pass over a page: each construct is taken out of the prose, and what remains is searched for bare numbers."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = [match.start() for match in re.finditer("\n", text)]
        self.kept: list[str] = []
        self.headings: list[Heading] = []
        self.formulas: list[Formula] = []
        self.inline: list[Span] = []
        self.numbers: list[Number] = []
        self.images: list[Image] = []
        self.links: list[Span] = []
        self.cited: list[Span] = []
        self.comments: list[Comment] = []
        self.faults: list[Fault] = []
        self.comment: tuple[int, int, dict[str, str]] | None = None  # the formula comment that waits for its formula

    def page(self) -> Page:
        at = 0
        while match := _CONSTRUCT.search(self.text, at):
            self.kept.append(self.text[at : match.start()])
            at = self._take(match)
            hidden = re.sub(r"[^\n]", " ", self.text[match.start() : at])
            if match.lastgroup == "image":  # people read its alternative text, so that the numbers there are prose
                hidden = f"  {match['alt']}{hidden[2 + len(match['alt']) :]}"
            self.kept.append(hidden)
        self.kept.append(self.text[at:])
        self._settle()
        prose = _LIST_NUMBER.sub(lambda match: " " * len(match.group()), "".join(self.kept))
        bare = (match for match in _BARE.finditer(prose) if not re.search(r"[^\W\d_]", match.group()))
        return Page(
            headings=tuple(self.headings),
            formulas=tuple(self.formulas),
            inline_formulas=tuple(self.inline),
            numbers=tuple(self.numbers),
            bare=tuple(Span(self._line(match.start()), match.group()) for match in bare),
            images=tuple(self.images),
            links=tuple(self.links),
            cited=tuple(self.cited),
            comments=tuple(self.comments),
            faults=tuple(sorted(self.faults, key=lambda fault: fault.line)),
        )

    def _take(self, match: re.Match[str]) -> int:
        """Record a construct and return where the text goes on behind it."""
        match match.lastgroup:
            case "fence":
                return self._fence(match)
            case "display":
                return self._display(match)
            case "comment":
                return self._comment(match)
            case "title":
                title = match["title"]
                line = self._line(match.start())
                self.headings.append(Heading(line, len(match["level"]), title, slug(title)))
            case "code":
                return self._code(match)
            case "image":
                self.images.append(Image(self._line(match.start()), match["image"], match["alt"], None, None))
            case "link":
                self.links.append(Span(self._line(match.start()), match["link"]))
            case "math":
                return self._inline(match)
            case "html":
                self._fault(match.start(), RAW_HTML, f"found {match.group()}; a page is Markdown without raw HTML")
        return match.end()

    def _fence(self, match: re.Match[str]) -> int:
        mark = match["fence"]
        closing = re.compile(rf"^{re.escape(mark[0])}{{{len(mark)},}}[ ]*$", re.MULTILINE)
        end = closing.search(self.text, match.end())
        if end is None:
            self._fault(match.start(), FENCE_OPEN, f"the fence {mark} is never closed")
            return len(self.text)
        return end.end()

    def _display(self, match: re.Match[str]) -> int:
        line = self._line(match.start())
        comment, self.comment = self.comment, None
        said: dict[str, str] = {}
        if comment is not None and self.text[comment[1] : match.start()] == "\n":
            said = comment[2]
        else:
            if comment is not None:
                self._fault(comment[0], COMMENT_ALONE, "no display formula stands on the line after this comment")
            message = "expected a comment `formula: family=... owner=... guard=...` on the line before the formula"
            self._fault(match.start(), NO_FORMULA_COMMENT, message)
        end = re.compile(r"^\$\$[ ]*$", re.MULTILINE).search(self.text, match.end())
        if end is None:
            self._fault(match.start(), DISPLAY_OPEN, "the display formula that opens here is never closed")
            return len(self.text)
        latex = plain(self.text[match.end() : end.start()])
        self._formula_faults(match.start(), latex)
        heading = self.headings[-1].title if self.headings else ""
        self.formulas.append(
            Formula(line, heading, latex, said.get("family"), said.get("owner"), said.get("guard") or None)
        )
        return end.end()

    def _comment(self, match: re.Match[str]) -> int:
        end = self.text.find("-->", match.end())
        if end < 0:
            self._fault(match.start(), COMMENT_OPEN, "the comment that opens here is never closed")
            return len(self.text)
        content = plain(self.text[match.end() : end])
        end += len("-->")
        self.comments.append(Comment(match.start(), end, content))
        if content.startswith("="):
            self._number(match.start(), content)
        elif content.startswith("formula:"):
            self._settle()
            self.comment = (match.start(), end, _attributes(content))
        elif content.startswith("figure:"):
            self._figure(match.start(), _attributes(content))
        return end

    def _number(self, start: int, content: str) -> None:
        marker = _MARKER.fullmatch(content)
        before = self.text[self.text.rfind("\n", 0, start) + 1 : start]
        written = _list_at_end(before) if before.endswith("]") else _NUMBER_AT_END.search(before)
        found = written if isinstance(written, str) or written is None else written.group()
        if marker is None or found is None:
            reason = "expected `=ENTRY POINTER`" if marker is None else "no number stands directly before this marker"
            self._fault(start, MARKER_ALONE, reason)
            return
        self.numbers.append(Number(self._line(start), found, stated(found), marker[1], marker[2], start - len(found)))
        self.kept[-1] = self.kept[-1][: len(self.kept[-1]) - len(found)] + " " * len(found)

    def _figure(self, start: int, said: dict[str, str]) -> None:
        line = self._line(start)
        if not self.images or self.images[-1].line != line - 1 or self.images[-1].source is not None:
            self._fault(start, COMMENT_ALONE, "no image stands on the line before this comment")
            return
        image = self.images[-1]
        self.images[-1] = Image(image.line, image.target, image.alt, said.get("source") or "", said.get("scope") or "")

    def _code(self, match: re.Match[str]) -> int:
        mark = match["code"]
        end = re.compile(rf"(?<!`){mark}(?!`)").search(self.text, match.end())
        if end is None:
            return match.end()
        self.cited.append(Span(self._line(match.start()), self.text[match.end() : end.start()].strip()))
        return end.end()

    def _inline(self, match: re.Match[str]) -> int:
        if match["math"] != "$":
            self._fault(match.start(), DISPLAY_OPEN, "a display delimiter stands on a line of its own")
            return match.end()
        end_of_line = self.text.find("\n", match.end())
        end = self.text.find("$", match.end(), end_of_line if end_of_line >= 0 else len(self.text))
        if end < 0:
            self._fault(match.start(), UNBALANCED, "the inline formula that opens here is not closed on its line")
            return match.end()
        latex = plain(self.text[match.end() : end])
        self._formula_faults(match.start(), latex)
        self.inline.append(Span(self._line(match.start()), latex))
        return end + 1

    def _formula_faults(self, start: int, latex: str) -> None:
        if not latex:
            self._fault(start, EMPTY_FORMULA, "there is nothing between the delimiters")
        elif (reason := unbalanced(latex)) is not None:
            self._fault(start, UNBALANCED, reason)

    def _settle(self) -> None:
        """Report a formula comment that no formula has taken."""
        if self.comment is not None:
            self._fault(self.comment[0], COMMENT_ALONE, "no display formula stands on the line after this comment")
            self.comment = None

    def _fault(self, at: int, kind: str, message: str) -> None:
        self.faults.append(Fault(self._line(at), kind, message))

    def _line(self, at: int) -> int:
        return bisect.bisect_left(self.lines, at) + 1


def _attributes(content: str) -> dict[str, str]:
    return {name: quoted or plain_value for name, quoted, plain_value in _ATTRIBUTE.findall(content)}


def _list_at_end(before: str) -> str | None:
    """Return the bracketed list that a line ends with, from its opening bracket on."""
    depth = 0
    for index in range(len(before) - 1, -1, -1):
        depth += {"]": 1, "[": -1}.get(before[index], 0)
        if depth == 0:
            found = before[index:]
            return found if stated(found) is not None else None
    return None

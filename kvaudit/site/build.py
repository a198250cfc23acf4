"""Pages, reports and the matrix of pairs to the files of a site: names to bytes, the same bytes each time.

The first page is `index.html`; a report's tables become `reports/NAME.html`. Linked evidence that is no page (a report
as JSON) is copied. What is linked and is no evidence, such as a module, is named and not linked, because the site has
to stand alone.
"""

import html
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kvaudit.errors import KvauditError
from kvaudit.evidence import pages
from kvaudit.site.markup import Target, body
from kvaudit.site.style import STYLE

STYLE_NAME = "style.css"
MATRIX_NAME = "matrix.html"
# The groups of pages, as the contents list shows them.
CONTRACTS, REPORTS, PAIRS = "Contracts", "Reports", "Pairs"


@dataclass(frozen=True, slots=True)
class Source:
    """A Markdown page by its bundle path; `group` is the heading of the contents list under which it stands."""

    path: str
    text: str
    group: str


def names(sources: Sequence[Source]) -> dict[str, str]:
    """Return the file of the site that each page becomes, by bundle path."""
    given: dict[str, str] = {}
    for source in sources:
        stem = posixpath.basename(source.path).removesuffix(".md")
        folder = "reports/" if source.group == REPORTS else ""
        name = "index.html" if not given else MATRIX_NAME if source.group == PAIRS else f"{folder}{stem}.html"
        if name in given.values():
            raise KvauditError(f"two pages would both become {name}; rename {source.path}")
        given[source.path] = name
    return given


def build(
    sources: Sequence[Source], copied: Mapping[str, bytes], drawings: Mapping[str, bytes], *, title: str, foot: str
) -> dict[str, bytes]:
    """Return the files of the site.

    `copied` is evidence that a page may link to, `drawings` what it may show, both by bundle path; of `copied` only
    what is linked becomes a file. Raises `KvauditError` without the `site` extra.
    """
    placed = names(sources)
    images = {path: f"figures/{posixpath.basename(path)}" for path in drawings}
    linked: dict[str, str] = {}
    files = {STYLE_NAME: STYLE.encode()} | {images[path]: data for path, data in drawings.items()}
    formula = 1
    for source in sources:
        name = placed[source.path]

        def resolve(target: str, source: Source = source, name: str = name) -> Target:
            if ":" in target.partition("/")[0]:
                return Target(target, target)
            file, mark, anchor = target.partition("#")
            path = posixpath.normpath(posixpath.join(posixpath.dirname(source.path), file)) if file else source.path
            known = placed.get(path) or images.get(path)
            if known is None and path in copied:
                known = linked.setdefault(path, path)
            return Target(None if known is None else _relative(name, known) + mark + anchor, path)

        read = pages.parse(source.text)
        content = body(source.text, first_formula=formula, resolve=resolve)
        formula += len(read.formulas)
        files[name] = _page(sources, placed, source, content, title=title, foot=foot).encode()
    return dict(sorted((files | {name: copied[path] for path, name in linked.items()}).items()))


def _page(
    sources: Sequence[Source], placed: Mapping[str, str], source: Source, content: str, *, title: str, foot: str
) -> str:
    name = placed[source.path]
    heading = _title(source)
    up = _relative(name, "index.html")
    style = _relative(name, STYLE_NAME)
    whole = html.escape(title if heading == title else f"{heading} · {title}")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{whole}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="{style}">
</head>
<body>
<a class="skip" href="#main">To the text</a>
<header><div><a class="name" href="{up}">{html.escape(title)}</a>
<a class="to-contents" href="#contents">Contents</a></div></header>
<div class="frame">
<main id="main">
{content}{_turn(sources, placed, source)}</main>
<nav id="contents" aria-label="Contents">
{_contents(sources, placed, source)}</nav>
</div>
<footer><div>{html.escape(foot)}</div></footer>
</body>
</html>
"""


def _contents(sources: Sequence[Source], placed: Mapping[str, str], current: Source) -> str:
    lines: list[str] = []
    group = None
    for source in sources:
        if source.group != group:
            lines += ["</ul>"] * bool(lines) + [f"<h2>{html.escape(source.group)}</h2>", "<ul>"]
            group = source.group
        here = ' aria-current="page"' if source is current else ""
        href = _relative(placed[current.path], placed[source.path])
        lines.append(f'<li><a href="{href}"{here}>{html.escape(_short_title(source))}</a></li>')
        if source is current:
            parts = [each for each in pages.parse(source.text).headings if each.level == 2]
            lines += [f'<li class="part">{_link(f"#{each.slug}", _plain(each.title))}</li>' for each in parts]
    return "\n".join([*lines, "</ul>", ""])


def _turn(sources: Sequence[Source], placed: Mapping[str, str], current: Source) -> str:
    """Return the links to the page before and the page after, within the same group."""
    group = [source for source in sources if source.group == current.group]
    at = group.index(current)
    links = []
    for label, index in (("Before", at - 1), ("Next", at + 1)):
        if 0 <= index < len(group):
            href = _relative(placed[current.path], placed[group[index].path])
            rel = "prev" if label == "Before" else "next"
            links.append(f'<a rel="{rel}" href="{href}">{label}: {html.escape(_short_title(group[index]))}</a>')
    return f'<div class="turn">{"".join(links)}</div>\n' if links else ""


def _link(href: str, text: str) -> str:
    return f'<a href="{html.escape(href, quote=True)}">{html.escape(text)}</a>'


def _title(source: Source) -> str:
    headings = pages.parse(source.text).headings
    return _plain(headings[0].title) if headings else source.path


def _short_title(source: Source) -> str:
    """Return the title as the contents list shows it: a report by its entry."""
    title = _title(source)
    return title.partition(":")[0] if source.group == REPORTS else title


def _plain(title: str) -> str:
    return title.replace("`", "")


def _relative(page: str, target: str) -> str:
    return posixpath.relpath(target, posixpath.dirname(page) or ".")

"""One page to HTML: a maintained Markdown parser, a maintained converter from LaTeX to MathML, and our own three marks.

Comments never reach the parser: the formula comment becomes the caption of its formula, the figure comment that of its
drawing, and a number that is tied to a report becomes `<data>` with its source. They are put in after rendering, in
place of characters of Unicode's private use area, so that the parser works without raw HTML.

A table and a display formula scroll inside a box of their own, which can be reached by keyboard.
"""

import functools
import html
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kvaudit.errors import KvauditError
from kvaudit.evidence import pages
from kvaudit.evidence.pages import Formula, Page

# Commands that the converter lacks, as ones that it has.
_MACROS = {"widetilde": r"\tilde", "widehat": r"\hat"}
_LONG_CELL = 26  # characters
_OPEN, _CLOSE = "\ue000", "\ue001"
_NUMBER = re.compile(f"{_OPEN}(\\d+){_CLOSE}")
_MISSING = "the site needs its extra: pip install 'kvaudit[site]'"


@dataclass(frozen=True, slots=True)
class Target:
    """Where a link leads within the site. A target outside it has no `href`, and is shown as the `path` it names."""

    href: str | None
    path: str


def body(text: str, *, first_formula: int, resolve: Callable[[str], Target]) -> str:
    """Return the HTML of a page. Its display formulas are numbered from `first_formula` on.

    `resolve` says where the target of a link or an image leads. Raises `KvauditError` without the `site` extra, and for
    LaTeX that the converter does not know.
    """
    page = pages.parse(text)
    rendered = str(_parser().render(_bare(text, page), _Env(page, first_formula, resolve)))

    def number(match: re.Match[str]) -> str:
        tied = page.numbers[int(match[1])]
        source = html.escape(f"{tied.entry} {tied.place}", quote=True)
        return f'<data value="{html.escape(tied.text, quote=True)}" title="{source}">{html.escape(tied.text)}</data>'

    return _NUMBER.sub(number, rendered)


def mathml(latex: str, *, display: bool) -> str:
    """Return a formula as MathML, or raise `KvauditError` for LaTeX that the converter does not know."""
    converter, error = _converter()
    try:
        converted = str(converter.convert_with_local_state(latex, displaystyle=display))
    except error as reason:
        raise KvauditError(f"the formula {latex!r} cannot be converted: {reason}") from None
    alternative = html.escape(latex, quote=True)
    return converted.replace("<math", f'<math alttext="{alternative}"', 1)


def _bare(text: str, page: Page) -> str:
    """Return the text without comments, each tied number replaced by its mark."""
    tied = {number.start + len(number.text): index for index, number in enumerate(page.numbers)}
    pieces, at = [], 0
    for comment in page.comments:
        index = tied.get(comment.start)
        if index is None:
            pieces.append(text[at : comment.start])
        else:
            pieces += [text[at : page.numbers[index].start], f"{_OPEN}{index}{_CLOSE}"]
        at = comment.end
    return "".join([*pieces, text[at:]])


class _Env(dict[str, Any]):
    """What the rules below are given of the page that is rendered: markdown-it passes it on from call to call."""

    def __init__(self, page: Page, first_formula: int, resolve: Callable[[str], Target]) -> None:
        super().__init__()
        self.page = page
        self.first_formula = first_formula
        self.resolve = resolve
        self.formulas = 0
        self.images = 0
        self.unlinked: list[bool] = []


@functools.cache
def _converter() -> tuple[Any, type[Exception]]:
    try:
        from math_core import LatexError, LatexToMathML
    except ImportError:
        raise KvauditError(_MISSING) from None
    return LatexToMathML(macros=_MACROS, fancy_error=False), LatexError


@functools.cache
def _parser() -> Any:
    try:
        from markdown_it import MarkdownIt
        from mdit_py_plugins.dollarmath import dollarmath_plugin
    except ImportError:
        raise KvauditError(_MISSING) from None
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    parser.use(dollarmath_plugin, allow_labels=False, double_inline=False)
    parser.core.ruler.push("lone_images", _lone_images)
    for rule in (
        _math_inline,
        _math_block,
        _heading_open,
        _link_open,
        _link_close,
        _image,
        _table_open,
        _table_close,
        _td_open,
        _code_inline,
    ):
        parser.add_render_rule(rule.__name__.removeprefix("_"), rule)
    return parser


def _math_inline(_: Any, tokens: Sequence[Any], index: int, options: Any, env: _Env) -> str:  # noqa: ARG001
    return mathml(pages.plain(tokens[index].content), display=False)


def _math_block(_: Any, tokens: Sequence[Any], index: int, options: Any, env: _Env) -> str:  # noqa: ARG001
    latex = pages.plain(tokens[index].content)
    number = env.first_formula + env.formulas
    formula = env.page.formulas[env.formulas] if env.formulas < len(env.page.formulas) else None
    env.formulas += 1
    box = f'<div class="scroll" role="region" aria-label="formula {number}" tabindex="0">'
    caption = f"<figcaption>{_formula_caption(number, formula)}</figcaption>" if formula is not None else ""
    content = f"{box}{mathml(latex, display=True)}</div>{caption}"
    return f'<figure class="formula" id="formula-{number}">{content}</figure>\n'


def _formula_caption(number: int, formula: Formula) -> str:
    said = f"{number} · {formula.family}, owner {formula.owner} · where {formula.guard}"
    return html.escape(said)


def _heading_open(_: Any, tokens: Sequence[Any], index: int, options: Any, env: _Env) -> str:  # noqa: ARG001
    title = tokens[index + 1].content
    return f'<{tokens[index].tag} id="{html.escape(pages.slug(title), quote=True)}">'


def _link_open(_: Any, tokens: Sequence[Any], index: int, options: Any, env: _Env) -> str:  # noqa: ARG001
    target = env.resolve(str(tokens[index].attrGet("href")))
    env.unlinked.append(target.href is None)
    if target.href is None:
        return f'<span class="path" title="{html.escape(target.path, quote=True)}">'
    away = ' rel="external noopener"' if target.href.startswith("https:") else ""
    return f'<a href="{html.escape(target.href, quote=True)}"{away}>'


def _link_close(_: Any, tokens: Sequence[Any], index: int, options: Any, env: _Env) -> str:  # noqa: ARG001
    return "</span>" if env.unlinked.pop() else "</a>"


def _lone_images(state: Any) -> None:
    """Mark each image that is a paragraph by itself, and drop the paragraph: it becomes a figure."""
    for before, token, after in zip(state.tokens, state.tokens[1:], state.tokens[2:], strict=False):
        children = [child for child in token.children or () if child.type != "softbreak"]
        if before.type == "paragraph_open" and [child.type for child in children] == ["image"]:
            before.hidden = after.hidden = True
            children[0].meta["lone"] = True


def _image(_: Any, tokens: Sequence[Any], index: int, options: Any, env: _Env) -> str:  # noqa: ARG001
    target = env.resolve(str(tokens[index].attrGet("src")))
    image = env.page.images[env.images] if env.images < len(env.page.images) else None
    env.images += 1
    source = html.escape(target.href or target.path, quote=True)
    shown = f'<img src="{source}" alt="{html.escape(str(tokens[index].content), quote=True)}">'
    if not tokens[index].meta.get("lone"):
        return shown
    box = f'<div class="scroll" role="region" aria-label="drawing" tabindex="0">{shown}</div>'
    scope = f"<figcaption>{html.escape(image.scope)}</figcaption>" if image is not None and image.scope else ""
    return f'<figure class="drawing">{box}{scope}</figure>\n'


def _table_open(_: Any, tokens: Sequence[Any], index: int, options: Any, env: _Env) -> str:  # noqa: ARG001
    return '<div class="scroll wide" role="region" aria-label="table" tabindex="0"><table>\n'


def _table_close(_: Any, tokens: Sequence[Any], index: int, options: Any, env: _Env) -> str:  # noqa: ARG001
    return "</table></div>\n"


def _td_open(_: Any, tokens: Sequence[Any], index: int, options: Any, env: _Env) -> str:  # noqa: ARG001
    # A cell with a sentence keeps a readable width on a phone; a cell with a number takes what it needs.
    return '<td class="long">' if len(tokens[index + 1].content) > _LONG_CELL else "<td>"


def _code_inline(_: Any, tokens: Sequence[Any], index: int, options: Any, env: _Env) -> str:  # noqa: ARG001
    return f"<code>{html.escape(tokens[index].content).replace('/', '/<wbr>')}</code>"

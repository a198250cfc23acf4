"""What is read in a page of the published document: by tables of small pages, and laws over random ones."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvaudit.evidence import pages

GUARDED = '<!-- formula: family=payload owner=policy guard="b is positive" -->\n'


def texts(spans):
    return [span.text for span in spans]


def test_headings_have_anchors():
    page = pages.parse("# Cost: what a row takes\n\n## K/V `rows` #\n")
    assert [(each.line, each.level, each.title, each.slug) for each in page.headings] == [
        (1, 1, "Cost: what a row takes", "cost-what-a-row-takes"),
        (3, 2, "K/V `rows`", "kv-rows"),
    ]


def test_a_formula_with_its_comment():
    page = pages.parse(f"# T\n\n## Part\n\n{GUARDED}$$\nM = L\\cdot W\n  \\cdot b\n$$\n")
    (formula,) = page.formulas
    assert (formula.line, formula.heading, formula.latex) == (6, "Part", "M = L\\cdot W \\cdot b")
    assert (formula.family, formula.owner, formula.guard) == ("payload", "policy", "b is positive")
    assert formula.sha256 == "1a7360446a496bdb531a1cb7ff1c9d6e494517dc3a3520bea94d82125203911f"  # as sha256sum gives it
    assert page.faults == ()


def test_wrapping_a_formula_does_not_change_it():
    one, other = (pages.parse(f"{GUARDED}$$\n{latex}\n$$\n").formulas[0] for latex in ("a = b", "a\n  =\n  b"))
    assert one.sha256 == other.sha256


@pytest.mark.parametrize(
    ("body", "kind", "line"),
    [
        ("```\ncode\n", pages.FENCE_OPEN, 1),
        ("a\n~~~~\n~~~\n", pages.FENCE_OPEN, 2),
        ("text <!-- a\n", pages.COMMENT_OPEN, 1),
        (f"{GUARDED}$$\nM\n", pages.DISPLAY_OPEN, 2),
        ("a $$b$$ c\n", pages.DISPLAY_OPEN, 1),
        (f"{GUARDED}$$\n\n$$\n", pages.EMPTY_FORMULA, 2),
        ("nothing $ $ here\n", pages.EMPTY_FORMULA, 1),
        (f"{GUARDED}$$\n{{a\n$$\n", pages.UNBALANCED, 2),
        ("open $a\nand b$\n", pages.UNBALANCED, 1),
        ("$$\nM\n$$\n", pages.NO_FORMULA_COMMENT, 1),
        (f"{GUARDED}\n$$\nM\n$$\n", pages.COMMENT_ALONE, 1),
        (f"{GUARDED}", pages.COMMENT_ALONE, 1),
        (f"{GUARDED}{GUARDED}$$\nM\n$$\n", pages.COMMENT_ALONE, 1),
        ('<!-- figure: source=own scope="s" -->\n', pages.COMMENT_ALONE, 1),
        ("word<!-- =a /b -->\n", pages.MARKER_ALONE, 1),
        ("12 <!-- =a /b -->\n", pages.MARKER_ALONE, 1),
        ("12<!-- =a -->\n", pages.MARKER_ALONE, 1),
        ("[a, 2]<!-- =a /b -->\n", pages.MARKER_ALONE, 1),
        ("x <b>bold</b>\n", pages.RAW_HTML, 1),
    ],
)
def test_faults(body, kind, line):
    faults = pages.parse(body).faults
    assert (kind, line) in [(fault.kind, fault.line) for fault in faults]


@pytest.mark.parametrize(
    ("latex", "balanced"),
    [
        ("a_{b_{c}}", True),
        ("\\{a", True),  # an escaped brace is a sign
        ("a}", False),
        ("\\left( a \\right)", True),
        ("\\left( a )", False),
        ("\\right) \\left(", False),
        ("\\leftarrow b", True),  # an arrow is no delimiter
        ("\\begin{cases} a \\end{cases}", True),
        ("\\begin{cases} a \\end{aligned}", False),
        ("\\begin{cases} a", False),
        ("a \\end{cases}", False),
    ],
)
def test_delimiters_of_a_formula(latex, balanced):
    assert (pages.unbalanced(latex) is None) == balanced


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ("It takes 512 bytes.", ["512"]),
        ("It takes 512<!-- =loop02_visibility /a --> bytes.", []),
        ("The map is [0, 1]<!-- =e /p --> here, not [0, 2].", ["0", "2"]),
        ("| 4096<!-- =e /p --> | 7 |", ["7"]),
        ("FP32, 2x2, K2 and 4-bit", []),
        ("`12` and ``3 ` 4``", []),
        ("a $x_{12}$ b", []),
        ("see [the page](07_allocation.md#a-1)", []),
        ("see [12 pages](a.md)", ["12"]),
        ("![shows 3 rows](figures/a.svg)", ["3"]),
        ("1. first\n2. second\n", []),
        ("1.5 is no list", ["1.5"]),
        ("## Loop 7\n", []),
        ("```\n12\n```\n", []),
        ("<!-- 12 -->", []),
        ("a 50% share", ["50%"]),
    ],
)
def test_bare_numbers(text, bare):
    assert texts(pages.parse(text).bare) == bare


@pytest.mark.parametrize(
    ("written", "value", "agree"),
    [
        ("512", 512, True),
        ("511", 512, False),
        ("131,072", 131072, True),
        ("0.43", Fraction(3, 7), True),
        ("0.42", Fraction(3, 7), False),
        ("0.4286", Fraction(3, 7), True),
        ("42.9%", Fraction(3, 7), True),
        ("42.8%", Fraction(3, 7), False),
        ("-1.5", Fraction(-3, 2), True),
        ("2", Fraction(9, 4), True),  # rounded to the digits that are written
        ("[0, 1, 5]", [0, 1, 5], True),
        ("[0, 1, 5]", [0, 1], False),
        ("[0, 1, 5]", [0, 5, 1], False),
        ("[[0, 1], [2]]", [[0, 1], [2]], True),
        ("[]", [], True),
        ("1", True, False),
        ("0", None, False),
        ("5", "5", False),
        ("[5]", 5, False),
        ("5", [5], False),
    ],
)
def test_what_is_written_against_what_the_report_says(written, value, agree):
    assert pages.agrees(pages.stated(written), value) == agree


def test_a_bare_number_is_found_on_its_line():
    page = pages.parse("![a view of many rows](v.svg)\n\n```\n1\n```\n\n$x$ `y`<!-- =e /p -->\n\nIt is 7 here.\n")
    assert [(each.line, each.text) for each in page.bare] == [(9, "7")]


def test_a_list_is_the_last_bracket_before_its_marker():
    (number,) = pages.parse("from [1, 2] to [[3], [4]]<!-- =e /p -->").numbers
    assert (number.text, number.entry, number.place) == ("[[3], [4]]", "e", "/p")


def test_images_and_links():
    body = '![a view](figures/v.svg)\n<!-- figure: source=own scope="one owner" -->\n\n![](w.svg)\n[x](a.md#b) `c.d`\n'
    page = pages.parse(body)
    assert [(each.target, each.alt, each.source, each.scope) for each in page.images] == [
        ("figures/v.svg", "a view", "own", "one owner"),
        ("w.svg", "", None, None),
    ]
    assert texts(page.links) == ["a.md#b"]
    assert texts(page.cited) == ["c.d"]


@given(st.text(alphabet="ab1$`#[]()!<>-=\n {}\\%,.", max_size=200))
def test_no_text_makes_it_fail(text):
    page = pages.parse(text)
    lines = text.count("\n") + 1
    for each in (*page.faults, *page.bare, *page.links, *page.formulas, *page.headings):
        assert 1 <= each.line <= lines


@given(st.integers(-(10**12), 10**12), st.integers(0, 6))
def test_a_number_agrees_with_what_it_was_rounded_from(scaled, decimals):
    """Every decimal within half a unit of the last digit agrees, and one that is a whole unit away does not."""
    value = Fraction(scaled, 10**decimals)
    sign = "-" if scaled < 0 else ""
    digits = str(abs(scaled)).rjust(decimals + 1, "0")
    text = sign + digits[: len(digits) - decimals] + (f".{digits[-decimals:]}" if decimals else "")
    written, unit = pages.stated(text), Fraction(1, 10**decimals)
    assert pages.agrees(written, value)
    assert pages.agrees(written, value + unit / 2)
    assert not pages.agrees(written, value + unit)

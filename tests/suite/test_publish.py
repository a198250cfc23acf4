"""The published site: what becomes of a page, and that the render audit finds each kind of damage, and it alone."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kvaudit.errors import KvauditError, UsageError
from kvaudit.evidence import pages
from kvaudit.evidence.bundle import load_bundle
from kvaudit.evidence.text import DEFAULT_LIMITS
from kvaudit.site.audit import Expected, audit, read
from kvaudit.site.build import CONTRACTS, REPORTS, Source, build
from kvaudit.site.markup import Target, body, mathml
from kvaudit.suite import publish

ROOT = Path(__file__).parents[2]
PAGE = """\
# One row

It has 3<!-- =cost /ledgers/rows/value --> rows of $d_h$ scalars in `a/b`, and 4<!-- a note --> more.

<!-- formula: family=payload owner=policy guard="b < 2 & positive" -->
$$
M = \\begin{aligned} a &= b \\\\ c &= d \\end{aligned}
$$

![A view](figures/v.svg)
<!-- figure: source=own scope="one owner" -->

| layer | [all](two.md#second) |
| --- | --- |
| first | a cell with a sentence that is rather long |

```
kept<!-- =cost /ledgers/rows/value -->
```

See [the module](../../kvaudit/one.py), [below](#end) and [elsewhere](https://example.org).

## End
"""
SOURCES = [
    Source("docs/contract/README.md", PAGE, CONTRACTS),
    Source("docs/contract/two.md", "# Two\n\n## Second\n\n[the report](../../reports/one.json)\n", CONTRACTS),
    Source("reports/one.md", "# one: rows\n\n| a | b \\| c |\n| --- | --- |\n| 1 | 2 |\n", REPORTS),
]
DRAWINGS = {"docs/contract/figures/v.svg": b"<svg><title>v</title><desc>d</desc></svg>"}


def site():
    return build(SOURCES, {"reports/one.json": b"{}", "reports/other.json": b"{}"}, DRAWINGS, title="All", foot="end")


def expected(files):
    held = dict.fromkeys(files)
    return held | {"index.html": Expected(1, 1), "two.html": Expected(0, 0), "reports/one.html": Expected(0, 0)}


def rendered(text):
    return body(text, first_formula=7, resolve=lambda target: Target(target, target))


def test_the_files_of_a_site():
    files = site()
    assert list(files) == [
        "figures/v.svg",
        "index.html",
        "reports/one.html",
        "reports/one.json",
        "style.css",
        "two.html",
    ]
    assert files == site()  # the same bytes each time
    assert audit(files, expected(files)) == ()


def test_what_becomes_of_a_page():
    page = site()["index.html"].decode()
    assert '<data value="3" title="cost /ledgers/rows/value">3</data> rows' in page
    assert "and 4 more" in page  # a comment that is no marker leaves nothing
    assert "kept&lt;!-- =cost /ledgers/rows/value --&gt;" in page  # in a fence it is text
    assert "1 · payload, owner policy · where b &lt; 2 &amp; positive" in page
    assert '<figure class="formula" id="formula-1"><div class="scroll"' in page
    assert '<img src="figures/v.svg" alt="A view">' in page
    assert "<figcaption>one owner</figcaption>" in page
    assert '<a href="two.html#second">all</a>' in page
    assert '<span class="path" title="kvaudit/one.py">the module</span>' in page  # no page of the site, so no link
    assert '<a href="https://example.org" rel="external noopener">' in page
    assert '<h2 id="end">' in page
    assert "<code>a/<wbr>b</code>" in page
    assert '<td class="long">' in page
    assert '<a href="index.html" aria-current="page">One row</a>' in page


def test_paths_from_a_report():
    page = site()["reports/one.html"].decode()
    assert '<link rel="stylesheet" href="../style.css">' in page
    assert '<a href="../two.html">Two</a>' in page
    assert "b | c" in page
    assert '<a href="one.html" aria-current="page">one</a>' in page


def test_raw_html_is_text():
    assert "<script" not in rendered("# A\n\n<script>alert(1)</script>\n\nb <b>c</b>\n")


def test_an_alignment_becomes_a_table_of_mathml():
    converted = mathml("\\begin{aligned} a &= b \\\\ c &= \\widetilde d \\end{aligned}", display=True)
    assert converted.startswith('<math alttext="\\begin{aligned} a &amp;= b')
    assert 'display="block"' in converted
    assert converted.count("<mtr>") == 2
    assert "&=" not in converted.partition(">")[2]


def test_latex_that_nobody_knows():
    with pytest.raises(KvauditError, match=r"\\nosuchcommand"):
        mathml("\\nosuchcommand{a}", display=False)


@pytest.mark.parametrize(
    ("name", "old", "new", "code"),
    [
        ("index.html", None, None, "site.page-missing"),
        ("old.html", None, "<p>old</p>", "site.file-unexpected"),
        ("two.html", "Second", "Sec\udcffond", "site.not-text"),
        ("index.html", "<math", "<p", "site.formula-count"),
        ("index.html", "<mi>d</mi><mi>h</mi>", "", "site.formula-empty"),
        ("index.html", "<mi>M</mi>", "<mi>\\widecheck M</mi>", "site.formula-unconverted"),
        ("index.html", "two.html#second", "two.html#third", "site.link-broken"),
        ("reports/one.html", "../two.html", "../three.html", "site.link-broken"),
        ("index.html", "figures/v.svg", "figures/w.svg", "site.image-broken"),
        ("index.html", 'alt="A view"', 'alt=" "', "site.alt-empty"),
        ("two.html", "</main>", "<script></script></main>", "site.needs-network"),
        ("two.html", "</main>", '<p onclick="x()">a</p></main>', "site.needs-network"),
        ("style.css", "body {", "body { background: url(https://example.org/a.png);", "site.needs-network"),
        ("two.html", "<h2 id", "<h4 id", "site.heading-order"),
        ("two.html", "</main>", "<h1>Again</h1></main>", "site.heading-order"),
        ("two.html", 'id="second"', 'id="main"', "site.duplicate-id"),
        ("two.html", ' lang="en"', "", "site.head-incomplete"),
    ],
)
def test_the_audit_finds_each_damage(name, old, new, code):
    files = dict(site())
    if name == "index.html" and old is None:
        del files[name]
    elif old is None:
        files[name] = new.encode()
    else:
        text = files[name].decode()
        assert old in text or old == "<mi>d</mi><mi>h</mi>"
        if code == "site.formula-empty":
            start = text.index('<math alttext="d_h">') + len('<math alttext="d_h">')
            text = text[:start] + text[text.index("</math>", start) :]
        files[name] = text.replace(old, new, 1).encode("utf-8", "surrogateescape")
    found = {each.code for each in audit(files, expected(site()))}
    related = {"site.not-text": {"site.link-broken"}, "site.page-missing": {"site.link-broken"}}
    related |= {"site.file-unexpected": {"site.heading-order", "site.head-incomplete"}}
    related |= {"site.duplicate-id": {"site.link-broken"}}
    assert code in found
    assert found - {code} <= related.get(code, set())


def test_the_audit_reads_formulas_by_itself():
    assert [math.display for math in read(site()["index.html"].decode()).maths] == [False, True]


@pytest.fixture(scope="module")
def shipped():
    bundle = load_bundle(ROOT)
    entry = next(entry for entry in bundle.entries if entry.oracle == "publication")
    return bundle, entry, publish.built(bundle, entry, DEFAULT_LIMITS)


def test_the_shipped_publication_builds(shipped):
    bundle, entry, made = shipped
    assert made.findings == ()
    display = inline = 0
    for path in entry.documents[0].paths:
        page = pages.parse((ROOT / path).read_text(encoding="utf-8"))
        display, inline = display + len(page.formulas), inline + len(page.inline_formulas)
    assert made.formulas == display + inline
    assert {f"reports/{each.id}.html" for each in bundle.entries} <= set(made.files)
    assert b"shared lineage" in made.files["matrix.html"]
    assert f'id="formula-{display}"'.encode() in b"".join(made.files.values())


def test_writing_and_auditing(shipped, tmp_path):
    bundle, entry, made = shipped
    folder = tmp_path / "site"
    publish.write(made, folder)
    publish.write(made, folder)  # over itself
    assert publish.audited(bundle, entry, folder, DEFAULT_LIMITS).findings == ()
    page = folder / "index.html"
    page.write_text(page.read_text(encoding="utf-8").replace("color-scheme", "colour-scheme"), encoding="utf-8")
    stale = publish.audited(bundle, entry, folder, DEFAULT_LIMITS).findings
    assert [(each.code, each.path) for each in stale] == [("site.stale", "index.html")]
    (folder / "more.txt").write_text("more")
    with pytest.raises(UsageError, match=r"more\.txt"):
        publish.write(made, folder)
    with pytest.raises(UsageError, match="no folder"):
        publish.audited(bundle, entry, tmp_path / "gone", DEFAULT_LIMITS)


def test_nothing_is_built_from_a_publication_with_findings(whole_bundle):
    page = whole_bundle / "docs/contract/README.md"
    page.write_text(page.read_text(encoding="utf-8") + "\nIt has 12 pages.\n", encoding="utf-8")
    bundle = load_bundle(whole_bundle)
    entry = next(entry for entry in bundle.entries if entry.oracle == "publication")
    made = publish.built(bundle, entry, DEFAULT_LIMITS)
    assert made.files == {}
    assert [each.code for each in made.findings] == ["publication.bare-number"]


def run(*arguments, **options):
    command = [sys.executable, "-m", "kvaudit", "publication", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, **options)


def test_the_command(tmp_path):
    folder = tmp_path / "site"
    first = run("--build", str(folder))
    assert (first.returncode, first.stderr) == (0, "")
    assert first.stdout.startswith(f"{folder}: ")
    assert first.stdout.endswith("the render audit found nothing\n")
    (folder / "style.css").unlink()
    second = run("--audit", str(folder), "--format", "json")
    assert second.returncode == 1
    codes = {each["code"] for each in json.loads(second.stdout)["findings"]}
    assert codes == {"site.page-missing", "site.link-broken"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--build", "a", "--audit", "b"), "one of --build and --audit"),
        (("--build", "a", "--fixture", "b"), "--fixture"),
        (("--audit", "no-such-folder"), "no folder"),
    ],
)
def test_usage(arguments, message):
    result = run(*arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert message in result.stderr


def test_without_the_extra(tmp_path):
    """A plain installation says what is missing; nothing is written."""
    blocked = (
        "import sys; sys.modules['math_core'] = None; sys.argv = ['kvaudit', 'publication', '--build', sys.argv[1]]\n"
        "from kvaudit.cli.main import main; main()"
    )
    command = [sys.executable, "-c", blocked, str(tmp_path / "site")]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (3, "")
    assert "pip install 'kvaudit[site]'" in result.stderr
    assert not (tmp_path / "site").exists()

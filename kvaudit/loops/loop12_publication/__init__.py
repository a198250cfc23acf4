"""Loop 12, the published document and its audit: formulas, numbers, sources, drawings, links, owners (0x15, 0x16).

An oracle over reports. It is given the pages in the order in which they are published, their drawings, the registry of
sources, the registry of owners, the fixtures that hold receipts, and the reports of every entry that it needs. It opens
no mechanism again: it says whether the document can be rebuilt from its equations, sources and reports, and whether
each claim has an owner.

The contracts are judged in the order of `oracle`: owners of report fields, receipts and diagnostics; sources; page by
page what each must keep by itself; then drawings, the list of pages, formulas, and the numbers that the pages state of
the publication itself.

Decided here:
- The committed registry of formulas is a member of the fixture. `kvaudit regenerate --redeclare publication` writes it
  anew from the pages and shows the difference; everything else only reads it.
- A page's order is that of `documents.pages`, which the fixture repeats with the set that each page belongs to: the
  formulas of the specification are counted apart from those of later additions.
- A file that is no evidence (a module, a coordinate system) may be linked if the fixture lists it. Whether it exists is
  a matter of the source tree: a test looks, because an installed bundle does not have it.
- What the specification states of its own publication, which was another document with other drawings, is repeated as
  an input, with the sums that follow from it. It is no claim about these pages.
- The render audit is another command: it needs a converter and writes files. Nothing here renders.
"""

from collections.abc import Mapping
from typing import Any

from kvaudit.loops.loop12_publication.boundary import judge_boundary, proved_codes
from kvaudit.loops.loop12_publication.closure import (
    SETS,
    judge_drawings,
    judge_formulas,
    judge_own_numbers,
    judge_page_list,
    registry_rows,
)
from kvaudit.loops.loop12_publication.diagnostics import DIAGNOSTICS, DRIFT
from kvaudit.loops.loop12_publication.sources import deviation_ids, judge_sources
from kvaudit.loops.loop12_publication.text import Context, judge_page, parsed
from kvaudit.model import Boundary, Document, Evidence, LedgerRow, Loop, Table

_PREFIX = "publication"


def oracle(collected: Document) -> Evidence:
    """Return the evidence of a publication, or raise the first `ContractViolation` in the order above."""
    ownership = judge_boundary(collected)
    sources = judge_sources(collected)
    read, documents = parsed(collected), collected["documents"]
    context = _context(collected)
    own = [judge_page(index, page["path"], read[index], context) for index, page in enumerate(documents["pages"])]
    drawings = judge_drawings(collected, read)
    judge_page_list(collected)
    formulas = judge_formulas(collected, read)
    tied = sum(len(each.numbers) for each in read)
    results = {
        "pages": {
            page["path"]: {
                "set": page["set"],
                "headings": len(each.headings),
                "display_formulas": len(each.formulas),
                "inline_formulas": len(each.inline_formulas),
                "numbers": len(each.numbers),
                "links": len(each.links),
                "images": len(each.images),
            }
            for page, each in zip(collected["pages"], read, strict=True)
        },
        "formulas": formulas,
        "numbers": {
            "tied_to_reports": tied,
            "bare": 0,
            "by_entry": _numbers_by_entry(collected, read),
        },
        "drawings": drawings,
        "sources": sources,
        "ownership": ownership,
        "specification": _specification(collected),
    }
    ledgers = (
        *(
            LedgerRow(
                f"{name}_formulas", formulas[name], "formulas", f"display formulas on the pages of the set {name}"
            )
            for name in SETS
        ),
        LedgerRow("tied_numbers", tied, "numbers", "numbers with a marker, all pages"),
        LedgerRow("primary_papers", sources["papers"], "papers", "policies + boundaries"),
        LedgerRow("pinned_commits", sources["commits"], "commits", "commits of the source registry"),
        LedgerRow("implementation_records", sources["implementations"], "records", "records at a pinned commit"),
        LedgerRow(
            "differences", sources["deviations"], "records", "differences between paper and code, each with an id"
        ),
    )
    judge_own_numbers(own, results, ledgers)
    return Evidence(results=results, ledgers=ledgers, snapshots=(), comparisons=())


def refresh_digests(collected: Document) -> Document:
    """Return the fixture with the registry of formulas written anew from the pages."""
    return {**collected, "formula_registry": registry_rows(collected)}


def _context(collected: Document) -> Context:
    documents = collected["documents"]
    codes = proved_codes(collected)
    return Context(
        families=documents["ownership"]["content"]["families"],
        anchors={
            page["path"]: frozenset(heading.slug for heading in each.headings)
            for page, each in zip(documents["pages"], parsed(collected), strict=True)
        },
        files=frozenset((*collected["lock"], *collected["linked_files"])),
        drawings=frozenset(drawing["path"] for drawing in documents["figures"]),
        reports=collected["reports"],
        own=collected["entry"],
        codes={**codes, _PREFIX: frozenset(diagnostic.code for diagnostic in DIAGNOSTICS)},
        deviations=deviation_ids(documents["sources"]["content"]),
    )


def _numbers_by_entry(collected: Document, read: Any) -> Document:
    counts = dict.fromkeys((*collected["reports"], collected["entry"]), 0)
    for page in read:
        for number in page.numbers:
            counts[number.entry] += 1
    return counts


def _specification(collected: Document) -> Document:
    """Return what the specification states of the document that it was itself, with the sums that follow."""
    stated = collected["specification"]
    papers = collected["documents"]["sources"]["content"]["papers"]
    abbreviated = [
        name
        for name, commit in collected["documents"]["sources"]["content"]["commits"].items()
        if len(commit["printed"]) < len(commit["commit"]) or commit["status"] == "not_found"
    ]
    return {
        **stated,
        "math_nodes": collected["display_formulas"]["specification"] + stated["inline_formulas"],
        "visual_units": stated["responsive_pairs"] + stated["desktop_only"],
        "image_files": stated["source_figures"] + 2 * stated["responsive_pairs"] + stated["desktop_only"],
        "image_fallbacks": stated["source_figures"] + stated["responsive_pairs"] + stated["desktop_only"],
        "local_sources": stated["local_articles"] + stated["evidence_bundles"],
        "abbreviated_commits": len(abbreviated),
        "every_commit_exact": not abbreviated,
        "papers_equal_reference_list": len(papers) == stated["reference_papers"],
    }


def tables(report: Mapping[str, Any]) -> tuple[Table, ...]:
    """Return what each page holds, what the sources are, and what each owner owns."""
    results = report["results"]
    pages = Table(
        "Pages",
        ("page", "set", "display formulas", "inline formulas", "numbers tied to reports", "links", "drawings"),
        tuple(
            (
                path,
                page["set"],
                str(page["display_formulas"]),
                str(page["inline_formulas"]),
                str(page["numbers"]),
                str(page["links"]),
                str(page["images"]),
            )
            for path, page in results["pages"].items()
        ),
    )
    families = Table(
        "Display formulas by family",
        ("family", "formulas"),
        tuple((name, str(count)) for name, count in results["formulas"]["by_family"].items()),
    )
    sources = results["sources"]
    statements = Table(
        "Statements of the source registry, kinds kept apart",
        ("kind", "records"),
        tuple((name.replace("_", " "), str(count)) for name, count in sources["statements"].items()),
    )
    commits = Table(
        "Pinned commits",
        ("source", "commit", "in a public history"),
        tuple(
            (name, commit, "not found" if name in sources["unresolved_commits"] else "yes")
            for name, commit in sources["commit_of"].items()
        ),
    )
    ownership = results["ownership"]
    owners = Table(
        "What each owner owns",
        ("owner", "report rules", "receipt rules", "diagnostics", "display formulas"),
        tuple(
            (
                owner,
                str(ownership["owned_fields"][owner]),
                str(ownership["owned_receipts"][owner]),
                str(ownership["diagnostics"][owner]),
                str(results["formulas"]["by_owner"].get(owner, 0)),
            )
            for owner in ownership["owned_fields"]
        ),
    )
    return pages, families, statements, commits, owners


LOOP = Loop(
    id="loop12_publication",
    command="publication",
    title="the published document and its audit",
    section="0x15",
    fixture_schema="kvaudit.fixture.publication/1",
    report_schema="kvaudit.report.publication/1",
    diagnostics=DIAGNOSTICS,
    drift=DRIFT,
    categories=(
        "owners of report fields",
        "foreign facts and receipts",
        "owners of diagnostics",
        "kinds of statement",
        "papers and commits",
        "implementation records and differences",
        "delimiters and headings",
        "formulas",
        "numbers",
        "links and citations",
        "drawings",
        "closure of the document",
    ),
    boundary=Boundary(
        evidence_class="synthetic_oracle",
        executed=(
            "comparison of every tied number with its report",
            "registry of formulas",
            "audit of sources, drawings, links and owners",
        ),
        not_executed=(
            "rendering of the pages",
            "a browser",
            "any paper's code",
            "whether a linked address answers",
            "latency",
            "memory traffic",
            "task quality",
        ),
    ),
    oracle=oracle,
    refresh_digests=refresh_digests,
    tables=tables,
    collected_schema="kvaudit.collected.publication/1",
    reads_results=True,
)

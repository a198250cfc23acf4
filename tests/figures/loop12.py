"""Where the report of loop 12 says each figure of the specification.

What the specification counts of the document that it was itself is an input, with the sums that follow from it.
"""


def _stated(name):
    return lambda r: r["results"]["specification"][name]


def _commit(name):
    return lambda r: r["results"]["sources"]["commit_of"][name]


FIGURES = {
    "L12.display": lambda r: r["ledgers"]["specification_formulas"]["value"],
    "L12.inline": _stated("inline_formulas"),
    "L12.inline_in_text": _stated("inline_formulas_in_text"),
    "L12.math_nodes": _stated("math_nodes"),
    "L12.papers": lambda r: r["ledgers"]["primary_papers"]["value"],
    "L12.references_papers": _stated("reference_papers"),
    "L12.papers_vs_references": lambda r: not r["results"]["specification"]["papers_equal_reference_list"],
    "L12.commits": lambda r: r["ledgers"]["pinned_commits"]["value"],
    "L12.commits_resolved": lambda r: r["results"]["sources"]["full_commits"],
    "L12.abbreviated_commits": lambda r: r["results"]["sources"]["printed_abbreviated"],
    "L12.exact_commits": lambda r: not r["results"]["specification"]["every_commit_exact"],
    "L12.audit_date": _stated("recheck_date"),
    "L12.implementation_records": lambda r: r["ledgers"]["implementation_records"]["value"],
    "L12.figures": _stated("source_figures"),
    "L12.local_sources": _stated("local_sources"),
    "L12.local_articles": _stated("local_articles"),
    "L12.custom_units": _stated("visual_units"),
    "L12.responsive": lambda r: [r["results"]["specification"][name] for name in ("responsive_pairs", "desktop_only")],
    "L12.images": _stated("image_files"),
    "L12.fallbacks": _stated("image_fallbacks"),
    "L12.closing_headings": _stated("closing_headings"),
    **{
        f"L12.commit.{name}": _commit(name)
        for name in (
            "streamingllm",
            "h2o",
            "keyformer",
            "snapkv",
            "pyramidkv",
            "pyramidinfer",
            "ada-kv",
            "headkv",
            "fastgen",
            "dmc",
            "minicache",
            "layer-condensed",
        )
    },
}

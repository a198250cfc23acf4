"""Loop 13, Spherical KV: angle-domain attention, rate-distortion retention, iso-quality frontier, stability.

The paper (arXiv 2605.18856, read through a public review page) states the idea; the review's one major objection is
that it gives neither the map from angle codes to a unit vector nor an error bound. This loop states a map, proves a
bound (docs/contract/13_spherical.md) and checks both. Whatever the material read leaves open is labelled *this
project's contract*, here and in the report, and is never the paper's.

The contracts are judged in the order of `oracle`: angle, retention, frontier, stability, each in the order that its
module states. Only then are results computed, so that a broken fixture is refused quickly.

Decided here:
- The four sections stand alone: none reads the results of another. The release filter of the stability section names
  points of the frontier section.
- Nothing here is measured. Throughput and quality in the frontier section are inputs; a measured frontier comes from
  measurement records through the same schema.
"""

from collections.abc import Mapping
from typing import Any

from kvaudit.loops.loop13_spherical import angle, diagnostics, frontier, retention, stability
from kvaudit.model import Boundary, Comparison, Document, Evidence, Loop, Table, pointer

_SECTIONS = (angle, retention, frontier, stability)


def oracle(fixture: Document) -> Evidence:
    """Return the evidence of a Spherical KV fixture, or raise the first `ContractViolation` in the order above."""
    angle_plan = angle.judge(fixture["angle"], pointer("angle"))
    retention_plan = retention.judge(fixture["retention"], pointer("retention"))
    frontier_results, frontier_ledgers = frontier.check(fixture["frontier"], pointer("frontier"))
    stability_results, stability_ledgers = stability.check(
        fixture["stability"], pointer("stability"), fixture["frontier"], pointer("frontier")
    )
    return Evidence(
        results={
            "source": fixture["source"],
            "angle": angle.results(fixture["angle"], angle_plan),
            "retention": retention.results(fixture["retention"], retention_plan),
            "frontier": frontier_results,
            "stability": stability_results,
        },
        ledgers=(
            *angle.ledgers(fixture["angle"], angle_plan),
            *retention.ledgers(fixture["retention"], retention_plan),
            *frontier_ledgers,
            *stability_ledgers,
        ),
        snapshots=retention.snapshots(fixture["retention"], retention_plan),
        comparisons=(
            Comparison(
                "angle_step_bytes",
                "B",
                "one decode step over the same keys, values dense in both",
                ("angle_step_read_bytes", "angle_dense_step_read_bytes"),
            ),
            Comparison(
                "retention_page_bytes",
                "B",
                "the same states, page size and header",
                ("retention_safe_page_bytes", "retention_protected_page_bytes", "retention_page_bytes"),
            ),
        ),
    )


def refresh_digests(fixture: Document) -> Document:
    """Return the fixture as it is: no member of it is a digest of another."""
    return fixture


def tables(report: Mapping[str, Any]) -> tuple[Table, ...]:
    """Return the tables of the four sections."""
    results = report["results"]
    return (
        *angle.tables(results["angle"]),
        *retention.tables(results["retention"]),
        *frontier.tables(results["frontier"]),
        *stability.tables(results["stability"]),
    )


LOOP = Loop(
    id="loop13_spherical",
    command="spherical",
    title="Spherical KV: angle codes, rate-distortion retention, iso-quality frontier, stability",
    section="arXiv 2605.18856",
    fixture_schema="kvaudit.fixture.spherical/1",
    report_schema="kvaudit.report.spherical/1",
    diagnostics=(
        *diagnostics.ANGLE,
        *diagnostics.RETENTION,
        *frontier.DIAGNOSTICS,
        *stability.DIAGNOSTICS,
        diagnostics.DRIFT,
    ),
    drift=diagnostics.DRIFT,
    categories=tuple(category for section in _SECTIONS for category in section.CATEGORIES),
    boundary=Boundary(
        evidence_class="synthetic_oracle",
        executed=(
            "encoding, decoding and direct logits of a small set of keys, with their bounds",
            "page packing, order of evaluation and byte ledgers",
            "greedy allocation of precision tiers against the exact optimum",
            "envelope, representative point and gains of declared points",
            "brittleness, gate and failure traces of declared logits",
        ),
        not_executed=(
            "model",
            "the paper's code, kernels or learned retention policy",
            "attention kernel on a device",
            "memory traffic",
            "latency",
            "task quality",
        ),
    ),
    oracle=oracle,
    refresh_digests=refresh_digests,
    tables=tables,
)

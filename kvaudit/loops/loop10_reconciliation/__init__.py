"""Loop 10, reconciliation: finished reports side by side, without a policy run and without a ranking (0x0F).

A fixture states what the reconciler may rely on: the order of the reports, an adapter for each (schema of report and
fixture, version, expected snapshots, ledger rows and comparison groups, suites), legacy documents with their exact
hash, the coordinates that every report must declare, the links that are expected, and the kinds of metric that may not
be compared across reports. What it consumes is collected by the suite from the checked files: the manifest's entries,
the lock's pins, the identity of each fixture, each report without its `results`, and what the suites closed.

The contracts are judged in the order of `oracle`: owner, order, paths, hashes, adapters, fixture identity, prior
suites, legacy documents, evidence scope, coordinates, snapshots, ledgers, comparison groups, links, comparisons.

Decided here:
- Nothing of a policy is imported, and no result of another loop is read: a receipt has the members that every report
  has. What a link rests on is read at the pointers that the manifest names, as values to be equal, not to be used.
- A report is described by its adapter's expectations in the fixture, so that a row which appears or vanishes is a
  finding even where the report is consistent in itself. No count is written in code.
- A document with an integer schema version, or with none, is a legacy document: it is named by the entry, pinned by its
  exact hash in the fixture, and read at declared pointers only. It has coordinates because the fixture declares them.
- A state transition is two consecutive snapshots of one policy and owner. Where there is one snapshot the transition is
  absent and listed as such; nothing is inferred from generations.
- Hashes, snapshots and rows are receipts: reported, and not declared, because each upstream edit changes them. Declared
  are the counts and the relation of every pair.
- `consumed_sha256` is the digest of the reports that were consumed, in their order. It is not the suite digest, which
  covers this report too.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from kvaudit.evidence.lock import suite_digest
from kvaudit.loops.loop10_reconciliation import contracts
from kvaudit.loops.loop10_reconciliation.diagnostics import DIAGNOSTICS, DRIFT
from kvaudit.loops.loop10_reconciliation.receipts import Receipt, links_of, read_legacy, read_report
from kvaudit.model import Boundary, Document, Evidence, LedgerRow, Loop, Table, joined
from kvaudit.reconcile.relation import COMPARABLE, INCOMPATIBLE, SHARED_LINEAGE, Relation, relations


def oracle(fixture: Document) -> Evidence:
    """Return the reconciliation of the reports at hand, or raise the first `ContractViolation` in the order above."""
    contracts.judge_owner(fixture)
    contracts.judge_order(fixture)
    contracts.judge_paths(fixture)
    contracts.judge_hashes(fixture)
    contracts.judge_adapters(fixture)
    contracts.judge_fixture_identities(fixture)
    contracts.judge_prior_suites(fixture)
    receipts = [
        read_legacy(fixture, entry_id) if entry_id in fixture["legacy"] else read_report(fixture, entry_id)
        for entry_id in fixture["order"]
    ]
    contracts.judge_scope(fixture, receipts)
    contracts.judge_coordinates(fixture, receipts)
    contracts.judge_snapshots(fixture, receipts)
    contracts.judge_ledgers(fixture, receipts)
    contracts.judge_groups(fixture, receipts)
    contracts.judge_links(fixture)
    links = links_of(fixture)
    subjects = {receipt.id: receipt.subject(links) for receipt in receipts}
    contracts.judge_comparisons(fixture, subjects)
    pairs = relations(subjects.values())
    return Evidence(
        results=_results(fixture, receipts, pairs),
        ledgers=_ledgers(fixture, receipts, pairs),
        snapshots=(),
        comparisons=(),
        receipts=_receipts(fixture, receipts, pairs),
    )


def refresh_digests(fixture: Document) -> Document:
    """Return the fixture as it is: what it pins are the hashes of files, which no edit of it can derive."""
    return fixture


def _results(fixture: Document, receipts: Sequence[Receipt], pairs: Sequence[Relation]) -> Document:
    transitions = [found for receipt in receipts for found in _transitions(receipt).values()]
    return {
        "reports": [receipt.id for receipt in receipts],
        "required_coordinates": fixture["required_coordinates"],
        "snapshots": {receipt.id: len(receipt.snapshots) for receipt in receipts},
        "ledger_rows": {receipt.id: len(receipt.rows) for receipt in receipts},
        "comparison_groups": {receipt.id: len(receipt.groups) for receipt in receipts},
        "transitions": {
            "observed": sum(map(len, transitions)),
            "absent": sum(not found for found in transitions),
        },
        "relations": {
            kind: [[pair.a.id, pair.b.id] for pair in pairs if pair.kind == kind]
            for kind in (COMPARABLE, SHARED_LINEAGE, INCOMPATIBLE)
        },
        "prior_cases": _prior_cases(fixture),
        "forbidden_metrics": fixture["forbidden_metrics"],
        "policy_algorithms_rerun": False,
    }


def _prior_cases(fixture: Document) -> Document:
    """Return the invalid cases that the reports closed, by what they are counted as and by report."""
    counted: dict[str, dict[str, int]] = {}
    for entry_id, adapter in fixture["entries"].items():
        for suite in adapter["suites"].values():
            of_kind = counted.setdefault(suite["counted_as"], {})
            of_kind[entry_id] = of_kind.get(entry_id, 0) + suite["cases"]
    return counted


def _ledgers(fixture: Document, receipts: Sequence[Receipt], pairs: Sequence[Relation]) -> tuple[LedgerRow, ...]:
    def of_kind(kind: str) -> int:
        return sum(pair.kind == kind for pair in pairs)

    prior = _prior_cases(fixture)
    return (
        LedgerRow("reports", len(receipts), "reports", "reports in the order"),
        LedgerRow("state_snapshots", sum(len(each.snapshots) for each in receipts), "snapshots", "sum over reports"),
        LedgerRow("ledger_rows", sum(len(each.rows) for each in receipts), "ledger rows", "sum over reports"),
        LedgerRow("comparison_groups", sum(len(each.groups) for each in receipts), "groups", "sum over reports"),
        LedgerRow("report_pairs", len(pairs), "pairs of reports", "reports * (reports - 1) / 2"),
        LedgerRow("comparable_pairs", of_kind(COMPARABLE), "pairs of reports", "every coordinate of a metric agrees"),
        LedgerRow("lineage_pairs", of_kind(SHARED_LINEAGE), "pairs of reports", "joined by a declared link"),
        LedgerRow("incompatible_pairs", of_kind(INCOMPATIBLE), "pairs of reports", "neither of the two"),
        LedgerRow(
            "cross_report_comparisons",
            len(fixture["cross_report_comparisons"]),
            "comparisons",
            "comparisons that were asked for and are legal",
        ),
        *(
            LedgerRow(f"prior_{kind}_cases", sum(reports.values()), "invalid cases", "sum over suites of that kind")
            for kind, reports in prior.items()
        ),
    )


def _receipts(fixture: Document, receipts: Sequence[Receipt], pairs: Sequence[Relation]) -> Document:
    lines = [(each.id, each.fixture_sha256 or "", each.report_sha256, each.adapter) for each in receipts]
    return {
        "consumed_sha256": suite_digest(lines),
        "reports": {receipt.id: _receipt(receipt) for receipt in receipts},
        "pairs": [_pair(pair) for pair in pairs],
        "links": [
            {"from": entry_id, "to": link["to"], "kind": link["kind"], "basis": link["basis"], "agree": _facts(link)}
            for entry_id, entry in fixture["bundle"].items()
            for link in entry["links"]
        ],
    }


def _receipt(receipt: Receipt) -> Document:
    transitions = _transitions(receipt)
    return {
        "path": receipt.path,
        "fixture_sha256": receipt.fixture_sha256,
        "report_sha256": receipt.report_sha256,
        "adapter": receipt.adapter,
        "coordinates": receipt.coordinates,
        "evidence_class": receipt.boundary["evidence_class"],
        "snapshots": [{"pointer": place, **snapshot} for place, snapshot in receipt.snapshots],
        "transitions": {
            chain: [f"{before} -> {after}" for before, after in found] if found else None
            for chain, found in transitions.items()
        },
        "ledger_rows": {
            row.name: {"pointer": row.pointer, "value": row.value, "unit": row.unit} for row in receipt.rows
        },
        "comparison_groups": {
            name: {
                "unit": group["unit"],
                "shared": group["shared"],
                "values": {member: _value(receipt, member) for member in group["members"]},
            }
            for name, group in receipt.groups.items()
        },
    }


def _transitions(receipt: Receipt) -> dict[str, list[tuple[str, str]]]:
    """Return, by policy and owner, the steps between consecutive snapshots; none where there is one snapshot only."""
    chains: dict[str, list[str]] = {}
    for _, snapshot in receipt.snapshots:
        chains.setdefault(f"{snapshot['policy']}, {snapshot['owner']}", []).append(snapshot["step"])
    return {chain: list(itertools.pairwise(steps)) for chain, steps in chains.items()}


def _value(receipt: Receipt, name: str) -> Any:
    return next(row.value for row in receipt.rows if row.name == name)


def _pair(pair: Relation) -> Document:
    """Return a pair with the coordinates that separate it; values are not part of it."""
    a, b = pair.a.coordinates, pair.b.coordinates
    return {
        "reports": [pair.a.id, pair.b.id],
        "relation": pair.kind,
        "basis": [link.basis for link in pair.links],
        "comparable_metrics": list(pair.comparable_metrics),
        "differing_coordinates": [key for key in pair.a.system.keys if a.get(key) != b.get(key)],
    }


def _facts(link: Document) -> list[Document]:
    return [
        {"here": fact["here"]["pointer"], "there": fact["there"]["pointer"], "value": fact["here"]["value"]}
        for fact in link["facts"]
    ]


def tables(report: Mapping[str, Any]) -> tuple[Table, ...]:
    """Draw the receipts, snapshots, ledger rows, groups and pairs of a reconciliation."""
    receipts = report["receipts"]
    reports = receipts["reports"]
    return (
        Table(
            "Reports that were consumed",
            ("report", "adapter", "evidence class", "snapshots", "ledger rows", "groups", "sha256"),
            tuple(
                (
                    entry_id,
                    each["adapter"],
                    each["evidence_class"],
                    str(len(each["snapshots"])),
                    str(len(each["ledger_rows"])),
                    str(len(each["comparison_groups"])),
                    each["report_sha256"][:12],
                )
                for entry_id, each in reports.items()
            ),
        ),
        Table(
            "Relation of every pair; no value is compared across reports",
            ("A", "B", "relation", "basis, or coordinates that differ"),
            tuple(
                (
                    *pair["reports"],
                    pair["relation"],
                    "; ".join(pair["basis"]) or ", ".join(pair["differing_coordinates"]) or "no metric in common",
                )
                for pair in receipts["pairs"]
            ),
        ),
        Table(
            "What links rest on",
            ("from", "to", "kind", "equal values"),
            tuple(
                (
                    link["from"],
                    link["to"],
                    link["kind"],
                    "; ".join(
                        f"{fact['here']} = {fact['there']} = {contracts.shown(fact['value'])}" for fact in link["agree"]
                    ),
                )
                for link in receipts["links"]
            ),
        ),
        Table(
            "Comparisons inside one report",
            ("report", "group", "unit", "values"),
            tuple(
                (
                    entry_id,
                    name,
                    group["unit"],
                    "; ".join(f"{row} {contracts.shown(v)}" for row, v in group["values"].items()),
                )
                for entry_id, each in reports.items()
                for name, group in each["comparison_groups"].items()
            ),
        ),
        Table(
            "State snapshots, as the reports observed them",
            ("report", "at", "policy", "step", "owner", "state", "cache", "rows", "selected positions", "published"),
            tuple(
                (
                    entry_id,
                    state["pointer"],
                    state["policy"],
                    state["step"],
                    state["owner"],
                    contracts.shown(state["state_generation"]),
                    contracts.shown(state["cache_generation"]),
                    contracts.shown(state["selected_row_count"]),
                    _positions(state["selected_original_positions"]),
                    "yes" if state["published"] else "no",
                )
                for entry_id, each in reports.items()
                for state in each["snapshots"]
            ),
        ),
        Table(
            "State transitions",
            ("report", "policy and owner", "observed"),
            tuple(
                (entry_id, chain, "; ".join(found) if found else "absent: one snapshot only")
                for entry_id, each in reports.items()
                for chain, found in each["transitions"].items()
            ),
        ),
        Table(
            "Ledger rows, in the order of their reports",
            ("report", "row", "value", "unit", "at"),
            tuple(
                (entry_id, name, contracts.shown(row["value"]), row["unit"], row["pointer"])
                for entry_id, each in reports.items()
                for name, row in each["ledger_rows"].items()
            ),
        ),
    )


def _positions(positions: Any) -> str:
    if positions is None:
        return "null"
    return joined(positions) if isinstance(positions, list) else f"{positions['count']}, {positions['sha256'][:12]}"


LOOP = Loop(
    id="loop10_reconciliation",
    command="reconcile",
    title="reconciliation of finished reports, without ranking",
    section="0x0F",
    fixture_schema="kvaudit.fixture.reconcile/1",
    report_schema="kvaudit.report.reconcile/1",
    collected_schema="kvaudit.collected.reconcile/1",
    diagnostics=DIAGNOSTICS,
    drift=DRIFT,
    categories=(
        "manifest ownership",
        "path confinement",
        "hashes",
        "schema",
        "normalised fixture identity",
        "prior report health",
        "evidence scope",
        "adapter version",
        "coordinate completeness",
        "snapshots and ledgers",
        "lineage links",
        "forbidden metrics",
    ),
    boundary=Boundary(
        evidence_class="synthetic_oracle",
        executed=(
            "hashes of raw bytes against the lock",
            "adapters, one a report shape",
            "relation of every pair by coordinates",
            "equality of the values that links rest on",
        ),
        not_executed=(
            "any policy, selector or allocation",
            "model",
            "comparison of values across reports",
            "memory traffic",
            "latency",
            "task quality",
        ),
    ),
    oracle=oracle,
    refresh_digests=refresh_digests,
    tables=tables,
)

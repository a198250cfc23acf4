"""Loop 5, dynamic retention: Scissorhands, H2O and Keyformer as transactions on rows that carry a score (0x06, 0x13).

A fixture states one *run* a method: a parent state, then transactions as a runtime would log them. The oracle replays
each run as a state machine and recomputes every receipt: candidate, carried score, score, temperature, protected and
selected set, the four gather lists, generations, payload. What a transaction may do next follows from what it has done,
so that scoring before attention or publishing a cancelled candidate has no way to look legal.

The contracts are judged in the order of `oracle`: selection owner, code pins and claims, budgets, then the three runs,
each record by record and phase by phase, then probes, then isolation between requests.

Decided here:
- The three methods share one budget and one recent width, and their runs end at one frontier: only then do three
  retained sets answer one question. Scissorhands may spread the budget unevenly over layers.
- An owner is a K/V head with one query head, a K/V head with a declared reduction over its query heads, or a query
  head with K/V rows of its own. A reduction works on the contributions of the heads, before they are accumulated; for
  Scissorhands on counts, because 1/t is a baseline for one distribution.
- `unpublished` means not in the policy's view. A cancelled transaction consumes its state generation and leaves
  nothing else; a speculative one is published to its branch only, until a `resolve` record accepts a prefix of the
  branch and the rest vanishes, score included.
- Scores are compared with their receipts within a declared tolerance, because a receipt is a printed decimal; sets,
  row lists and counts are compared exactly.
- Attention logits whose spread over the temperature is past 300 are refused: the smaller share is below the range of
  every format that a runtime scores in.
- Other readings stand beside the contract as labelled alternatives: Scissorhands' printed slice, its w + 1 window, its
  baseline a step; H2O selecting before scoring, and the bulk drop of its pinned code at the end of a prompt;
  Keyformer with ordinary attention, and with the batch-and-query sum of its pinned code.
"""

from collections.abc import Mapping
from typing import Any

from kvaudit.loops.loop05_dynamic.contracts import judge_budgets, judge_owners, judge_sources
from kvaudit.loops.loop05_dynamic.diagnostics import DIAGNOSTICS, DRIFT
from kvaudit.loops.loop05_dynamic.probes import (
    batch_variant,
    beam_reorder,
    future_probes,
    judge_frontiers,
    odds_probes,
    persistence_probes,
    prompt_variant,
    shared_prefix,
)
from kvaudit.loops.loop05_dynamic.replay import replay
from kvaudit.loops.loop05_dynamic.results import ledgers, run_results, snapshots
from kvaudit.loops.loop05_dynamic.state import METHODS, TITLES
from kvaudit.model import Boundary, Comparison, Document, Evidence, Loop, Table

_PAYLOAD_COLUMNS = ("candidate_bytes", "published_bytes", "score_bytes", "candidate_plus_successor_bytes")


def oracle(fixture: Document) -> Evidence:
    """Return the evidence of a dynamic-retention fixture, or raise the first `ContractViolation` in the order above."""
    owners = judge_owners(fixture)
    judge_sources(fixture)
    methods = judge_budgets(fixture, owners)
    traces = {name: replay(methods[name], fixture[name]["run"]) for name in METHODS}
    frontier = judge_frontiers(traces)
    persistence = persistence_probes(fixture, methods["scissorhands"], traces["scissorhands"])
    prompt = prompt_variant(fixture, methods["h2o"])
    odds = odds_probes(fixture, methods["keyformer"], traces["keyformer"])
    batch = batch_variant(fixture)
    future = future_probes(fixture, methods, traces, frontier)
    isolation = {"beam_reorder": beam_reorder(fixture), "shared_prefix": shared_prefix(fixture)}
    results = run_results(fixture, methods, traces)
    results["scissorhands"]["persistence"] = persistence
    results["h2o"]["alternatives"]["prompt"] = prompt
    results["keyformer"]["odds_probes"] = odds
    results["keyformer"]["alternatives"]["batch_and_query_sum"] = batch
    results |= {"future_probes": future, "isolation": isolation}
    return Evidence(
        results=results,
        ledgers=ledgers(fixture, methods["h2o"], frontier),
        snapshots=tuple(snapshots(methods, traces)),
        comparisons=(
            Comparison(
                "row_bytes",
                "B",
                "one frontier, one budget a owner, K and V payload only",
                ("source_rows", "append_before_evict_peak", "published_rows"),
            ),
        ),
    )


def refresh_digests(fixture: Document) -> Document:
    """Return the fixture as it is: no member of it is a digest of another."""
    return fixture


def tables(report: Mapping[str, Any]) -> tuple[Table, ...]:
    """Return the published states, the payload a method, and the probed positions."""
    states = Table(
        "Published states",
        ("method", "step", "owner", "rows", "original positions", "state", "cache"),
        tuple(
            (
                snapshot["policy"],
                snapshot["step"],
                snapshot["owner"],
                str(snapshot["selected_row_count"]),
                str(snapshot["selected_original_positions"]),
                str(snapshot["state_generation"]),
                str(snapshot["cache_generation"]),
            )
            for snapshot in report["snapshots"]
        ),
    )
    payload = Table(
        "Payload a method",
        ("method", "largest candidate B", "published B", "scores B", "candidate plus successor B"),
        tuple(
            (
                TITLES[name],
                *(
                    "none" if row[member] is None else str(row[member])
                    for member in (
                        "candidate_bytes",
                        "published_bytes",
                        "score_bytes",
                        "candidate_plus_successor_bytes",
                    )
                ),
            )
            for name, row in report["results"]["payload"].items()
        ),
    )
    probes = Table(
        "Positions that a later query asks for",
        ("probe", "position", "hypothetical weight", "visible to"),
        tuple(
            (name, str(probe["position"]), str(probe["hypothetical_weight"]), ", ".join(probe["visible_to"]) or "none")
            for name, probe in report["results"]["future_probes"].items()
        ),
    )
    return states, payload, probes


LOOP = Loop(
    id="loop05_dynamic",
    command="dynamic",
    title="dynamic retention: Scissorhands, H2O and Keyformer",
    section="0x06",
    fixture_schema="kvaudit.fixture.dynamic/1",
    report_schema="kvaudit.report.dynamic/1",
    diagnostics=DIAGNOSTICS,
    drift=DRIFT,
    categories=(
        "score rule",
        "update order",
        "selection owner",
        "budget partition",
        "original-position retention",
        "code pin",
        "temperature",
        "fixed noise",
        "generation progression",
        "payload accounting",
        "future-relevance probe",
        "request isolation",
    ),
    boundary=Boundary(
        evidence_class="synthetic_oracle",
        executed=(
            "phase order as a state machine",
            "score rules, partitions and gathers of three methods",
            "cancellation, speculation and rollback of score state",
        ),
        not_executed=(
            "model",
            "random-number stream of a framework",
            "production cache code",
            "allocator",
            "memory traffic",
            "latency",
            "task quality",
        ),
    ),
    oracle=oracle,
    refresh_digests=refresh_digests,
    tables=tables,
)

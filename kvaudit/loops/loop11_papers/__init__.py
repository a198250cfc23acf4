"""Loop 11, papers: contracts, reported results, sensitivities, failure classes (0x09, 0x0A, 0x10 to 0x14).

An oracle over reports and documents. It is given three registries, its own invalid suites and the finished reports of
the loops before it, and computes no policy of theirs; `sensitivity` has a small ledger of its own.

The contracts are judged in this order: contract registry, result registry and the claims about it, memory boundaries,
sensitivities, prior rejections, failure classes, validator rules.

Decided here:
- Counts that others quote (contracts, results, pairs, cases, classes, rules, prior cases) are recomputed and declared.
  None stands in the code, and none is compared with another loop's.
- The report carries what the registries say only as far as a reader needs it to judge a number: role, what a row rests
  on, read level, location. The registries themselves are pinned by the report's hashes and read with
  `kvaudit contracts` and `kvaudit explain`.
- This loop's own invalid suites are among its documents, because a failure class of this loop is closed by cases there.
  The count of all rejections is that of the needed entries' first suites; the own ones are added where the report
  states how its suites closed.
"""

from collections.abc import Mapping
from typing import Any

from kvaudit.loops.loop11_papers.diagnostics import DIAGNOSTICS, DRIFT
from kvaudit.loops.loop11_papers.failures import judge_classes, judge_prior, judge_rules
from kvaudit.loops.loop11_papers.registry import judge_boundaries, judge_contracts, judge_results
from kvaudit.loops.loop11_papers.sensitivity import judge_cases, ledgers
from kvaudit.model import Boundary, Comparison, Document, Evidence, Loop, Table, joined

_COMMAND = "papers"


def oracle(fixture: Document) -> Evidence:
    """Return the evidence of a papers fixture, or raise the first `ContractViolation` in the order above."""
    contracts = judge_contracts(fixture)
    reported = judge_results(fixture)
    boundaries = judge_boundaries(fixture)
    base, sensitivity = judge_cases(fixture["sensitivity"])
    prior, receipts = judge_prior(fixture)
    classes = judge_classes(fixture, _COMMAND, fixture["documents"]["own_suites"])
    rules = judge_rules(fixture, DIAGNOSTICS, DRIFT)
    own_cases = len(fixture["documents"]["own_suites"][0]["content"]["cases"])  # the first suite, as of every entry
    results = {
        "counts": {
            "contracts": {role: len(names) for role, names in contracts["counted"].items()},
            "contract_additions": len(contracts["additions"]),
            "contract_coordinates": contracts["coordinates"],
            "primary_results": reported["primary"],
            "result_additions": reported["additions"],
            "primary_pairs": reported["pairs"],
            "comparable_primary_pairs": reported["comparable_pairs"],
            "local_reproductions": reported["local_reproductions"],
            "sensitivity_cases": len(sensitivity["cases"]),
            "sensitivity_axes": sensitivity["axes"],
            "failure_classes": len(classes),
            "validator_rules": len(rules),
            "prior_cases": prior["cases"],
            "own_cases": own_cases,
            "cases_in_all": prior["cases"] + own_cases,
        },
        "contracts": contracts,
        "reported_results": reported,
        "boundaries": boundaries,
        "sensitivity": sensitivity,
        "prior": prior,
        "failure_classes": classes,
        "validator_rules": rules,
    }
    return Evidence(
        results=results,
        ledgers=ledgers(base),
        snapshots=(),
        comparisons=(
            Comparison(
                "base_payload",
                "B",
                "one base case: shape, prompt and decode length; K and V payload only",
                ("full_payload", "policy_payload"),
            ),
        ),
        receipts=receipts,
    )


def refresh_digests(fixture: Document) -> Document:
    """Return the fixture as it is: no member of it is a digest of another."""
    return fixture


def tables(report: Mapping[str, Any]) -> tuple[Table, ...]:
    """Return contracts with what they rest on, results with their read level, sensitivities and failure classes."""
    results = report["results"]
    contracts = Table(
        "Contracts, and what each rests on",
        ("contract", "role", "counted", "read", "pins", "undeclared coordinates"),
        tuple(
            (
                name,
                each["role"],
                "addition" if each["addition"] else "yes",
                ", ".join(each["read_levels"]),
                ", ".join(each["pins"]) or "none",
                ", ".join(each["undeclared"]) or "none",
            )
            for name, each in results["contracts"]["contracts"].items()
        ),
    )
    reported = Table(
        "Reported results: what a source prints, never measured here, in no order",
        ("record", "policy", "as printed", "location", "read level", "composed of"),
        tuple(
            (
                name,
                each["policy"] if each["primary"] else f"{each['policy']} (addition)",
                each["as_printed"] or "none",
                each["location"],
                each["read_level"],
                "; ".join(each["composed_of"]) or "nothing else",
            )
            for name, each in results["reported_results"]["records"].items()
        ),
    )
    boundaries = Table(
        "Memory boundaries: what an unselected row can still be",
        ("boundary", "unselected row", "saving of"),
        tuple(
            (name.replace("_", " "), each["unselected_row"].replace("_", " "), _words(each["saving_of"]) or "nothing")
            for name, each in results["boundaries"]["boundaries"].items()
        ),
    )
    return contracts, reported, _comparability(results), boundaries, *_cases(results), *_closure(results)


def _comparability(results: Mapping[str, Any]) -> Table:
    reported = results["reported_results"]
    rows = [
        (f"coordinates: {group.replace('_', ' ')}", f"declared by {each['declared_by']}, {each['different']} different")
        for group, each in reported["coordinates"].items()
    ]
    rows.extend(
        (
            ("pairs of primary results", str(reported["pairs"])),
            ("comparable", str(reported["comparable_pairs"])),
            (
                "comparable with the policy's own coordinates set aside",
                str(reported["comparable_pairs_policy_set_aside"]),
            ),
            ("comparable among all records", str(reported["comparable_pairs_of_all_records"])),
        )
    )
    return Table("Primary results that may be compared, by the rule", ("of the primary results", "found"), tuple(rows))


def _cases(results: Mapping[str, Any]) -> tuple[Table, Table]:
    sensitivity = results["sensitivity"]
    cases = {**sensitivity["cases"], **sensitivity["further_cases"]}
    effects = Table(
        "Sensitivities: one control moved, and which term changed",
        ("case", "from", "to", "full B", "policy B", "ratio", "owners that see the reference", "changed terms"),
        tuple(
            (
                name.replace("_", " "),
                _shown(each["from"]),
                _shown(each["to"]),
                *_state_cells(each["state"], each["outcome"]),
                _words(each["changed_terms"]) or "none",
            )
            for name, each in cases.items()
        ),
    )
    same = sensitivity["equal_bytes"]
    equal = Table(
        "Equal bytes, unequal visibility",
        ("case with both payloads of the base", "other rows visible", "reference seen by another share of the owners"),
        tuple(
            (
                name.replace("_", " "),
                "yes" if name in same["other_visible_rows"] else "no",
                "yes" if name in same["other_reference_visibility"] else "no",
            )
            for name in same["cases"]
        ),
    )
    return effects, equal


def _state_cells(state: Mapping[str, Any] | None, outcome: str) -> tuple[str, str, str, str]:
    if state is None:
        return (outcome, "none", "none", "none")
    return (
        str(state["full_payload_bytes"]),
        str(state["policy_payload_bytes"]),
        str(state["payload_ratio"]),
        f"{state['owners_seeing_reference']} of {state['owners']}",
    )


def _closure(results: Mapping[str, Any]) -> tuple[Table, Table, Table]:
    classes = Table(
        "Failure classes",
        ("class", "trigger", "closes in", "codes", "cases"),
        tuple(
            (name, each["trigger"], each["closes_in"], ", ".join(each["codes"]), ", ".join(each["cases"]))
            for name, each in results["failure_classes"].items()
        ),
    )
    rules = Table(
        "Validator rules",
        ("rule", "states", "diagnostics"),
        tuple((name, each["states"], str(each["diagnostics"])) for name, each in results["validator_rules"].items()),
    )
    prior = results["prior"]
    rejected = Table(
        "Prior rejections, bound by hash",
        ("entry", "cases of the specification's suite", "further cases"),
        (
            *((name, str(each["cases"]), str(each["further_cases"])) for name, each in prior["entries"].items()),
            ("all", str(prior["cases"]), str(prior["further_cases"])),
        ),
    )
    return classes, rules, rejected


def _words(items: list[str]) -> str:
    return ", ".join(item.replace("_", " ") for item in items)


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return joined(value) if isinstance(value, list) else str(value)


LOOP = Loop(
    id="loop11_papers",
    command=_COMMAND,
    title="policy contracts, source-reported results, sensitivities and failure classes",
    section="0x10 to 0x14",
    fixture_schema="kvaudit.fixture.papers/1",
    report_schema="kvaudit.report.papers/1",
    diagnostics=DIAGNOSTICS,
    drift=DRIFT,
    categories=(
        "contract coordinate",
        "architecture boundary",
        "source pin",
        "result coordinate",
        "budget unit",
        "composition",
        "comparison",
        "memory boundary",
        "sensitivity control",
        "budget conservation",
        "payload and visibility",
        "admission",
        "stale hash or count",
        "failure class",
        "validator rule",
    ),
    boundary=Boundary(
        evidence_class="synthetic_oracle",
        executed=(
            "registry rules over contracts, reported results and memory boundaries",
            "cohorts of reported results",
            "the shared ledger and its one-control cases",
            "closure of failure classes over the rejections of the loops before",
        ),
        not_executed=(
            "any of the methods",
            "any of the reported results",
            "selector calibration",
            "model",
            "memory traffic",
            "latency",
            "task quality",
        ),
    ),
    oracle=oracle,
    refresh_digests=refresh_digests,
    tables=tables,
    collected_schema="kvaudit.collected.papers/1",
)

"""The registries of a bundle as one value: contracts, source-reported results, and where retention ends.

Rules of this module:
- A registry is read from the bundle that is asked, never from another one.
- A record whose coordinate is refused is a finding and stays readable: a card shows what was written.
- Nothing is sorted: records stand in the order of their files, which is no order of merit.
"""

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kvaudit.errors import FileDefect, UsageError
from kvaudit.evidence.bundle import Bundle
from kvaudit.evidence.text import DEFAULT_LIMITS, Limits
from kvaudit.model import Document, Finding
from kvaudit.reconcile.subjects import (
    CONTRACTS_SCHEMA,
    RESULTS_SCHEMA,
    Registry,
    contract_subjects,
    registries,
    result_subjects,
    yaml_findings,
)

BOUNDARIES_SCHEMA = "kvaudit.registry.boundaries/1"
BOUNDARY_PARTS = ("boundaries", "design_branches", "compositions", "accuracy")


@dataclass(frozen=True, slots=True)
class Registries:
    """The records of a bundle by id. `parts` has the boundaries, design branches, compositions and accuracy boxes."""

    contracts: Mapping[str, Document]
    results: Mapping[str, Document]
    parts: Mapping[str, Mapping[str, Document]]
    evidence_ladder: tuple[str, ...]
    findings: tuple[Finding, ...]

    def reported(self, contract: str) -> dict[str, Document]:
        """Return the source-reported results of a contract."""
        return {name: item for name, item in self.results.items() if item["policy"] == contract}

    def branches(self, contract: str) -> tuple[str, ...]:
        """Return the design branches that name a contract."""
        return tuple(name for name, item in self.parts["design_branches"].items() if contract in item["family"])

    def find(self, name: str) -> tuple[str, Document]:
        """Return the kind of a record and the record, or raise `UsageError` with suggestions."""
        kinds = {"contracts": self.contracts, **self.parts}
        for kind, records in kinds.items():
            if name in records:
                return kind, records[name]
        known = [each for records in kinds.values() for each in records]
        near = difflib.get_close_matches(name, known, n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else "`kvaudit contracts` lists them"
        raise UsageError(f"{name!r} is no contract, boundary or design branch of the bundle; {hint}")


def load(bundle: Bundle, shown_root: str = "", limits: Limits = DEFAULT_LIMITS) -> Registries:
    """Return the registries that the entries of a bundle name, or raise `UsageError` if there is none."""
    contracts = registries(bundle, "contracts", CONTRACTS_SCHEMA, shown_root, limits)
    results = registries(bundle, "results", RESULTS_SCHEMA, shown_root, limits)
    boundaries = registries(bundle, "boundaries", BOUNDARIES_SCHEMA, shown_root, limits)
    every = (*contracts, *results, *boundaries)
    if not every:
        raise UsageError(
            f"no entry of the bundle at {shown_root or '.'} names a registry (documents: contracts, results, "
            "boundaries); name a bundle that has one with --root"
        )
    ladder = tuple(step for each in boundaries if each.document for step in each.document["evidence_ladder"])
    return Registries(
        contracts=_merged(contracts, "contracts"),
        results=_merged(results, "results"),
        parts={part: _merged(boundaries, part) for part in BOUNDARY_PARTS},
        evidence_ladder=ladder,
        findings=tuple(finding for each in every for finding in (*each.findings, *_refused(each))),
    )


def _merged(found: tuple[Registry, ...], part: str) -> dict[str, Any]:
    return {name: item for each in found if each.document for name, item in each.document[part].items()}


def _refused(registry: Registry) -> Iterator[Finding]:
    """Yield a finding for each record with a coordinate that its system refuses."""
    for kind, subjects in (("contracts", contract_subjects), ("results", result_subjects)):
        for name, item in (registry.document or {}).get(kind, {}).items():
            try:
                subjects(registry.path, {kind: {name: item}})
            except FileDefect as defect:
                yield from yaml_findings(registry.path, defect, registry.data)

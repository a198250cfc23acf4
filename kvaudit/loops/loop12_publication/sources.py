"""The source registry: what each statement rests on, at which version, and what differs from the paper (0x15B)."""

from typing import Any

from kvaudit.errors import ContractViolation
from kvaudit.loops.loop12_publication.diagnostics import (
    COMMIT_ABBREVIATED,
    COMMIT_PRINTED,
    COMMIT_TWICE,
    COMMIT_UNEXPLAINED,
    COMMIT_UNUSED,
    DEVIATION_TWICE,
    IMPLEMENTATION_UNPINNED,
    KIND_MISMATCH,
    KINDS_MIXED,
    LOCAL_MISMATCH,
    NO_PATH,
    NOT_RUN,
    PAPER_TWICE,
    PAPER_UNSOURCED,
    PATH_FOREIGN,
    REPORTED_COUNT,
    REPORTED_PAPER,
    RUNTIME_CLAIMED,
    SOURCE_COUNT,
)
from kvaudit.model import Diagnostic, Document, pointer

REGISTRY = "/documents/sources/content"
FULL_HASH_DIGITS = 40
# What a report states of a runtime; null unless it was measured.
_MEASURED = ("measured_latency", "measured_memory_traffic", "task_quality")
# The kind of statement that each part of the registry makes; a difference may also rest on what the paper prints.
_KIND = {"reported": ("source_reported",), "local_evidence": ("synthetic_contract",)}
_DEVIATION_KINDS = ("source_observed", "source_reported")


def judge_sources(collected: Document) -> Document:
    """Return what the registry holds, counted, or raise the first `ContractViolation`."""
    registry = collected["documents"]["sources"]["content"]
    kind_of = _judge_kinds(registry["statements"])
    _judge_papers(registry)
    _judge_commits(registry)
    deviations = _judge_implementations(registry, kind_of)
    _judge_reported(registry, kind_of)
    _judge_local(collected, registry, kind_of)
    counts = _counts(registry)
    for name, expected in collected["closure"].items():
        if counts[name] != expected:
            reason = f"expected {expected} {name}, the registry has {counts[name]}"
            raise ContractViolation(SOURCE_COUNT, "/closure" + pointer(name), reason)
    commits = registry["commits"]
    return {
        **counts,
        "full_commits": sum(len(each["commit"]) == FULL_HASH_DIGITS for each in commits.values()),
        "unresolved_commits": [name for name, each in commits.items() if each["status"] == "not_found"],
        "printed_abbreviated": sum(len(each["printed"]) < FULL_HASH_DIGITS for each in commits.values()),
        "commit_of": {name: each["commit"] for name, each in commits.items()},
        "unpinned_records": len(registry["unpinned"]),
        "deviations": len(deviations),
        "deviations_by_subject": _tally(deviations, "about"),
        "deviations_by_evidence": _tally(deviations, "evidence"),
        "statements": {
            kind: sum(kind_of[evidence] == kind for evidence in _evidence(registry, deviations))
            for kind in registry["statements"]
        },
    }


def deviation_ids(registry: Document) -> frozenset[str]:
    """Return the ids of every difference between paper and code, of the records without a pin too."""
    return frozenset(
        name
        for part in ("implementations", "unpinned")
        for each in registry[part].values()
        for name in each["deviations"]
    )


def _judge_kinds(statements: Document) -> dict[str, str]:
    kind_of: dict[str, str] = {}
    for kind, statement in statements.items():
        for index, evidence in enumerate(statement["evidence"]):
            if evidence in kind_of:
                place = f"{REGISTRY}/statements" + pointer(kind, "evidence", index)
                raise ContractViolation(KINDS_MIXED, place, f"{evidence} belongs to {kind_of[evidence]} already")
            kind_of[evidence] = kind
    return kind_of


def _judge_papers(registry: Document) -> None:
    by_number: dict[str, str] = {}
    implemented = {each["paper"] for each in registry["implementations"].values()}
    for name, paper in registry["papers"].items():
        at = f"{REGISTRY}/papers" + pointer(name)
        other = by_number.setdefault(paper["arxiv"], name)
        if other != name:
            raise ContractViolation(PAPER_TWICE, f"{at}/arxiv", f"{paper['arxiv']} is {other} already")
        if (name in implemented) == ("no_implementation" in paper):
            reason = "has an implementation record and says that it has none" if name in implemented else "has neither"
            raise ContractViolation(PAPER_UNSOURCED, at, f"{reason}: an implementation record or no_implementation")


def _judge_commits(registry: Document) -> None:
    used = {each["commit"] for each in registry["implementations"].values()}
    pinned: dict[tuple[str, str], str] = {}
    for name, each in registry["commits"].items():
        at = f"{REGISTRY}/commits" + pointer(name)
        resolved = each["status"] == "resolved"
        if resolved and len(each["commit"]) != FULL_HASH_DIGITS:
            reason = f"expected {FULL_HASH_DIGITS} digits, found {len(each['commit'])}"
            raise ContractViolation(COMMIT_ABBREVIATED, f"{at}/commit", reason)
        explained = ("reason" in each, "read_instead" in each)
        if explained != (not resolved, not resolved):
            reason = (
                "is resolved and explains an absence" if resolved else "was not found; expected reason and read_instead"
            )
            raise ContractViolation(COMMIT_UNEXPLAINED, at, reason)
        if not each["commit"].startswith(each["printed"]):
            reason = f"the specification prints {each['printed']}, the registry has {each['commit']}"
            raise ContractViolation(COMMIT_PRINTED, f"{at}/printed", reason)
        other = pinned.setdefault((each["repository"], each["commit"]), name)
        if other != name:
            raise ContractViolation(COMMIT_TWICE, at, f"{other} pins this commit already")
        if name not in used:
            raise ContractViolation(COMMIT_UNUSED, at, "no implementation record names this commit")


def _judge_implementations(registry: Document, kind_of: dict[str, str]) -> list[Document]:
    seen: dict[str, str] = {}
    deviations = []
    for part in ("implementations", "unpinned"):
        for name, record in registry[part].items():
            at = f"{REGISTRY}/{part}" + pointer(name)
            if record["paper"] not in registry["papers"]:
                raise ContractViolation(IMPLEMENTATION_UNPINNED, f"{at}/paper", f"{record['paper']} is no paper here")
            if part == "implementations" and record["commit"] not in registry["commits"]:
                reason = f"{record['commit']} is no commit of the registry"
                raise ContractViolation(IMPLEMENTATION_UNPINNED, f"{at}/commit", reason)
            for identity, deviation in record["deviations"].items():
                place = f"{at}/deviations" + pointer(identity)
                other = seen.setdefault(identity, name)
                if other != name:
                    raise ContractViolation(DEVIATION_TWICE, place, f"{other} has a difference of this id already")
                _judge_deviation(place, record, deviation, kind_of)
                deviations.append(deviation)
    return deviations


def _judge_deviation(at: str, record: Document, deviation: Document, kind_of: dict[str, str]) -> None:
    _require_kind(f"{at}/evidence", deviation["evidence"], kind_of, _DEVIATION_KINDS)
    if deviation["about"] == "other_repository":
        if "repository" not in deviation:
            raise ContractViolation(NO_PATH, at, "expected the name of the other repository, found none")
        return
    if not deviation.get("paths"):
        raise ContractViolation(NO_PATH, at, "expected the files that show it, found none")
    for index, path in enumerate(deviation["paths"]):
        if path not in record["paths"]:
            raise ContractViolation(PATH_FOREIGN, f"{at}/paths" + pointer(index), f"{path} is no path of the record")
    if deviation["evidence"] == "behaviour_observed" and "run" not in record["checked"]:
        raise ContractViolation(NOT_RUN, f"{at}/evidence", f"the record was checked by {', '.join(record['checked'])}")


def _judge_reported(registry: Document, kind_of: dict[str, str]) -> None:
    policies = [name for name, paper in registry["papers"].items() if paper["role"] == "policy"]
    count = dict.fromkeys(policies, 0)
    for name, result in registry["reported"].items():
        at = f"{REGISTRY}/reported" + pointer(name)
        _require_kind(f"{at}/evidence", result["evidence"], kind_of, _KIND["reported"])
        if result["paper"] not in count:
            raise ContractViolation(REPORTED_PAPER, f"{at}/paper", f"{result['paper']} is no policy paper here")
        count[result["paper"]] += 1
    for paper, results in count.items():
        if results != 1:
            reason = f"expected one primary result of {paper}, found {results}"
            raise ContractViolation(REPORTED_COUNT, f"{REGISTRY}/reported", reason)


def _judge_local(collected: Document, registry: Document, kind_of: dict[str, str]) -> None:
    local, at = registry["local_evidence"], f"{REGISTRY}/local_evidence"
    for entry, report in collected["reports"].items():
        if entry not in local:
            raise ContractViolation(LOCAL_MISMATCH, at, f"expected the local evidence of {entry}, found none")
        boundary = report["document"]["evidence_boundary"]
        for name in _MEASURED:
            if boundary[name] is not None:
                place = f"/reports/{entry}/document/evidence_boundary/{name}"
                raise ContractViolation(RUNTIME_CLAIMED, place, f"expected null, found {boundary[name]}")
        if boundary["evidence_class"] != local[entry]["evidence"]:
            reason = f"the report says {boundary['evidence_class']}, the registry {local[entry]['evidence']}"
            raise ContractViolation(KIND_MISMATCH, at + pointer(entry, "evidence"), reason)
    for entry, each in local.items():
        if entry not in collected["reports"]:
            raise ContractViolation(LOCAL_MISMATCH, at + pointer(entry), f"{entry} is no entry that is needed")
        _require_kind(at + pointer(entry, "evidence"), each["evidence"], kind_of, _KIND["local_evidence"])
        if each["code"] not in collected["linked_files"]:
            raise ContractViolation(
                LOCAL_MISMATCH, at + pointer(entry, "code"), f"{each['code']} is not in linked_files"
            )
    for kind, statement in registry["statements"].items():
        made = [each for each in _evidence(registry, []) if kind_of[each] == kind]
        if made and not statement["claimed"]:
            reason = f"{len(made)} records make a statement of this kind"
            raise ContractViolation(RUNTIME_CLAIMED, f"{REGISTRY}/statements" + pointer(kind, "claimed"), reason)


def _require_kind(at: str, evidence: str, kind_of: dict[str, str], allowed: tuple[str, ...]) -> None:
    kind = kind_of.get(evidence)
    if kind not in allowed:
        reason = f"expected evidence of the kind {' or '.join(allowed)}, found {evidence}"
        raise ContractViolation(_mismatch(kind), at, reason)


def _mismatch(kind: str | None) -> Diagnostic:
    return RUNTIME_CLAIMED if kind == "runtime_measured" else KIND_MISMATCH


def _evidence(registry: Document, deviations: list[Document]) -> list[str]:
    parts = (*deviations, *registry["reported"].values(), *registry["local_evidence"].values())
    return [each["evidence"] for each in parts]


def _counts(registry: Document) -> dict[str, int]:
    roles = [paper["role"] for paper in registry["papers"].values()]
    return {
        "papers": len(roles),
        "policies": roles.count("policy"),
        "boundaries": roles.count("boundary"),
        "commits": len(registry["commits"]),
        "implementations": len(registry["implementations"]),
        "reported_results": len(registry["reported"]),
    }


def _tally(records: list[Any], member: str) -> dict[str, int]:
    values = [record[member] for record in records]
    return {value: values.count(value) for value in sorted(set(values))}

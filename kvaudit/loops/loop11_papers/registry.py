"""Contracts, source-reported results and memory boundaries: what the three registries must hold (0x10A, 0x10B, 0x09).

Decided here:
- The fixture names the contracts that are counted, by role, and the boundaries by kind. Whatever else a registry holds
  is an addition, so that a count which is quoted cannot grow by accident.
- A coordinate that no source states is null. A counted contract must all the same declare each of the twelve, or say
  that its kind has no such thing, wherever its paper or its code was read: these state them. Budget and evaluation are
  complete with one part declared. A result may leave out whatever its source leaves out: it then shares no cohort,
  which is what the registry is there to show.
- Which results may be compared is found by the rule of `kvaudit.reconcile` over cohorts, in time linear in the
  records, and is written down nowhere. It is found twice: by all coordinates, and with those of the policy itself set
  aside, because two policies differ in their name and nobody would need a rule for that.
- A claim about results is an input: pairs that somebody sets side by side, and what a result is credited to.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from kvaudit.errors import ContractViolation
from kvaudit.loops.loop11_papers.diagnostics import (
    ADDITION,
    ATTRIBUTION,
    BOUNDARY_MISSING,
    BRANCH,
    BUDGET_UNIT,
    CLAIMED_RESULT,
    CODE_UNPINNED,
    COINCIDE,
    COMPOSITION,
    CONTRACT_MISSING,
    COORDINATE_VALUE,
    CROSS_COHORT,
    EXECUTED,
    INCOMPLETE,
    INVENTED,
    KEPT_ROWS_SAVED,
    LOCATION,
    LOST_ROWS_PRESERVED,
    MEASURED,
    ONE_PART,
    PIN,
    PRIMARY_MISSING,
    PRIMARY_REPEATED,
    RESTS_ON_NOTHING,
    RESULT_OF_BOUNDARY,
    ROLE,
    SAVING,
    UNCOUNTED,
    UNKNOWN_POLICY,
)
from kvaudit.model import Document, joined, pointer
from kvaudit.reconcile import coordinates as systems
from kvaudit.reconcile.coordinates import State, System, Value
from kvaudit.reconcile.relation import RESULT_GROUPS, Cohorts, cohorts, relate
from kvaudit.reconcile.subjects import Subject, result_subjects

POLICY, BOUNDARY = "policy", "boundary"
SOURCE_REPORTED, LOCALLY_MEASURED = "source_reported", "locally_measured"
UNREAD = "general"  # a read level: background knowledge that nobody looked up
IN_FULL = ("paper", "code")  # the read levels after which no coordinate need be open
GONE = "not_recoverable"
PERSISTENT_CAPACITY = "persistent_capacity"

_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")

_CONTRACTS = pointer("documents", "contracts", "content", "contracts")
_RESULTS = pointer("documents", "results", "content", "results")
_BOUNDARIES = pointer("documents", "boundaries", "content", "boundaries")
_BRANCHES = pointer("documents", "boundaries", "content", "design_branches")


def judge_contracts(fixture: Document) -> Document:
    """Return what the contract registry holds, or raise the first `ContractViolation`, contract by contract."""
    contracts = fixture["documents"]["contracts"]["content"]["contracts"]
    counted = fixture["counted"]
    roles = {each: role for role, names in _by_role(counted) for each in names}
    for name, role in roles.items():
        if name not in contracts:
            raise ContractViolation(CONTRACT_MISSING, _CONTRACTS, f"expected a contract for {name}, found none")
        if contracts[name]["role"] != role:
            message = f"{name} is counted as {role}, found {contracts[name]['role']}"
            raise ContractViolation(ROLE, _CONTRACTS + pointer(name, "role"), message)
    system = systems.system("contract/1")
    vectors: dict[Any, str] = {}
    for name, contract in contracts.items():
        where = _CONTRACTS + pointer(name)
        if contract["addition"] == (name in roles):
            message = f"{name} is {'counted' if name in roles else 'not counted'} by the fixture"
            raise ContractViolation(UNCOUNTED, where + pointer("addition"), message)
        values = _values(system, contract["coordinates"], where)
        _judge_pins(contract, where)
        if name in roles:
            _judge_counted(contract, values, where)
            vector = tuple((key, systems.identity(value)) for key, value in values.items())
            if vectors.setdefault(vector, name) != name:
                message = f"every coordinate is that of {vectors[vector]}"
                raise ContractViolation(COINCIDE, where + pointer("coordinates"), message)
    return {
        "counted": {role: list(names) for role, names in _by_role(counted)},
        "additions": [name for name in contracts if name not in roles],
        "coordinates": len({key.partition(".")[0] for key in system.keys}),
        "contracts": {name: _contract_results(contract) for name, contract in contracts.items()},
    }


def _by_role(counted: Document) -> tuple[tuple[str, list[str]], ...]:
    return (POLICY, counted["policies"]), (BOUNDARY, counted["boundaries"])


def _values(system: System, stated: Mapping[str, Any], where: str) -> dict[str, Value]:
    """Return the coordinates that are stated, undeclared ones included, or raise `ContractViolation`."""
    values = {}
    for key, item in stated.items():
        value = State.UNDECLARED if item is None else systems.from_json(item)
        refused = systems.refusal(system.key(key), value)
        if refused:
            raise ContractViolation(COORDINATE_VALUE, where + pointer("coordinates", key), refused)
        values[key] = value
    return values


def _judge_pins(contract: Document, where: str) -> None:
    for index, code in enumerate(contract["implementations"]):
        at = where + pointer("implementations", index)
        wanted = {
            "exact": (True, None),
            "nearest": (True, None),
            "not_found": (False, True),
            "unpinned": (False, None),
        }[code["status"]]
        members = (("commit", "commit"), ("stated", "pin that was stated"))
        for (member, named), needed in zip(members, wanted, strict=True):
            if needed is not None and (code[member] is not None) != needed:
                message = f"the status {code['status']} goes {'with' if needed else 'without'} a {named}"
                raise ContractViolation(PIN, at + pointer(member), message)
        if code["checked"] == "executed" and not code["method_source"]:
            message = f"{code['repository']} holds no source of the method"
            raise ContractViolation(EXECUTED, at + pointer("checked"), message)
    rests_on_code = any(source["read_level"] == "code" for source in contract["sources"])
    if rests_on_code and all(code["checked"] == "none" for code in contract["implementations"]):
        message = "expected an implementation that was read or executed"
        raise ContractViolation(CODE_UNPINNED, where + pointer("implementations"), message)


def _judge_counted(contract: Document, values: Mapping[str, Value], where: str) -> None:
    levels = {source["read_level"] for source in contract["sources"]}
    if levels <= {UNREAD}:
        raise ContractViolation(RESTS_ON_NOTHING, where + pointer("sources"), "expected a source that was read")
    if levels.isdisjoint(IN_FULL):
        return
    groups: dict[str, list[str]] = {}
    for key in values:
        groups.setdefault(key.partition(".")[0], []).append(key)
    for group, keys in groups.items():
        if all(values[key] is State.UNDECLARED for key in keys):
            message = f"expected {group.replace('_', ' ')} to be declared, found null"
            raise ContractViolation(INCOMPLETE, where + pointer("coordinates", keys[0]), message)


def _contract_results(contract: Document) -> Document:
    stated = contract["coordinates"]
    return {
        "role": contract["role"],
        "addition": contract["addition"],
        "undeclared": [key for key, value in stated.items() if value is None],
        "read_levels": list(dict.fromkeys(source["read_level"] for source in contract["sources"])),
        "pins": [code["status"] for code in contract["implementations"]],
        "executed": sum(code["checked"] == "executed" for code in contract["implementations"]),
    }


def judge_results(fixture: Document) -> Document:
    """Return what the registry of reported results holds and what of it may be compared, or raise the first violation.

    The records are judged one by one, then the claims about them.
    """
    document = fixture["documents"]["results"]
    records = document["content"]["results"]
    contracts = fixture["documents"]["contracts"]["content"]["contracts"]
    policies = fixture["counted"]["policies"]
    system = systems.system("result/1")
    primaries: dict[str, str] = {}
    for name, record in records.items():
        where = _RESULTS + pointer(name)
        _judge_record(record, contracts, system, where)
        if record["addition"] == record["primary"]:
            raise ContractViolation(ADDITION, where + pointer("addition"), f"{name} is both or neither")
        if record["primary"] and primaries.setdefault(record["policy"], name) != name:
            message = f"{primaries[record['policy']]} is the primary result of {record['policy']} already"
            raise ContractViolation(PRIMARY_REPEATED, where + pointer("primary"), message)
        if record["primary"] and record["policy"] not in policies:
            message = f"{record['policy']} is not one of the counted policies"
            raise ContractViolation(PRIMARY_MISSING, where + pointer("primary"), message)
    missing = [policy for policy in policies if policy not in primaries]
    if missing:
        raise ContractViolation(PRIMARY_MISSING, _RESULTS, f"no primary result of {', '.join(missing)}")
    subjects = result_subjects(document["path"], document["content"])
    _judge_claims(fixture["claims"], records, subjects)
    chosen = [subjects[name] for name in primaries.values()]
    return {
        "primary": len(primaries),
        "additions": len(records) - len(primaries),
        "local_reproductions": sum(
            record["coordinates"]["evidence.class"] == LOCALLY_MEASURED for record in records.values()
        ),
        "read_levels": _counts(record["source"]["read_level"] for record in records.values()),
        "pairs": len(chosen) * (len(chosen) - 1) // 2,
        "comparable_pairs": _comparable_pairs(chosen),
        "comparable_pairs_policy_set_aside": _comparable_pairs(map(_without_policy, chosen)),
        "comparable_pairs_of_all_records": _comparable_pairs(subjects.values()),
        "coordinates": {group: _spread(chosen, prefixes) for group, prefixes in RESULT_GROUPS.items()},
        "claimed_comparisons": len(fixture["claims"]["comparisons"]),
        "records": {name: _record_results(record) for name, record in records.items()},
    }


def _judge_record(record: Document, contracts: Document, system: System, where: str) -> None:
    policy, stated = record["policy"], record["coordinates"]
    if policy not in contracts:
        raise ContractViolation(UNKNOWN_POLICY, where + pointer("policy"), f"no contract is called {policy}")
    if contracts[policy]["role"] == BOUNDARY:
        raise ContractViolation(RESULT_OF_BOUNDARY, where + pointer("policy"), f"{policy} is a boundary, no policy")
    if record["source"]["location"] is None:
        message = "expected the table, figure or section of the value, found null"
        raise ContractViolation(LOCATION, where + pointer("source", "location"), message)
    if stated["evidence.class"] != SOURCE_REPORTED:
        message = f"expected {SOURCE_REPORTED}, found {stated['evidence.class']}"
        raise ContractViolation(MEASURED, where + pointer("coordinates", "evidence.class"), message)
    values = _values(system, stated, where)
    _judge_budget(values, where)
    _judge_composition(record, values, where)
    printed = set(_printed_numbers(record["reported"]["values"].values()))
    for name, metric in record["metrics"].items():
        if metric["value"] is not None and metric["value"] not in printed:
            message = "expected null or a value that the source prints"
            raise ContractViolation(INVENTED, where + pointer("metrics", name, "value"), message)


def _printed_numbers(printed: Iterable[Any]) -> Iterator[Fraction]:
    """Yield the numbers that a source prints: as they are, or within a text such as `about 3.6`."""
    for each in printed:
        yield from map(Fraction, _NUMBER.findall(each)) if isinstance(each, str) else (Fraction(each),)


def _judge_budget(values: Mapping[str, Value], where: str) -> None:
    stated = {part: values.get(f"budget.{part}", State.UNDECLARED) for part in ("value", "unit", "denominator")}
    at = where + pointer("coordinates")
    if not isinstance(stated["value"], State) and isinstance(stated["unit"], State):
        message = f"a budget of {systems.to_json(stated['value'])} in no unit"
        raise ContractViolation(BUDGET_UNIT, at + pointer("budget.unit"), message)
    if str(stated["unit"]).startswith("fraction") and isinstance(stated["denominator"], State):
        raise ContractViolation(BUDGET_UNIT, at + pointer("budget.denominator"), "a fraction of nothing that is stated")


def _judge_composition(record: Document, values: Mapping[str, Value], where: str) -> None:
    parts, format_ = record["composed_of"], values.get("cache.quantisation", State.UNDECLARED)
    if not parts and not isinstance(format_, State) and format_ != "none":
        message = f"expected the parts of a result whose cache is stored as {format_}, found none"
        raise ContractViolation(COMPOSITION, where + pointer("composed_of"), message)
    if len(parts) == 1:
        message = f"expected what {parts[0]} is composed with"
        raise ContractViolation(ONE_PART, where + pointer("composed_of"), message)


def _judge_claims(claims: Document, records: Document, subjects: Mapping[str, Subject]) -> None:
    for index, pair in enumerate(claims["comparisons"]):
        at = pointer("claims", "comparisons", index)
        for side in ("a", "b"):
            if pair[side] not in records:
                raise ContractViolation(CLAIMED_RESULT, at + pointer(side), f"no result is called {pair[side]}")
        relation = relate(subjects[pair["a"]], subjects[pair["b"]])
        if pair["metric"] not in relation.comparable_metrics:
            keys = [key for each in relation.metrics if each.metric == pair["metric"] for key in each.blocking]
            message = f"{pair['a']} and {pair['b']} share no cohort for {pair['metric']}"
            if keys:
                message += f": {len(keys)} keys differ or are undeclared, {keys[0]} first"
            raise ContractViolation(CROSS_COHORT, at, message)
    for name, parts in claims["attributions"].items():
        at = pointer("claims", "attributions", name)
        if name not in records:
            raise ContractViolation(CLAIMED_RESULT, at, f"no result is called {name}")
        expected = records[name]["composed_of"] or [records[name]["policy"]]
        if parts != expected:
            message = f"expected all of {joined(expected)}, found {joined(parts)}"
            raise ContractViolation(ATTRIBUTION, at, message)


def _comparable_pairs(subjects: Iterable[Subject]) -> int:
    found: Cohorts = cohorts(subjects)
    return sum(len(group) * (len(group) - 1) // 2 for group in found.groups)


def _without_policy(subject: Subject) -> Subject:
    """Return a result of which it is no longer known which policy it is of."""
    aside = {key: State.NOT_APPLICABLE for key in subject.system.keys if key.partition(".")[0] == "policy"}
    kept = {key: value for key, value in subject.coordinates.items() if key.partition(".")[0] != "policy"}
    return replace(subject, coordinates={**kept, **aside})


def _spread(subjects: Iterable[Subject], prefixes: tuple[str, ...]) -> Document:
    """Return how many results declare something of a group of coordinates, and how many declarations differ."""
    stated = [tuple(_declared(subject, prefixes)) for subject in subjects]
    return {"declared_by": sum(map(bool, stated)), "different": len({each for each in stated if each})}


def _declared(subject: Subject, prefixes: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    for key, value in sorted(subject.coordinates.items()):
        if key.partition(".")[0] in prefixes and value is not State.UNDECLARED:
            yield key, systems.identity(value)


def _record_results(record: Document) -> Document:
    metrics = record["metrics"]
    return {
        "policy": record["policy"],
        "primary": record["primary"],
        "version": record["source"]["version"],
        "location": record["source"]["location"],
        "read_level": record["source"]["read_level"],
        "evidence_class": record["coordinates"]["evidence.class"],
        "metrics": {name: {"value": metric["value"], "unit": metric["unit"]} for name, metric in metrics.items()},
        "as_printed": record["reported"]["as_printed"],
        "composed_of": record["composed_of"],
    }


def _counts(items: Iterable[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for item in items:
        counts[item] = counts.get(item, 0) + 1
    return dict(sorted(counts.items()))


def judge_boundaries(fixture: Document) -> Document:
    """Return the boundaries by kind and what each may claim, or raise the first `ContractViolation`."""
    content = fixture["documents"]["boundaries"]["content"]
    contracts = fixture["documents"]["contracts"]["content"]["contracts"]
    boundaries, counted = content["boundaries"], fixture["counted"]["memory_boundaries"]
    for kind, names in counted.items():
        for name in names:
            if name not in boundaries:
                raise ContractViolation(BOUNDARY_MISSING, _BOUNDARIES, f"expected the {kind} {name}, found none")
            if boundaries[name]["kind"] != kind:
                message = f"{name} is counted as {kind}, found {boundaries[name]['kind']}"
                raise ContractViolation(BOUNDARY_MISSING, _BOUNDARIES + pointer(name, "kind"), message)
    for name, each in boundaries.items():
        where = _BOUNDARIES + pointer(name)
        for index, axis in enumerate(each["saving_of"]):
            at = where + pointer("saving_of", index)
            if axis in each["no_saving_of"]:
                raise ContractViolation(SAVING, at, f"a saving of {axis} is claimed and denied")
            if axis == PERSISTENT_CAPACITY and each["unselected_row"].startswith("recoverable"):
                raise ContractViolation(KEPT_ROWS_SAVED, at, f"{name} keeps what it does not select")
        if each["unselected_row"] == GONE and each["dense_attention_set"] != "changed":
            message = f"expected changed, found {each['dense_attention_set']}"
            raise ContractViolation(LOST_ROWS_PRESERVED, where + pointer("dense_attention_set"), message)
    for name, branch in content["design_branches"].items():
        for index, method in enumerate(branch["family"]):
            if method not in contracts:
                at = _BRANCHES + pointer(name, "family", index)
                raise ContractViolation(BRANCH, at, f"no contract is called {method}")
    return {
        "kinds": _counts(each["kind"] for each in boundaries.values()),
        "boundaries": {
            name: {"unselected_row": each["unselected_row"], "saving_of": each["saving_of"]}
            for name, each in boundaries.items()
        },
        "design_branches": list(content["design_branches"]),
        "compositions": list(content["compositions"]),
    }

"""Who owns what the reports, receipts and diagnostics say (0x00C, 0x00E, 0x15D).

A report may state a fact of a foreign owner only where that owner supplied it: the registry names the place in the
fixture, and the report must repeat a value that stands there. Everything in a report that no longer rule covers belongs
to the rule above it; what no rule covers is unowned.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kvaudit.errors import ContractViolation
from kvaudit.loops.loop12_publication.diagnostics import (
    DIAGNOSTIC_TWICE,
    DIAGNOSTIC_UNKNOWN,
    DIAGNOSTIC_UNOWNED,
    ENTRY_UNOWNED,
    FIELD_UNKNOWN,
    FIELD_UNOWNED,
    FOREIGN_COMPUTED,
    INPUT_NEEDLESS,
    INPUT_UNMATCHED,
    INPUT_UNREADABLE,
    RECEIPT_UNOWNED,
)
from kvaudit.model import Document, joined, pointer

OWNERS = ("append", "scheduler", "allocator", "policy", "backend", "recall", "transfer")
POLICY = "policy"
REGISTRY = "/documents/ownership/content"
# Members of a fixture that are about the fixture and state no fact of a cache.
_ABOUT = ("schema", "declared")

_Rules = dict[str, Any]


def judge_boundary(collected: Document) -> Document:
    """Return how many fields, receipts and diagnostics each owner has, or raise the first `ContractViolation`."""
    registry = collected["documents"]["ownership"]["content"]
    contents = {each["path"]: each["content"] for each in collected["documents"]["fixtures"]}
    fixtures = {
        entry: contents[record["fixture"]]
        for entry, record in collected["bundle"].items()
        if record["fixture"] in contents
    }
    fields = _judge_fields(registry, collected["reports"], fixtures)
    receipts = _judge_receipts(registry, fixtures)
    diagnostics = _judge_diagnostics(registry, collected)
    return {
        "owners": len(registry["owners"]),
        "families": len(registry["families"]),
        "owned_fields": fields,
        "owned_receipts": receipts,
        "diagnostics": diagnostics,
    }


def matches(document: Any, pattern: str) -> list[Any]:
    """Return the values of a document that a pattern names, in its order; `*` is any item or member."""
    found = [document]
    for step in _steps(pattern):
        found = [inner for value in found for inner in _below(value, step)]
    return found


def _judge_fields(registry: Document, reports: Document, fixtures: Mapping[str, Any]) -> Document:
    counts = dict.fromkeys(OWNERS, 0)
    for entry in reports:
        if entry not in registry["report_fields"]:
            reason = f"expected owners for the report of {entry}, found none"
            raise ContractViolation(ENTRY_UNOWNED, f"{REGISTRY}/report_fields", reason)
    for entry, rules in registry["report_fields"].items():
        at = f"{REGISTRY}/report_fields" + pointer(entry)
        if entry not in reports:
            raise ContractViolation(FIELD_UNKNOWN, at, f"{entry} is no entry that the publication needs")
        report = {name: reports[entry]["document"].get(name, {}) for name in ("results", "ledgers")}
        for pattern, rule in rules.items():
            _judge_field(at + pointer(pattern), pattern, rule, report, fixtures.get(entry))
            counts[rule["owner"]] += 1
        for place in _uncovered(report, [_tree(rules)], ""):
            raise ContractViolation(FIELD_UNOWNED, at, f"{place} of the report of {entry} has no owner")
    return counts


def _judge_field(at: str, pattern: str, rule: Document, report: Document, fixture: Any) -> None:
    stated = matches(report, pattern)
    if not stated:
        raise ContractViolation(FIELD_UNKNOWN, at, f"the report has nothing at {pattern}")
    if rule["owner"] == POLICY:
        if "input" in rule:
            raise ContractViolation(INPUT_NEEDLESS, f"{at}/input", "the policy owns this fact, and computes it")
        return
    if "input" not in rule:
        reason = f"{rule['owner']} owns {pattern}; expected the input by which it supplies the fact, found none"
        raise ContractViolation(FOREIGN_COMPUTED, at, reason)
    if fixture is None:
        raise ContractViolation(INPUT_UNREADABLE, f"{at}/input", "the fixture is none of documents.fixtures")
    supplied = matches(fixture, rule["input"])
    if not supplied:
        raise ContractViolation(INPUT_UNMATCHED, f"{at}/input", f"the fixture has nothing at {rule['input']}")
    for value in stated:
        if value not in supplied:
            reason = f"{rule['owner']} supplied {joined(supplied)}, the report states {value}"
            raise ContractViolation(FOREIGN_COMPUTED, at, reason)


def _judge_receipts(registry: Document, fixtures: Mapping[str, Any]) -> Document:
    counts = dict.fromkeys(OWNERS, 0)
    for entry, rules in registry["receipts"].items():
        at = f"{REGISTRY}/receipts" + pointer(entry)
        if entry not in fixtures:
            raise ContractViolation(INPUT_UNREADABLE, at, f"the fixture of {entry} is none of documents.fixtures")
        fixture = {name: value for name, value in fixtures[entry].items() if name not in _ABOUT}
        for pattern, owner in rules.items():
            if not matches(fixture, pattern):
                raise ContractViolation(INPUT_UNMATCHED, at + pointer(pattern), f"the fixture has nothing at {pattern}")
            counts[owner] += 1
        for place in _uncovered(fixture, [_tree(rules)], ""):
            raise ContractViolation(RECEIPT_UNOWNED, at, f"{place} of the fixture of {entry} has no owner")
    return counts


def _judge_diagnostics(registry: Document, collected: Document) -> Document:
    counts = dict.fromkeys(OWNERS, 0)
    proved = proved_codes(collected)
    for oracle, codes in proved.items():
        at = f"{REGISTRY}/diagnostics" + pointer(oracle)
        if oracle not in registry["diagnostics"]:
            reason = f"expected an owner for the {len(codes)} codes of {oracle}, found none"
            raise ContractViolation(DIAGNOSTIC_UNOWNED, f"{REGISTRY}/diagnostics", reason)
        owned = registry["diagnostics"][oracle]
        owner_of: dict[str, str] = {}
        for owner, names in owned["others"].items():
            for index, name in enumerate(names):
                place = f"{at}/others" + pointer(owner, index)
                if f"{oracle}.{name}" not in codes:
                    raise ContractViolation(DIAGNOSTIC_UNKNOWN, place, f"no invalid suite proves {oracle}.{name}")
                if name in owner_of:
                    raise ContractViolation(DIAGNOSTIC_TWICE, place, f"{name} belongs to {owner_of[name]} already")
                owner_of[name] = owner
        for code in codes:
            counts[owner_of.get(code.partition(".")[2], owned["owner"])] += 1
    for oracle in registry["diagnostics"]:
        if oracle not in proved:
            reason = f"no entry that the publication needs has the oracle {oracle}"
            raise ContractViolation(DIAGNOSTIC_UNKNOWN, f"{REGISTRY}/diagnostics" + pointer(oracle), reason)
    return counts


def proved_codes(collected: Document) -> dict[str, frozenset[str]]:
    """Return by oracle its codes that an invalid suite of a needed entry has proved."""
    codes: dict[str, set[str]] = {}
    for entry, suites in collected["suites"].items():
        oracle = collected["bundle"][entry]["oracle"]
        proved = codes.setdefault(oracle, set())
        for suite in suites.values():
            proved |= {code for code in suite["cases"].values() if code.partition(".")[0] == oracle}
    return {oracle: frozenset(proved) for oracle, proved in codes.items()}


def _steps(pattern: str) -> list[str]:
    return [step.replace("~1", "/").replace("~0", "~") for step in pattern.split("/")[1:]]


def _below(value: Any, step: str) -> Iterable[Any]:
    if step == "*":
        return _members(value).values()
    if isinstance(value, dict):
        return (value[step],) if step in value else ()
    return (value[int(step)],) if isinstance(value, list) and step.isdigit() and int(step) < len(value) else ()


def _members(value: Any) -> dict[Any, Any]:
    if isinstance(value, dict):
        return value
    return dict(enumerate(value)) if isinstance(value, list) else {}


def _tree(rules: Mapping[str, Any]) -> _Rules:
    """Return the rules as a tree by step; a rule stands at the empty key."""
    tree: _Rules = {}
    for pattern in rules:
        node = tree
        for step in _steps(pattern):
            node = node.setdefault(step, {})
        node[""] = True
    return tree


def _uncovered(value: Any, rules: list[_Rules], at: str) -> Iterator[str]:
    """Yield the places of a document that no rule covers, the first of each branch."""
    if any("" in node for node in rules):
        return
    if not any(rules):
        yield at
        return
    for name, inner in _members(value).items():
        below = [node[key] for node in rules for key in ("*", str(name)) if key in node]
        yield from _uncovered(inner, below, at + pointer(name))

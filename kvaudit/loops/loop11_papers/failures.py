"""Prior rejections, failure classes and validator rules (0x10G, 0x10H).

Decided here:
- The first suite of an entry is the one that the specification counts; every further suite is bound as well and
  counted apart. Hashes are no input of this loop: each report must agree with the lock, and with what it says of its
  own fixture and suites, so that a number about prior cases cannot outlive the bytes that it was counted from.
- A class is closed by cases, and a case is named by the code that it is rejected with: the part of the code before the
  dot is the loop, so that a bundle may call its entries what it likes. The cases of this loop come from its own suites,
  which are given as documents; that they are rejected is what the same check proves.
- A case closes one class. A class may rest on cases of several loops; `closes_in` is where its final error closes.
- The validator rules are a partition of this loop's diagnostics: each is enforced under one rule, and no rule is empty.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from kvaudit.errors import ContractViolation
from kvaudit.loops.loop11_papers.diagnostics import (
    CASE_CODE,
    CASE_SHARED,
    CASE_UNPROVED,
    CLOSES_ELSEWHERE,
    FIXTURE_UNBOUND,
    NO_CLOSURE,
    PRIOR_COUNT,
    PRIOR_SURVIVED,
    REPORT_UNBOUND,
    RULE_CODE,
    RULE_MISSING,
    RULE_SHARED,
    SUITE_UNBOUND,
)
from kvaudit.model import Diagnostic, Document, pointer


def judge_prior(fixture: Document) -> tuple[Document, Document]:
    """Return what the needed entries reject, and the hashes that this rests on, or raise `ContractViolation`."""
    entries, receipts = {}, {}
    for name, entry in fixture["bundle"].items():
        report, lock = fixture["reports"][name], fixture["lock"]
        _require_pin(lock, report["path"], report["sha256"], pointer("reports", name, "sha256"), REPORT_UNBOUND)
        stated = report["document"]["fixture"]
        at = pointer("reports", name, "document", "fixture", "sha256")
        _require_pin(lock, entry["fixture"], stated["sha256"], at, FIXTURE_UNBOUND)
        counts = [_judge_suite(fixture, name, suite, cases) for suite, cases in entry["invalid_suites"].items()]
        if not counts:
            message = f"expected a suite of invalid cases in the entry {name}, found none"
            raise ContractViolation(PRIOR_COUNT, pointer("bundle", name, "invalid_suites"), message)
        entries[name] = {"cases": counts[0], "further_cases": sum(counts[1:])}
        receipts[name] = {
            "report": report["sha256"],
            "fixture": stated["sha256"],
            "suites": {suite: lock[suite] for suite in entry["invalid_suites"]},
        }
    results = {
        "entries": entries,
        "cases": sum(each["cases"] for each in entries.values()),
        "further_cases": sum(each["further_cases"] for each in entries.values()),
    }
    return results, receipts


def _judge_suite(fixture: Document, name: str, suite: str, cases: int) -> int:
    """Return the number of cases of a suite, which manifest, report, suite report and lock agree on."""
    found = fixture["suites"][name].get(suite)
    stated = fixture["reports"][name]["document"]["invalid_suites"].get(suite)
    if found is None or stated is None:
        at = pointer("suites", name) if found is None else pointer("reports", name, "document", "invalid_suites")
        raise ContractViolation(PRIOR_COUNT, at, f"expected the suite {suite}, found none")
    at = pointer("suites", name, suite)
    _require_pin(fixture["lock"], found["report"], found["sha256"], at + pointer("sha256"), REPORT_UNBOUND)
    at = pointer("reports", name, "document", "invalid_suites", suite)
    _require_pin(fixture["lock"], suite, stated["sha256"], at + pointer("sha256"), SUITE_UNBOUND)
    if stated["cases"] != cases:
        message = f"expected {cases} cases, as the manifest says; found {stated['cases']}"
        raise ContractViolation(PRIOR_COUNT, at + pointer("cases"), message)
    if stated["rejected_as_expected"] != cases:
        message = f"expected {cases} cases rejected as expected, found {stated['rejected_as_expected']}"
        raise ContractViolation(PRIOR_SURVIVED, at + pointer("rejected_as_expected"), message)
    if len(found["cases"]) != cases:
        message = f"expected {cases} rejected cases, found {len(found['cases'])}"
        raise ContractViolation(PRIOR_COUNT, pointer("suites", name, suite, "cases"), message)
    return cases


def _require_pin(lock: Mapping[str, Any], path: str, found: str, at: str, diagnostic: Diagnostic) -> None:
    pinned = lock.get(path)
    if pinned != found:
        raise ContractViolation(diagnostic, at, f"expected {pinned or 'a pin'} of {path}, found {found}")


def judge_classes(fixture: Document, command: str, own_suites: Iterable[Document]) -> Document:
    """Return what closes each failure class, or raise `ContractViolation`.

    `command` is the name of this loop's oracle, `own_suites` are its suites of invalid cases.
    """
    proved = _proved(fixture, command, own_suites)
    owners: dict[tuple[str, str], str] = {}
    results = {}
    for name, each in fixture["failure_classes"].items():
        where = pointer("failure_classes", name)
        if not each["closed_by"]:
            raise ContractViolation(NO_CLOSURE, where + pointer("closed_by"), "no invalid case breaks this class")
        for index, closure in enumerate(each["closed_by"]):
            at, code, case = where + pointer("closed_by", index), closure["code"], closure["case"]
            loop = code.partition(".")[0]
            codes = proved.get(loop, {}).get(case)
            if codes is None:
                message = f"no suite of {loop} in a needed entry rejects a case called {case}"
                raise ContractViolation(CASE_UNPROVED, at + pointer("case"), message)
            if code not in codes:
                message = f"the case {case} is rejected with {', '.join(sorted(codes))}, not {code}"
                raise ContractViolation(CASE_CODE, at + pointer("code"), message)
            if owners.setdefault((loop, case), name) != name:
                message = f"the case {case} closes {owners[loop, case]} already"
                raise ContractViolation(CASE_SHARED, at + pointer("case"), message)
        loops = list(dict.fromkeys(closure["code"].partition(".")[0] for closure in each["closed_by"]))
        if each["closes_in"] not in loops:
            message = f"expected one of {', '.join(loops)}, found {each['closes_in']}"
            raise ContractViolation(CLOSES_ELSEWHERE, where + pointer("closes_in"), message)
        results[name] = {
            "trigger": each["trigger"],
            "closes_in": each["closes_in"],
            "codes": list(dict.fromkeys(closure["code"] for closure in each["closed_by"])),
            "cases": [closure["case"] for closure in each["closed_by"]],
        }
    return results


def _proved(fixture: Document, command: str, own_suites: Iterable[Document]) -> dict[str, dict[str, set[str]]]:
    """Return, by oracle and case, the codes that the case is rejected with: several entries may share an oracle."""
    proved: dict[str, dict[str, set[str]]] = {}
    for name, suites in fixture["suites"].items():
        of_oracle = proved.setdefault(fixture["bundle"][name]["oracle"], {})
        for suite in suites.values():
            for case, code in suite["cases"].items():
                of_oracle.setdefault(case, set()).add(code)
    own = proved.setdefault(command, {})
    for document in own_suites:
        for case, stated in document["content"]["cases"].items():
            own.setdefault(case, set()).add(stated["expects"]["code"])
    return proved


def judge_rules(fixture: Document, diagnostics: Iterable[Diagnostic], drift: Diagnostic) -> Document:
    """Return the validator rules, or raise where they are no partition of this loop's diagnostics without `drift`."""
    left = {diagnostic.code for diagnostic in diagnostics} - {drift.code}
    owners: dict[str, str] = {}
    for name, rule in fixture["validator_rules"].items():
        for index, code in enumerate(rule["codes"]):
            at = pointer("validator_rules", name, "codes", index)
            if code not in left:
                raise ContractViolation(RULE_CODE, at, f"this loop has no diagnostic {code} to enforce a rule with")
            if code in owners:
                raise ContractViolation(RULE_SHARED, at, f"{code} belongs to {owners[code]} already")
            owners[code] = name
    missing = sorted(left.difference(owners))
    if missing:
        raise ContractViolation(RULE_MISSING, pointer("validator_rules"), f"no rule has {', '.join(missing)}")
    return {
        name: {"states": rule["states"], "diagnostics": len(rule["codes"])}
        for name, rule in fixture["validator_rules"].items()
    }

"""Invalid cases: one RFC 6902 patch each, which breaks one contract of the valid fixture.

A case passes only if the oracle rejects the patched fixture with exactly the expected code at exactly the expected
pointer. What else may happen is a finding of its own. A suite must also not be hollow: a case that is not aimed at the
schema must get past it, few cases may rest on a declared number alone, and no two may prove the same thing.
"""

import copy
from collections.abc import Iterator
from typing import Any

import jsonpatch
import jsonpointer

from kvaudit.errors import Defect
from kvaudit.evidence import canonical, schema, strict_json
from kvaudit.evidence.declared import observe
from kvaudit.evidence.text import DEFAULT_LIMITS, Limits
from kvaudit.model import Diagnostic, Document, InvalidCase, Loop, Verdict, pointer

SUITE_SCHEMA = "kvaudit.invalid/1"
_REASON_CHARACTERS = 160
_DEPTH = 3  # how far down a schema is followed to what a patch touches; most fixtures have their arrays there

ACCEPTED = Diagnostic(
    code="invalid.accepted",
    contract="Every invalid case is rejected.",
    why="The contract that the case breaks is not enforced: such a fixture would pass in CI.",
    fix="Enforce the contract in the oracle, or correct the patch so that it breaks one.",
    example="a patch that changes a description",
)
WRONG_CODE = Diagnostic(
    code="invalid.wrong-code",
    contract="An invalid case is rejected with the code it expects.",
    why="A case that fails for another reason proves nothing about its contract.",
    fix="Make the patch break one contract only, or correct the expected code.",
    example="a patch that expects visibility.duplicate-position and meets visibility.position-order",
)
WRONG_POINTER = Diagnostic(
    code="invalid.wrong-pointer",
    contract="An invalid case is rejected at the place it expects, and the place exists in the patched document.",
    why="A diagnostic that points elsewhere sends its reader to the wrong line.",
    fix="Correct the expected pointer, or the place that the oracle names.",
    example="expected /policy_state/state_generation, found /packed_view/state_generation",
)
PATCH_FAILED = Diagnostic(
    code="invalid.patch-failed",
    contract="The patch of an invalid case applies to the valid fixture.",
    why="The fixture has moved on and the case no longer tests anything.",
    fix="Adapt the patch to the fixture as it is now.",
    example='{"op": "remove", "path": "/gone"}',
)
NO_CHANGE = Diagnostic(
    code="invalid.no-change",
    contract="The patch of an invalid case changes the fixture.",
    why="The patched fixture is the valid one; nothing is broken.",
    fix="Write the value that breaks the contract.",
    example="a replace with the value that is already there",
)
SCHEMA_REJECTED = Diagnostic(
    code="invalid.schema-rejected",
    contract="A case that does not say `targets: schema` passes the schema, so that the oracle rejects it.",
    why="A schema that rejects it hides whether the oracle would.",
    fix="Break the contract with a value that the schema allows, or say `targets: schema`.",
    example="a negative row count for a case about budgets",
)
UNKNOWN_CODE = Diagnostic(
    code="invalid.unknown-code",
    contract="An invalid case expects a code that its loop raises, or schema.mismatch where it targets the schema.",
    why="A misspelt code can never be met.",
    fix="Run `kvaudit rule` for the list of codes.",
    example="visibility.duplicated-position",
)
WRONG_COUNT = Diagnostic(
    code="invalid.wrong-count",
    contract="A suite has as many cases as kvaudit.yaml says.",
    why="A case that was dropped would otherwise leave no trace.",
    fix="Restore the case, or change the number in kvaudit.yaml knowingly.",
    example="27 cases where kvaudit.yaml says 28",
)
REPEATED = Diagnostic(
    code="invalid.repeated",
    contract="No two cases of a suite expect the same code at the same pointer.",
    why="The second proves nothing that the first did not; it only makes the count larger.",
    fix="Break the contract at another place, or another contract.",
    example="two cases that expect visibility.duplicate-position at one pointer",
)
DECLARED_ONLY = Diagnostic(
    code="invalid.declared-only",
    contract="At most one case in ten of a suite is caught only by its declared results.",
    why="Editing a declared number tests the comparison, not the contracts.",
    fix="Patch inputs, events or receipts instead of declared results.",
    example="3 such cases in a suite of 28",
)
UNCOVERED_CODE = Diagnostic(
    code="invalid.uncovered-code",
    contract="With `invalid_coverage: complete`, every code of the loop is raised by a case of the entry's suites.",
    why="A diagnostic that nothing raises may be dead, or raised for the wrong reason.",
    fix="Add a case that breaks the contract, or delete the code.",
    example="a code without a case",
)
UNCOVERED_CATEGORY = Diagnostic(
    code="invalid.uncovered-category",
    contract="With `invalid_coverage: complete`, every category of defect that the specification lists has a case.",
    why="A whole kind of defect would be untested.",
    fix="Add a case of that category.",
    example="no case about gather misalignment",
)
DIAGNOSTICS = (
    ACCEPTED,
    WRONG_CODE,
    WRONG_POINTER,
    PATCH_FAILED,
    NO_CHANGE,
    SCHEMA_REJECTED,
    UNKNOWN_CODE,
    WRONG_COUNT,
    REPEATED,
    DECLARED_ONLY,
    UNCOVERED_CODE,
    UNCOVERED_CATEGORY,
)


def parse_suite(data: bytes, limits: Limits = DEFAULT_LIMITS) -> tuple[InvalidCase, ...]:
    """Return the cases of an invalid suite in the order of the file, or raise `FileDefect`."""
    document = strict_json.parse_json(data, limits)
    schema.check(SUITE_SCHEMA, document)
    return tuple(
        InvalidCase(
            id=name,
            category=case["category"],
            breaks=case["breaks"],
            patch=case["patch"],
            code=case["expects"]["code"],
            pointer=case["expects"]["pointer"],
            targets=case.get("targets"),
        )
        for name, case in document["cases"].items()
    )


def judge(loop: Loop, fixture: Document, case: InvalidCase) -> Verdict:
    """Apply one case to a copy of the valid fixture, run schema and oracle, and say how it went."""
    known = {diagnostic.code for diagnostic in loop.diagnostics} | {schema.MISMATCH.code}
    if case.code not in known:
        return Verdict(case, f"the oracle {loop.command} has no code {case.code}", UNKNOWN_CODE)
    try:
        patched, touched = _patched(fixture, case.patch)
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException, TypeError, ValueError) as error:
        reason = str(error)  # the library quotes the whole document where a member is missing
        shown = reason if len(reason) <= _REASON_CHARACTERS else reason[:_REASON_CHARACTERS] + "..."
        return Verdict(case, f"the patch does not apply: {shown}", PATCH_FAILED)
    if patched == fixture and canonical.exact_json_text(patched) == canonical.exact_json_text(fixture):
        return Verdict(case, "the patched fixture equals the valid one", NO_CHANGE)
    for defect in schema.member_defects(loop.collected_schema or loop.fixture_schema, patched, touched):
        if case.targets != "schema":
            place = defect.pointer or "the document"
            return Verdict(case, f"the schema rejects it at {place}: {defect.message}", SCHEMA_REJECTED)
        return _compared(case, patched, schema.MISMATCH.code, defect.pointer, defect.message)
    if case.targets != "digests":
        patched = loop.refresh_digests(patched)
    try:
        observe(loop, patched)
    except Defect as defect:
        return _compared(case, patched, defect.diagnostic.code, defect.pointer, defect.message)
    return Verdict(case, f"accepted, although it breaks: {case.breaks}", ACCEPTED)


def suite_defects(loop: Loop, cases: tuple[InvalidCase, ...], expected: int) -> Iterator[tuple[str, str, Diagnostic]]:
    """Yield (pointer, message, diagnostic) for each way in which a suite as a whole falls short."""
    if len(cases) != expected:
        yield "/cases", f"expected {expected} cases, found {len(cases)}", WRONG_COUNT
    first: dict[tuple[str, str], str] = {}
    for case in cases:
        other = first.setdefault((case.code, case.pointer), case.id)
        if other != case.id:
            message = f"expects {case.code} at {case.pointer}, as {other} does"
            yield pointer("cases", case.id), message, REPEATED
    drifting = [case.id for case in cases if case.code == loop.drift.code]
    if 10 * len(drifting) > len(cases):
        message = f"expected at most {len(cases) // 10} of {len(cases)} cases, found {len(drifting)}"
        yield "/cases", f"{message}: {', '.join(drifting)}", DECLARED_ONLY


def coverage_defects(loop: Loop, cases: tuple[InvalidCase, ...]) -> Iterator[tuple[str, Diagnostic]]:
    """Yield (message, diagnostic) for each code and category of the loop that none of its cases covers."""
    codes = {case.code for case in cases}
    for diagnostic in loop.diagnostics:
        if diagnostic.code not in codes:
            yield f"no invalid case raises {diagnostic.code}", UNCOVERED_CODE
    categories = {case.category for case in cases}
    for category in loop.categories:
        if category not in categories:
            yield f"no invalid case has the category {category!r}", UNCOVERED_CATEGORY


def _patched(fixture: Document, patch: list[Document]) -> tuple[Document, frozenset[tuple[str, ...]]]:
    """Return the patched fixture and the places, a few steps deep, below which alone it may differ.

    What a patch does not lead through is shared with the fixture, not copied.
    """
    places = [operation[name] for operation in patch for name in ("path", "from") if name in operation]
    steps = [tuple(str(step) for step in jsonpointer.JsonPointer(place).parts) for place in places]
    touched = frozenset(each[:_DEPTH] for each in steps) if all(steps) else frozenset((name,) for name in fixture)
    members = dict(fixture)
    for operation in patch:
        _unshare(members, operation["path"])
        if "from" in operation:
            _unshare(members, operation["from"], whole=True)
    patched = jsonpatch.JsonPatch(copy.deepcopy(patch)).apply(members, in_place=True)
    if not isinstance(patched, dict):
        raise ValueError("it replaces the document by something that is no object")
    return patched, touched


def _unshare(document: Any, place: str, *, whole: bool = False) -> None:
    """Copy the containers on the way to a place, as far as there are any; with `whole`, its value too."""
    steps = jsonpointer.JsonPointer(place).parts
    for depth, step in enumerate(steps):
        last = depth == len(steps) - 1
        key = int(step) if isinstance(document, list) and step.isdigit() else step
        known = key in document if isinstance(document, dict) else isinstance(key, int) and key < len(document)
        if not known or (last and not whole) or not isinstance(document[key], dict | list):
            return
        document[key] = copy.deepcopy(document[key]) if last else copy.copy(document[key])
        document = document[key]


def _compared(case: InvalidCase, patched: Document, code: str, place: str, message: str) -> Verdict:
    if code != case.code:
        return Verdict(case, f"expected {case.code}, found {code} at {place}: {message}", WRONG_CODE)
    if place != case.pointer:
        return Verdict(case, f"expected {case.code} at {case.pointer}, found it at {place}", WRONG_POINTER)
    if not _resolves(patched, place):
        return Verdict(case, f"{place} does not exist in the patched document", WRONG_POINTER)
    return Verdict(case, message, None)


def _resolves(document: Any, place: str) -> bool:
    try:
        jsonpointer.resolve_pointer(document, place)
    except jsonpointer.JsonPointerException:
        return False
    return True

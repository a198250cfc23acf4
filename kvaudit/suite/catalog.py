"""Every diagnostic that kvaudit can raise, and the invalid case that shows one."""

import difflib
from dataclasses import dataclass
from pathlib import Path

from kvaudit.errors import UsageError
from kvaudit.evidence import bundle, canonical, files, invalid, lock, schema, strict_json, strict_yaml, text
from kvaudit.loops import LOOPS
from kvaudit.model import Diagnostic, InvalidCase
from kvaudit.reconcile import protocol, subjects
from kvaudit.site import audit
from kvaudit.suite import comparison, entry, records

FILE_LAYER = (
    *text.DIAGNOSTICS,
    *strict_json.DIAGNOSTICS,
    *canonical.DIAGNOSTICS,
    *strict_yaml.DIAGNOSTICS,
    *files.DIAGNOSTICS,
    *schema.DIAGNOSTICS,
    *lock.DIAGNOSTICS,
    *bundle.DIAGNOSTICS,
    *invalid.DIAGNOSTICS,
    *comparison.DIAGNOSTICS,
    *entry.DIAGNOSTICS,
    *records.DIAGNOSTICS,
    *subjects.DIAGNOSTICS,
    *protocol.DIAGNOSTICS,
    *audit.DIAGNOSTICS,
)


@dataclass(frozen=True, slots=True)
class Example:
    """A minimal failing input: where it is kept, what it breaks, and the patch on the valid fixture."""

    fixture: str
    suite: str
    case: InvalidCase


def diagnostics() -> tuple[Diagnostic, ...]:
    """Return every diagnostic, those of the file layer first, then loop by loop."""
    return (*FILE_LAYER, *(diagnostic for loop in LOOPS for diagnostic in loop.diagnostics))


def diagnostic(code: str) -> Diagnostic:
    """Return the diagnostic with this code, or raise `UsageError` with suggestions."""
    known = {each.code: each for each in diagnostics()}
    if code not in known:
        near = difflib.get_close_matches(code, known, n=3)
        hint = f"; did you mean {' or '.join(near)}?" if near else "; `kvaudit rule` lists them"
        raise UsageError(f"there is no diagnostic {code!r}{hint}")
    return known[code]


def example(code: str, root: Path) -> Example | None:
    """Return the first invalid case of the bundle at `root` that raises `code`, or None if no suite has one."""
    oracle = code.partition(".")[0]  # the prefix of a loop's own codes
    entries = bundle.load_bundle(root).entries
    own = tuple(each for each in entries if each.oracle == oracle)
    for each in own or entries:
        for suite in each.invalid_suites:
            for case in invalid.parse_suite(files.read_in_bundle(root, suite.suite)):
                if case.code == code:
                    return Example(each.fixture, suite.suite, case)
    return None

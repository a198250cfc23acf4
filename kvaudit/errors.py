"""What may interrupt kvaudit, in two kinds.

A *defect* is something wrong with the evidence: a file, a fixture, a report, a claim. It is raised where it is
found, carries a documented diagnostic, and always ends as a `Finding` in the answer (exit code 1).

A `KvauditError` means that kvaudit could not do its work at all (exit code 3), or, as a `UsageError`, that it was
asked for something that does not exist (exit code 2).
"""

from kvaudit.model import Diagnostic


class Defect(Exception):  # noqa: N818 - a defect in evidence is a result, not an error of the program
    """Something wrong with evidence: a diagnostic, the place, and what was expected and found there.

    `pointer` is an RFC 6901 JSON pointer into the document at hand (the empty string is the whole document).
    `line` is the one-based line in the file, where it is known when the defect is raised. `path` is the bundle path of
    the file, where the one who catches the defect could not know it: an oracle over reports is given many files.
    """

    path: str | None = None

    def __init__(self, diagnostic: Diagnostic, pointer: str, message: str, line: int | None = None) -> None:
        super().__init__(f"{diagnostic.code} at {pointer or 'the document'}: {message}")
        self.diagnostic = diagnostic
        self.pointer = pointer
        self.message = message
        self.line = line


class FileDefect(Defect):
    """A file that is missing, escapes its bundle, or is not the strict JSON or YAML it should be."""


class ContractViolation(Defect):
    """The first contract that a fixture breaks, in the order that its oracle declares."""


class KvauditError(Exception):
    """kvaudit could not run: no readable manifest, nowhere to write, a missing extra. Exit code 3."""


class UsageError(KvauditError):
    """The request names something that does not exist or does not fit. Exit code 2."""

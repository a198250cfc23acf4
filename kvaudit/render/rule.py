"""The documentation of diagnostics."""

import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

from kvaudit.evidence.canonical import exact_json_text, json_text
from kvaudit.model import Diagnostic, Table
from kvaudit.render.tables import Display


def listing(diagnostics: Iterable[Diagnostic]) -> Table:
    """Return every code with the contract that it stands for."""
    return Table("Diagnostics", ("code", "contract"), tuple((each.code, each.contract) for each in diagnostics))


def text(diagnostic: Diagnostic, example: Mapping[str, Any] | None, display: Display) -> str:
    """Return what the contract says, why it matters, a minimal failing input, and how to fix it.

    `example` is the invalid case that raises the code; without one, the diagnostic's own example is shown.
    """
    paragraphs = [
        diagnostic.code,
        _paragraph("contract", diagnostic.contract, display),
        _paragraph("why", diagnostic.why, display),
        _paragraph("fix", diagnostic.fix, display),
    ]
    if example is not None:
        paragraphs.append(_paragraph("fails", f"{example['breaks']} ({example['suite']}, {example['case']})", display))
        paragraphs.append(
            _paragraph("patch", f"on {example['fixture']}; raised at {example['pointer']}", display)
            + "\n"
            + textwrap.indent(exact_json_text(example["patch"]), " " * 10).rstrip()
        )
    elif diagnostic.example:
        paragraphs.append("fails     " + textwrap.indent(diagnostic.example, " " * 10).lstrip())
    return "\n".join(paragraphs) + "\n"


def json(diagnostic: Diagnostic, example: Mapping[str, Any] | None) -> str:
    """Return the same content as a JSON document."""
    return json_text({**document(diagnostic), "invalid_case": example})


def document(diagnostic: Diagnostic) -> dict[str, str]:
    """Return a diagnostic as JSON values."""
    return {
        "code": diagnostic.code,
        "contract": diagnostic.contract,
        "why": diagnostic.why,
        "fix": diagnostic.fix,
        "example": diagnostic.example,
    }


def _paragraph(label: str, content: str, display: Display) -> str:
    lead = f"{label:10}"
    if display.width is None:
        return lead + content
    return textwrap.fill(content, max(display.width, 40), initial_indent=lead, subsequent_indent=" " * 10)

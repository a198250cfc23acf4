"""What an evaluation plan declares and leaves open, as text and JSON. Nothing is scored."""

import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kvaudit.evidence.canonical import exact_json_text
from kvaudit.model import Finding
from kvaudit.reconcile.protocol import SCHEMA, Plan, Statement
from kvaudit.render.check import counted, finding_documents
from kvaudit.render.tables import Display, printable

ANSWER_SCHEMA = "kvaudit.protocol-answer/1"

_INDENT = 32


def text(plan: Plan, display: Display) -> str:
    """Return what is stated and what is undeclared, then why it matters and what to do, once a kind of finding."""
    lines = [*_heading(f"{plan.id}: {plan.title}", display), ""]
    lines += [_bold("Axes", display), *_statements(plan.axes, display), ""]
    for surface in plan.surfaces:
        lines += _heading(f"Surface of {surface.group.name}: {surface.group.about}", display)
        lines += [*_statements([surface], display, named=False), ""]
    lines.append(_bold("Outcomes", display))
    lines += [_line(name, recorded or "(undeclared)", display) for name, recorded in plan.outcomes.items()]
    for diagnostic in dict.fromkeys(finding.diagnostic for finding in plan.findings):
        lines += ["", diagnostic.code]
        lines += [_line("  why", diagnostic.why, display, 7), _line("  fix", diagnostic.fix, display, 7)]
    open_parts = sum(len(each.undeclared) for each in (*plan.axes, *plan.surfaces))
    open_parts += sum(recorded is None for recorded in plan.outcomes.values())
    axes = counted(sum(bool(each.undeclared) for each in plan.axes), "axis", "axes")
    verdict = f"{counted(open_parts, 'part')} undeclared; {axes} concerned" if open_parts else "everything is declared"
    return "\n".join([*lines, "", verdict, ""])


def json(plan: Plan | None, findings: Iterable[Finding]) -> str:
    """Return the same as a JSON document; without a plan, the findings that say why there is none."""
    members: dict[str, Any] = {"schema": ANSWER_SCHEMA, "plan_schema": SCHEMA, "plan": None}
    if plan is not None:
        members["plan"] = {
            "id": plan.id,
            "axes": {each.group.name: _document(each) for each in plan.axes},
            "surfaces": {each.group.name: _document(each) for each in plan.surfaces},
            "outcomes": dict(plan.outcomes),
        }
    return exact_json_text({**members, "findings": finding_documents(findings)})


def _document(each: Statement) -> dict[str, Any]:
    return {"stated": dict(each.stated), "undeclared": list(each.undeclared)}


def _statements(statements: Iterable[Statement], display: Display, *, named: bool = True) -> Iterator[str]:
    for each in statements:
        if named:
            yield _line(each.group.name, each.group.about, display)
        for part in each.group.parts:
            yield _line(f"  {part}", _shown(each.stated[part]) if part in each.stated else "(undeclared)", display)


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_shown, value))
    if isinstance(value, Mapping):
        return f"({value['state'].replace('_', ' ')})"
    return value if isinstance(value, str) else exact_json_text(value).strip()


def _heading(words: str, display: Display) -> list[str]:
    """Return a heading, on several lines if the display is narrow."""
    if display.width is None:
        return [_bold(words, display)]
    wrapped = textwrap.wrap(printable(words), max(display.width, 40), subsequent_indent="  ")
    return [_bold(line, display) for line in wrapped]


def _bold(words: str, display: Display) -> str:
    return f"\x1b[1m{printable(words)}\x1b[0m" if display.colour else printable(words)


def _line(lead: str, content: str, display: Display, indent: int = _INDENT) -> str:
    lead = lead if indent < _INDENT else f"  {lead}"
    start = f"{lead:{indent}}" if len(lead) < indent else f"{lead} "
    if display.width is None:
        return start + printable(content)
    return textwrap.fill(
        printable(content),
        max(display.width, 40),
        initial_indent=start,
        subsequent_indent=" " * indent,
        break_on_hyphens=False,
    )

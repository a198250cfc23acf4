"""kvaudit rule"""

import click

from kvaudit.cli import options, output
from kvaudit.evidence.canonical import json_text
from kvaudit.evidence.schema import shipped_root
from kvaudit.render import rule as render
from kvaudit.render import tables
from kvaudit.suite import catalog


@click.command("rule", short_help="Explain a diagnostic, or list them all.")
@click.argument("code", required=False)
@options.output_format("text", "json")
def command(code: str | None, output_format: str) -> None:
    """Explain a diagnostic, or list them all.

    For CODE: what the contract says, why it matters to someone who runs a KV cache, how to fix it, and a minimal
    failing input, which for a loop is the shipped invalid case that is proved to raise it.
    """
    if code is None:
        every = catalog.diagnostics()
        if output_format == "json":
            listed = [render.document(each) for each in every]
            output.document(json_text({"schema": "kvaudit.rules/1", "rules": listed}))
        else:
            output.answer(tables.text([render.listing(every)], output.display()))
        return
    diagnostic = catalog.diagnostic(code)
    found = catalog.example(code, shipped_root())
    example = None
    if found is not None:
        example = {
            "fixture": found.fixture,
            "suite": found.suite,
            "case": found.case.id,
            "breaks": found.case.breaks,
            "pointer": found.case.pointer,
            "patch": found.case.patch,
        }
    if output_format == "json":
        output.document(render.json(diagnostic, example))
    else:
        output.answer(render.text(diagnostic, example, output.display()))

"""kvaudit digest"""

from pathlib import Path

import click

from kvaudit.cli import options, output
from kvaudit.cli.bundle import open_bundle
from kvaudit.evidence.canonical import json_text
from kvaudit.evidence.text import DEFAULT_LIMITS
from kvaudit.render.check import finding_documents, findings_text
from kvaudit.suite.check import locked_digest


@click.command("digest", short_help="Print the suite digest that the lock gives.")
@options.root
@options.output_format("text", "json")
@click.pass_context
def command(ctx: click.Context, root: Path | None, output_format: str) -> None:
    """Print the suite digest that the lock gives.

    It is the SHA-256 over one line an entry, `id:fixture_hash:report_hash:adapter`, in dependency order. Cite it
    beside a result, and check it with `kvaudit check --expect-digest`; it says nothing of files that have drifted
    from the lock.
    """
    bundle, shown_root = open_bundle(root, DEFAULT_LIMITS)
    digest, findings = locked_digest(bundle)
    if output_format == "json":
        documents = finding_documents(findings, shown_root)
        output.document(json_text({"schema": "kvaudit.digest/1", "suite_digest": digest, "findings": documents}))
    elif digest is not None:
        output.answer(f"{digest}\n")
    else:
        output.answer(findings_text(findings, shown_root, output.display()))
    ctx.exit(0 if digest is not None else 1)

"""kvaudit contracts"""

from pathlib import Path

import click

from kvaudit.cli import options, output
from kvaudit.cli.bundle import open_bundle
from kvaudit.reconcile import registries
from kvaudit.render import check as render_check
from kvaudit.render import contracts as render


@click.command("contracts", short_help="Read the contracts of policies, and where retention ends.")
@click.argument("name", metavar="[ID]", required=False)
@click.option("--boundaries", is_flag=True, help="Read the boundaries, design branches and compositions instead.")
@options.root
@options.output_format("text", "json")
@options.limits
@click.pass_context
def command(
    ctx: click.Context,
    name: str | None,
    boundaries: bool,
    root: Path | None,
    output_format: str,
    max_bytes: int,
    max_depth: int,
) -> None:
    """Read the contracts of policies, and where retention ends.

    Without ID, the contracts are listed with what each of them rests on. With the ID of a contract, boundary, design
    branch or composition, that one is printed in full: for a contract its coordinates, sources, pinned code, accuracy
    box and what its sources report. Nothing is ranked.

    \b
    kvaudit contracts snapkv
    kvaudit contracts retention_miss
    kvaudit contracts --boundaries
    """
    limits = options.to_limits(max_bytes, max_depth)
    known = registries.load(*open_bundle(root, limits), limits)
    if name is not None and not boundaries:
        kind, record = known.find(name)
        if output_format == "json":
            output.document(render.record_json(known, kind, name, record))
        else:
            output.answer(render.record_text(known, kind, name, record, output.display()))
    elif name is not None:
        raise click.UsageError("give an ID or --boundaries, not both", ctx)
    elif output_format == "json":
        output.document(render.boundaries_json(known) if boundaries else render.listing_json(known))
    elif boundaries:
        output.answer(render.boundaries_text(known, output.display()))
    else:
        output.answer(render.listing_text(known, output.display()))
    if known.findings and output_format == "text":
        output.answer("\n" + render_check.findings_text(known.findings, display=output.display()))
    ctx.exit(1 if known.findings else 0)

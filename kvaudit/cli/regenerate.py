"""kvaudit regenerate"""

from pathlib import Path

import click

from kvaudit.cli import options, output
from kvaudit.cli.bundle import open_bundle
from kvaudit.render import check as render_check
from kvaudit.render import regenerate as render
from kvaudit.suite.regenerate import regenerate


@click.command("regenerate", short_help="Write the reports that the evidence gives, then the lock.")
@click.argument("loops", nargs=-1, metavar="[LOOP]...")
@options.root
@click.option("--redeclare", is_flag=True, help="Recompute the `declared` object of the named loops' fixtures first.")
@click.option("--dry-run", is_flag=True, help="Only say what would be written.")
@options.output_format("text", "json")
@options.limits
@click.pass_context
def command(
    ctx: click.Context,
    loops: tuple[str, ...],
    root: Path | None,
    redeclare: bool,
    dry_run: bool,
    output_format: str,
    max_bytes: int,
    max_depth: int,
) -> None:
    """Write the reports that the evidence gives, then the lock.

    Everything is computed first; if an entry has a finding of its own, nothing is written and the exit code is 1.
    With LOOP, only these entries and those that need them are regenerated.

    `regenerate --redeclare LOOP` takes the fixture's inputs as right, recomputes what it declares, and shows the
    difference: read every line of it.
    """
    if redeclare and not loops:
        raise click.UsageError("--redeclare needs the LOOP whose declared results are to be recomputed")
    limits = options.to_limits(max_bytes, max_depth)
    bundle, shown_root = open_bundle(root, limits)
    with output.progress() as progress:
        result = regenerate(bundle, loops, redeclare=redeclare, dry_run=dry_run, limits=limits, progress=progress)
    if output_format == "json":
        output.document(render.json(result.changes, result.findings, dry_run=dry_run, root=shown_root))
    elif result.findings:
        output.answer(render_check.findings_text(result.findings, shown_root, output.display()))
        output.trouble("nothing was written")
    else:
        output.answer(render.text(result.changes, dry_run=dry_run))
    ctx.exit(1 if result.findings else 0)

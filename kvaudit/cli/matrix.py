"""kvaudit matrix"""

from pathlib import Path

import click

from kvaudit.cli import options, output
from kvaudit.cli.bundle import open_bundle
from kvaudit.loops import is_over_reports
from kvaudit.reconcile.relation import relations
from kvaudit.reconcile.subjects import entry_subject
from kvaudit.render import check as render_check
from kvaudit.render import matrix as render


@click.command("matrix", short_help="Show the relation of every pair of reports.")
@options.root
@options.output_format("text", "json", "markdown")
@options.limits
@click.pass_context
def command(ctx: click.Context, root: Path | None, output_format: str, max_bytes: int, max_depth: int) -> None:
    """Show the relation of every pair of reports in the bundle; reports over reports are left out.

    `kvaudit explain A B` says what a cell rests on. A report that cannot be read is a finding (exit code 1); the grid
    shows the others.
    """
    limits = options.to_limits(max_bytes, max_depth)
    bundle, shown_root = open_bundle(root, limits)
    entries = [entry for entry in bundle.entries if not is_over_reports(entry.oracle)]
    loaded = [entry_subject(bundle, entry, shown_root, limits) for entry in entries]
    subjects = [each.subject for each in loaded if each.subject is not None]
    findings = tuple(finding for each in loaded for finding in each.findings)
    ids, pairs = [subject.id for subject in subjects], relations(subjects)
    if output_format == "json":
        output.document(render.json(ids, pairs, findings))
    else:
        if output_format == "markdown":
            output.document(render.markdown(ids, pairs))
        else:
            output.answer(render.text(ids, pairs, output.display()))
        if findings:
            output.answer("\n" + render_check.findings_text(findings, display=output.display()))
    ctx.exit(1 if findings else 0)

"""kvaudit protocol"""

from pathlib import Path

import click

from kvaudit.cli import options, output
from kvaudit.errors import FileDefect
from kvaudit.evidence import files, schema
from kvaudit.reconcile import protocol
from kvaudit.render import check as render_check
from kvaudit.render import protocol as render


@click.command("protocol", short_help="Say what an evaluation plan leaves undeclared.")
@click.argument("path", metavar="[FILE]", required=False)
@click.option("--template", is_flag=True, help="Print an empty plan in YAML, with what each part takes.")
@options.output_format("text", "json")
@options.limits
@click.pass_context
def command(
    ctx: click.Context, path: str | None, template: bool, output_format: str, max_bytes: int, max_depth: int
) -> None:
    """Say what an evaluation plan leaves undeclared.

    FILE is a plan in YAML or JSON: eleven axes, quality and runtime as two surfaces, and how each of six outcomes is
    recorded. Exit code 1 if a part is undeclared. Nothing is said of how good a plan is.

    \b
    kvaudit protocol --template > plan.yaml
    kvaudit protocol plan.yaml
    """
    if template:
        output.document(protocol.template())
        return
    if path is None:
        raise click.UsageError("give a FILE, or --template for an empty plan", ctx)
    limits = options.to_limits(max_bytes, max_depth)
    try:
        plan, findings = protocol.read(path, files.read_regular(Path(path), limits), limits)
    except FileDefect as defect:
        plan, findings = None, schema.findings(path, defect, b"")
    if output_format == "json":
        output.document(render.json(plan, findings))
    elif plan is None:
        output.answer(render_check.findings_text(findings, display=output.display()))
    else:
        output.answer(render.text(plan, output.display()))
    ctx.exit(1 if findings else 0)

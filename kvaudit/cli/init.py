"""kvaudit init"""

from pathlib import Path

import click

from kvaudit.cli import output
from kvaudit.render import check as render_check
from kvaudit.render import regenerate as render
from kvaudit.suite.init import init


@click.command("init", short_help="Make a bundle of your own that checks green at once.")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.option("--oracle", "oracles", multiple=True, help="Take only this oracle's fixture; may be repeated.")
@click.pass_context
def command(ctx: click.Context, folder: Path, oracles: tuple[str, ...]) -> None:
    """Make a bundle of your own in DIR that checks green at once.

    It starts from the fixtures that kvaudit brings: edit them until they state your model and your policy, run
    `kvaudit regenerate` in DIR, and commit everything.
    """
    result = init(folder, oracles)
    if result.findings:
        output.answer(render_check.findings_text(result.findings, str(folder), output.display()))
        output.trouble(f"{folder} holds the inputs, but no report was written")
        ctx.exit(1)
    output.answer(render.text(result.changes, dry_run=False))
    output.answer(f"{folder / 'kvaudit.yaml'} is ready: try `kvaudit check --root {folder}`\n")

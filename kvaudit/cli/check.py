"""kvaudit check"""

from pathlib import Path

import click

from kvaudit.cli import options, output
from kvaudit.cli.bundle import open_bundle
from kvaudit.suite.check import check


@click.command("check", short_help="Verify the evidence of a bundle; write nothing.")
@click.argument("loops", nargs=-1, metavar="[LOOP]...")
@options.root
@options.output_format("text", "json", "sarif", "github", "junit")
@click.option("--expect-digest", metavar="HEX", help="Fail unless the suite digest is this one.")
@options.limits
@click.pass_context
def command(
    ctx: click.Context,
    loops: tuple[str, ...],
    root: Path | None,
    output_format: str,
    expect_digest: str | None,
    max_bytes: int,
    max_depth: int,
) -> None:
    """Verify the evidence of a bundle; write nothing.

    Every file is hashed against the lock, every fixture is judged by its oracle, every report is recomputed and
    compared byte for byte, every invalid case must be rejected for its expected reason.

    LOOP is an id, an alias or an oracle; without one, everything is checked. Exit code 1 means findings.
    """
    limits = options.to_limits(max_bytes, max_depth)
    bundle, shown_root = open_bundle(root, limits)
    with output.progress() as progress:
        result = check(
            bundle, loops, shown_root=shown_root, limits=limits, expect_digest=expect_digest, progress=progress
        )
    if output_format == "text":
        from kvaudit.render import check as render

        output.answer(render.text(result, output.display()))
    elif output_format == "json":
        from kvaudit.render import check as render

        output.document(render.json(result))
    elif output_format == "sarif":
        from kvaudit.render.sarif import sarif

        output.document(sarif(result))
    elif output_format == "github":
        from kvaudit.render.github import github

        output.document(github(result))
    else:
        from kvaudit.render.junit import junit

        output.document(junit(result))
    ctx.exit(1 if result.findings else 0)

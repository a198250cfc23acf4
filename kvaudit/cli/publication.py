"""kvaudit publication: the oracle's command, and the site that its pages become."""

from pathlib import Path
from typing import Any

import click

from kvaudit.cli import output
from kvaudit.cli.bundle import open_bundle
from kvaudit.cli.loop import loop_command
from kvaudit.cli.options import to_limits
from kvaudit.loops import loop_by_command


def _command() -> click.Command:
    loop = loop_by_command("publication")
    assert loop is not None
    oracle = loop_command(loop)

    @click.pass_context
    def callback(ctx: click.Context, /, build: Path | None, audit: Path | None, **options: Any) -> Any:
        if build is None and audit is None:
            return ctx.invoke(oracle, **options)
        if build is not None and audit is not None:
            raise click.UsageError("--build audits what it writes; give one of --build and --audit")
        if options["fixture"] is not None or options["suite"] is not None:
            raise click.UsageError("a site is of the bundle's publication; --fixture and --invalid go without it")
        return _site(ctx, build, audit, options)

    folder = click.Path(path_type=Path, file_okay=False)
    return click.Command(
        oracle.name,
        callback=callback,
        params=[
            *oracle.params,
            click.Option(["--build"], type=folder, metavar="DIR", help="Render the pages to a static site in DIR."),
            click.Option(["--audit"], type=folder, metavar="DIR", help="Run the render audit on the site in DIR."),
        ],
        help=f"{oracle.help}\n\nWith --build, the pages, the tables of the reports and the matrix of pairs become a "
        "static site that needs no network and no script; nothing is written unless the oracle and the render audit "
        "find nothing. It needs the extra: pip install 'kvaudit[site]'.",
        short_help=oracle.short_help,
    )


def _site(ctx: click.Context, build: Path | None, audit: Path | None, options: dict[str, Any]) -> None:
    from kvaudit.render import site as render
    from kvaudit.suite import publish

    limits = to_limits(options["max_bytes"], options["max_depth"])
    bundle, _ = open_bundle(options["root"], limits)
    entries = [entry for entry in bundle.entries if entry.oracle == "publication"]
    if len(entries) != 1:
        raise click.UsageError(f"a site is made of one publication; the bundle has {len(entries)} entries with it")
    if build is not None:
        made = publish.built(bundle, entries[0], limits)
        if not made.findings:
            publish.write(made, build)
    else:
        assert audit is not None
        made = publish.audited(bundle, entries[0], audit, limits)
    folder = (build or audit or Path()).as_posix()
    shown = folder if made.files else ""  # what the oracle finds is placed already
    if options["output_format"] == "json":
        output.document(render.json(made.findings, folder=folder, files=len(made.files), formulas=made.formulas))
    else:
        counts = (len(made.expected), made.formulas)
        output.answer(render.text(made.findings, *counts, folder=folder, shown=shown, built=build is not None))
    ctx.exit(1 if made.findings else 0)


command = _command()

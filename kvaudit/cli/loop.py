"""One command a loop: run its oracle on the bundle's fixtures, or on any file, and print the tables."""

from pathlib import Path

import click

from kvaudit.cli import options, output
from kvaudit.cli.bundle import open_bundle
from kvaudit.model import Loop


def loop_command(loop: Loop) -> click.Command:
    """Return the command of a loop."""

    @click.command(
        loop.command,
        short_help=f"{loop.title[0].upper()}{loop.title[1:]}.",
        help=(
            f"{loop.title[0].upper()}{loop.title[1:]} (specification {loop.section}).\n\n"
            "Runs the oracle on the fixtures of the bundle, or on any file given with --fixture, and prints its "
            "tables. With --invalid, runs the cases of a suite on that fixture instead. Exit code 1 means findings."
            + (
                ""
                if loop.collected_schema is None
                else " What else it consumes are reports and documents of the bundle."
            )
        ),
    )
    @options.root
    @click.option("--fixture", type=click.Path(path_type=Path), help="Run on this file instead of the bundle's.")
    @click.option("--invalid", "suite", type=click.Path(path_type=Path), help="Run the invalid cases of this file.")
    @options.output_format("text", "json")
    @options.limits
    @click.pass_context
    def command(
        ctx: click.Context,
        root: Path | None,
        fixture: Path | None,
        suite: Path | None,
        output_format: str,
        max_bytes: int,
        max_depth: int,
    ) -> None:
        from kvaudit.evidence.canonical import json_text
        from kvaudit.render import single as render
        from kvaudit.suite import single

        limits = options.to_limits(max_bytes, max_depth)
        if fixture is not None and loop.collected_schema is None:
            runs = [single.run(loop, fixture, suite, limits)]
        else:
            bundle, shown_root = open_bundle(root, limits)
            entries = [entry for entry in bundle.entries if entry.oracle == loop.command]
            if not entries:
                hint = "give --fixture FILE" if loop.collected_schema is None else "it consumes the reports of a bundle"
                raise click.UsageError(f"the bundle has no entry with the oracle {loop.command}; {hint}")
            if fixture is not None and len(entries) > 1:
                raise click.UsageError(
                    f"the bundle has {len(entries)} entries with this oracle; run `kvaudit check ID`"
                )
            runs = [
                single.run_in_bundle(loop, bundle, entry, fixture or Path(shown_root) / entry.fixture, suite, limits)
                for entry in entries
            ]
        if output_format == "json":
            documents = [render.document(run) for run in runs]
            output.document(json_text(documents[0] if len(documents) == 1 else documents))
        else:
            for run in runs:
                output.answer(render.text(loop, run, output.display()))
        ctx.exit(1 if any(run.findings for run in runs) else 0)

    return command

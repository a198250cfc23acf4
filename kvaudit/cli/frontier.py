"""kvaudit frontier"""

from fractions import Fraction
from pathlib import Path

import click

from kvaudit.cli import options, output
from kvaudit.cli.bundle import open_bundle
from kvaudit.reconcile.measurements import QUALITY_METRICS

_ORACLE = "spherical"


@click.command("frontier", short_help="Draw the iso-quality frontier of operating points of one cohort.")
@click.argument("file", required=False, type=click.Path(path_type=Path), metavar="[FILE]")
@options.root
@click.option(
    "--plot",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.png|svg",
    help="Write a picture as well. Needs the extra `plots` (matplotlib).",
)
@click.option(
    "--quality",
    type=click.Choice(QUALITY_METRICS),
    default=QUALITY_METRICS[0],
    show_default=True,
    help="Of a folder of measurement records: the metric that is the quality, of which more is better.",
)
@click.option(
    "--tolerance",
    default="0.05",
    show_default=True,
    metavar="NUMBER",
    help="Of a folder of measurement records: how far below the dense quality a point may be, in the metric's unit.",
)
@options.output_format("text", "json")
@options.limits
@click.pass_context
def command(
    ctx: click.Context,
    file: Path | None,
    root: Path | None,
    plot: Path | None,
    quality: str,
    tolerance: str,
    output_format: str,
    max_bytes: int,
    max_depth: int,
) -> None:
    """Draw the iso-quality frontier of operating points of one cohort.

    FILE is a document of kvaudit.frontier/1, a fixture of the spherical oracle, or a folder of measurement records, of
    which each cohort is a set; without it, the fixtures of the bundle are read. Kept are the points within the stated
    tolerance of the best dense quality, and of these the ones that no other beats in resident bytes and tokens per
    second. Points of more than one cohort are refused (exit code 1), with the coordinates that separate them.

    \b
    kvaudit frontier sweep.json --plot sweep.svg
    kvaudit frontier reports/study --quality top1_agreement --tolerance 0.05
    """
    from kvaudit.evidence import files
    from kvaudit.evidence.canonical import json_text
    from kvaudit.render import frontier as render
    from kvaudit.render import frontier_plot
    from kvaudit.suite import frontier

    picture_format = "" if plot is None else plot.suffix.removeprefix(".").lower()
    if plot is not None and picture_format not in frontier_plot.FORMATS:
        raise click.UsageError(f"--plot writes .png or .svg files, not {plot.name!r}")
    limits = options.to_limits(max_bytes, max_depth)
    if file is not None:
        paths = [file]
    else:
        bundle, shown_root = open_bundle(root, limits)
        paths = [Path(shown_root) / entry.fixture for entry in bundle.entries if entry.oracle == _ORACLE]
        if not paths:
            raise click.UsageError(f"the bundle has no entry with the oracle {_ORACLE}; give FILE")
    answers = [
        (
            path.as_posix(),
            *(
                frontier.run_records(path, quality, _number(tolerance), limits)
                if path.is_dir()
                else frontier.run(path, limits)
            ),
        )
        for path in paths
    ]
    drawn = [each for _, sets, _ in answers for each in sets if each.frontier is not None]
    if plot is not None and drawn:
        files.write_atomically(plot, frontier_plot.picture(drawn, picture_format))
    if output_format == "json":
        documents = [render.document(*answer) for answer in answers]
        output.document(json_text(documents[0] if len(documents) == 1 else documents))
    else:
        for answer in answers:
            output.answer(render.text(*answer, output.display()))
    if plot is not None and not drawn:
        output.trouble(f"kvaudit: {plot} was not written: no set of points has a frontier")
    ctx.exit(1 if any(findings for _, _, findings in answers) else 0)


def _number(stated: str) -> Fraction:
    try:
        value = Fraction(stated)
    except (ValueError, ZeroDivisionError):
        value = Fraction(-1)
    if value < 0:
        raise click.BadParameter(f"expected a number of at least zero, found {stated!r}", param_hint="--tolerance")
    return value

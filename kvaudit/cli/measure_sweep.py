"""kvaudit measure sweep and kvaudit measure table: every setting of a plan, and records as tables."""

import functools
import itertools
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvaudit.cli import options, output
from kvaudit.measure.outcomes import MEASURED

if TYPE_CHECKING:
    from kvaudit.measure.sweep import Result, Written
    from kvaudit.model import Document

EXIT_NOT_MEASURED = 1
EXIT_COULD_NOT_RUN = 3
EXIT_INTERRUPTED = 130

TABLES_NAME = "tables.md"


@click.command("sweep", short_help="Measure every setting of a plan; go on where it stopped.")
@click.argument("plan_file", metavar="PLAN.yaml", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--out",
    "folder",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    help=f"Folder of the records, and of {TABLES_NAME}. Finished records in it are not measured again.",
)
@click.option(
    "--engine", type=click.Choice(["local", "ray"]), default="local", show_default=True, help="What measures."
)
@click.option("--ray-address", metavar="ADDRESS", help="The Ray cluster. Default: RAY_ADDRESS, else Ray starts here.")
@click.option("--workers", type=click.IntRange(1), metavar="N", help="CPUs of a Ray that starts here. Default: all.")
@click.option("--retry", is_flag=True, help="Measure again what has a record that says why it was not measured.")
@click.option(
    "--dry-run", is_flag=True, help="Say which records are finished and which are to be measured; write none."
)
@options.output_format("text", "json")
@click.pass_context
def sweep(
    ctx: click.Context,
    plan_file: Path,
    folder: Path,
    engine: str,
    ray_address: str | None,
    workers: int | None,
    retry: bool,
    dry_run: bool,
    output_format: str,
) -> None:
    """Measure every setting of a plan and write one record a file, whatever the outcome.

    Stopped at any time, the same command goes on with what has no finished record. Tables, one a cohort and in the
    order of the plan, are written beside the records. Exit code 0: every setting was measured; 1: some outcomes say why
    not; 3: a setting has no record; 130: interrupted.

    \b
    kvaudit measure sweep fixtures/study/plan.yaml --out study
    kvaudit measure sweep plan.yaml --out records --engine ray --workers 2
    """
    from kvaudit.evidence import canonical, files
    from kvaudit.measure import engines
    from kvaudit.measure import plan as plans
    from kvaudit.measure import sweep as sweeps
    from kvaudit.render import measurements as render
    from kvaudit.suite import measurements

    if engine != "ray" and (ray_address or workers):
        raise click.UsageError("--ray-address and --workers need --engine ray")
    if ray_address and workers:
        raise click.UsageError("--workers is for a Ray that starts here; a cluster has the CPUs that it has")
    plan = plans.read(plan_file)
    if dry_run:
        states = sweeps.planned(plan, folder, retry=retry)
        output.answer("".join(f"{path.name}: {'finished' if done else 'to be measured'}\n" for path, done in states))
        return
    chosen: sweeps.Engine = engines.local
    if engine == "ray":
        chosen = functools.partial(engines.ray_cluster, address=ray_address, workers=workers)
    with output.progress() as show:
        result = sweeps.run(plan, folder, chosen, retry=retry, report=_reporter(len(plan.cells)), progress=show)
    records, _ = measurements.read(each.path for each in result.written)
    if records:
        files.write_atomically(folder / TABLES_NAME, render.markdown(records, plan.title, plan.does_not_show).encode())
    if output_format == "json":
        output.document(canonical.json_text(_summary(result)))
    else:
        counts = Counter(each.outcome for each in result.written)
        outcomes = ", ".join(f"{counts[name]} {name}" for name in sorted(counts)) or "none"
        output.answer(f"{len(result.written)} of {len(plan.cells)} records are finished: {outcomes}\n")
    for failure in result.failed:
        output.trouble(f"kvaudit: no record: {failure}")
    if result.interrupted:
        output.trouble("kvaudit: interrupted; the same command goes on with what is not finished")
        ctx.exit(EXIT_INTERRUPTED)
    if result.failed:
        ctx.exit(EXIT_COULD_NOT_RUN)
    ctx.exit(0 if all(each.outcome in MEASURED for each in result.written) else EXIT_NOT_MEASURED)


@click.command("table", short_help="Show measurement records as tables, one a cohort.")
@click.argument("paths", metavar="RECORD|FOLDER...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--title", default="Measurement records", show_default=True, help="Title of the Markdown page.")
@options.output_format("text", "markdown")
@options.limits
@click.pass_context
def table(
    ctx: click.Context, paths: tuple[Path, ...], title: str, output_format: str, max_bytes: int, max_depth: int
) -> None:
    """Show measurement records as tables, one a cohort, in the order in which they are named.

    In a table every coordinate agrees but policy and budget, which it is about. Nothing is ranked. Of a folder the
    records are shown by file name. Exit code 1: a file is no record.

    \b
    kvaudit measure table reports/study
    """
    from kvaudit.render import check as render_check
    from kvaudit.render import measurements as render
    from kvaudit.suite import measurements

    records, findings = measurements.read(paths, options.to_limits(max_bytes, max_depth))
    if findings:
        output.answer(render_check.findings_text(findings, display=output.display()))
        ctx.exit(1)
    if output_format == "markdown":
        output.document(render.markdown(records, title))
    else:
        output.answer(render.text(records, output.display()))


def _reporter(total: int) -> "Callable[[Written], None]":
    """Return what says on stderr how far a sweep is, a line a record: hours pass, and a log is no terminal."""
    began, count = time.monotonic(), itertools.count(1)

    def report(written: "Written") -> None:
        how = "measured" if written.new else "finished before"
        minutes = (time.monotonic() - began) / 60
        output.trouble(f"[{next(count)}/{total}, {minutes:.1f} min] {written.path.name}: {written.outcome}, {how}")

    return report


def _summary(result: "Result") -> "Document":
    return {
        "schema": "kvaudit.sweep-result/1",
        "records": {
            each.path.name: {"outcome": each.outcome, "reason": each.reason, "measured_now": each.new}
            for each in result.written
        },
        "without_record": list(result.failed),
        "interrupted": result.interrupted,
    }

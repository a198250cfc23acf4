"""kvaudit explain"""

from pathlib import Path

import click

from kvaudit.cli import options, output
from kvaudit.cli.bundle import open_bundle
from kvaudit.reconcile.declarations import declare, parse
from kvaudit.reconcile.explain import explain
from kvaudit.reconcile.subjects import resolve
from kvaudit.render import check as render_check
from kvaudit.render import explain as render


@click.command("explain", short_help="Say whether two results may be compared, and if not, why not.")
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@options.root
@click.option(
    "--declare",
    "declarations",
    multiple=True,
    metavar="FILE.yaml|A:KEY=VALUE",
    help="Supply a coordinate that a document leaves open. Repeatable. It overrides nothing and is marked as yours.",
)
@click.option("--require-comparable", is_flag=True, help="Exit with 1 if no metric of the two may be compared.")
@options.output_format("text", "json", "markdown")
@options.limits
@click.pass_context
def command(
    ctx: click.Context,
    a: str,
    b: str,
    root: Path | None,
    declarations: tuple[str, ...],
    require_comparable: bool,
    output_format: str,
    max_bytes: int,
    max_depth: int,
) -> None:
    """Say whether two results may be compared, and if not, why not.

    A and B are each the id or alias of a report, the id of a policy contract or of a result that a paper reports, the
    name of a measurement record of the bundle, or the path of a JSON document that carries coordinates. Printed are the
    relation, the coordinates side by side, why each difference matters, and the smallest set of changes that would put
    the two into one cohort. Values appear only where they may be compared.

    \b
    kvaudit explain loop2_visibility loop3_cost
    kvaudit explain snapkv pyramidkv
    kvaudit explain mine.json theirs.json --declare B:budget.unit=rows
    """
    limits = options.to_limits(max_bytes, max_depth)
    bundle, shown_root = open_bundle(root, limits)
    stated = parse(declarations, limits)
    loaded = [resolve(name, bundle, shown_root, limits) for name in (a, b)]
    findings = tuple(dict.fromkeys(finding for each in loaded for finding in each.findings))
    if findings:
        if output_format == "json":
            output.document(render.findings_json(findings))
        else:
            output.answer(render_check.findings_text(findings, display=output.display()))
        ctx.exit(1)
    one, other = (each.subject for each in loaded)
    assert one is not None
    assert other is not None
    explanation = explain(*declare(one, other, stated))
    if output_format == "json":
        output.document(render.json(explanation))
    elif output_format == "markdown":
        output.document(render.markdown(explanation))
    else:
        output.answer(render.text(explanation, output.display()))
    ctx.exit(1 if require_comparable and not explanation.relation.comparable_metrics else 0)

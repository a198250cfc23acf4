"""kvaudit measure attention: one decode step over synthetic rows, in several layouts of a cache."""

from fractions import Fraction
from pathlib import Path

import click

from kvaudit.cli import options, output
from kvaudit.measure.layout_names import BACKENDS, LAYOUTS
from kvaudit.model import Document

EXIT_NOT_MEASURED = 1
EXIT_COULD_NOT_RUN = 3


@click.command("attention", short_help="Time one decode step in several layouts of a cache.")
@click.option(
    "--layout",
    "wanted",
    multiple=True,
    type=click.Choice(LAYOUTS),
    help="A layout. Repeatable. Default: all of them.",
)
@click.option("--batch", type=click.IntRange(1), default=1, show_default=True, help="Sequences.")
@click.option("--query-heads", type=click.IntRange(1), default=32, show_default=True, help="Query heads.")
@click.option("--kv-heads", type=click.IntRange(1), default=8, show_default=True, help="K/V heads; divides them.")
@click.option("--head-dimension", type=click.IntRange(2), default=128, show_default=True, help="Channels of a row.")
@click.option("--rows", type=click.IntRange(1), default=4096, show_default=True, help="Rows of each K/V head.")
@click.option(
    "--kept",
    default="1/2",
    show_default=True,
    metavar="FRACTION",
    help="Fraction of all rows that the ragged, padded and tombstone layouts keep.",
)
@click.option(
    "--coded-rows",
    type=click.Choice(["all", "kept"]),
    default="all",
    show_default=True,
    help="Which rows the spherical layout holds.",
)
@click.option("--page-tokens", type=click.IntRange(8), default=64, show_default=True, help="Tokens of a coded page.")
@click.option("--leaf-bits", type=click.IntRange(1, 8), default=4, show_default=True, help="Bits of a leaf angle.")
@click.option("--upper-bits", type=click.IntRange(1, 8), default=4, show_default=True, help="Bits of the others.")
@click.option(
    "--dtype",
    type=click.Choice(["float32", "float64", "bfloat16", "float16"]),
    default="float32",
    show_default=True,
    help="Type of the rows.",
)
@click.option("--device", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True, help="Device.")
@click.option(
    "--backend",
    type=click.Choice(BACKENDS),
    default="auto",
    show_default=True,
    help="auto: triton on CUDA where it is installed and takes the shape, else torch.",
)
@click.option("--threads", type=click.IntRange(1), default=1, show_default=True, help="Threads on the CPU.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the rows.")
@click.option("--repetitions", type=click.IntRange(1), default=30, show_default=True, help="Timed repetitions.")
@click.option("--warm-up", type=click.IntRange(0), default=3, show_default=True, help="Repetitions before those.")
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), help="Write one file a record into this folder."
)
@options.output_format("text", "json")
@click.pass_context
def attention(
    ctx: click.Context,
    wanted: tuple[str, ...],
    batch: int,
    query_heads: int,
    kv_heads: int,
    head_dimension: int,
    rows: int,
    kept: str,
    coded_rows: str,
    page_tokens: int,
    leaf_bits: int,
    upper_bits: int,
    dtype: str,
    device: str,
    backend: str,
    threads: int,
    seed: int,
    repetitions: int,
    warm_up: int,
    out: Path | None,
    output_format: str,
) -> None:
    """Time one decode step of one layer over synthetic rows: dense, ragged, padded, tombstone, spherical codes.

    Each layout's output is first held against attention in float64 over the rows that it holds. Each repetition times
    the step and a copy of as many bytes as the step addresses. Layouts hold different rows: nothing is ranked.

    Exit code 0: all measured; 1: a layout was not, and its record says why; 3: nothing could be measured.

    \b
    kvaudit measure attention --rows 8192 --dtype bfloat16
    kvaudit measure attention --layout dense --layout spherical --device cuda --dtype bfloat16 --out records
    """
    from kvaudit.evidence import canonical, files
    from kvaudit.measure.process import require_packages
    from kvaudit.policies.spherical import is_dimension, is_page, uniform
    from kvaudit.render import measure_attention as render

    fraction = _fraction(kept)
    if query_heads % kv_heads:
        raise click.BadParameter(f"{kv_heads} does not divide {query_heads} query heads", param_hint="--kv-heads")
    layouts = tuple(dict.fromkeys(wanted)) or LAYOUTS
    # The tree exists for powers of two only; without the spherical layout any dimension will do.
    coded = "spherical" in layouts
    if coded and not is_dimension(head_dimension):
        raise click.BadParameter(
            f"{head_dimension} is not a power of two, which the spherical layout needs", param_hint="--head-dimension"
        )
    if not is_page(page_tokens):
        raise click.BadParameter(f"{page_tokens} is not a multiple of 8", param_hint="--page-tokens")
    require_packages()
    from kvaudit.measure import attention_record, decode_step
    from kvaudit.measure.layouts import Coding, Shape

    tree = uniform(head_dimension if coded else 2, leaf_bits, upper_bits)
    request = decode_step.Request(
        shape=Shape(batch, query_heads, kv_heads, head_dimension, rows),
        kept=fraction,
        coding=Coding(tree, page_tokens, kept_only=coded_rows == "kept"),
        dtype=dtype,
        device=device,
        backend=backend,
        seed=seed,
        repetitions=repetitions,
        warm_up=warm_up,
        threads=threads,
    )
    with output.progress() as show:
        measured = list(decode_step.measure(request, layouts, show))
    surroundings = attention_record.described(decode_step.described_device(request))
    records = [canonical.written(attention_record.document(each, request, surroundings)) for each in measured]
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        for record in records:
            files.write_atomically(out / f"{record['id']}.json", canonical.json_text(record).encode())
    if output_format == "json":
        output.document(canonical.json_text(records))
    else:
        output.answer(render.text(records, output.display()))
    _say_what_was_not_measured(records)
    classes = {record["outcome"]["class"] for record in records}
    if attention_record.MEASURED not in classes:
        ctx.exit(EXIT_COULD_NOT_RUN)
    ctx.exit(0 if classes == {attention_record.MEASURED} else EXIT_NOT_MEASURED)


def _say_what_was_not_measured(records: list[Document]) -> None:
    """Say each reason once, with the layouts that it stopped."""
    layouts = dict[tuple[str, str], list[str]]()
    for record in records:
        outcome = record["outcome"]
        if outcome["message"] is not None:
            layouts.setdefault((outcome["class"], outcome["message"]), []).append(record["layout"]["name"])
    for (outcome_class, message), names in layouts.items():
        output.trouble(f"kvaudit: {', '.join(names)}: {outcome_class}: {message}")


def _fraction(stated: str) -> Fraction:
    try:
        value = Fraction(stated)
    except (ValueError, ZeroDivisionError):
        raise click.BadParameter(
            f"expected a number such as 0.5 or 1/2, found {stated!r}", param_hint="--kept"
        ) from None
    if not 0 < value <= 1:
        raise click.BadParameter(f"{stated} is not in (0, 1]", param_hint="--kept")
    return value

"""kvaudit measure: policies on a real checkpoint. Only the child process that measures loads torch."""

from fractions import Fraction
from pathlib import Path

import click

from kvaudit.cli import options, output
from kvaudit.cli.measure_attention import attention
from kvaudit.cli.measure_sweep import sweep, table
from kvaudit.measure.names import POLICY_NAMES
from kvaudit.measure.outcomes import INTERRUPTED, MEASURED, UNMEASURED

EXIT_NOT_MEASURED = 1
EXIT_COULD_NOT_RUN = 3
EXIT_INTERRUPTED = 130

DTYPES = ("float32", "float64", "bfloat16", "float16")
_PLACES = {"inside": "inside_compressed_prompt", "outside": "outside_compressed_prompt"}


@click.group("measure", short_help="Measure policies on a real checkpoint (extra: measure).")
def command() -> None:
    """Measure policies on a real checkpoint, and write records that `kvaudit explain` can hold against each other.

    Needs the extra: pip install 'kvaudit[measure]'.
    """


command.add_command(attention)
command.add_command(sweep)
command.add_command(table)


@command.command("model", short_help="Measure one policy on a checkpoint and a set of prompts.")
@click.option("--model", required=True, metavar="PATH", help="A Hugging Face folder or a .gguf file on this machine.")
@click.option("--policy", required=True, type=click.Choice(POLICY_NAMES), help="The policy.")
@click.option(
    "--param", "parameters", multiple=True, metavar="KEY=VALUE", help="A parameter of the policy. Repeatable."
)
@click.option(
    "--budget", metavar="ROWS|RATIO", help="Rows (256), or the fraction of the prompt that is kept (1/4, 0.25)."
)
@click.option(
    "--budget-unit",
    type=click.Choice(["rows", "fraction_kept"]),
    help="What --budget counts. Without it a whole number is rows and anything else a fraction kept.",
)
@click.option(
    "--budget-scope",
    type=click.Choice(["kv_head", "layer", "model"]),
    default="kv_head",
    show_default=True,
    help="Whose rows: of each K/V head of a layer, of a layer, of the whole model.",
)
@click.option("--prompts", required=True, metavar="FILE.jsonl", help="Prompts, one JSON object a line.")
@click.option("--task", metavar="NAME", help="What the prompts are called. Default: the name of their file.")
@click.option(
    "--question",
    type=click.Choice(list(_PLACES)),
    default="inside",
    show_default=True,
    help="Whether questions are compressed with the prompt or asked of the compressed cache.",
)
@click.option("--decode", "decode_tokens", type=click.IntRange(1), default=32, show_default=True, help="Decode steps.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of what a policy draws.")
@click.option(
    "--dtype",
    type=click.Choice(DTYPES),
    default="float32",
    show_default=True,
    help="Type of weights and rows.",
)
@click.option("--device", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True, help="Device.")
@click.option("--threads", type=click.IntRange(1), default=1, show_default=True, help="Threads on the CPU.")
@click.option("--name", metavar="NAME", help="Public name of the checkpoint. Default: the name of its file or folder.")
@click.option(
    "--tolerance",
    default="0.1",
    show_default=True,
    metavar="NATS",
    help="Largest mean divergence from the full cache at which the outcome is quality-valid.",
)
@click.option("--memory-limit", type=click.IntRange(1), metavar="BYTES", help="Address space of the measuring process.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Write the record to this file.")
@options.output_format("text", "json")
@click.pass_context
def model(
    ctx: click.Context,
    model: str,
    policy: str,
    parameters: tuple[str, ...],
    budget: str | None,
    budget_unit: str | None,
    budget_scope: str,
    prompts: str,
    task: str | None,
    question: str,
    decode_tokens: int,
    seed: int,
    dtype: str,
    device: str,
    threads: int,
    name: str | None,
    tolerance: str,
    memory_limit: int | None,
    out: Path | None,
    output_format: str,
) -> None:
    """Measure one policy on a checkpoint: time, bytes, and quality against the full cache of the same run.

    The record says what was asked and what happened, whatever the outcome. Exit code 0: measured; 1: the outcome says
    why not; 3: nothing could be measured.

    \b
    kvaudit measure model --model SmolLM2.gguf --policy snapkv --budget 1/4 --prompts prompts.jsonl --out record.json
    kvaudit measure model --model folder --policy h2o --budget 256 --param recent_rows=64 --prompts prompts.jsonl
    """
    from kvaudit.evidence import canonical, files
    from kvaudit.measure import process
    from kvaudit.render import measure as render

    request = process.Request(
        model=model,
        prompts=prompts,
        settings=(process.Wanted(policy, _pairs(parameters), _budget(budget, budget_unit, budget_scope), seed),),
        task=task or Path(prompts).stem,
        question=_PLACES[question],
        decode_tokens=decode_tokens,
        dtype=dtype,
        device=device,
        threads=threads,
        name=name,
        tolerance_nats=str(_number("--tolerance", tolerance)),
        memory_limit_bytes=memory_limit,
    )
    with output.progress() as show:
        [record] = process.measure(request, show)
    if out is not None:
        files.write_atomically(out, canonical.json_text(record).encode())
    if output_format == "json":
        output.document(canonical.json_text(record))
    else:
        output.answer(render.text(record, output.display()))
    outcome = record["outcome"]
    if outcome["class"] in MEASURED:
        ctx.exit(0)
    output.trouble(f"kvaudit: {outcome['class']}: {outcome['message']}")
    if outcome["reason"] == INTERRUPTED:
        ctx.exit(EXIT_INTERRUPTED)
    ctx.exit(EXIT_COULD_NOT_RUN if outcome["class"] == UNMEASURED else EXIT_NOT_MEASURED)


@command.command("profile", short_help="Calibrate the profile of heads that the policy headkv needs.")
@click.option("--model", required=True, metavar="PATH", help="A Hugging Face folder or a .gguf file on this machine.")
@click.option("--prompts", required=True, metavar="FILE.jsonl", help="Prompts whose references mark their evidence.")
@click.option(
    "--dtype", type=click.Choice(DTYPES), default="float32", show_default=True, help="Type of weights and rows."
)
@click.option("--device", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True, help="Device.")
@click.option("--name", metavar="NAME", help="Public name of the checkpoint. Default: the name of its file or folder.")
@click.option(
    "--out", required=True, type=click.Path(path_type=Path, dir_okay=False), help="Write the profile to this file."
)
def profile(model: str, prompts: str, dtype: str, device: str, name: str | None, out: Path) -> None:
    """Calibrate how much each K/V head of a checkpoint matters: how it attends to the evidence while it answers.

    Prints the SHA-256 of the profile, which `measure model --policy headkv` wants pinned:

    \b
    kvaudit measure model --policy headkv --param profile=FILE --param profile_sha256=HASH ...
    """
    from kvaudit.evidence import canonical, files
    from kvaudit.measure import process

    process.require_packages()
    document = process.calibrated(Path(model), Path(prompts), dtype=dtype, device=device, name=name)
    data = canonical.json_text(document).encode()
    files.write_atomically(out, data)
    output.answer(f"{canonical.sha256(data)}\n")


def _pairs(stated: tuple[str, ...]) -> dict[str, str]:
    pairs = dict[str, str]()
    for each in stated:
        name, separator, value = each.partition("=")
        if not separator or not name or name in pairs:
            raise click.BadParameter(f"expected KEY=VALUE, each key once, found {each!r}", param_hint="--param")
        pairs[name] = value
    return pairs


def _budget(stated: str | None, unit: str | None, scope: str) -> dict[str, str] | None:
    if stated is None:
        if unit is not None:
            raise click.BadParameter("--budget-unit needs --budget", param_hint="--budget-unit")
        return None
    value = _number("--budget", stated)
    unit = unit or ("rows" if value.denominator == 1 else "fraction_kept")
    if unit == "rows" and value.denominator != 1:
        raise click.BadParameter(f"{stated} is no whole number of rows", param_hint="--budget")
    return {"value": str(value), "unit": unit, "scope": scope}


def _number(option: str, stated: str) -> Fraction:
    try:
        value = Fraction(stated)
    except (ValueError, ZeroDivisionError):
        raise click.BadParameter(
            f"expected a number such as 256, 0.25 or 1/4, found {stated!r}", param_hint=option
        ) from None
    if value < 0:
        raise click.BadParameter(f"{stated} is below zero", param_hint=option)
    return value

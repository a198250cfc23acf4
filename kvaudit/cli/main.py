"""`kvaudit`: the group of commands, the exit codes, and nothing else.

A command is imported when it is called, so that `kvaudit --version` and a mistyped name cost no more than click.
"""

import difflib
import importlib
import sys

import click

import kvaudit
from kvaudit.errors import KvauditError, UsageError

# name -> (module, help section); a loop's command is made from its Loop value in cli/loop.py.
_COMMANDS = {
    "check": ("kvaudit.cli.check", "Evidence"),
    "regenerate": ("kvaudit.cli.regenerate", "Evidence"),
    "digest": ("kvaudit.cli.digest", "Evidence"),
    "init": ("kvaudit.cli.init", "Evidence"),
    "explain": ("kvaudit.cli.explain", "Explanations"),
    "matrix": ("kvaudit.cli.matrix", "Explanations"),
    "frontier": ("kvaudit.cli.frontier", "Explanations"),
    "contracts": ("kvaudit.cli.contracts", "Explanations"),
    "protocol": ("kvaudit.cli.protocol", "Explanations"),
    "rule": ("kvaudit.cli.rule", "Explanations"),
    "measure": ("kvaudit.cli.measure", "Measurement"),
}
_LOOPS_SECTION = "Oracles, one a loop"
# The loops whose command does more than run the oracle.
_LOOP_COMMANDS = {"publication": "kvaudit.cli.publication"}

EXIT_FINDINGS = 1
EXIT_USAGE = 2
EXIT_COULD_NOT_RUN = 3
EXIT_INTERRUPTED = 130


class Commands(click.Group):
    """The commands by section, each imported when it is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        from kvaudit.loops import LOOPS

        return [*_COMMANDS, *(loop.command for loop in LOOPS)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name in _COMMANDS:
            command: click.Command = importlib.import_module(_COMMANDS[cmd_name][0]).command
            return command
        from kvaudit.loops import loop_by_command

        loop = loop_by_command(cmd_name)
        if loop is None:
            return None
        if cmd_name in _LOOP_COMMANDS:
            own: click.Command = importlib.import_module(_LOOP_COMMANDS[cmd_name]).command
            return own
        from kvaudit.cli.loop import loop_command

        return loop_command(loop)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            near = difflib.get_close_matches(args[0], self.list_commands(ctx), n=3)
            hint = f" Did you mean {' or '.join(near)}?" if near else ""
            raise click.UsageError(f"There is no command {args[0]!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            section = _COMMANDS[name][1] if name in _COMMANDS else _LOOPS_SECTION
            if command is not None:
                sections.setdefault(section, []).append((name, command.get_short_help_str(70)))
        for section, rows in sections.items():
            with formatter.section(section):
                formatter.write_dl(rows)


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 as expected, 1 findings, 2 usage, 3 could not run.",
)
@click.version_option(kvaudit.__version__, prog_name="kvaudit")
def cli() -> None:
    """Evidence and audits for KV-cache policies.

    Runs deterministic oracles over JSON fixtures, proves with invalid cases that they bite, and pins every byte.
    Start with `kvaudit check`.
    """


def main() -> None:
    """Run the command line and exit with its code."""
    sys.exit(_run())


def _run() -> int:
    from kvaudit.cli.output import trouble

    try:
        code = cli.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return EXIT_USAGE
    except click.Abort:
        trouble("interrupted")
        return EXIT_INTERRUPTED
    except UsageError as error:
        trouble(f"kvaudit: {error}")
        return EXIT_USAGE
    except KvauditError as error:
        trouble(f"kvaudit: {error}")
        return EXIT_COULD_NOT_RUN
    return code if isinstance(code, int) else 0

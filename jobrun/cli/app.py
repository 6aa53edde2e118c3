"""The group of commands: which there are, and how one is found. Errors are ``invoke``'s.

Commands are imported when they are used, so that ``--help`` costs a list of names only.
"""

from __future__ import annotations

from importlib import import_module

import click

from jobrun.cli.options import nearest_option, settings, shared_options
from jobrun.core.errors import UsageError
from jobrun.core.names import did_you_mean
from jobrun.version import __version__

# Name, module, one line of help: what ``jobrun --help`` shows without importing the module.
COMMANDS: dict[str, tuple[str, str]] = {
    "new": ("jobrun.cli.new", "Write a spec to begin with, that runs as it stands."),
    "run": ("jobrun.cli.run", "Run a job from its spec to the end."),
    "resume": ("jobrun.cli.resume", "Continue a run from its last checkpoint."),
    "sweep": ("jobrun.cli.sweep", "Run a spec at many points of its params."),
    "submit": ("jobrun.cli.submit", "Submit a job to Slurm, put back until it is done."),
    "runs": ("jobrun.cli.runs", "List runs; tag, remove, or find them."),
    "status": ("jobrun.cli.status", "Show how a run stands, from any terminal."),
    "logs": ("jobrun.cli.logs", "Print what the tasks of a run said."),
    "metrics": ("jobrun.cli.metrics", "Show what a run measured."),
    "report": ("jobrun.cli.report", "Make a page about a run, or compare several."),
    "diff": ("jobrun.cli.diff", "Show how two runs differ."),
    "stop": ("jobrun.cli.stop", "Ask a live run to save and end."),
    "fork": ("jobrun.cli.fork", "Start a new run from a checkpoint of another one."),
    "inspect-checkpoint": ("jobrun.cli.inspect_checkpoint", "Show what a checkpoint holds."),
    "test": ("jobrun.cli.smoke", "Run specs as smoke tests, and tell CI the results."),
    "ckpt": ("jobrun.cli.ckpt", "Verify, compare, keep and copy the checkpoints of a run."),
    "prove": ("jobrun.cli.prove", "Kill and resume copies of a run, and compare."),
    "doctor": ("jobrun.cli.doctor", "Look whether this machine is fit for runs."),
    "validate": ("jobrun.cli.validate", "Check specs; nothing is executed."),
    "plan": ("jobrun.cli.plan", "Show what a run would do, in order."),
    "lock": ("jobrun.cli.lock", "Pin the data files of a spec by their digests."),
    "fmt": ("jobrun.cli.fmt", "Put the keys of specs in the usual order."),
    "graph": ("jobrun.cli.graph", "Draw the tasks of a job."),
    "completion": ("jobrun.cli.completion", "Let the shell complete command lines."),
    "schema": ("jobrun.cli.schema", "Print the JSON schema of specs, for editors."),
    "ops": ("jobrun.cli.ops", "List the functions of expressions."),
    "explain": ("jobrun.cli.explain", "Explain an error code, a function, or the language."),
}

EXIT_CODES = """\b
Examples:
  jobrun new kmeans && jobrun run kmeans.yaml
  jobrun resume

\b
Exit codes:
   0  finished                        7  disk, permissions, import, host
   1  a step or a check failed        8  damaged, or not the same
   2  usage                           9  finished, an 'expect' does not hold
   3  the spec is not valid          70  internal error, with a report
   4  no usable checkpoint           75  stopped early, resume continues
   5  refused: not what was run     130  Ctrl-C, resume continues
   6  refused: the run is in use
"""


class CommandGroup(click.Group):
    """The commands, imported on use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of the table: as a person meets them."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, its module imported now."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module = import_module(COMMANDS[cmd_name][0])
        command: click.Command = module.command
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the options in front of the command.

        Raises:
            UsageError: An option is not known.
        """
        with nearest_option(ctx):
            return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command of ``args[0]``.

        Raises:
            UsageError: There is no such command.
        """
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            raise UsageError.of(
                "E400", f"no such command '{args[0]}'", did_you_mean(args[0], COMMANDS)
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The table, without importing a command for its help."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


def _version_option() -> click.Option:
    return click.Option(
        ["-V", "--version"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_print_version,
        help="Show the version and exit.",
    )


def _print_version(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    del parameter
    if value:
        context.obj.print(f"jobrun {__version__}")
        context.exit()


def _without_command(ctx: click.Context) -> None:
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


group = CommandGroup(
    "jobrun",
    help="Run long iterative numeric jobs from a YAML spec. Kill a run at any instant, resume "
    "it, and the result is bit for bit that of an unbroken run.",
    epilog=EXIT_CODES,
    params=[_version_option(), *shared_options()],
    context_settings=settings(),
    no_args_is_help=False,
    invoke_without_command=True,
    callback=click.pass_context(_without_command),
    subcommand_metavar="COMMAND [ARGUMENTS]...",
)

"""Define the table of commands, each imported only when it is used, and groups of subcommands.

Commands are imported when they are used, so that ``--help`` costs a list of names only.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

import click

from jobrun.cli.options import context_settings, shared_options, suggesting_nearest_option
from jobrun.core.errors import UsageError
from jobrun.core.text.names import did_you_mean, nearest
from jobrun.version import __version__

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# By heading: name, module, one line of help, which ``jobrun --help`` shows without importing the
# module. In the order in which a user meets them.
COMMAND_GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "Start": {
        "new": ("jobrun.cli.specs.new", "Create a spec from a template."),
        "run": ("jobrun.cli.jobs.run", "Run a job from its spec to the end."),
        "resume": ("jobrun.cli.jobs.resume", "Continue a run from its last checkpoint."),
        "fork": ("jobrun.cli.jobs.fork", "Start a new run from a checkpoint of another run."),
        "sweep": ("jobrun.cli.jobs.sweep", "Run a spec for many values of its params."),
        "submit": (
            "jobrun.cli.jobs.submit",
            "Submit a job to Slurm and requeue it until it finishes.",
        ),
        "stop": ("jobrun.cli.jobs.stop", "Ask a live run to save and stop."),
    },
    "Watch": {
        "status": ("jobrun.cli.runs.status", "Show the status of a run."),
        "runs": (
            "jobrun.cli.runs.runs",
            "List runs with params and metrics; tag or remove them.",
        ),
        "logs": ("jobrun.cli.runs.logs", "Print the log output of a run's tasks."),
        "metrics": ("jobrun.cli.runs.metrics", "Show the metrics of a run."),
    },
    "Compare": {
        "report": ("jobrun.cli.runs.report", "Write an HTML report about one run or several."),
        "diff": ("jobrun.cli.runs.diff", "Show how two runs differ."),
        "prove": ("jobrun.cli.jobs.prove", "Kill and resume copies of a run; compare results."),
        "test": ("jobrun.cli.jobs.test_specs", "Run specs as smoke tests, with reports for CI."),
    },
    "Checkpoints": {
        "inspect-checkpoint": (
            "jobrun.cli.runs.inspect_checkpoint",
            "Show the contents of a checkpoint.",
        ),
        "ckpt": ("jobrun.cli.runs.ckpt", "List, verify, compare and copy checkpoints."),
    },
    "Specs": {
        "validate": ("jobrun.cli.specs.validate", "Check specs; nothing is executed."),
        "plan": ("jobrun.cli.specs.plan", "Show what a run would do, in order."),
        "graph": ("jobrun.cli.specs.graph", "Draw the tasks of a job."),
        "lock": ("jobrun.cli.specs.lock", "Pin the data files of a spec by their digests."),
        "fmt": ("jobrun.cli.specs.fmt", "Format specs (usual order of keys)."),
        "schema": ("jobrun.cli.specs.schema", "Print the JSON schema of specs, for editors."),
        "ops": ("jobrun.cli.specs.ops", "List the functions of expressions."),
        "explain": (
            "jobrun.cli.specs.explain",
            "Show the manual, or explain a code, key or function.",
        ),
    },
    "Machine": {
        "doctor": ("jobrun.cli.runs.doctor", "Check that this machine can run jobs."),
        "completion": ("jobrun.cli.completion_script", "Print the completion script of a shell."),
    },
}
COMMANDS = {name: entry for group in COMMAND_GROUPS.values() for name, entry in group.items()}

# Names of the commands in other programs.
_OTHER_NAMES = {
    "cancel": "stop", "check": "validate", "checkpoint": "ckpt", "checkpoints": "ckpt",
    "compare": "diff", "continue": "resume", "create": "new", "delete": "runs remove",
    "docs": "explain", "init": "new", "kill": "stop", "list": "runs", "log": "logs", "ls": "runs",
    "manual": "explain", "plot": "metrics --plot", "ps": "runs", "remove": "runs remove",
    "restart": "resume", "rm": "runs remove", "show": "inspect-checkpoint", "start": "run",
    "tail": "logs --follow", "template": "new", "templates": "new --list", "version": "--version",
}  # fmt: skip

EXIT_CODES = """\b
Examples:
  jobrun new script && jobrun run script.yaml
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
    """The top-level group of commands, imported on use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List the names of the app's commands, in the order in which its help shows them."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the app's command called ``cmd_name``; None if there is none."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module = import_module(COMMANDS[cmd_name][0])
        command: click.Command = module.command
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """List the commands and options of the app ``jobrun`` that start with a given word."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - at a tab only

        items = [
            CompletionItem(name, help=text)
            for name, (_, text) in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return [*items, *click.Command.shell_complete(self, ctx, incomplete)]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the options of the app ``jobrun`` that come before the command.

        Raises:
            UsageError: An option is not known.
        """
        with suggesting_nearest_option(ctx):
            return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the app's command named ``args[0]``; else raise an error that suggests another.

        Raises:
            UsageError: There is no such command.
        """
        if args[0] == "help":
            # 'help ckpt list' is 'ckpt list --help'; without a name, the help of jobrun.
            args = [*args[1:], "--help"]
            if len(args) == 1:
                click.echo(ctx.get_help())
                ctx.exit()
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            raise UsageError.of("E400", f"unknown command '{args[0]}'", _suggest_command(args[0]))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of the app's commands into its help, without importing any of them."""
        del ctx
        widest = max(map(len, COMMANDS))
        for heading, commands in COMMAND_GROUPS.items():
            formatter.write(f"\n{heading}:\n")
            rows = [(name.ljust(widest), text) for name, (_, text) in commands.items()]
            with formatter.indentation():
                formatter.write_dl(rows)


def _suggest_command(word: str) -> str:
    """Suggest a command for an unknown word: ``run`` for a spec, a synonym, the nearest name."""
    if word.endswith((".yaml", ".yml")):
        return f"did you mean 'jobrun run {word}'?"
    if (other := _OTHER_NAMES.get(word)) is not None:
        return f"did you mean 'jobrun {other}'?"
    match = nearest(word, COMMANDS)
    return f"did you mean '{match}'?" if match else "'jobrun --help' lists the commands"


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
    "it, and the result is bit for bit that of an uninterrupted run.",
    epilog=EXIT_CODES,
    params=[_version_option(), *shared_options()],
    context_settings=context_settings(),
    no_args_is_help=False,
    invoke_without_command=True,
    callback=click.pass_context(_without_command),
    subcommand_metavar="COMMAND [ARGUMENTS]...",
)


class SubcommandGroup(click.Group):
    """A group of subcommands; ``default`` is the one used where none is named.

    Args:
        name: The group's.
        help: Of the group.
        default: The command that is used without a name; empty for none.
        examples: Command lines to show.
    """

    def __init__(
        self,
        name: str,
        help: str,  # noqa: A002
        default: str = "",
        examples: Sequence[str] = (),
    ) -> None:
        super().__init__(
            name,
            help=help,
            context_settings=context_settings(),
            no_args_is_help=not default,
            epilog="\n  ".join(["\b\nExamples:", *examples]) if examples else None,
            params=shared_options(),
            subcommand_metavar="COMMAND [ARGUMENTS]...",
        )
        self._default = default

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List the subcommands of a command group of the app, in the order of their definition."""
        del ctx
        return list(self.commands)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words after a command group of the app, and insert its default subcommand.

        Raises:
            UsageError: An option is not known.
        """
        if self._default and not {"-h", "--help"} & set(args[:1]):
            named = next((word for word in args if not word.startswith("-")), "")
            if named not in self.commands:
                other = _OTHER_NAMES.get(named, "").rpartition(" ")[2]
                if other in self.commands and args[-1] != named:
                    mend = f"did you mean '{ctx.command_path} {other}'?"
                    message = f"unknown command '{ctx.command_path} {named}'"
                    raise UsageError.of("E400", message, mend)
                args = [self._default, *args]
        with suggesting_nearest_option(ctx):
            return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the app's subcommand named ``args[0]``, such as ``list`` of ``ckpt list``.

        Raises:
            UsageError: There is no such command.
        """
        if args[0] not in self.commands:
            raise UsageError.of(
                "E400",
                f"unknown command '{ctx.command_path} {args[0]}'",
                did_you_mean(args[0], self.commands),
            )
        return super().resolve_command(ctx, args)

"""Define the options that commands share, each also set by a variable ``JOBRUN_<OPTION>``.

Also load and compile the spec that such options name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from jobrun.cli.completion_candidates import SETTING
from jobrun.cli.terminal import Shell
from jobrun.core.errors import UsageError
from jobrun.core.text.names import did_you_mean, nearest

if TYPE_CHECKING:
    from jobrun.api import Prepared

Function = TypeVar("Function", bound=Callable[..., Any])
Decorator = Callable[[Function], Function]

# Width of the column of option names; a longer one has a line of its own.
_MOST_COLUMNS = 27
# Group a command's options in its help if it has at least this many.
_MANY_OPTIONS = 16
_OPTION_GROUPS = {
    "Spec": ("--set", "--values", "--spec", "--run-dir", "--trust-dir"),
    "Continue": (
        "--resume", "--epoch", "--accept-drift", "--strict", "--allow-lost", "--dry-run", "--blobs"
    ),
    "Limits and nodes": (
        "--epochs", "--max-epochs", "--time", "--grace", "--stop-signal", "--session",
        "--max-failures", "--map",
    ),
    "Output": (),
}  # fmt: skip
_SHARED_ROW = ("--debug, --no-color, --help", "Tracebacks; no colours, as NO_COLOR; this text.")


class RepeatableText(click.types.StringParamType):
    """A parameter type for repeatable text; an environment variable holds one value per line."""

    name = "text"
    envvar_list_splitter = "\n"


if TYPE_CHECKING:
    _SecondsType = click.ParamType[float]
else:
    # It is generic for type checkers only, in the oldest click that is allowed.
    _SecondsType = click.ParamType


class Duration(_SecondsType):
    """A parameter type for durations with a unit, such as ``90s`` or ``2h``, in seconds."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Convert an option's duration, such as ``90s``, to seconds.

        Raises:
            click.BadParameter: It has no unit, or is no number.
        """
        if isinstance(value, float):
            return value
        from jobrun.core.text.units import parse_span  # noqa: PLC0415 - of options that were given

        seconds = parse_span(str(value))
        if not seconds:
            self.fail(f"'{value}' is not a duration such as 90s, 30m, 2h or 1d", param, ctx)
        return seconds


class OneOf(click.Choice):  # type: ignore[type-arg]  # generic in newer releases of click only
    """A parameter type for one of several words, which suggests the nearest to a mistyped one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Convert an option's text to a permitted word; else suggest the nearest in the error.

        Raises:
            click.BadParameter: It is none of them.
        """
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            near = nearest(str(value), map(str, self.choices))
            if near is None:
                raise
            self.fail(f"{error.message.rstrip('.')}: did you mean '{near}'?", param, ctx)


class Command(click.Command):
    """A command with the shared options, which suggests the nearest option to a mistyped one."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs["context_settings"] = context_settings() | dict(kwargs.get("context_settings") or {})
        super().__init__(*args, **kwargs)
        # Click keeps the lines of a paragraph behind this character, which a docstring that
        # follows the rules can only hold as two.
        self.help = (self.help or "").replace("\\b\n", "\b\n")
        self.params.extend(shared_options())

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a command's options into its help, those of every command in a single line."""
        shared = {"--debug", "--no-color", "--help"}
        command_options = [
            param
            for param in self.get_params(ctx)
            if isinstance(param, click.Option) and not shared & set(param.opts)
        ]
        groups: dict[str, list[tuple[str, str]]] = {}
        is_long = len(command_options) >= _MANY_OPTIONS
        for param in command_options:
            row = param.get_help_record(ctx)
            if row is not None:
                heading = _heading(param) if is_long else "Options"
                groups.setdefault(heading, []).append(row)
        last = "Output" if is_long else "Options"
        groups.setdefault(last, []).append(_SHARED_ROW)
        formatter.write("\n")
        # In one block, so that the second columns of all groups are aligned.
        with formatter.indentation():
            for heading in filter(groups.__contains__, (*_OPTION_GROUPS, "Options")):
                formatter.write(f"{heading}:\n")
                formatter.write_dl(
                    [(name.ljust(_MOST_COLUMNS), text) for name, text in groups[heading]],
                    col_max=_MOST_COLUMNS,
                )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the options given to a command, and suggest the nearest one to an unknown option.

        Raises:
            UsageError: An option is not known.
        """
        try:
            with suggesting_nearest_option(ctx):
                return super().parse_args(ctx, args)
        except click.UsageError as error:
            # Click does not say it of an option without its value.
            error.ctx = error.ctx or ctx
            raise


def _heading(param: click.Option) -> str:
    """Return the heading, such as 'Output', under which a command's help lists an option."""
    for heading, names in _OPTION_GROUPS.items():
        if not set(names).isdisjoint(param.opts):
            return heading
    return "Output"


@contextmanager
def suggesting_nearest_option(context: click.Context) -> Iterator[None]:
    """Replace Click's error about an unknown option by one that suggests the nearest option.

    Raises:
        UsageError: An option is not known.
    """
    try:
        yield
    except click.NoSuchOption as error:
        params = context.command.params
        known = [name for param in params for name in param.opts if name.startswith("--")]
        mend = did_you_mean(error.option_name, [*known, "--help"])
        word = error.option_name.removeprefix("--")
        if "--set" in known and word.isidentifier():
            setting = f"a param or key of the spec is set with --set {word}=VALUE"
            mend = setting if "'--set'" in mend else f"{mend}  {setting}"
        raise UsageError.of(
            "E401", f"'{context.command_path}' has no option '{error.option_name}'", mend
        ) from error


def option(*names: str, **settings_: Any) -> Decorator[Any]:
    """Declare an option that can also be set by an environment variable, named in the help."""
    long = next(name for name in names if name.startswith("--"))
    variable = "JOBRUN_" + long[2:].split("/")[0].replace("-", "_").upper()
    return click.option(*names, **({"envvar": variable} | settings_))


def context_settings() -> dict[str, Any]:
    """Build click's context settings for options: ``-h`` for ``--help``, and the help's width."""
    return {"help_option_names": ["-h", "--help"], "max_content_width": 100}


def shared_options() -> list[click.Parameter]:
    """Build the options ``--debug``, ``--no-color`` and ``--help``, which every command accepts."""
    return [
        click.Option(
            ["--debug"],
            is_flag=True,
            expose_value=False,
            envvar="JOBRUN_DEBUG",
            callback=_set_debug,
            help="Show tracebacks.",
        ),
        click.Option(
            ["--no-color"],
            is_flag=True,
            expose_value=False,
            envvar="JOBRUN_NO_COLOR",
            callback=_set_plain,
            help="No colours; same as NO_COLOR.",
        ),
        # Click's own one looks for a translation of its help, for which it imports locales.
        click.Option(
            ["-h", "--help"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_show_help,
            help="Show this message and exit.",
        ),
    ]


def _show_help(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    del parameter
    if value and not context.resilient_parsing:
        click.echo(context.get_help(), color=context.color)
        context.exit()


def value_options(function: Function) -> Function:
    """Add the options ``--values`` and ``--set``, which override a spec, to a command."""
    for decorate in (
        option(
            "-f",
            "--values",
            type=RepeatableText(),
            multiple=True,
            metavar="FILE",
            help="Merge a YAML file over the spec; later wins.",
        ),
        option(
            "-s",
            "--set",
            "overrides",
            type=RepeatableText(),
            multiple=True,
            metavar="PATH=VALUE",
            envvar="JOBRUN_SET",
            help="Set one value, such as params.k=12.",
            shell_complete=SETTING.shell_complete,
        ),
    ):
        function = decorate(function)
    return function


def run_dir_option(function: Function) -> Function:
    """Add the option ``--run-dir``, the directory of all runs, to a command."""
    decorated: Function = option(
        "--run-dir", default="runs", show_default=True, metavar="DIR", help="Directory of runs."
    )(function)
    return decorated


def json_option(function: Function) -> Function:
    """Add the option ``--json``, for machine-readable output, to a command."""
    decorated: Function = option(
        "--json", "as_json", is_flag=True, envvar="JOBRUN_JSON", help="Print JSON."
    )(function)
    return decorated


def choose_form(output_format: str, *, as_json: bool) -> str:
    """Return a command's output format, as the option ``--format`` or ``--json`` gives it.

    Raises:
        UsageError: E404, both are given and differ.
    """
    if as_json and output_format not in ("text", "json"):
        raise UsageError.of(
            "E404", f"--json and --format {output_format} exclude each other", "choose one"
        )
    return "json" if as_json else output_format


def log_format_option() -> Decorator[Any]:
    """Declare the option ``--log-format``, the format of events and errors on stderr."""
    return option(
        "--log-format",
        type=OneOf(["text", "json", "github"]),
        default="text",
        show_default=True,
        is_eager=True,
        expose_value=False,
        callback=_set_log_format,
        metavar="FORM",
        help="text, json (lines) or github.",
    )


def _set_log_format(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    del parameter
    context.obj.log_format = value


def _set_debug(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    del parameter
    shell: Shell = context.obj
    shell.debug = shell.debug or value


def _set_plain(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    del parameter
    shell: Shell = context.obj
    shell.plain = shell.plain or value


def override_texts(overrides: Sequence[str]) -> dict[str, str]:
    """Name the texts of options ``--set`` for error messages: ``--set #1`` and so on."""
    return {f"--set #{number}": text for number, text in enumerate(overrides, 1)}


def prepare(spec: str, values: Sequence[str] = (), overrides: Sequence[str] = ()) -> Prepared:
    """Load and compile the spec that a command line names, with its ``--values`` and ``--set``.

    Raises:
        SpecError: It is not valid or does not compile; with all faults of the first stage
            that finds any.
        UsageError: An override is not ``PATH=VALUE``.
    """
    # Imported late: neither --help nor a shell's completion of an option needs it.
    from jobrun import api  # noqa: PLC0415

    return api.prepare(api.load(spec, values=values, overrides=overrides))

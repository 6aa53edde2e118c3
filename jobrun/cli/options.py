"""The options that commands share, each also an environment variable ``JOBRUN_<OPTION>``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from jobrun.cli.completing import SETTING
from jobrun.cli.shell import Shell
from jobrun.core.errors import UsageError
from jobrun.core.names import did_you_mean

Function = TypeVar("Function", bound=Callable[..., Any])
Decorator = Callable[[Function], Function]

# Of the names of options; a longer one has a line of its own.
_MOST_COLUMNS = 27
_SHARED_ROW = ("--debug, --no-color, --help", "Tracebacks; no colours, as NO_COLOR; this text.")


class Lines(click.types.StringParamType):
    """Text; in an environment variable several stand on lines of their own."""

    name = "text"
    envvar_list_splitter = "\n"


class Command(click.Command):
    """A command with the shared options and the house's answer to a mistyped option."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs["context_settings"] = settings() | dict(kwargs.get("context_settings") or {})
        super().__init__(*args, **kwargs)
        # Click keeps the lines of a paragraph behind this character, which a docstring that
        # follows the rules can only hold as two.
        self.help = (self.help or "").replace("\\b\n", "\b\n")
        self.params.extend(shared_options())

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options; those that every command has share a line."""
        shared = {"--debug", "--no-color", "--help"}
        own = [
            param
            for param in self.get_params(ctx)
            if isinstance(param, click.Option) and not shared & set(param.opts)
        ]
        rows = [row for param in own if (row := param.get_help_record(ctx)) is not None]
        with formatter.section("Options"):
            formatter.write_dl([*rows, _SHARED_ROW], col_max=_MOST_COLUMNS)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse, with the nearest option in the error for an unknown one.

        Raises:
            UsageError: An option is not known.
        """
        try:
            with nearest_option(ctx):
                return super().parse_args(ctx, args)
        except click.UsageError as error:
            # Click does not say it of an option without its value.
            error.ctx = error.ctx or ctx
            raise


@contextmanager
def nearest_option(context: click.Context) -> Iterator[None]:
    """Turn click's error for an unknown option into ours.

    Raises:
        UsageError: An option is not known.
    """
    try:
        yield
    except click.NoSuchOption as error:
        params = context.command.params
        known = [name for param in params for name in param.opts if name.startswith("--")]
        raise UsageError.of(
            "E401",
            f"'{context.command_path}' has no option '{error.option_name}'",
            did_you_mean(error.option_name, [*known, "--help"]),
        ) from error


def option(*names: str, **settings_: Any) -> Decorator[Any]:
    """``click.option``, readable from the environment too and shown so in the help."""
    long = next(name for name in names if name.startswith("--"))
    variable = "JOBRUN_" + long[2:].split("/")[0].replace("-", "_").upper()
    return click.option(*names, **({"envvar": variable} | settings_))


def settings() -> dict[str, Any]:
    """How click reads and prints: ``-h`` too, and lines that fit a terminal."""
    return {"help_option_names": ["-h", "--help"], "max_content_width": 100}


def shared_options() -> list[click.Parameter]:
    """``--debug`` and ``--no-color``, which every command takes in every place."""
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
            help="No colours; so does NO_COLOR.",
        ),
    ]


def value_options(function: Function) -> Function:
    """``--values`` and ``--set``: values on top of the spec's."""
    for decorate in (
        option(
            "-f", "--values", type=Lines(), multiple=True, metavar="FILE",
            help="Merge a YAML file over the spec; later wins.",
        ),
        option(
            "-s", "--set", "overrides", type=Lines(), multiple=True, metavar="PATH=VALUE",
            envvar="JOBRUN_SET", help="Set one value, such as params.k=12.",
            shell_complete=SETTING.shell_complete,
        ),
    ):  # fmt: skip
        function = decorate(function)
    return function


def run_dir_option(function: Function) -> Function:
    """``--run-dir``: where runs live."""
    decorated: Function = option(
        "--run-dir", default="runs", show_default=True, metavar="DIR", help="Where runs live."
    )(function)
    return decorated


def json_option(function: Function) -> Function:
    """``--json``: the machine's form of what a command shows."""
    decorated: Function = option(
        "--json", "as_json", is_flag=True, envvar="JOBRUN_JSON", help="Print JSON."
    )(function)
    return decorated


def log_format_option() -> Decorator[Any]:
    """``--log-format``: how events and faults are said on stderr."""
    return option(
        "--log-format", type=click.Choice(["text", "json", "github"]), default="text",
        show_default=True, is_eager=True, expose_value=False, callback=_set_log_format,
        metavar="FORM", help="text, json (a line for each event) or github (annotations).",
    )  # fmt: skip


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

"""Define the options shared by commands that execute jobs, such as ``run`` and ``fork``."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from jobrun.cli.options import Duration, RepeatableText, log_format_option, option
from jobrun.cli.terminal import Shell
from jobrun.core.errors import UsageError
from jobrun.core.notify_target import NotifyTarget, parse_targets
from jobrun.core.resource_usage import process_start
from jobrun.runner.options import RunOptions

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Function = TypeVar("Function", bound=Callable[..., Any])

_EPOCHS = click.IntRange(min=1)


class SessionKind(click.types.StringParamType):
    """A parameter type for sessions: ``threads``, ``processes``, ``ray`` or ``ray:ADDRESS``."""

    name = "session"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Complete the value of the run option ``--session`` with the kinds of sessions."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - at a tab only

        del ctx, param
        known = ("threads", "processes", "ray", "ray:auto")
        return [CompletionItem(kind) for kind in known if kind.startswith(incomplete)]

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Validate the value of the run option ``--session``; return it.

        Raises:
            click.BadParameter: There is no such session, or the address is none.
        """
        kind, colon, address = str(value).partition(":")
        if kind == "ray" and (not colon or re.fullmatch(r"auto|[^:\s]+:\d+", address)):
            return str(value)
        if kind == "ray":
            self.fail(f"'{address}' is not an address: ray:auto or ray:HOST:PORT", param, ctx)
        if value not in ("threads", "processes"):
            self.fail(f"'{value}' is not one of: threads, processes, ray, ray:ADDRESS", param, ctx)
        return str(value)


class StopSignals(click.types.StringParamType):
    """A parameter type for signals, such as ``QUIT`` or ``TSTP,RTMIN+3``."""

    name = "signal"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Validate the value of the run option ``--stop-signal``; return it.

        Raises:
            click.BadParameter: It is no signal, or one that cannot mean this.
        """
        # Imported late: completing a command line does not need it.
        from jobrun.core.stop_signals import parse_stop_signal  # noqa: PLC0415

        for name in str(value).split(","):
            try:
                parse_stop_signal(name)
            except ValueError:
                self.fail(
                    f"'{name}' is not a signal that can mean to save and stop, such as QUIT, TSTP "
                    "or RTMIN+3",
                    param,
                    ctx,
                )
        return str(value)


def _export_stop_signals(
    context: click.Context, parameter: click.Parameter, names: tuple[str, ...]
) -> None:
    """Set the environment variable of ``--stop-signal``, where no supervisor has set it."""
    del context
    if names:
        os.environ[str(parameter.envvar)] = ",".join(names)


def limit_options(function: Function) -> Function:
    """Add the shared options of limits and output, such as ``--epochs``, to a command."""
    for decorate in reversed(
        (
            option("--epochs", type=_EPOCHS, metavar="N", help="Finish after N epochs in total."),
            option(
                "--max-epochs",
                type=_EPOCHS,
                metavar="N",
                help="Run at most N epochs; exit code 75.",
            ),
            option(
                "--time",
                "time_s",
                type=Duration(),
                metavar="2h",
                help="Stop after this time (exit code 75).",
            ),
            option(
                "--grace",
                "grace_s",
                type=Duration(),
                default="25s",
                show_default=True,
                metavar="25s",
                help="Grace period after a signal.",
            ),
            option(
                "--stop-signal",
                type=StopSignals(),
                multiple=True,
                metavar="NAME",
                envvar="JOBRUN_STOP_SIGNAL",
                expose_value=False,
                callback=_export_stop_signals,
                help="A further signal to save at, such as QUIT.",
            ),
            option(
                "--trust-dir",
                "trust",
                is_flag=True,
                help="Accept a directory that others can write to.",
            ),
            session_options,
            option(
                "--map",
                "places",
                type=RepeatableText(),
                multiple=True,
                metavar="NODE=NODE",
                help="Run the first node in place of the second.",
            ),
            option("-q", "--quiet", is_flag=True, help="Print only warnings and errors."),
            option("-v", "--verbose", is_flag=True, help="Print every epoch, task and save."),
            option("--profile", is_flag=True, help="Show the time per step; write a trace."),
            option(
                "--notify",
                type=RepeatableText(),
                multiple=True,
                metavar="URL|CMD",
                help="Send news of the run there; repeatable.",
            ),
            option(
                "--listener",
                "listeners",
                type=RepeatableText(),
                multiple=True,
                metavar="NAME",
                help="Send metrics to tensorboard, mlflow …",
            ),
            log_format_option(),
            option("--json", "as_json", is_flag=True, help="Print the result as JSON."),
        )
    ):
        function = decorate(function)
    return function


def session_options(function: Function) -> Function:
    """Add the shared options ``--session`` and ``--max-failures`` to a command that runs jobs."""
    for decorate in reversed(
        (
            option(
                "--session",
                type=SessionKind(),
                default="threads",
                metavar="KIND",
                help="threads (default), processes or ray[:ADDRESS].",
            ),
            option(
                "--max-failures",
                type=click.IntRange(min=0),
                default=3,
                show_default=True,
                metavar="N",
                help="Give up after N lost nodes.",
            ),
        )
    ):
        function = decorate(function)
    return function


def session_arguments(options: Mapping[str, Any]) -> list[str]:
    """Build the arguments ``--session`` and ``--max-failures`` of runs that a command starts."""
    return ["--session", options["session"], "--max-failures", str(options["max_failures"])]


strict_option = option("--strict", is_flag=True, help="Refuse any change, also of versions.")


def drift_options(function: Function) -> Function:
    """Add the options ``--accept-drift``, ``--strict`` and ``--allow-lost`` to a command."""
    for decorate in reversed(
        (
            option(
                "--accept-drift",
                "accept",
                type=RepeatableText(),
                multiple=True,
                metavar="FIELD",
                help="Accept a change of FIELD; repeatable.",
            ),
            strict_option,
            option("--allow-lost", is_flag=True, help="Continue if the newest epoch is missing."),
        )
    ):
        function = decorate(function)
    return function


def spec_arguments(
    spec: str | None, values: tuple[str, ...], overrides: tuple[str, ...]
) -> tuple[str, ...]:
    """Build command-line arguments from the run options ``--spec``, ``--values`` and ``--set``."""
    words = ["--spec", spec] if spec else []
    for name, texts in (("--values", values), ("--set", overrides)):
        words += [word for text in texts for word in (name, text)]
    return tuple(words)


def _notify_targets(texts: tuple[str, ...]) -> tuple[NotifyTarget, ...]:
    """Parse the values of the run option ``--notify``: URLs, or commands to start.

    Raises:
        UsageError: E223, one is neither a URL nor a command.
    """
    try:
        return parse_targets(texts)
    except ValueError as error:
        raise UsageError.of(
            "E223", str(error), "write --notify https://ntfy.sh/my-topic, or --notify 'mail -s …'"
        ) from error


def build_run_options(run_dir: Path, limits: Mapping[str, Any], shell: Shell) -> RunOptions:
    """Convert the run options given on a command line to the runner's ``RunOptions``."""
    shared = shell.shared

    def restart(hash_seed: str) -> NoReturn:
        if shared is not None:
            shared.write("hash", hash_seed)
        raise click.exceptions.Exit(0)

    return RunOptions(
        run_dir=run_dir,
        session=limits["session"],
        epochs=limits["epochs"] or 0,
        max_epochs=limits["max_epochs"] or 0,
        time_s=limits["time_s"] or 0.0,
        grace_s=limits.get("grace_s", 25.0),
        epoch=limits.get("epoch"),
        strict=limits.get("strict", False),
        accept=limits.get("accept", ()),
        allow_lost=limits.get("allow_lost", False),
        trust=limits.get("trust", False),
        max_failures=limits.get("max_failures", 3),
        places=tuple(limits.get("places", ())),
        given=limits.get("given", ()),
        notify=_notify_targets(limits.get("notify", ())),
        listeners=tuple(limits.get("listeners", ())),
        keep=shared.keep if shared is not None else None,
        restart=restart if shared is not None and shared.can_start_again else None,
        # A supervised command began with its parent; without one, what runs now may be long-lived.
        started=process_start(os.getppid()) if shared is not None else time.monotonic(),
    )

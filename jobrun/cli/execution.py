"""What ``run`` and ``resume`` share: limits, verbosity, progress, and the last words."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from jobrun.cli.ending import both, noting
from jobrun.cli.options import Lines, log_format_option, option
from jobrun.cli.profiled import profiled
from jobrun.cli.progress import as_document, progress_of, tell_end, what_is_kept
from jobrun.cli.shell import Shell
from jobrun.cli.tally import Tally
from jobrun.core.events import Listener
from jobrun.runner.settings import RunOptions, RunResult

Function = TypeVar("Function", bound=Callable[..., Any])
Act = Callable[[RunOptions, Listener], RunResult]

_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_EPOCHS = click.IntRange(min=1)


if TYPE_CHECKING:
    _SecondsType = click.ParamType[float]
else:
    # It is generic for type checkers only, in the oldest click that is allowed.
    _SecondsType = click.ParamType


class Duration(_SecondsType):
    """A span of time with its unit, such as ``90s`` or ``2h``; in seconds."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Seconds.

        Raises:
            click.BadParameter: It has no unit, or is no number.
        """
        if isinstance(value, float):
            return value
        match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", str(value))
        if match is None or float(match[1]) == 0:
            self.fail(f"'{value}' is not a duration such as 90s, 30m, 2h or 1d", param, ctx)
        return float(match[1]) * _UNITS_S[match[2]]


class SessionKind(click.types.StringParamType):
    """``threads``, ``processes``, or ``ray`` with or without the address of a cluster."""

    name = "session"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """The sessions; an address is the user's matter."""
        del ctx, param
        known = ("threads", "processes", "ray", "ray:auto")
        return [CompletionItem(one) for one in known if one.startswith(incomplete)]

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text as it is.

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


def limit_options(function: Function) -> Function:
    """The options that are alike in both commands."""
    for decorate in reversed(
        (
            option("--epochs", type=_EPOCHS, metavar="N",
                   help="Finish when N epochs have run in all."),
            option("--max-epochs", type=_EPOCHS, metavar="N",
                   help="Run at most N epochs now; exit with 75."),
            option("--time", "time_s", type=Duration(), metavar="2h",
                   help="Run at most so long now; exit with 75."),
            option("--grace", "grace_s", type=Duration(), default="25s", show_default=True,
                   metavar="25s",
                   help="To end an epoch after a signal."),
            option("--trust-dir", "trust", is_flag=True,
                   help="Use a run directory that others may write into."),
            session_options,
            option("--map", "places", type=Lines(), multiple=True, metavar="NODE=NODE",
                   help="The first runs in the place of the second."),
            option("-q", "--quiet", is_flag=True, help="Say warnings and errors only."),
            option("-v", "--verbose", is_flag=True, help="Say every epoch, task and save."),
            option("--profile", is_flag=True,
                   help="Show where the time goes; write a trace."),
            log_format_option(),
            option("--json", "as_json", is_flag=True, help="Print how it ended as JSON."),
        )
    ):  # fmt: skip
        function = decorate(function)
    return function


def session_options(function: Function) -> Function:
    """Where nodes run, and how many losses of them are borne."""
    for decorate in reversed(
        (
            option("--session", type=SessionKind(), default="threads", show_default=True,
                   metavar="KIND", help="Nodes: threads, processes or ray[:ADDRESS]."),
            option("--max-failures", type=click.IntRange(min=0), default=3, show_default=True,
                   metavar="N",
                   help="Losses of nodes to go on after, until one more epoch is saved."),
        )
    ):  # fmt: skip
        function = decorate(function)
    return function


def session_words(given: Mapping[str, Any]) -> list[str]:
    """The words that say to another command what ``session_options`` said to this one."""
    return ["--session", given["session"], "--max-failures", str(given["max_failures"])]


def drift_options(function: Function) -> Function:
    """What a command that continues a run may be told about what has changed or is lost."""
    for decorate in reversed(
        (
            option("--accept-drift", "accept", type=Lines(), multiple=True, metavar="FIELD",
                   help="Go on although FIELD changed; can be repeated."),
            option("--strict", is_flag=True,
                   help="Refuse other versions and processors."),
            option("--allow-lost", is_flag=True,
                   help="Go on though the newest saved epoch is gone."),
        )
    ):  # fmt: skip
        function = decorate(function)
    return function


def given_words(
    spec: str | None, values: tuple[str, ...], overrides: tuple[str, ...]
) -> tuple[str, ...]:
    """The words that say again what is run, for a command that a person is told."""
    words = ["--spec", spec] if spec else []
    for name, texts in (("--values", values), ("--set", overrides)):
        words += [word for text in texts for word in (name, text)]
    return tuple(words)


def execute(act: Act, shell: Shell, run_dir: Path, given: Mapping[str, Any]) -> int:
    """Run ``act`` under progress, tell the end, and return the exit code.

    Args:
        act: Starts or resumes.
        shell: The terminal.
        run_dir: Where runs live.
        given: The values of ``limit_options``, and those of ``resume`` where there are any.
    """
    verbosity = -1 if given["quiet"] else int(given["verbose"])
    tally = Tally()
    with _not_writable_by_others(), progress_of(shell, tally, verbosity) as progress:
        options = run_options(run_dir, given)
        grace_s = options.grace_s
        listener = both(noting(shell.box, grace_s), progress) if shell.box else progress
        with (
            what_is_kept(tally),
            profiled(given.get("profile", False), options, listener, shell) as (options, told),
        ):
            result = act(options, told)
    tell_end(result, tally, shell, verbosity)
    if given["as_json"]:
        shell.print(as_document(result, tally))
    return result.exit_code


@contextmanager
def _not_writable_by_others() -> Iterator[None]:
    """Whatever the umask allows, other users may not change what a run writes."""
    before = os.umask(0o022)
    os.umask(before | 0o022)
    try:
        yield
    finally:
        os.umask(before)


def run_options(run_dir: Path, given: Mapping[str, Any]) -> RunOptions:
    """The options of the runner from those of the command line."""
    return RunOptions(
        run_dir=run_dir,
        session=given["session"],
        epochs=given["epochs"] or 0,
        max_epochs=given["max_epochs"] or 0,
        time_s=given["time_s"] or 0.0,
        grace_s=given.get("grace_s", 25.0),
        epoch=given.get("epoch"),
        strict=given.get("strict", False),
        accept=given.get("accept", ()),
        allow_lost=given.get("allow_lost", False),
        trust=given.get("trust", False),
        max_failures=given.get("max_failures", 3),
        places=tuple(given.get("places", ())),
        given=given.get("given", ()),
    )

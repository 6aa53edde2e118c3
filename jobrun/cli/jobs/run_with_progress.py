"""Run a job under a progress display, for ``run``, ``resume`` and ``fork``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from jobrun.cli.jobs.run_options import build_run_options
from jobrun.cli.terminal import Shell
from jobrun.core.events import Event, Listener
from jobrun.core.lazy_dataclass import replace
from jobrun.runner.options import RunOptions, RunResult

Function = TypeVar("Function", bound=Callable[..., Any])
Act = Callable[[RunOptions, Listener], RunResult]

_EPOCHS = click.IntRange(min=1)


def run_under_progress(act: Act, shell: Shell, run_dir: Path, given: Mapping[str, Any]) -> int:
    """Execute a job under a progress display, print its end, return the exit code.

    Args:
        act: Starts or resumes.
        shell: The terminal.
        run_dir: Where runs live.
        given: The values of ``limit_options``, and those of ``resume`` where there are any.
    """
    verbosity = -1 if given["quiet"] else int(given["verbose"])
    # Not for --help, or for what a shell asks when it completes an option.
    from jobrun.cli.process.unexpected_end import record_running  # noqa: PLC0415
    from jobrun.cli.progress.display import create_display  # noqa: PLC0415
    from jobrun.cli.progress.profile_output import profile_run  # noqa: PLC0415
    from jobrun.cli.progress.run_state import RunState  # noqa: PLC0415
    from jobrun.cli.progress.summary import (  # noqa: PLC0415
        note_saved_epoch,
        print_summary,
        render_result,
    )
    from jobrun.cli.supervisor_notifications import NewsOfRun  # noqa: PLC0415

    state = RunState()
    with (
        _not_writable_by_others(),
        profile_run(given.get("profile", False), shell) as attach,
        create_display(shell, state, verbosity) as progress,
    ):
        options = build_run_options(run_dir, given, shell)
        grace_s = options.grace_s
        listener = progress
        if shell.shared:
            news = NewsOfRun(shell.shared)
            options = replace(options, announce=news.announce)
            listener = tee_events(record_running(shell.shared, grace_s), progress)
            listener = tee_events(listener, news.listen)
        options, listener = attach(options, listener)
        with note_saved_epoch(state):
            result = act(options, listener)
    print_summary(result, state, shell, verbosity)
    if given["as_json"]:
        shell.print(render_result(result, state))
    return result.exit_code


@contextmanager
def _not_writable_by_others() -> Iterator[None]:
    """Set the umask during a run with a progress display: only the user may write its files."""
    before = os.umask(0o022)
    os.umask(before | 0o022)
    try:
        yield
    finally:
        os.umask(before)


def tee_events(first: Listener, second: Listener) -> Callable[[Event], None]:
    """Combine two event listeners into one that calls both, for a run with a progress display."""

    def listen(event: Event) -> None:
        first(event)
        second(event)

    return listen

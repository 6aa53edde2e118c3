"""Implement ``jobrun run``: start a run of a spec, or resume one as ``--resume`` says.

What ``resume`` and ``fork`` share with it is here: to execute a job under a progress display.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from jobrun.cli.completion_candidates import SPEC
from jobrun.cli.error_output import print_faults
from jobrun.cli.jobs.run_options import (
    build_run_options,
    drift_options,
    limit_options,
    spec_arguments,
)
from jobrun.cli.options import (
    Command,
    OneOf,
    option,
    override_texts,
    prepare,
    run_dir_option,
    value_options,
)
from jobrun.cli.terminal import Shell
from jobrun.core.events import Event, Listener
from jobrun.runner.options import Resume, RunOptions, RunResult

if TYPE_CHECKING:
    from jobrun.cli.progress.run_state import RunState

Act = Callable[[RunOptions, Listener], RunResult]


@click.command("run", cls=Command)
@click.argument("spec", type=SPEC, metavar="SPEC")
@value_options
@run_dir_option
@option(
    "--resume",
    type=OneOf(["auto", "must", "never"]),
    help="Continue the unfinished run of these params: auto (else start), must, or never.",
)
@limit_options
@drift_options
@click.pass_obj
def command(
    shell: Shell,
    /,
    spec: str,
    values: tuple[str, ...],
    overrides: tuple[str, ...],
    run_dir: str,
    resume: Resume | None,
    **limits: Any,
) -> int:
    r"""Run the job of SPEC to its end.

    With '--resume auto' one command serves for the first start and for each one after a
    kill: in a batch script, repeat it while it exits with 75.

    \b
    Examples:
      jobrun run kmeans.yaml --set params.k=12
      jobrun run kmeans.yaml --resume auto --time 2h
    """
    from jobrun import api  # noqa: PLC0415 - not to complete an option

    shell.texts |= override_texts(overrides)
    prepared = prepare(spec, values, overrides)
    print_faults(prepared.warnings_in(limits["session"]), shell)

    def _act(options: RunOptions, listener: Any) -> Any:
        return api.run(prepared, options, resume=resume or "", listener=listener)

    limits["given"] = spec_arguments(spec, values, overrides)
    return run_under_progress(_act, shell, Path(run_dir), limits)


def run_under_progress(act: Act, shell: Shell, run_dir: Path, limits: Mapping[str, Any]) -> int:
    """Execute a job under a progress display, print its end, return the exit code.

    Args:
        act: Starts or resumes.
        shell: The terminal.
        run_dir: Where runs live.
        limits: The values of ``limit_options``, and those of ``resume`` where there are any.
    """
    verbosity = -1 if limits["quiet"] else int(limits["verbose"])
    # Imported late: neither --help nor a shell's completion of an option needs it.
    from jobrun.cli.progress.profile_output import profile_run  # noqa: PLC0415
    from jobrun.cli.progress.run_state import RunState  # noqa: PLC0415
    from jobrun.cli.progress.summary import (  # noqa: PLC0415
        note_saved_epoch,
        print_summary,
        render_result,
    )
    from jobrun.cli.supervisor import NewsOfRun  # noqa: PLC0415
    from jobrun.cli.unexpected_end import record_running  # noqa: PLC0415

    state = RunState()
    with (
        _not_writable_by_others(),
        profile_run(limits.get("profile", False), shell) as attach,
        create_display(shell, state, verbosity) as progress,
    ):
        options = build_run_options(run_dir, limits, shell)
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
    if limits["as_json"]:
        shell.print_text(render_result(result, state))
    return result.exit_code


def create_display(shell: Shell, state: RunState, verbosity: int) -> Any:
    """Create the progress display for ``jobrun run``: live, plain lines, or JSON lines."""
    # Imported late: --help does not need it.
    from jobrun.cli.progress.lines import JsonLines, PlainProgress  # noqa: PLC0415

    if shell.log_format == "json":
        return JsonLines(shell, state, quiet=verbosity < 0)
    if shell.live and verbosity == 0:
        # rich takes longer to load than most of the rest; only a terminal needs it.
        from jobrun.cli.progress.live import LiveProgress  # noqa: PLC0415

        return LiveProgress(shell, state)
    return PlainProgress(shell, state, verbosity)


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

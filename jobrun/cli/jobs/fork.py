"""Implement ``jobrun fork``: start a run with the state of another one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from jobrun.cli.completion_candidates import RUN_AT_EPOCH, SPEC
from jobrun.cli.error_output import print_faults
from jobrun.cli.jobs.run import run_under_progress
from jobrun.cli.jobs.run_options import limit_options, spec_arguments, strict_option
from jobrun.cli.options import (
    Command,
    RepeatableText,
    option,
    override_texts,
    prepare,
    run_dir_option,
    value_options,
)
from jobrun.cli.progress.lines import warning_printer
from jobrun.cli.terminal import Shell
from jobrun.core.errors import UsageError
from jobrun.runner.fork import Fork, fork_run
from jobrun.runner.identity.recorded_job import require_spec
from jobrun.runner.options import RunOptions
from jobrun.runner.rundir.run_directories import Run
from jobrun.runner.rundir.spec_folder import load_changed_spec
from jobrun.runner.start_or_resume import choose_run
from jobrun.spec.load import LoadedSpec


@click.command("fork", cls=Command)
@click.argument("run", type=RUN_AT_EPOCH, metavar="[RUN[@EPOCH]]", default="latest")
@click.argument("spec", type=SPEC, metavar="[SPEC]", default="")
@option(
    "--blobs",
    "patterns",
    type=RepeatableText(),
    multiple=True,
    metavar="PATTERN",
    help="Only blobs with these names, such as 'w*' or node.w.",
)
@value_options
@run_dir_option
@limit_options
@strict_option
@click.pass_obj
def command(
    shell: Shell,
    /,
    run: str,
    spec: str,
    patterns: tuple[str, ...],
    values: tuple[str, ...],
    overrides: tuple[str, ...],
    run_dir: str,
    **limits: Any,
) -> int:
    r"""Start a new run from a checkpoint of RUN, which stays as it is.

    Without RUN, of the newest run; without EPOCH, from its newest good epoch; without SPEC, with
    what RUN ran. The new run begins after that epoch, with all its state; with '--blobs' it runs
    init first, takes over those blobs, and begins with epoch 1.

    \b
    Examples:
      jobrun fork kmeans@12 --set params.k=12
      jobrun fork brisk-heron other.yaml --blobs 'w*'
    """
    shell.texts |= override_texts(overrides)
    name, epoch = _split(run)
    parent = choose_run(name, Path(run_dir), epoch, warning_printer(shell))
    prepared = None
    if spec:
        prepared = prepare(spec, values, overrides)
        print_faults(prepared.warnings_in(limits["session"]), shell)
    loaded = prepared.authored if prepared else _changed(parent, values, overrides)
    limits["given"] = spec_arguments(spec or None, values, overrides)

    def _act(options: RunOptions, listener: Any) -> Any:
        return fork_run(Fork(parent, epoch, patterns), loaded, options, listener)

    return run_under_progress(_act, shell, Path(run_dir), limits)


def _split(text: str) -> tuple[str, int | None]:
    """Split the argument ``RUN@EPOCH`` of ``jobrun fork``; a path may itself contain ``@``.

    Raises:
        UsageError: No number follows the last ``@``.
    """
    name, at, epoch = text.rpartition("@")
    if not at or Path(text).exists():
        return text, None
    if epoch == "latest":
        return name, None
    if not epoch.isdecimal():
        raise UsageError.of(
            "E408", f"'{epoch}' is not the number of an epoch", "write RUN@12, or RUN@latest"
        )
    return name, int(epoch)


def _changed(parent: Run, values: tuple[str, ...], overrides: tuple[str, ...]) -> LoadedSpec:
    """Load the parent run's spec with the changes that ``jobrun fork`` got on the command line."""
    require_spec(parent)
    return load_changed_spec(parent, values=values, overrides=overrides, fork=True)

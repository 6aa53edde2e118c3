"""``jobrun fork``: a new run that begins with the state of another one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from jobrun.cli.completing import RUN_AT_EPOCH, SPEC
from jobrun.cli.execution import execute, given_words, limit_options
from jobrun.cli.faults import show
from jobrun.cli.loading import option_texts, prepare
from jobrun.cli.options import Command, Lines, option, run_dir_option, value_options
from jobrun.cli.shell import Shell
from jobrun.core.errors import UsageError
from jobrun.runner.authored import refuse_python
from jobrun.runner.fork import Fork, fork_run
from jobrun.runner.rundir import Run
from jobrun.runner.settings import RunOptions
from jobrun.runner.specdir import changed_spec
from jobrun.runner.start import choose_run
from jobrun.spec.load import LoadedSpec


@click.command("fork", cls=Command)
@click.argument("run", type=RUN_AT_EPOCH, metavar="[RUN[@EPOCH]]", default="latest")
@click.argument("spec", type=SPEC, metavar="[SPEC]", default="")
@option(
    "--blobs",
    "patterns",
    type=Lines(),
    multiple=True,
    metavar="PATTERN",
    help="Only blobs of these names, such as 'w*' or node.w.",
)
@value_options
@run_dir_option
@limit_options
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
    shell.texts |= option_texts(overrides)
    name, epoch = _split(run)
    parent = choose_run(name, Path(run_dir), epoch)
    prepared = None
    if spec:
        prepared = prepare(spec, values, overrides)
        show(prepared.warnings, shell)
    loaded = prepared.authored if prepared else _changed(parent, values, overrides)
    limits["given"] = given_words(spec or None, values, overrides)

    def _act(options: RunOptions, listener: Any) -> Any:
        return fork_run(Fork(parent, epoch, patterns), loaded, options, listener)

    return execute(_act, shell, Path(run_dir), limits)


def _split(text: str) -> tuple[str, int | None]:
    """The run and the epoch of ``RUN@EPOCH``; a path may hold an ``@`` of its own.

    Raises:
        UsageError: Behind the last ``@`` stands no number.
    """
    name, at, epoch = text.rpartition("@")
    if not at or Path(text).exists():
        return text, None
    if epoch == "latest":
        return name, None
    if not epoch.isdecimal():
        raise UsageError.of(
            "E408", f"'{epoch}' is not an epoch's number", "write RUN@12, or RUN@latest"
        )
    return name, int(epoch)


def _changed(parent: Run, values: tuple[str, ...], overrides: tuple[str, ...]) -> LoadedSpec | None:
    """What the parent ran, with what the command line changes of it."""
    refuse_python(parent)
    return changed_spec(parent, values=values, overrides=overrides)

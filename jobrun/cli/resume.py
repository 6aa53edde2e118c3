"""``jobrun resume``: continue a run from a checkpoint."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path
from typing import Any

import click

from jobrun import api
from jobrun.cli.completing import RUN
from jobrun.cli.execution import (
    drift_options,
    execute,
    given_words,
    limit_options,
    run_options,
)
from jobrun.cli.forecast import show_forecast
from jobrun.cli.loading import option_texts
from jobrun.cli.options import Command, option, run_dir_option, value_options
from jobrun.cli.shell import Shell
from jobrun.core.objecturl import is_object_url
from jobrun.runner.authored import refuse_python
from jobrun.runner.rundir import Run
from jobrun.runner.settings import RunOptions
from jobrun.runner.specdir import changed_spec
from jobrun.runner.start import choose_run
from jobrun.spec.load import LoadedSpec


@click.command("resume", cls=Command)
@click.argument("run", type=RUN, metavar="[RUN]", default="")
@option(
    "--epoch",
    type=click.IntRange(min=0),
    metavar="N",
    # JOBRUN_EPOCH is what a step's program is told; a jobrun in it must not take it for this.
    envvar="JOBRUN_RESUME_EPOCH",
    show_envvar=True,
    help="Go back to epoch N; set later ones aside.",
)
@option("--spec", metavar="FILE", help="Use this spec instead of the recorded one.")
@value_options
@run_dir_option
@limit_options
@drift_options
@option(
    "--dry-run",
    is_flag=True,
    envvar="JOBRUN_DRY_RUN",
    show_envvar=True,
    help="Only say what would happen; change nothing.",
)
@click.pass_obj
def command(
    shell: Shell,
    /,
    run: str,
    spec: str | None,
    values: tuple[str, ...],
    overrides: tuple[str, ...],
    run_dir: str,
    dry_run: bool,
    **limits: Any,
) -> int:
    r"""Continue RUN: a directory, a name, the start of one, 'latest', or a URL.

    Without RUN, the newest unfinished run. A finished run returns at once.

    \b
    Examples:
      jobrun resume
      jobrun resume brisk-heron --epoch 12
      jobrun resume s3://bucket/runs/kmeans/20261121-0942-brisk-heron
    """
    shell.texts |= option_texts(overrides)
    limits["given"] = given_words(spec, values, overrides)
    chosen = choose_run(run, _place(run, run_dir, dry_run=dry_run), limits["epoch"])
    loaded = _other_spec(chosen, spec, values, overrides)
    if dry_run:
        options = run_options(Path(run_dir), limits)
        return show_forecast(chosen, loaded, options, shell, as_json=limits["as_json"])

    def _act(options: RunOptions, listener: Any) -> Any:
        return api.resume_from(chosen.path, loaded, options, listener=listener)

    return execute(_act, shell, Path(run_dir), limits)


def _place(run: str, run_dir: str, *, dry_run: bool) -> Path:
    """Where a run is looked for; of a URL, that of which a dry run leaves nothing."""
    if not (dry_run and is_object_url(run)):
        return Path(run_dir)
    place = tempfile.mkdtemp(prefix="jobrun-fetched-")
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return Path(place)


def _other_spec(
    run: Run, spec: str | None, values: tuple[str, ...], overrides: tuple[str, ...]
) -> LoadedSpec | None:
    """The spec with what the command line changes of it; None where it changes nothing."""
    if not (spec or values or overrides):
        return None
    refuse_python(run)
    return changed_spec(run, spec=spec or "", values=values, overrides=overrides)

"""``jobrun run``: a new run of a spec, or what ``--resume`` says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from jobrun import api
from jobrun.cli.completing import SPEC
from jobrun.cli.execution import drift_options, execute, given_words, limit_options
from jobrun.cli.faults import show
from jobrun.cli.loading import option_texts, prepare
from jobrun.cli.options import Command, option, run_dir_option, value_options
from jobrun.cli.shell import Shell
from jobrun.runner.settings import Resume, RunOptions


@click.command("run", cls=Command)
@click.argument("spec", type=SPEC, metavar="SPEC")
@value_options
@run_dir_option
@option(
    "--resume",
    type=click.Choice(["auto", "must", "never"]),
    help="auto: continue the newest run, or start one; must: only continue; never: only start. "
    "Without it, an unfinished run is an error.",
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
    kill: in a batch script, call it again as long as it ends with exit code 75.

    \b
    Examples:
      jobrun run kmeans.yaml --set params.k=12
      jobrun run kmeans.yaml --resume auto --time 2h
    """
    shell.texts |= option_texts(overrides)
    prepared = prepare(spec, values, overrides)
    show(prepared.warnings, shell)

    def _act(options: RunOptions, listener: Any) -> Any:
        return api.run(prepared, options, resume=resume or "", listener=listener)

    limits["given"] = given_words(spec, values, overrides)
    return execute(_act, shell, Path(run_dir), limits)

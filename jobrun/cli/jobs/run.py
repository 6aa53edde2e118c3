"""Implement ``jobrun run``: start a run of a spec, or resume one as ``--resume`` says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from jobrun.cli.completion_candidates import SPEC
from jobrun.cli.error_output import print_faults
from jobrun.cli.jobs.run_options import drift_options, limit_options, spec_arguments
from jobrun.cli.jobs.run_with_progress import run_under_progress
from jobrun.cli.options import Command, OneOf, option, run_dir_option, value_options
from jobrun.cli.specs.prepare_spec import override_texts, prepare
from jobrun.cli.terminal import Shell
from jobrun.runner.options import Resume, RunOptions


@click.command("run", cls=Command)
@click.argument("spec", type=SPEC, metavar="SPEC")
@value_options
@run_dir_option
@option(
    "--resume",
    type=OneOf(["auto", "must", "never"]),
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

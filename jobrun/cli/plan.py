"""``jobrun plan``: what a run would do. Looks at the headers of data files; executes nothing."""

from __future__ import annotations

from pathlib import Path

import click

from jobrun.cli.completing import SPEC
from jobrun.cli.faults import show
from jobrun.cli.loading import option_texts, prepare
from jobrun.cli.options import Command, json_option, value_options
from jobrun.cli.output import json_text
from jobrun.cli.shell import Shell
from jobrun.compile.plan import plan_json
from jobrun.compile.plan_text import plan_text
from jobrun.core.errors import SpecError, errors_only
from jobrun.runner.typecheck import header_types


@click.command("plan", cls=Command)
@click.argument("spec", type=SPEC, metavar="SPEC")
@value_options
@json_option
@click.pass_obj
def command(
    shell: Shell, spec: str, values: tuple[str, ...], overrides: tuple[str, ...], as_json: bool
) -> int:
    r"""Show what a run of SPEC would do, in order: tasks, blobs and their sizes, exactness.

    \b
    Examples:
      jobrun plan kmeans.yaml
      jobrun plan kmeans.yaml --set params.k=12 --json
    """
    shell.texts |= option_texts(overrides)
    prepared = prepare(spec, values, overrides)
    show(prepared.warnings, shell)
    job, folder = prepared.job, Path(prepared.authored.folder)
    types = header_types(job, folder)
    show([fault for fault in types.faults if fault not in prepared.warnings], shell)
    if as_json:
        shell.print(json_text(plan_json(job, types.owned, types.made)))
    else:
        shell.print(plan_text(job, types.owned, types.made).rstrip("\n"))
    return SpecError.exit_code if errors_only(types.faults) else 0

"""``jobrun plan``: what a run would do. Looks at the headers of data files; executes nothing."""

from __future__ import annotations

from pathlib import Path

import click

from jobrun.cli.faults import show
from jobrun.cli.loading import option_texts, prepare
from jobrun.cli.options import Command, json_option, value_options
from jobrun.cli.output import json_text
from jobrun.cli.shell import Shell
from jobrun.compile.plan import plan_json
from jobrun.compile.plan_text import plan_text
from jobrun.compile.shapes import state_shapes
from jobrun.runner.memory import member_header


@click.command("plan", cls=Command)
@click.argument("spec", metavar="SPEC")
@value_options
@json_option
@click.pass_obj
def command(
    shell: Shell, spec: str, values: tuple[str, ...], overrides: tuple[str, ...], as_json: bool
) -> None:
    """Show what a run of SPEC would do, in order: tasks, state and its size, exactness."""
    shell.texts |= option_texts(overrides)
    prepared = prepare(spec, values, overrides)
    show(prepared.warnings, shell)
    job, folder = prepared.job, Path(prepared.authored.folder)
    sizes = state_shapes(job, lambda path, member: member_header(folder / path, member))
    if as_json:
        shell.print(json_text(plan_json(job, sizes)))
    else:
        shell.print(plan_text(job, sizes).rstrip("\n"))

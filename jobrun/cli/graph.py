"""``jobrun graph``: the tasks of a job as a picture."""

from __future__ import annotations

import click

from jobrun.cli.faults import show
from jobrun.cli.loading import option_texts, prepare
from jobrun.cli.options import Command, option, value_options
from jobrun.cli.shell import Shell
from jobrun.graph import draw

_FORMATS = {"ascii": draw.ascii, "mermaid": draw.mermaid, "dot": draw.dot}


@click.command("graph", cls=Command)
@click.argument("spec", metavar="SPEC")
@value_options
@option(
    "--format",
    "form",
    type=click.Choice(list(_FORMATS)),
    default="ascii",
    show_default=True,
    help="For a terminal, for Mermaid, or for Graphviz.",
)
@click.pass_obj
def command(
    shell: Shell, spec: str, values: tuple[str, ...], overrides: tuple[str, ...], form: str
) -> None:
    """Draw the tasks of SPEC: groups in their order, tasks by what they wait for."""
    shell.texts |= option_texts(overrides)
    prepared = prepare(spec, values, overrides)
    show(prepared.warnings, shell)
    shell.print(_FORMATS[form](prepared.job).rstrip("\n"))

"""``jobrun graph``: the tasks of a job as a picture."""

from __future__ import annotations

from pathlib import Path

import click

from jobrun.cli.completing import SPEC
from jobrun.cli.faults import show
from jobrun.cli.loading import option_texts, prepare
from jobrun.cli.options import Command, option, value_options
from jobrun.cli.shell import Shell
from jobrun.compile.plan_text import blob_lines
from jobrun.graph import draw
from jobrun.graph.svg import svg
from jobrun.runner.typecheck import header_types

_FORMATS = {"ascii": draw.ascii, "mermaid": draw.mermaid, "dot": draw.dot, "svg": svg}


@click.command("graph", cls=Command)
@click.argument("spec", type=SPEC, metavar="SPEC")
@value_options
@option(
    "--format",
    "form",
    type=click.Choice(list(_FORMATS)),
    default="ascii",
    show_default=True,
    help="For a terminal, for Mermaid, for Graphviz; or a picture.",
)
@option("--types", is_flag=True, help="With dtype, shape and bytes of the blobs tasks make.")
@click.pass_obj
def command(
    shell: Shell,
    spec: str,
    values: tuple[str, ...],
    overrides: tuple[str, ...],
    form: str,
    types: bool,
) -> None:
    r"""Draw the tasks of SPEC: groups in their order, tasks by what they wait for.

    \b
    Examples:
      jobrun graph kmeans.yaml
      jobrun graph kmeans.yaml --format svg > kmeans.svg
    """
    shell.texts |= option_texts(overrides)
    prepared = prepare(spec, values, overrides)
    show(prepared.warnings, shell)
    more: dict[str, list[str]] = {}
    if types:
        made = header_types(prepared.job, Path(prepared.authored.folder)).made
        more = {path: blob_lines(path, made) for path, _ in made}
    shell.print(_FORMATS[form](prepared.job, more).rstrip("\n"))

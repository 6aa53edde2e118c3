"""Implement ``jobrun graph``: draw the tasks of a job."""

from __future__ import annotations

from pathlib import Path

import click

from jobrun.cli.completion_candidates import SPEC
from jobrun.cli.error_output import print_faults
from jobrun.cli.options import Command, OneOf, option, override_texts, prepare, value_options
from jobrun.cli.terminal import Shell
from jobrun.compile.plan_text import blob_lines
from jobrun.graph import drawing as draw
from jobrun.graph.drawing import svg
from jobrun.runner.preflight.blob_types import infer_header_types

_FORMATS = {"ascii": draw.ascii, "mermaid": draw.mermaid, "dot": draw.dot, "svg": svg}


@click.command("graph", cls=Command)
@click.argument("spec", type=SPEC, metavar="SPEC")
@value_options
@option(
    "--format",
    "output_format",
    type=OneOf(list(_FORMATS)),
    default="ascii",
    show_default=True,
    help="For a terminal, Mermaid, Graphviz, or as an image.",
)
@option("--types", is_flag=True, help="With dtype, shape and size of the blobs that tasks make.")
@click.pass_obj
def command(
    shell: Shell,
    spec: str,
    values: tuple[str, ...],
    overrides: tuple[str, ...],
    output_format: str,
    types: bool,
) -> None:
    r"""Draw the tasks of SPEC: groups in their order, tasks by what they wait for.

    \b
    Examples:
      jobrun graph kmeans.yaml
      jobrun graph kmeans.yaml --format svg > kmeans.svg
    """
    shell.texts |= override_texts(overrides)
    prepared = prepare(spec, values, overrides)
    print_faults(prepared.warnings, shell)
    more: dict[str, list[str]] = {}
    if types:
        folder = Path(prepared.authored.folder)
        task_blobs = infer_header_types(prepared.job, folder, prepared.compiled.types).task_blobs
        more = blob_lines(task_blobs)
    shell.print_text(_FORMATS[output_format](prepared.job, more).rstrip("\n"))

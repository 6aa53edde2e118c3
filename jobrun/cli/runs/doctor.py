"""Implement ``jobrun doctor``: print whether this machine and directory can run jobs."""

from __future__ import annotations

from pathlib import Path

import click
from msgspec import to_builtins

from jobrun.cli.formatting import render_json_document
from jobrun.cli.options import Command, json_option, run_dir_option
from jobrun.cli.terminal import Shell
from jobrun.core.errors import EnvironmentFaultError
from jobrun.core.text.terminal_text import align_cells
from jobrun.tools.doctor import Finding, examine

_MARKS = {"good": ("ok", "green"), "note": ("note", "yellow"), "bad": ("BAD", "red")}


@click.command("doctor", cls=Command)
@json_option
@run_dir_option
@click.pass_obj
def command(shell: Shell, as_json: bool, run_dir: str) -> int:
    r"""Try out whether this machine and the directory of the runs are fit for runs.

    Versions, processors, memory, the clock; the file system, its space, and whether fsync,
    rename and locks do there what a run relies on. Exit code 7 when something is bad.

    \b
    Examples:
      jobrun doctor
      jobrun doctor --run-dir /scratch/runs --json
    """
    findings = examine(Path(run_dir))
    if as_json:
        shell.print_text(render_json_document("doctor", {"findings": to_builtins(findings)}))
    else:
        shell.print(*_text(findings, shell))
    return (
        EnvironmentFaultError.exit_code
        if any(finding.verdict == "bad" for finding in findings)
        else 0
    )


def _text(findings: tuple[Finding, ...], shell: Shell) -> list[str]:
    rows = align_cells([(finding.topic, finding.text) for finding in findings])
    lines = []
    for finding, (topic, text) in zip(findings, rows, strict=True):
        mark, colour = _MARKS[finding.verdict]
        verdict = shell.paint(f"{mark:<4}", colour, result=True)
        lines.append(f"{verdict}  {topic}  {text}")
        if finding.mend:
            lines.append(" " * (len(topic) + 8) + finding.mend)
    return lines

"""Implement ``jobrun fmt``: put the keys of specs in the usual order."""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from typing import IO

import click

from jobrun.cli.completion_candidates import SPEC
from jobrun.cli.formatting import render_json_document
from jobrun.cli.options import Command, json_option, option
from jobrun.cli.terminal import Shell
from jobrun.core.errors import Fault, ProofError, SpecError
from jobrun.core.files.disk import disk_faults, replace_file
from jobrun.spec.format_text import format_file

_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


@click.command("fmt", cls=Command)
@click.argument("specs", type=SPEC, nargs=-1, required=True, metavar="SPEC...")
@option("--check", is_flag=True, help="Write nothing; exit with 8 if a file would change.")
@option("--diff", is_flag=True, help="Write nothing; show what would change.")
@json_option
@click.pass_obj
def command(shell: Shell, specs: tuple[str, ...], check: bool, diff: bool, as_json: bool) -> int:
    r"""Rewrite SPECs with their keys in the usual order: that of the schema.

    Comments, quotes and line breaks stay as they are; a comment moves with the key below it.
    What the spec means is compared before a file is replaced.

    \b
    Examples:
      jobrun fmt kmeans.yaml
      jobrun fmt --check --diff specs/*.yaml
    """
    changed: list[str] = []
    faults: list[Fault] = []
    for path in specs:
        try:
            before, after = format_file(path)
        except SpecError as error:
            faults += error.faults
            continue
        if before == after:
            continue
        changed.append(path)
        if diff and not as_json:
            shell.print(*_difference(shell, path, before, after))
        if not (check or diff):
            _write(Path(path), after)
    if as_json or changed or not faults:
        _report_difference(shell, specs, changed, written=not (check or diff), as_json=as_json)
    if faults:
        raise SpecError(*faults)
    return ProofError.exit_code if check and changed else 0


def _report_difference(
    shell: Shell, specs: tuple[str, ...], changed: list[str], *, written: bool, as_json: bool
) -> None:
    if as_json:
        files = [{"path": path, "changed": path in changed} for path in specs]
        shell.print_text(render_json_document("fmt", {"written": written, "files": files}))
        return
    for path in changed:
        shell.say(f"{'formatted' if written else 'would change'}: {path}")
    if not changed:
        many = f"{len(specs)} files are" if len(specs) > 1 else f"{specs[0]} is"
        shell.say(f"{many} formatted")


def _difference(shell: Shell, path: str, before: str, after: str) -> list[str]:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), path, path, lineterm="")
    return [
        shell.paint(line, _COLOURS[line[0]], result=True) if line[:1] in _COLOURS else line
        for line in lines
    ]


def _write(path: Path, text: str) -> None:
    mode = path.stat().st_mode & 0o7777

    def write(file: IO[bytes]) -> None:
        os.fchmod(file.fileno(), mode)
        file.write(text.encode())

    with disk_faults("E354", f"write {path}"):
        replace_file(str(path), write)

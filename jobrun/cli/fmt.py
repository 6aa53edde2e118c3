"""``jobrun fmt``: puts the keys of specs in the usual order."""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from typing import IO

import click

from jobrun.cli.completing import SPEC
from jobrun.cli.options import Command, json_option, option
from jobrun.cli.output import document
from jobrun.cli.shell import Shell
from jobrun.core.errors import Fault, SpecError
from jobrun.core.excerpt import visible
from jobrun.formats.files import replace_whole
from jobrun.runner.durable import disk_faults
from jobrun.spec.format import format_file

_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


@click.command("fmt", cls=Command)
@click.argument("specs", type=SPEC, nargs=-1, required=True, metavar="SPEC...")
@option("--check", is_flag=True, help="Write nothing; exit with 1 when a file would change.")
@option("--diff", is_flag=True, help="Write nothing; show what would change.")
@json_option
@click.pass_obj
def command(shell: Shell, specs: tuple[str, ...], check: bool, diff: bool, as_json: bool) -> int:
    r"""Put the keys of specs in the usual order: that of the schema.

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
            shell.print("\n".join(_difference(shell, path, before, after)))
        if not (check or diff):
            _write(Path(path), after)
    if as_json or changed or not faults:
        _tell(shell, specs, changed, written=not (check or diff), as_json=as_json)
    if faults:
        raise SpecError(*faults)
    return int(check and bool(changed))


def _tell(
    shell: Shell, specs: tuple[str, ...], changed: list[str], *, written: bool, as_json: bool
) -> None:
    if as_json:
        files = [{"path": path, "changed": path in changed} for path in specs]
        shell.print(document("fmt", {"written": written, "files": files}))
        return
    for path in changed:
        shell.say(f"{'put in order' if written else 'would change'}: {visible(path)}")
    if not changed:
        many = f"{len(specs)} files are" if len(specs) > 1 else f"{visible(specs[0])} is"
        shell.say(f"{many} in order")


def _difference(shell: Shell, path: str, before: str, after: str) -> list[str]:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), path, path, lineterm="")
    return [
        shell.paint(visible(line), _COLOURS[line[0]], result=True)
        if line[:1] in _COLOURS
        else visible(line)
        for line in lines
    ]


def _write(path: Path, text: str) -> None:
    mode = path.stat().st_mode & 0o7777

    def write(file: IO[bytes]) -> None:
        os.fchmod(file.fileno(), mode)
        file.write(text.encode())

    with disk_faults(f"write {path}"):
        replace_whole(str(path), write)

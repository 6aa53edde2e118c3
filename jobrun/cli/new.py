"""``jobrun new``: a spec to begin with. Replaces no file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import click

from jobrun.cli.completing import TEMPLATE
from jobrun.cli.options import Command, json_option
from jobrun.cli.output import document, short_path
from jobrun.cli.shell import Shell
from jobrun.core.errors import UsageError
from jobrun.core.names import did_you_mean
from jobrun.formats.files import make_directory
from jobrun.runner.durable import disk_faults, write_all
from jobrun.tools.templates import EXTRAS, TEMPLATES, files_of


@click.command("new", cls=Command)
@click.argument("template", type=TEMPLATE, metavar="[TEMPLATE]", default="")
@click.argument("folder", type=click.Path(), metavar="[DIR]", default=".")
@json_option
@click.pass_obj
def command(shell: Shell, template: str, folder: str, as_json: bool) -> None:
    r"""Write a spec that runs as it stands, to be made your own.

    Without TEMPLATE it lists them. The file gets the template's name, here or in DIR, and what
    it needs stands beside it; a file that is there stays.

    \b
    Examples:
      jobrun new
      jobrun new kmeans && jobrun run kmeans.yaml
      jobrun new solver experiments
    """
    if not template:
        shell.print(_listed(as_json=as_json))
        return
    if template not in TEMPLATES:
        raise UsageError.of("E403", f"no template '{template}'", did_you_mean(template, TEMPLATES))
    path = Path(folder, f"{template}.yaml")
    with disk_faults(f"write {path}"):
        make_directory(path.parent)
        _write_all(path.parent, files_of(template))
    name = short_path(str(path))
    if as_json:
        shell.print(document("new", {"path": str(path)}))
        return
    shell.say(f"wrote {name}: {TEMPLATES[template]}")
    extra = EXTRAS.get(template, "")
    if extra and find_spec(extra) is None:
        shell.say(f"it needs a package: pip install 'jobrun[{extra}]'")
    shell.say(f"next: jobrun run {name}")


def _listed(*, as_json: bool) -> str:
    if as_json:
        entries = [{"name": name, "about": about} for name, about in TEMPLATES.items()]
        return document("templates", {"templates": entries})
    width = max(map(len, TEMPLATES))
    return "\n".join(f"{name:<{width}}  {about}" for name, about in TEMPLATES.items())


def _write_all(folder: Path, files: Mapping[str, str]) -> None:
    """Write all files, or none."""
    written: list[Path] = []
    try:
        for name, text in files.items():
            _write_new(folder / name, text)
            written.append(folder / name)
    except BaseException:
        for path in written:
            path.unlink()
        raise


def _write_new(path: Path, text: str) -> None:
    """Write a file that nothing has the name of.

    Raises:
        UsageError: E434, something has it.
        OSError: The disk says no; nothing is left.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    except FileExistsError as error:
        mend = "name another directory: jobrun new TEMPLATE DIR"
        raise UsageError.of("E434", f"{path} is there already", mend) from error
    try:
        write_all(descriptor, text.encode())
    except OSError:
        path.unlink()
        raise
    finally:
        os.close(descriptor)

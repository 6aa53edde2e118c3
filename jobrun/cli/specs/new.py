"""Implement ``jobrun new``: write a spec from a template, without replacing a file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import click

from jobrun.cli.completion_candidates import TEMPLATE
from jobrun.cli.formatting import render_json_document, shorten_path, wrap_line
from jobrun.cli.options import Command, json_option, option
from jobrun.cli.terminal import Shell
from jobrun.core.errors import UsageError
from jobrun.core.files.disk import disk_faults, make_directory, write_all
from jobrun.core.text.names import did_you_mean
from jobrun.core.text.terminal_text import align_cells
from jobrun.tools.templates import REQUIREMENTS, TEMPLATES, template_files


@click.command("new", cls=Command)
@click.argument("template", type=TEMPLATE, metavar="[TEMPLATE]", default="")
@click.argument("folder", type=click.Path(), metavar="[DIR]", default=".")
@option("--list", "as_list", is_flag=True, help="List the templates.")
@json_option
@click.pass_obj
def command(shell: Shell, template: str, folder: str, as_list: bool, as_json: bool) -> None:
    r"""Write a new spec that runs without changes, as a starting point.

    Without TEMPLATE it lists them. The file gets the template's name, here or in DIR, and what
    it needs is written beside it; existing files are kept. A run says at its end what to change.

    \b
    Examples:
      jobrun new --list
      jobrun new script && jobrun run script.yaml
      jobrun new solver experiments
    """
    if as_list and template:
        raise UsageError.of(
            "E404", "--list and TEMPLATE exclude each other", "leave out one of them"
        )
    if not template:
        shell.print_text(_listed(as_json=as_json))
        return
    if template not in TEMPLATES:
        raise UsageError.of(
            "E403", f"unknown template '{template}'", did_you_mean(template, TEMPLATES)
        )
    path = Path(folder, f"{template}.yaml")
    with disk_faults("E354", f"write {path}"):
        make_directory(path.parent)
        files = template_files(template)
        _write_all(path.parent, files)
    name = shorten_path(str(path))
    if as_json:
        shell.print_text(render_json_document("new", {"path": str(path)}))
        return
    written = ", ".join(shorten_path(str(path.with_name(file))) for file in files)
    shell.say(*wrap_line(f"wrote {written}: {TEMPLATES[template]}", shell.message_width, 2))
    module, package = REQUIREMENTS.get(template, ("", ""))
    if module and find_spec(module) is None:
        shell.say(f"it needs a package: pip install {package}")
    shell.say(f"next: jobrun run {name}")


def _listed(*, as_json: bool) -> str:
    if as_json:
        entries = [{"name": name, "about": about} for name, about in TEMPLATES.items()]
        return render_json_document("templates", {"templates": entries})
    return "\n".join(map("  ".join, align_cells(list(TEMPLATES.items()))))


def _write_all(folder: Path, files: Mapping[str, str]) -> None:
    """Write the files of a new spec for the command ``jobrun new``: all of them, or none."""
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
    """Write a file of a new spec, which must not exist yet.

    Raises:
        UsageError: E434, something has it.
        OSError: Writing failed; nothing is left.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    except FileExistsError as error:
        mend = "name another directory: jobrun new TEMPLATE DIR"
        raise UsageError.of("E434", f"{path} already exists", mend) from error
    try:
        write_all(descriptor, text.encode())
    except OSError:
        path.unlink()
        raise
    finally:
        os.close(descriptor)

"""Implement ``jobrun schema``: print the JSON schema of specs."""

from __future__ import annotations

import click

from jobrun.cli.options import Command, option
from jobrun.cli.terminal import Shell
from jobrun.core.files.disk import disk_faults, replace_file
from jobrun.spec.models.json_schema import schema_text


@click.command("schema", cls=Command)
@option("-o", "--out", metavar="FILE", help="Write it here instead of printing it.")
@click.pass_obj
def command(shell: Shell, out: str | None) -> None:
    r"""Print the JSON schema of specs.

    Editors that know YAML schemas complete and check a spec whose first line is

        # yaml-language-server: $schema=PATH/job.schema.json

    \b
    Examples:
      jobrun schema > job.schema.json
      jobrun schema --out schemas/job.schema.json
    """
    text = schema_text()
    if out is None:
        shell.print_text(text.rstrip("\n"))
        return
    data = text.encode()
    with disk_faults("E354", f"write {out}"):
        replace_file(out, lambda file: file.write(data))
    shell.say(f"wrote {out}")

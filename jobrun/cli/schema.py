"""``jobrun schema``: the JSON schema of specs, for editors and for checks without jobrun."""

from __future__ import annotations

from pathlib import Path

import click

from jobrun.cli.options import Command, option
from jobrun.cli.shell import Shell
from jobrun.spec.schema import schema_text


@click.command("schema", cls=Command)
@option("--out", metavar="FILE", help="Write it here instead of printing it.")
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
        shell.print(text.rstrip("\n"))
        return
    path = Path(out)
    beside = path.with_name(f".{path.name}.part")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)
    shell.say(f"wrote {out}")

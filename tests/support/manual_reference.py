"""Render the manual's reference pages from the tables that the program goes by: ``make manual``.

They lie in ``jobrun/manual/reference``, to be read where the repository is browsed; the same is
rendered by ``jobrun explain`` from the same tables.
"""

from __future__ import annotations

from collections.abc import Iterator

import click

from jobrun.cli.app import COMMANDS, group
from jobrun.cli.manual.ops import list_definitions
from jobrun.tools.manual.keys import Table, list_key_tables
from jobrun.tools.manual.markdown_pages import FOLDER

REFERENCE = FOLDER / "reference"
_WIDTH = 80


def render_reference() -> dict[str, str]:
    """Render all reference pages, by the names of their files."""
    return {
        "keys.md": "\n".join(_keys()),
        "functions.md": "\n".join(_functions()),
        "commands.md": "\n".join(_commands()),
    }


def _keys() -> Iterator[str]:
    yield "# The keys of a spec\n"
    yield "`jobrun explain KEY` shows one. A value may always be a reference such as `${k}`.\n"
    for table in list_key_tables():
        yield f"## {f'`{table.path}`' if table.path else 'A spec file'}\n"
        yield f"{table.about}\n"
        yield from _rows(table)


def _rows(table: Table) -> Iterator[str]:
    yield "| key | value | |"
    yield "|---|---|---|"
    for key in table.keys:
        more = " (required)" if key.required else f", else `{key.default}`" if key.default else ""
        yield f"| `{key.name}` | {_cell(key.kind)}{more} | {_cell(key.about)} |"
    yield ""


def _functions() -> Iterator[str]:
    yield "# Functions of expressions, and draws\n"
    yield "`jobrun ops NAME` shows one with its parameters.\n"
    yield "| function | what it gives | such as |"
    yield "|---|---|---|"
    for name, one in list_definitions().items():
        yield f"| `{_cell(f'{name}{one.signature}')}` | {_cell(one.doc)} | `{_cell(one.example)}` |"
    yield ""


def _commands() -> Iterator[str]:
    yield "# Commands and their options\n"
    settings = {**group.context_settings, "max_content_width": _WIDTH}
    context = click.Context(group, info_name="jobrun", **settings)
    for name in COMMANDS:
        command = group.get_command(context, name)
        assert command is not None
        yield from _help(command, f"jobrun {name}", context)


def _help(command: click.Command, path: str, parent: click.Context) -> Iterator[str]:
    own = click.Context(
        command,
        info_name=path.rpartition(" ")[2],
        parent=parent,
        max_content_width=_WIDTH,
        terminal_width=_WIDTH,
    )
    yield f"## {path}\n"
    yield f"```text\n{command.get_help(own).strip()}\n```\n"
    for name, part in getattr(command, "commands", {}).items():
        yield from _help(part, f"{path} {name}", own)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def main() -> None:
    """Write all reference pages."""
    REFERENCE.mkdir(exist_ok=True)
    for name, text in render_reference().items():
        (REFERENCE / name).write_text(text)


if __name__ == "__main__":
    main()

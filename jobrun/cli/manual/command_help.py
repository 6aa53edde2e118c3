"""Render the help of all commands, for the manual: ``jobrun explain commands``."""

from __future__ import annotations

from collections.abc import Iterator

import click

_WIDTH = 80


def iter_command_help(root: click.Group) -> Iterator[tuple[str, str]]:
    """Iterate over a group's commands and theirs: the command line, and its help in 80 columns.

    Args:
        root: Of all commands.
    """
    # With the group's own settings, so that its -h is shown, no matter what ran before.
    settings = {**root.context_settings, "max_content_width": _WIDTH}
    context = click.Context(root, info_name="jobrun", **settings)
    for name in root.list_commands(context):
        command = root.get_command(context, name)
        if command is not None and not command.hidden:
            yield from _help(command, f"jobrun {name}", context)


def render_command_help(root: click.Group) -> str:
    """Render the help of all commands as one text."""
    pages = (f"{path}\n\n{text}" for path, text in iter_command_help(root))
    return "\n\n\n".join(("Commands and their options", *pages))


def _help(command: click.Command, path: str, parent: click.Context) -> Iterator[tuple[str, str]]:
    own = click.Context(
        command,
        info_name=path.rpartition(" ")[2],
        parent=parent,
        max_content_width=_WIDTH,
        terminal_width=_WIDTH,
    )
    yield path, command.get_help(own).strip()
    for name, part in getattr(command, "commands", {}).items():
        yield from _help(part, f"{path} {name}", own)

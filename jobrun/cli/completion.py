"""``jobrun completion``: the script that lets a shell complete command lines."""

from __future__ import annotations

import os

import click

from jobrun.cli.options import Command
from jobrun.cli.shell import Shell
from jobrun.core.errors import JobrunError

VARIABLE = "_JOBRUN_COMPLETE"
_SHELLS = ("bash", "zsh", "fish")
_HOW = {
    "bash": 'add to ~/.bashrc:  eval "$(jobrun completion bash)"',
    "zsh": 'add to ~/.zshrc:  eval "$(jobrun completion zsh)"',
    "fish": "jobrun completion fish > ~/.config/fish/completions/jobrun.fish",
}


@click.command("completion", cls=Command)
@click.argument("shell_name", metavar="[bash|zsh|fish]", type=click.Choice(_SHELLS), required=False)
@click.pass_obj
def command(shell: Shell, shell_name: str | None) -> None:
    r"""Print the script that completes commands, options, runs, epochs, tasks, blobs, params.

    Without a name, the shell is that of the variable SHELL.

    \b
    Examples:
      jobrun completion bash >> ~/.bashrc
      jobrun completion fish > ~/.config/fish/completions/jobrun.fish
    """
    from click.shell_completion import get_completion_class  # noqa: PLC0415 - rarely used

    from jobrun.cli.app import group  # noqa: PLC0415 - the table imports this module
    from jobrun.cli.bash import WholeWords  # noqa: PLC0415 - rarely used

    own = os.path.basename(shell.environment.get("SHELL", ""))  # noqa: PTH119 - text, no path
    name = shell_name or (own if own in _SHELLS else "bash")
    kind = WholeWords if name == "bash" else get_completion_class(name)
    if kind is not None:
        shell.print(kind(group, {}, "jobrun", VARIABLE).source().strip())
    shell.say(_HOW[name])


def answer(instruction: str) -> int:
    """Answer a shell that asks how to go on; what it wants stands in its variables.

    Args:
        instruction: Such as ``bash_complete``.
    """
    from click.shell_completion import (  # noqa: PLC0415 - rarely used
        add_completion_class,
        shell_complete,
    )

    from jobrun.cli.app import group  # noqa: PLC0415
    from jobrun.cli.bash import WholeWords  # noqa: PLC0415

    add_completion_class(WholeWords)
    try:
        return shell_complete(group, {"obj": Shell()}, "jobrun", VARIABLE, instruction)
    except (JobrunError, click.ClickException):
        # A line that cannot be meant yet, with a mistyped command, say: whoever types sees it.
        return 0

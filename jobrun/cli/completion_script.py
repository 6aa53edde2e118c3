"""Print the completion script of a shell for ``jobrun``, and answer its requests."""

from __future__ import annotations

import os
from functools import cached_property
from typing import Any

import click
from click.shell_completion import BashComplete, CompletionItem, split_arg_string

from jobrun.cli.options import Command, OneOf
from jobrun.cli.terminal import COMPLETION_VARIABLE, Shell
from jobrun.core.errors import JobrunError

_SHELLS = ("bash", "zsh", "fish")
_HOW = {
    "bash": 'add to ~/.bashrc:  eval "$(jobrun completion bash)"',
    "zsh": 'add to ~/.zshrc:  eval "$(jobrun completion zsh)"',
    "fish": "jobrun completion fish > ~/.config/fish/completions/jobrun.fish",
}


@click.command("completion", cls=Command)
@click.argument("shell_name", metavar="[bash|zsh|fish]", type=OneOf(_SHELLS), required=False)
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

    own_shell = os.path.basename(shell.environment.get("SHELL", ""))  # noqa: PTH119 - text, no path
    name = shell_name or (own_shell if own_shell in _SHELLS else "bash")
    kind = WholeLineBash if name == "bash" else get_completion_class(name)
    if kind is not None:
        shell.print_text(kind(group, {}, "jobrun", COMPLETION_VARIABLE).source().strip())
    shell.say(_HOW[name])


def answer_request(instruction: str) -> int:
    """Print completions of a typed command line, as a shell's completion script requests.

    Args:
        instruction: Such as ``bash_complete``.
    """
    from click.shell_completion import (  # noqa: PLC0415 - rarely used
        add_completion_class,
        shell_complete,
    )

    from jobrun.cli.app import group  # noqa: PLC0415

    add_completion_class(WholeLineBash)
    try:
        return shell_complete(group, {"obj": Shell()}, "jobrun", COMPLETION_VARIABLE, instruction)
    except (JobrunError, click.ClickException):
        # The line is not valid yet, such as with a mistyped command: nothing to complete.
        return 0


_GIVEN = 'env COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD'
# Under another name than COMP_WORDBREAKS, which bash would reset if 'jobrun' were a bash script.
_BREAKS = "_JOBRUN_WORDBREAKS"
_WANTED = f'env COMP_WORDS="${{COMP_LINE:0:COMP_POINT}}" {_BREAKS}="$COMP_WORDBREAKS"'
# At these a word ends, and the next one begins with it (readline's special prefixes).
_KEPT = "$@"


class WholeLineBash(BashComplete):
    """Bash completion that takes the line up to the cursor and completes its last word whole."""

    source_template = BashComplete.source_template.replace(_GIVEN, _WANTED)

    def get_completion_args(self) -> tuple[list[str], str]:
        """Split the typed line that bash's script sends: whole words, and one to complete."""
        line = os.environ["COMP_WORDS"]
        words = split_arg_string(line)
        if not words or line[-1:].isspace():
            return words[1:], ""
        return words[1:-1], words[-1]

    def format_completion(self, item: CompletionItem[Any]) -> str:
        """Format one completion as a line for bash's completion script: its type, and its value."""
        return f"{item.type},{str(item.value).removeprefix(self._kept)}"

    @cached_property
    def _kept(self) -> str:
        """Return the start of a word that bash's script adds itself: ``ray:`` of ``ray:au``.

        Bash breaks words at colons and the like, and replaces only what is behind the last one.
        """
        _, typed = self.get_completion_args()
        breaks = os.environ.get(_BREAKS, "")
        lengths = (
            at + (letter not in _KEPT) for at, letter in enumerate(typed) if letter in breaks
        )
        return typed[: max(lengths, default=0)]

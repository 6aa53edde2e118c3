"""Completion in bash, whose words end at '@', '=' and ':'. Not what there is to choose from.

``jobrun fork walk@3`` is three words and more to bash, which hands them over like that, and which
puts what it gets in the place of the last one. So it is given the line itself, and gets that part
of a word which it does not have yet.
"""

from __future__ import annotations

import os
from typing import Any

from click.shell_completion import BashComplete, CompletionItem, split_arg_string

_GIVEN = 'env COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD'
# Not by its own name, which bash would take for its own if 'jobrun' were a script of bash.
_BREAKS = "_JOBRUN_WORDBREAKS"
_WANTED = f'env COMP_WORDS="${{COMP_LINE:0:COMP_POINT}}" {_BREAKS}="$COMP_WORDBREAKS"'
# At these a word ends, and the next one begins with it (readline's special prefixes).
_KEPT = "$@"


class WholeWords(BashComplete):
    """Asks for the line up to the cursor, and completes its last word as a whole."""

    source_template = BashComplete.source_template.replace(_GIVEN, _WANTED)

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the one that is being typed, without the command, and that one."""
        line = os.environ["COMP_WORDS"]
        words = split_arg_string(line)
        if not words or line[-1:].isspace():
            return words[1:], ""
        return words[1:-1], words[-1]

    def format_completion(self, item: CompletionItem[Any]) -> str:
        """The kind of a value, and what comes after the last place at which bash breaks words."""
        _, typed = self.get_completion_args()
        breaks = os.environ.get(_BREAKS, "")
        ends = (at + (letter not in _KEPT) for at, letter in enumerate(typed) if letter in breaks)
        end = max(ends, default=0)
        return f"{item.type},{str(item.value).removeprefix(typed[:end])}"

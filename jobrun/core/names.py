"""Names: what they may look like, and the nearest known one to a name that is not known."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

# A name becomes part of a file name, so it may not be able to leave a directory, hide
# a file, or be an option of a command.
FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
# A blob's name stands in expressions.
BLOB_NAME = re.compile(r"[^\W\d]\w{0,63}")
# No name is longer; comparing a text of megabytes would take minutes.
_LONGEST_COMPARED = 128


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name a person most likely meant, or None when nothing is close."""
    if len(name) > _LONGEST_COMPARED:
        return None
    matches = get_close_matches(name, list(known), n=1, cutoff=0.6)
    return matches[0] if matches else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The mend for an unknown name: the nearest one, else the list of all known ones."""
    names = sorted(set(known))
    match = nearest(name, names)
    if match is not None:
        return f"did you mean '{match}'?"
    if not names:
        return "there is none to choose from"
    shown = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
    return f"known here: {shown}"

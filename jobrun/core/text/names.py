"""Check names by a pattern, and suggest the nearest known name for an unknown one."""

from __future__ import annotations

from collections.abc import Iterable

from jobrun.core.text.patterns import lazy_pattern

# A name becomes part of a file name, so it may not be able to leave a directory, hide
# a file, or be an option of a command.
FILE_NAME = lazy_pattern(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
# A blob's name is used in expressions.
BLOB_NAME = lazy_pattern(r"[^\W\d]\w{0,63}")
# No name is longer; comparing a text of megabytes would take minutes.
_LONGEST_COMPARED = 128


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name most similar to a misspelt one, or None if none is similar."""
    if len(name) > _LONGEST_COMPARED:
        return None
    from difflib import get_close_matches  # noqa: PLC0415 - after a slip only

    matches = get_close_matches(name, list(known), n=1, cutoff=0.6)
    return matches[0] if matches else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Suggest the known name nearest to an unknown one, or else list the known names."""
    names = sorted(set(known))
    match = nearest(name, names)
    if match is not None:
        return f"did you mean '{match}'?"
    if not names:
        return "there is none to choose from"
    shown = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
    return f"known here: {shown}"

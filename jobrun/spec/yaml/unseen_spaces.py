"""Find spaces that look like a blank, or like nothing, where YAML takes them for text.

A no-break space, as editors and web pages put in, ends no key and indents no line. In quotes,
blocks of text and comments it is what it looks like.
"""

from __future__ import annotations

from collections.abc import Iterator

from jobrun.core.errors import Fault, Origin
from jobrun.core.text.patterns import lazy_pattern
from jobrun.spec.yaml.pyyaml import yaml

_UNSEEN_SPACE = lazy_pattern("[\u00a0\u00ad\u1680\u180e\u2000-\u200b\u202f\u205f\u2060\u3000]")
_MOST_FAULTS = 10


def find_unseen_spaces(text: str, file: str) -> list[Fault]:
    """Find the spaces in the plain parts of YAML text that are neither blanks nor seen.

    Args:
        text: The whole file, which may not be valid.
        file: Its name, for positions.
    """
    if not _UNSEEN_SPACE.search(text):
        return []
    plain = _plain_parts(text)
    faults = []
    for number, line in enumerate(text.split("\n")):
        for space in _UNSEEN_SPACE.finditer(line):
            if " #" in f" {line[: space.start()]}":
                # In a comment; a scalar without quotes ends there.
                break
            if any(start <= (number, space.start()) < end for start, end in plain):
                where = Origin(file, number + 1, space.start() + 1)
                faults.append(unseen_space_fault(space[0], where))
        if len(faults) >= _MOST_FAULTS:
            break
    return faults


def unseen_space_fault(char: str, where: Origin) -> Fault:
    """Build the error for a space that is no blank, outside quotes."""
    number = f"{ord(char):04x}"
    message = f"invisible character: U+{number.upper()}, which is no blank"
    mend = f"write a blank; in a text, put it in quotes or write \\u{number} in double quotes"
    return Fault("E004", message, mend, where)


_Position = tuple[int, int]


def _plain_parts(text: str) -> list[tuple[_Position, _Position]]:
    """Return begin and end, as line and column, of scalars without quotes.

    Where the text is not valid, all from there to the end of that line is taken for one.
    """
    parts: list[tuple[_Position, _Position]] = []
    last = (0, 0)
    try:
        for token in _scan(text):
            last = token.end_mark.line, token.end_mark.column
            if isinstance(token, yaml.ScalarToken) and token.plain:
                begin = token.start_mark.line, token.start_mark.column
                parts.append((begin, last))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        parts.append((last, (mark.line + 1 if mark else 1 << 30, 0)))
    return parts


def _scan(text: str) -> Iterator[yaml.Token]:
    return iter(yaml.scan(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))

"""Make control characters visible in text on its way to a terminal.

Every line that a command prints passes ``terminal_line``. Names, params, exceptions and files may
hold escape sequences, which could rename a window, overwrite what was printed before, or answer
for the user; none of their characters controls the terminal. Styles of jobrun's own are put in by
``style`` and ``control``, whose marks no foreign text can contain.
"""

from __future__ import annotations

import io
import os
from collections.abc import Container, Iterable, Sequence
from typing import Final

from jobrun.core.text.patterns import lazy_pattern

# Random, so that nothing which was written before this process began can contain it.
_MARK: Final = f"\x1b{os.urandom(8).hex()}["
_MARKED = lazy_pattern(rf"\x1b{_MARK[1:-1]}\[([0-9;?]*[A-Za-z])")
# Colour, weight and the like (SGR).
_COLOUR = lazy_pattern(r"\x1b\[([0-9;:]*m)")


def visible(text: str) -> str:
    """Replace control characters, line ends among them, in a text for a terminal by visible ones.

    One character stays one character, so that columns stay right.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _visible_character(char) for char in text)


def _visible_character(char: str) -> str:
    if char == "\t":
        return "→"
    return chr(0x2400 + ord(char)) if ord(char) < 0x20 else "\ufffd"


def control(sequence: str) -> str:
    """Return the mark of a control sequence of a terminal, such as ``2J`` to clear the screen."""
    return f"{_MARK}{sequence}"


def style(text: str, codes: str) -> str:
    """Mark a text to be shown by a terminal in a style, such as ``1;31`` for bold and red."""
    return f"{control(f'{codes}m')}{text}{control('0m')}"


def keep_colours(text: str) -> str:
    """Mark the colours of a text, such as a line of a task's log, for a terminal, up to its end."""
    coloured, count = _COLOUR.subn(lambda match: control(match[1]), text)
    return coloured + control("0m") if count else text


def without_styles(text: str) -> str:
    """Remove the marks of styles from a text for a terminal."""
    return _MARKED.sub("", text)


def terminal_line(text: str) -> str:
    """Render a line for a terminal: foreign characters visible, marks as control sequences."""
    if text.isprintable():
        return text
    parts = _MARKED.split(text)
    parts[::2] = map(visible, parts[::2])
    parts[1::2] = (f"\x1b[{sequence}" for sequence in parts[1::2])
    return "".join(parts)


def printable_json(text: str) -> str:
    """Escape in JSON text what would control a terminal; its line ends stay."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char == "\n" else _escaped_in_json(char) for char in text
    )


def _escaped_in_json(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    """Render rows as lines of CSV with each cell's control characters visible."""
    import csv  # noqa: PLC0415 - most commands print none

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in rows:
        writer.writerow([visible(cell) if isinstance(cell, str) else cell for cell in row])
    return text.getvalue()


def align_cells(rows: Sequence[Sequence[str]], right: Container[int] = ()) -> list[list[str]]:
    """Pad the cells of each column of a table to one width, but for the last column's.

    Args:
        rows: The cells of each line, as many in each; the first row may hold heads.
        right: The numbers of the columns whose cells are aligned at the right, the last one too.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    last = len(widths) - 1
    return [
        [
            cell.rjust(width) if at in right else cell if at == last else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        for row in rows
    ]

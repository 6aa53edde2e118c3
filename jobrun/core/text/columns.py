"""Lay out the cells of a table in columns of text."""

from __future__ import annotations

from collections.abc import Container, Sequence


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
